// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_posix_adopt itself: which objects change, what happens to their tables, libraries that are loaded later,
// unloaded and loaded again.
#include "adopted.h"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

extern "C" {
int reader_read(int fd);
int reader_read_by_pointer(int fd, int which);
void *loader_open(const char *file);
void *loader_open_in_base(const char *file);
int loader_close(void *handle);
void *mixed_pointer(void);
void mixed_set_pointer(void *function);
int mixed_lock(pthread_mutex_t *mutex);
}

static std::atomic<int> mprotects_left = -1; // that make memory writable, until one is refused; -1: any number

// The library's calls come here, too.
extern "C" [[gnu::visibility("default")]] int mprotect(void *at, size_t size, int rights) noexcept {
    if (rights == (PROT_READ | PROT_WRITE) && mprotects_left >= 0 && mprotects_left-- == 0) {
        errno = EACCES;
        return -1;
    }
    return int(syscall(SYS_mprotect, at, size, rights));
}

namespace {

constexpr const char *reader = "libposix_reader.so";
constexpr const char *mixed = "libposix_mixed.so";
constexpr const char *loader = "libposix_loader.so";
constexpr const char *found = "libposix_found.so";

// The functions that are replaced in the object of this file name.
std::vector<std::string> replaced_in(const char *file) {
    struct Search {
        const char *file;
        std::vector<std::string> functions;
    } search = {file, {}};
    auto visit = [](const char *library, const char *function, void *arg) {
        auto &search = *static_cast<Search *>(arg);
        const char *slash = strrchr(library, '/');
        if (slash && !strcmp(slash + 1, search.file)) search.functions.emplace_back(function);
        return 0;
    };
    EXPECT_EQ(fiber_posix_each(visit, &search), 0);
    return search.functions;
}

// Whether a call of the library waits as a fiber: the byte comes from another fiber of the thread.
template <class Read>
void waits_as_fiber(Read read) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    int byte = 0;
    adopted::while_it_waits([&] { byte = read(ends[0]); },
                            [&](fiber_t) { EXPECT_EQ(fiber_write(ends[1], "x", 1), 1); });
    EXPECT_EQ(byte, 'x');
    close(ends[0]);
    close(ends[1]);
}

// The same call blocks the thread: another thread writes the byte, and no other fiber runs meanwhile.
template <class Read>
void blocks_the_thread(Read read) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    bool other_ran = false;
    auto other = [&] { other_ran = true; };
    fiber_t fiber = support::spawn(other);
    std::thread writer([&] { EXPECT_EQ(write(ends[1], "x", 1), 1); });
    EXPECT_EQ(read(ends[0]), 'x');
    EXPECT_FALSE(other_ran);
    writer.join();
    support::join(fiber);
    close(ends[0]);
    close(ends[1]);
}

struct Image {
    std::string rights; // of the mappings
    std::string bytes;  // of the segments that are, or were once, writable
};

// Not sanitized: the bytes between a library's variables count, too.
__attribute__((no_sanitize("address"))) void append(std::string &bytes, const char *from, size_t count) {
    for (size_t i = 0; i < count; i++) bytes += from[i];
}

Image image_of(const char *file) {
    Image image;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.ends_with(std::string("/") + file)) image.rights += line.substr(0, line.find(' ') + 6) + "\n";
    struct Search {
        const char *file;
        Image *image;
    } search = {file, &image};
    dl_iterate_phdr(
        [](dl_phdr_info *object, size_t, void *arg) {
            auto &search = *static_cast<Search *>(arg);
            if (!std::string(object->dlpi_name).ends_with(std::string("/") + search.file)) return 0;
            for (int i = 0; i < object->dlpi_phnum; i++) {
                const ElfW(Phdr) &part = object->dlpi_phdr[i];
                if (part.p_type == PT_LOAD && (part.p_flags & PF_W))
                    append(search.image->bytes, reinterpret_cast<char *>(object->dlpi_addr + part.p_vaddr),
                           part.p_memsz);
            }
            return 1;
        },
        &search);
    return image;
}

#if FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN
#define NEEDS_RUNPATH() GTEST_SKIP() << "a sanitizer's dlopen does not search the caller's RUNPATH"
#else
#define NEEDS_RUNPATH() (void)0
#endif

class PosixAdopting : public testing::Test {
protected:
    void TearDown() override {
        for (const char *library : {reader, mixed, loader, found}) (void)fiber_posix_release(library);
        (void)fiber_posix_release(nullptr);
    }
};

TEST_F(PosixAdopting, Errors) {
    EXPECT_EQ(fiber_posix_adopt("libnever_loaded.so", 0), -ENOENT);
    EXPECT_EQ(fiber_posix_adopt("", 0), -EINVAL);
    EXPECT_EQ(fiber_posix_adopt(reader, 4), -EINVAL);
    EXPECT_EQ(fiber_posix_release("libnever_loaded.so"), -ENOENT);
    EXPECT_EQ(fiber_posix_release(reader), -ENOENT);
    EXPECT_EQ(fiber_posix_release(""), -EINVAL);
    EXPECT_EQ(fiber_posix_each(nullptr, nullptr), -EINVAL);
}

TEST_F(PosixAdopting, OnlyTheNamedLibrary) {
    blocks_the_thread(reader_read);
    EXPECT_EQ(fiber_posix_adopt(reader, 0), 1);
    EXPECT_EQ(replaced_in(reader), std::vector<std::string>{"read"});
    EXPECT_TRUE(replaced_in(loader).empty());
    waits_as_fiber(reader_read);
    waits_as_fiber([](int fd) { return reader_read_by_pointer(fd, 0); });
    waits_as_fiber([](int fd) { return reader_read_by_pointer(fd, 1); });
    EXPECT_EQ(fiber_posix_release(reader), 1);
    EXPECT_TRUE(replaced_in(reader).empty());
    blocks_the_thread(reader_read);
    blocks_the_thread([](int fd) { return reader_read_by_pointer(fd, 1); });
}

TEST_F(PosixAdopting, TwiceIsAsOnce) {
    EXPECT_EQ(fiber_posix_adopt(reader, 0), 1);
    EXPECT_EQ(fiber_posix_adopt("libposix_reader", 0), 1);
    EXPECT_EQ(replaced_in(reader).size(), 1u);
    waits_as_fiber(reader_read);
    EXPECT_EQ(fiber_posix_release(reader), 1);
    EXPECT_EQ(fiber_posix_release(reader), -ENOENT);
    blocks_the_thread(reader_read);
}

TEST_F(PosixAdopting, ReleaseRestoresEachByteAndEachRight) {
    for (const char *library : {reader, loader}) {
        Image before = image_of(library);
        ASSERT_FALSE(before.bytes.empty());
        ASSERT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
        Image meanwhile = image_of(library);
        EXPECT_EQ(meanwhile.rights, before.rights) << library;
        EXPECT_NE(meanwhile.bytes, before.bytes) << library;
        ASSERT_GE(fiber_posix_release(nullptr), 0);
        Image after = image_of(library);
        EXPECT_EQ(after.rights, before.rights) << library;
        EXPECT_EQ(after.bytes, before.bytes) << library;
    }
}

TEST_F(PosixAdopting, EachEndsWithTheFirstResult) {
    ASSERT_GT(fiber_posix_adopt(nullptr, 0), 0);
    int count = 0;
    auto visit = [](const char *, const char *, void *arg) { return ++*static_cast<int *>(arg) == 2 ? 42 : 0; };
    EXPECT_EQ(fiber_posix_each(visit, &count), 42);
    EXPECT_EQ(count, 2);
}

TEST_F(PosixAdopting, TheSystemIsLeftAlone) {
    ASSERT_GT(fiber_posix_adopt(nullptr, 0), 0);
    for (const char *file : {"libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6"}) EXPECT_TRUE(replaced_in(file).empty());
    auto visit = [](const char *library, const char *, void *) { return strstr(library, "libfiberrt.so") ? 1 : 0; };
    EXPECT_EQ(fiber_posix_each(visit, nullptr), 0);
}

std::string path_of(void *handle) {
    link_map *map = nullptr;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) ? "" : map->l_name;
}

using Read = int (*)(int);
Read read_of(void *handle) { return reinterpret_cast<Read>(dlsym(handle, "found_read")); }

TEST_F(PosixAdopting, ALibraryLoadedLater) {
    NEEDS_RUNPATH();
    EXPECT_EQ(fiber_posix_adopt(found, 0), -ENOENT);
    EXPECT_EQ(fiber_posix_adopt(found, FIBER_POSIX_LATER), 0);
    for (auto open : {loader_open, loader_open_in_base}) {
        void *handle = open(found);
        ASSERT_NE(handle, nullptr) << dlerror();
        EXPECT_EQ(dlerror(), nullptr);
        EXPECT_EQ(replaced_in(found), std::vector<std::string>{"read"});
        waits_as_fiber(read_of(handle));
        EXPECT_EQ(loader_close(handle), 0);
        EXPECT_TRUE(replaced_in(found).empty()) << "it was unloaded";
    }
    EXPECT_EQ(fiber_posix_release(found), 0);
    void *handle = loader_open(found);
    ASSERT_NE(handle, nullptr);
    EXPECT_TRUE(replaced_in(found).empty());
    blocks_the_thread(read_of(handle));
    EXPECT_EQ(loader_close(handle), 0);
}

TEST_F(PosixAdopting, TheCallersSearchPathStays) {
    NEEDS_RUNPATH();
    void *plain = loader_open(found);
    ASSERT_NE(plain, nullptr) << dlerror();
    std::string path = path_of(plain);
    EXPECT_NE(path.find("/posix_plugins/"), std::string::npos) << path;
    EXPECT_EQ(loader_close(plain), 0);
    EXPECT_EQ(dlopen(found, RTLD_NOW), nullptr) << "the test's own search path has it";
    (void)dlerror();

    ASSERT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
    for (const char *name : {"libposix_found.so", "$ORIGIN/posix_plugins/libposix_found.so",
                             "${ORIGIN}/posix_plugins/libposix_found.so"}) {
        void *handle = loader_open(name);
        ASSERT_NE(handle, nullptr) << name << ": " << dlerror();
        EXPECT_EQ(path_of(handle), path) << name;
        EXPECT_EQ(replaced_in(found).size(), 1u);
        EXPECT_EQ(loader_open(path.c_str()), handle);
        EXPECT_EQ(loader_close(handle), 0);
        EXPECT_EQ(loader_close(handle), 0);
    }
    EXPECT_EQ(dlopen(found, RTLD_NOW), nullptr);
    EXPECT_NE(dlerror(), nullptr);
    void *of_program = dlopen(nullptr, RTLD_NOW);
    EXPECT_NE(of_program, nullptr);
    EXPECT_EQ(dlclose(of_program), 0);
    EXPECT_EQ(dlopen("libposix_none.so", RTLD_NOW), nullptr);
    EXPECT_NE(std::string(dlerror()).find("libposix_none.so"), std::string::npos);
}

TEST_F(PosixAdopting, ConstructorsAndDestructorsBlockTheThread) {
    ASSERT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    setenv("POSIX_FOUND_READS", std::to_string(ends[0]).c_str(), 1);
    bool other_ran = false;
    auto other = [&] { other_ran = true; };
    fiber_t fiber = support::spawn(other);
    std::thread writer([&] { EXPECT_EQ(write(ends[1], "xy", 2), 2); });
    void *handle = loader_open(found);
    EXPECT_NE(handle, nullptr);
    EXPECT_EQ(loader_close(handle), 0);
    EXPECT_FALSE(other_ran);
    writer.join();
    support::join(fiber);
    unsetenv("POSIX_FOUND_READS");
    close(ends[0]);
    close(ends[1]);
}

TEST_F(PosixAdopting, UnloadedAndLoadedAgain) {
    NEEDS_RUNPATH();
    ASSERT_EQ(fiber_posix_adopt(loader, 0), 0) << "it makes no call that waits";
    for (int i = 0; i < 20; i++) {
        void *handle = loader_open(found);
        ASSERT_NE(handle, nullptr);
        EXPECT_TRUE(replaced_in(found).empty()); // usually it is at the same place again
        blocks_the_thread(read_of(handle));
        Image before = image_of(found);
        ASSERT_EQ(fiber_posix_adopt(found, 0), 1);
        waits_as_fiber(read_of(handle));
        if (i % 2) {
            ASSERT_EQ(fiber_posix_release(found), 1);
            EXPECT_EQ(image_of(found).bytes, before.bytes);
        }
        EXPECT_EQ(loader_close(handle), 0);
        EXPECT_TRUE(replaced_in(found).empty());
    }
    EXPECT_EQ(fiber_posix_release(found), -ENOENT);
}

// The place of a library's table of calls where the dynamic linker stores the address of a function.
void **slot_of(const char *file, const char *function) {
    struct Search {
        const char *file, *function;
        void **slot;
    } search = {file, function, nullptr};
    dl_iterate_phdr(
        [](dl_phdr_info *object, size_t, void *arg) {
            auto &search = *static_cast<Search *>(arg);
            if (!std::string(object->dlpi_name).ends_with(std::string("/") + search.file)) return 0;
            const ElfW(Dyn) *dynamic = nullptr;
            for (int i = 0; i < object->dlpi_phnum; i++)
                if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
                    dynamic = reinterpret_cast<ElfW(Dyn) *>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
            auto at = [&](ElfW(Addr) value) { return value < object->dlpi_addr ? object->dlpi_addr + value : value; };
            const ElfW(Sym) *symbols = nullptr;
            const char *names = nullptr;
            const ElfW(Rela) *calls = nullptr;
            size_t bytes = 0;
            for (; dynamic->d_tag != DT_NULL; dynamic++) {
                if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<ElfW(Sym) *>(at(dynamic->d_un.d_ptr));
                if (dynamic->d_tag == DT_STRTAB) names = reinterpret_cast<char *>(at(dynamic->d_un.d_ptr));
                if (dynamic->d_tag == DT_JMPREL) calls = reinterpret_cast<ElfW(Rela) *>(at(dynamic->d_un.d_ptr));
                if (dynamic->d_tag == DT_PLTRELSZ) bytes = dynamic->d_un.d_val;
            }
            for (size_t i = 0; calls && i < bytes / sizeof *calls; i++)
                if (!strcmp(names + symbols[ELF64_R_SYM(calls[i].r_info)].st_name, search.function))
                    search.slot = reinterpret_cast<void **>(object->dlpi_addr + calls[i].r_offset);
            return 1;
        },
        &search);
    return search.slot;
}

unsigned other_sleep(unsigned seconds) { return seconds + 1; }

TEST_F(PosixAdopting, APointerThatTheProgramHasChangedStays) {
    void *before = mixed_pointer();
    EXPECT_EQ(fiber_posix_adopt(mixed, FIBER_POSIX_NO_LOCKS), 1);
    EXPECT_NE(mixed_pointer(), before);
    EXPECT_EQ(fiber_posix_release(mixed), 1);
    EXPECT_EQ(mixed_pointer(), before);

    void *changed = reinterpret_cast<void *>(other_sleep);
    mixed_set_pointer(changed);
    EXPECT_EQ(fiber_posix_adopt(mixed, FIBER_POSIX_NO_LOCKS), 0);
    EXPECT_EQ(mixed_pointer(), changed);
    EXPECT_TRUE(replaced_in(mixed).empty());
    EXPECT_EQ(fiber_posix_release(mixed), 0);
    EXPECT_EQ(mixed_pointer(), changed);

    mixed_set_pointer(before);
    EXPECT_EQ(fiber_posix_adopt(mixed, FIBER_POSIX_NO_LOCKS), 1);
    mixed_set_pointer(changed); // while it is adopted
    EXPECT_EQ(fiber_posix_adopt(mixed, FIBER_POSIX_NO_LOCKS), 0);
    EXPECT_EQ(mixed_pointer(), changed);
    EXPECT_EQ(fiber_posix_release(mixed), 0);
    EXPECT_EQ(mixed_pointer(), changed);
    mixed_set_pointer(before);
}

TEST_F(PosixAdopting, ATableThatAnotherToolHasChangedStays) {
    void **slot = slot_of(reader, "read");
    ASSERT_NE(slot, nullptr);
    void *before = *slot;
    void *changed = reinterpret_cast<void *>(other_sleep);
    *slot = changed;
    EXPECT_EQ(fiber_posix_adopt(reader, 0), 1) << "of its data";
    EXPECT_EQ(*slot, changed);
    EXPECT_EQ(fiber_posix_release(reader), 1);
    EXPECT_EQ(*slot, changed);
    *slot = before;
}

// Another thread that was in the first call of a function stores the function's address over the replacement.
TEST_F(PosixAdopting, AFunctionBoundDuringTheAdoption) {
    blocks_the_thread(reader_read); // now it is bound
    void **slot = slot_of(reader, "read");
    ASSERT_NE(slot, nullptr);
    void *bound = *slot;
    ASSERT_EQ(fiber_posix_adopt(reader, 0), 1);
    void *replaced = *slot;
    ASSERT_NE(replaced, bound);
    *slot = bound;
    ASSERT_EQ(fiber_posix_adopt(mixed, 0), 2);
    EXPECT_EQ(*slot, replaced);
    waits_as_fiber(reader_read);

    ASSERT_GE(fiber_posix_adopt(found, FIBER_POSIX_LATER), 0);
    *slot = bound;
    void *handle = loader_open(LIBRESOLV_SO);
    ASSERT_NE(handle, nullptr) << dlerror();
    EXPECT_EQ(*slot, replaced);
    EXPECT_EQ(loader_close(handle), 0);
    EXPECT_EQ(fiber_posix_release(reader), 1);
    EXPECT_EQ(*slot, bound);
}

TEST_F(PosixAdopting, AReleasedLibraryStaysReleased) {
    NEEDS_RUNPATH();
    ASSERT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
    void *handle = loader_open(found);
    ASSERT_NE(handle, nullptr) << dlerror();
    EXPECT_EQ(replaced_in(found).size(), 1u);
    EXPECT_EQ(fiber_posix_release(found), 1);
    void *other = loader_open(LIBRESOLV_SO);
    ASSERT_NE(other, nullptr) << dlerror();
    EXPECT_TRUE(replaced_in(found).empty()) << "after another library was loaded";
    EXPECT_EQ(loader_close(other), 0);
    EXPECT_EQ(loader_close(handle), 0);
    handle = loader_open(found);
    EXPECT_TRUE(replaced_in(found).empty()) << "after it was loaded again";

    EXPECT_EQ(fiber_posix_adopt(found, 0), 1);
    EXPECT_EQ(loader_close(handle), 0);
    handle = loader_open(found);
    EXPECT_EQ(replaced_in(found).size(), 1u) << "after it was adopted again";
    EXPECT_EQ(loader_close(handle), 0);

    EXPECT_EQ(fiber_posix_release(found), 0) << "it is not loaded";
    handle = loader_open(found);
    EXPECT_TRUE(replaced_in(found).empty());
    EXPECT_EQ(loader_close(handle), 0);
    ASSERT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
    handle = loader_open(found);
    EXPECT_EQ(replaced_in(found).size(), 1u) << "after the program was adopted again";
    EXPECT_EQ(loader_close(handle), 0);
}

TEST_F(PosixAdopting, AReleaseOfTheProgramEndsEachWait) {
    NEEDS_RUNPATH();
    ASSERT_EQ(fiber_posix_adopt(found, FIBER_POSIX_LATER), 0);
    EXPECT_EQ(fiber_posix_release(nullptr), 0);
    void *handle = loader_open(found);
    ASSERT_NE(handle, nullptr) << dlerror();
    EXPECT_TRUE(replaced_in(found).empty());
    EXPECT_EQ(loader_close(handle), 0);
    EXPECT_EQ(fiber_posix_release(found), -ENOENT);
}

TEST_F(PosixAdopting, AnAdoptedLibraryKeepsItsFlags) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    EXPECT_EQ(mixed_lock(&mutex), 0);
    ASSERT_EQ(fiber_posix_adopt(mixed, FIBER_POSIX_NO_LOCKS), 1);
    ASSERT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
    EXPECT_EQ(replaced_in(mixed), std::vector<std::string>{"sleep"});
    EXPECT_EQ(fiber_posix_adopt(mixed, 0), 1);
    EXPECT_EQ(fiber_posix_release(mixed), 1);
    EXPECT_EQ(fiber_posix_adopt(mixed, 0), 2);
    EXPECT_EQ(replaced_in(mixed).size(), 2u);
    EXPECT_EQ(fiber_posix_adopt(mixed, FIBER_POSIX_NO_LOCKS), 2);
}

TEST_F(PosixAdopting, AFailureLeavesNothing) {
    ASSERT_EQ(fiber_posix_adopt(mixed, 0), 2);
    Image before = image_of(loader);
    mprotects_left = 0;
    EXPECT_EQ(fiber_posix_adopt(reader, FIBER_POSIX_LATER), -EACCES);
    for (int left = 0; left < 4; left++) {
        mprotects_left = left;
        EXPECT_EQ(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), -EACCES) << left;
        EXPECT_EQ(mprotects_left, -1) << "none was refused";
        EXPECT_EQ(
            fiber_posix_each([](const char *library, const char *, void *) { return strstr(library, mixed) ? 0 : 1; },
                             nullptr),
            0)
            << left;
        EXPECT_EQ(image_of(loader).bytes, before.bytes) << left;
    }
    EXPECT_EQ(replaced_in(mixed).size(), 2u) << "it had been adopted before";
    EXPECT_EQ(fiber_posix_release(reader), -ENOENT) << "it neither is adopted nor waits";
    EXPECT_EQ(fiber_posix_release(mixed), 2);
    EXPECT_EQ(fiber_posix_release(nullptr), -ENOENT);
}

// In the child, no thread is left that would unlock what the other thread had locked.
TEST_F(PosixAdopting, AForkWhileAnotherThreadAdopts) {
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    const int rounds = support::size_of_test(100);
    std::atomic<bool> done = false;
    std::thread adopter([&] {
        while (!done) {
            EXPECT_GE(fiber_posix_adopt(nullptr, FIBER_POSIX_LATER), 0);
            EXPECT_GE(fiber_posix_release(nullptr), 0);
        }
    });
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            bool fine = fiber_posix_adopt(nullptr, FIBER_POSIX_LATER) > 0 && fiber_posix_release(nullptr) > 0;
            _exit(fine ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
    }
    done = true;
    adopter.join();
}

// Threads load, unload and call while others adopt and release: a library that is not relocated yet must not be touched.
TEST_F(PosixAdopting, WhileOtherThreadsLoadAndCall) {
    NEEDS_RUNPATH();
    const int rounds = support::size_of_test(200);
    std::atomic<bool> done = false;
    auto load = [&] {
        while (!done) {
            void *handle = loader_open(found);
            ASSERT_NE(handle, nullptr);
            int ends[2];
            ASSERT_EQ(pipe(ends), 0);
            ASSERT_EQ(write(ends[1], "x", 1), 1);
            EXPECT_EQ(read_of(handle)(ends[0]), 'x');
            close(ends[0]);
            close(ends[1]);
            EXPECT_EQ(loader_close(handle), 0);
        }
    };
    std::thread first(load), second(load);
    for (int i = 0; i < rounds; i++) {
        ASSERT_GE(fiber_posix_adopt(nullptr, i % 2 ? FIBER_POSIX_LATER : 0), 0);
        (void)replaced_in(found);
        ASSERT_GE(fiber_posix_release(nullptr), 0);
    }
    done = true;
    first.join();
    second.join();
}

} // namespace
