// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-run: starts a program with libfiberrt_posix.so, so that a blocking call of the program or of its libraries
// suspends only the calling fiber. If a program cannot be run in this way, it says why.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

// libfiberrt_posix.so reads it: true while this program only checks that the library can be loaded.
extern "C" bool fiberrt_run_checks;
bool fiberrt_run_checks = false;

namespace {

const char usage[] =
    "Usage: fiberrt-run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "\n"
    "Runs PROGRAM with libfiberrt_posix.so: a blocking call by PROGRAM or a library in it, such as read, poll or\n"
    "connect, suspends only the calling fiber. Calls by threads without fibers block as before. The programs that\n"
    "PROGRAM starts run in the same way. A signal, such as that of Ctrl-C, does not end a fiber's wait.\n"
    "\n"
    "  --cord     make the first thread a fiber, even if the program does not use libfiberrt\n"
    "  --alone    only PROGRAM itself, not the programs that it starts\n"
    "  --list     list the replaced functions on standard error when PROGRAM exits\n"
    "  --help     print this text\n"
    "  --version  print the release\n"
    "\n"
    "Exit status: that of PROGRAM; 125 if the arguments are wrong, libfiberrt_posix.so cannot be loaded, or\n"
    "FIBERRT_BACKEND names no backend that works here; 126 if PROGRAM cannot be run in this way: it is a static\n"
    "program, has other rights than its user, or is for another processor or C library; 127 if there is no PROGRAM.\n";

[[noreturn]] void die(int status, const std::string& message) {
    fprintf(stderr, "fiberrt-run: %s\n", message.c_str());
    exit(status);
}

std::string folder_of(const std::string& path) {
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash ? slash : 1);
}

// ---- The program

// The file that execvp would run.
std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        if (access(name.c_str(), F_OK)) die(127, name + ": " + strerror(errno));
        return name;
    }
    const char* given = getenv("PATH");
    std::string path = given ? given : "/bin:/usr/bin";
    bool forbidden = false;
    for (size_t begin = 0; begin <= path.size();) {
        size_t end = path.find(':', begin);
        if (end == std::string::npos) end = path.size();
        std::string folder = path.substr(begin, end - begin);
        std::string file = (folder.empty() ? "." : folder) + '/' + name;
        struct stat about;
        if (stat(file.c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
            if (access(file.c_str(), X_OK) == 0) return file;
            forbidden = true;
        }
        begin = end + 1;
    }
    die(forbidden ? 126 : 127, name + ": " + strerror(forbidden ? EACCES : ENOENT));
}

class File {
public:
    explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~File() {
        if (fd_ >= 0) close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    explicit operator bool() const { return fd_ >= 0; }

    std::string bytes(size_t offset, size_t count) const {
        std::string text(count, '\0');
        ssize_t got = pread(fd_, text.data(), count, off_t(offset));
        text.resize(got > 0 ? size_t(got) : 0);
        return text;
    }
    template <class T>
    bool get(size_t offset, T* out) const {
        return pread(fd_, out, sizeof *out, off_t(offset)) == ssize_t(sizeof *out);
    }

private:
    int fd_;
};

// Whether the program gets other rights than its user. The kernel starts such a program in a mode in which the dynamic
// linker ignores LD_PRELOAD.
bool has_other_rights(const std::string& path) {
    struct stat about;
    if (stat(path.c_str(), &about)) return false;
    if ((about.st_mode & S_ISUID) && about.st_uid != getuid()) return true;
    if ((about.st_mode & S_ISGID) && (about.st_mode & S_IXGRP) && about.st_gid != getgid()) return true;
    return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

void check_elf(const std::string& path, const File& file, const ElfW(Ehdr) & header) {
    ElfW(Ehdr) own;
    File self("/proc/self/exe");
    if (self && self.get(0, &own) &&
        (header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || header.e_machine != own.e_machine))
        die(126, path + " is for another processor than this program");
    for (unsigned i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) part;
        if (!file.get(header.e_phoff + i * header.e_phentsize, &part) || part.p_type != PT_INTERP) continue;
        std::string loader = file.bytes(part.p_offset, part.p_filesz).c_str();
        if (loader.find("ld-musl") != std::string::npos)
            die(126, path + " uses another C library than libfiberrt_posix.so: it would be started by " + loader);
        return;
    }
    die(126, path + " is a static program: its calls cannot be replaced");
}

// Checks the program that the kernel will start for the file: for a script, its interpreter.
void check_program(const std::string& path, int scripts) {
    if (access(path.c_str(), X_OK)) die(errno == ENOENT ? 127 : 126, path + ": " + strerror(errno));
    if (has_other_rights(path))
        die(126, path + " has other rights than its user: the system does not load libfiberrt_posix.so into it");
    File file(path);
    if (!file) return; // may be run, but not read
    ElfW(Ehdr) header;
    if (file.get(0, &header) && !memcmp(header.e_ident, ELFMAG, SELFMAG)) return check_elf(path, file, header);
    std::string first = file.bytes(0, 256);
    if (first.compare(0, 2, "#!") || scripts == 0) return;
    size_t begin = first.find_first_not_of(" \t", 2);
    size_t end = first.find_first_of(" \t\n", begin);
    if (begin != std::string::npos && end != std::string::npos && end > begin)
        check_program(first.substr(begin, end - begin), scripts - 1);
}

// ---- The library

// The path of the library next to this program, in the build tree or where both are installed; else its name, for which
// the dynamic linker searches.
std::string find_library() {
    const std::string name = "libfiberrt_posix.so.1";
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        std::string folder = folder_of(std::string(self, size_t(length)));
        for (const std::string& path : {folder + '/' + name, folder + "/" FIBERRT_LIBRARY_FOLDER "/" + name}) {
            if (access(path.c_str(), F_OK)) continue;
            char* real = realpath(path.c_str(), nullptr);
            std::string found = real ? real : path;
            free(real);
            found = folder_of(found) + '/' + name;
            if (found.find_first_of(": ") != std::string::npos)
                die(125, found + " contains a blank or a colon: LD_PRELOAD cannot name it");
            return found;
        }
    }
    return name;
}

// If a preloaded library cannot be loaded, the dynamic linker runs the program without it.
void check_library(const std::string& library) {
    fiberrt_run_checks = true;
    if (!dlopen(library.c_str(), RTLD_NOW)) die(125, "libfiberrt_posix.so cannot be loaded: " + std::string(dlerror()));
    fiberrt_run_checks = false;
}

// If FIBERRT_BACKEND names a backend that cannot be opened, each wait of a fiber would fail. The names are known to
// libfiberrt.so alone. If that is not found, libfiberrt_posix.so says so in the program.
void check_backend(const std::string& library) {
    const char* wanted = getenv("FIBERRT_BACKEND");
    if (!wanted || !*wanted) return;
    const std::string name = "libfiberrt.so.1";
    void* core = library[0] == '/' ? dlopen((folder_of(library) + '/' + name).c_str(), RTLD_NOW) : nullptr;
    if (!core) core = dlopen(name.c_str(), RTLD_NOW);
    void* found = core ? dlsym(core, "fiberrt_fiber_backend_name") : nullptr;
    if (!found) return;
    if (!strcmp(reinterpret_cast<const char* (*)()>(found)(), "none"))
        die(125, std::string("FIBERRT_BACKEND is \"") + wanted +
                     "\", but libfiberrt has no such backend, or the system refuses it: see fiberrt-doctor");
}

void preload(const std::string& library) {
    const char* before = getenv("LD_PRELOAD");
    std::string list = before && *before ? library + ':' + before : library;
    setenv("LD_PRELOAD", list.c_str(), 1);
}

} // namespace

int main(int argc, char** argv) {
    static const option known[] = {{"cord", no_argument, nullptr, 'c'},    {"alone", no_argument, nullptr, 'a'},
                                   {"list", no_argument, nullptr, 'l'},    {"help", no_argument, nullptr, 'h'},
                                   {"version", no_argument, nullptr, 'V'}, {nullptr, 0, nullptr, 0}};
    int which;
    while ((which = getopt_long(argc, argv, "+", known, nullptr)) != -1) {
        switch (which) {
        case 'c': setenv("FIBERRT_POSIX_CORD", "1", 1); break;
        case 'a': setenv("FIBERRT_POSIX_ALONE", "1", 1); break;
        case 'l': setenv("FIBERRT_POSIX_LIST", "1", 1); break;
        case 'h': fputs(usage, stdout); return fflush(stdout) ? 125 : 0;
        case 'V': puts("fiberrt-run " FIBERRT_RELEASE); return fflush(stdout) ? 125 : 0;
        default: fputs(usage, stderr); return 125;
        }
    }
    if (!argv[optind]) die(125, "there is no program to run; see --help");
    std::string program = find_program(argv[optind]);
    check_program(program, 4);
    std::string library = find_library();
    check_library(library);
    check_backend(library);
    preload(library);
    execv(program.c_str(), argv + optind);
    if (errno == ENOEXEC) { // a script without an interpreter: as execvp
        std::vector<char*> words = {const_cast<char*>("/bin/sh"), program.data()};
        for (char** word = argv + optind + 1; *word; word++) words.push_back(*word);
        words.push_back(nullptr);
        execv("/bin/sh", words.data());
    }
    die(errno == ENOENT ? 127 : 126, program + ": " + strerror(errno));
}
