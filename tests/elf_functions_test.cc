// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of ELF files by themselves: files that are replaced while they are read, and files with wrong numbers.
#include "debug/code_map.h"
#include "debug/elf_functions.h"

#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <stdint.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace fiberrt;

namespace {

// The file that this code was mapped from. (Under Valgrind, /proc/self/exe is another one.)
std::string path_of_program() {
    Arena arena;
    const CodeRange* range = CodeMap(arena).at(reinterpret_cast<uintptr_t>(&path_of_program));
    return range ? range->file->path : "";
}

std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::string content(size_t(file.tellg()), '\0');
    file.seekg(0);
    file.read(content.data(), std::streamsize(content.size()));
    EXPECT_TRUE(file.good());
    return content;
}

ino_t inode_of(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    return status.st_ino;
}

// A directory with a copy of this program.
class ElfFunctionsTest : public testing::Test {
protected:
    ElfFunctionsTest() : program_(content_of(path_of_program())) {
        char name[] = "/tmp/elf_functions_test.XXXXXX";
        EXPECT_NE(mkdtemp(name), nullptr);
        directory_ = name;
        write(copy(), program_);
    }
    ~ElfFunctionsTest() override {
        for (const std::string& path : {copy(), other()}) unlink(path.c_str());
        rmdir(directory_.c_str());
    }

    static void write(const std::string& path, const std::string& content) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    }
    std::string copy() const { return directory_ + "/copy"; }
    std::string other() const { return directory_ + "/other"; }

    Elf64_Ehdr header() const {
        Elf64_Ehdr header;
        memcpy(&header, program_.data(), sizeof header);
        return header;
    }

    // The name of the function with this code, which is the test program's own.
    std::string name_in_copy(void (*function)()) {
        const CodeRange* range = map_.at(reinterpret_cast<uintptr_t>(function));
        if (!range) return "no range";
        uint64_t address;
        auto at = reinterpret_cast<uintptr_t>(function) - range->begin + range->offset;
        if (!address_in(functions_, at, &address)) return "no address";
        const ElfFunction* found = function_at(functions_, address);
        if (!found) return "no function";
        const char* name = name_of(copy().c_str(), functions_, *found, arena_);
        return name ? name : "no name";
    }

    std::string program_;
    std::string directory_;
    Arena arena_;
    CodeMap map_{arena_};
    ElfFunctions functions_ = {};
};

} // namespace

extern "C" void a_function_with_a_name() {}

TEST(FunctionAt, OfSeveralWithOneAddressFindsTheFirstThatReachesIt) {
    const ElfFunction functions[] = {{0x100, 16, 1}, {0x200, 32, 2}, {0x200, 16, 3}, {0x200, 4, 4}, {0x300, 0, 5}};
    ElfFunctions file = {};
    file.functions = functions;
    file.count = 5;
    EXPECT_EQ(function_at(file, 0xff), nullptr);
    EXPECT_EQ(function_at(file, 0x10f), &functions[0]);
    EXPECT_EQ(function_at(file, 0x110), nullptr);
    EXPECT_EQ(function_at(file, 0x203), &functions[1]);
    EXPECT_EQ(function_at(file, 0x208), &functions[1]); // not in the last of them
    EXPECT_EQ(function_at(file, 0x21f), &functions[1]);
    EXPECT_EQ(function_at(file, 0x220), nullptr);
    EXPECT_EQ(function_at(file, 0x999), &functions[4]); // its size is not known
}

TEST_F(ElfFunctionsTest, FindsNames) {
    ASSERT_TRUE(read_functions(copy().c_str(), inode_of(copy()), arena_, functions_));
    EXPECT_EQ(name_in_copy(a_function_with_a_name), "a_function_with_a_name");
}

TEST_F(ElfFunctionsTest, ReadsNoOtherFileThatHasTakenTheName) {
    ino_t mapped = inode_of(copy());
    write(other(), program_);
    std::ifstream keeps(copy()); // as a mapping would: the number is not given to another file
    ASSERT_EQ(rename(other().c_str(), copy().c_str()), 0);
    EXPECT_FALSE(read_functions(copy().c_str(), mapped, arena_, functions_));
}

// As an upgrade of the program does, while the library knows the functions of the old file.
TEST_F(ElfFunctionsTest, TakesNoNameFromAFileThatReplacedTheOneItRead) {
    ASSERT_TRUE(read_functions(copy().c_str(), inode_of(copy()), arena_, functions_));
    write(other(), std::string(program_.size(), 'x'));
    std::ifstream keeps(copy());
    ASSERT_EQ(rename(other().c_str(), copy().c_str()), 0);
    EXPECT_EQ(name_in_copy(a_function_with_a_name), "no name");
}

// A file on overlayfs or btrfs: the device in /proc/self/maps is not that of stat.
TEST_F(ElfFunctionsTest, FindsTheFileThoughItsDeviceHasTwoNumbers) {
    const CodeRange* range = map_.at(reinterpret_cast<uintptr_t>(&a_function_with_a_name));
    ASSERT_NE(range, nullptr);
    range->file->device++;
    EXPECT_GT(map_.functions_of(*range->file).count, 0u);
}

// Each of the numbers that lead on in the file is replaced by others, one after the other.
TEST_F(ElfFunctionsTest, SurvivesWrongNumbers) {
    Elf64_Ehdr begin = header();
    struct Field {
        size_t at, bytes;
    };
    std::vector<Field> fields;
    for (size_t at = offsetof(Elf64_Ehdr, e_phoff); at + 2 <= sizeof begin; at += 2) fields.push_back({at, 2});
    for (unsigned i = 0; i < begin.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, program_.data() + begin.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM && section.sh_type != SHT_STRTAB) continue;
        for (size_t member : {offsetof(Elf64_Shdr, sh_offset), offsetof(Elf64_Shdr, sh_size)})
            fields.push_back({begin.e_shoff + i * sizeof section + member, 8});
        for (size_t member : {offsetof(Elf64_Shdr, sh_link), offsetof(Elf64_Shdr, sh_type)})
            fields.push_back({begin.e_shoff + i * sizeof section + member, 4});
    }
    int fd = open(copy().c_str(), O_RDWR | O_CLOEXEC);
    auto* file = static_cast<char*>(mmap(nullptr, program_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    ASSERT_NE(file, MAP_FAILED);
    const uint64_t values[] = {0, 1, 0x7fff, UINT64_MAX, INT64_MAX, program_.size() - 1};
    for (const Field& field : fields) {
        for (uint64_t value : values) {
            memcpy(file + field.at, &value, field.bytes);
            Arena arena;
            functions_ = {};
            if (!read_functions(copy().c_str(), inode_of(copy()), arena, functions_)) continue;
            for (size_t i = 0; i < functions_.count; i += functions_.count / 16 + 1)
                name_of(copy().c_str(), functions_, functions_.functions[i], arena);
            name_in_copy(a_function_with_a_name);
        }
        memcpy(file + field.at, program_.data() + field.at, field.bytes);
    }
    munmap(file, program_.size());
}
