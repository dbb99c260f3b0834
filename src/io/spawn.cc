// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts child processes by posix_spawn.
//
// Unless its attributes say otherwise, the child begins with no signal blocked, because a library without constructors
// cannot know which mask the program had at its start; and only SIGPIPE gets its default disposition, because programs
// ignore it for the pipes of fiber_process_spawn.
//
// posix_spawn blocks the calling thread until the program is loaded. Another thread cannot call it: for
// PR_SET_PDEATHSIG, the end of that thread would be the parent's end. Exception: glibc 2.28 has no
// posix_spawn_file_actions_addchdir_np, so there a helper thread calls posix_spawn for a child with its own directory.
#include "io/spawn.h"

#include "base/c_library.h"
#include "base/keep_errno.h"
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined __GLIBC__ && !FIBERRT_GLIBC(2, 29)
#define FIBERRT_OLD_SPAWN 1
#else
#define FIBERRT_OLD_SPAWN 0
#endif

namespace fiberrt {

namespace {

// The descriptors made for a child. The destructor closes all except the pipes that the caller gets.
class Descriptors {
public:
    explicit Descriptors(const fiber_process_attr& attr) : attr_(attr) {}
    ~Descriptors() {
        for (int fd : fds_) close_one(fd);
        for (size_t i = 0; i < copy_count_; i++) close(copies_[i]);
    }
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;

    // Returns the descriptor that will become the child's `stream`, or -E...
    int prepare_stream(int stream, int source) {
        return prepare(stream, source == FIBER_PROCESS_PIPE ? make_pipe(stream) : source);
    }
    // Returns `source`, or a copy of it, to become the child's descriptor `fd`; or -E... The child gets its descriptors
    // one by one, so a source must not have a number that another of the child's descriptors gets before it.
    int prepare(int fd, int source) {
        if (source < 0 || source == fd || !is_of_child(source)) return source;
        int copy = fcntl(source, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        while (copy >= 0 && is_of_child(copy)) {
            close(copy);
            copy = fcntl(source, F_DUPFD_CLOEXEC, copy + 1);
        }
        // EINVAL: the child's descriptors take all numbers up to the limit.
        if (copy < 0) return errno == EINVAL ? -EMFILE : -errno;
        return copies_[copy_count_++] = copy;
    }
    void give_out(int pipes[3]) {
        for (int stream = 0; stream < 3; stream++) {
            pipes[stream] = fds_[stream];
            fds_[stream] = -1;
        }
    }

private:
    // Whether the child has a descriptor of this number.
    bool is_of_child(int number) const {
        bool is = number <= STDERR_FILENO;
        for (size_t i = 0; i < attr_.fd_count; i++) is |= attr_.fds[i].fd == number;
        return is;
    }
    static void close_one(int fd) {
        if (fd >= 0) close(fd);
    }
    int make_pipe(int stream) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) return -errno;
        int child_end = stream == STDIN_FILENO ? 0 : 1;
        fds_[stream] = ends[!child_end];
        fds_[3 + stream] = ends[child_end];
        return ends[child_end];
    }

    int fds_[6] = {-1, -1, -1, -1, -1, -1}; // three caller's ends of pipes, then three child's
    const fiber_process_attr& attr_;
    size_t copy_count_ = 0;
    int copies_[3 + FIBER_PROCESS_FDS_MAX];
};

// The attributes and file actions for posix_spawn, made from the child's attributes.
class SpawnSettings {
public:
    SpawnSettings() : error_(posix_spawn_file_actions_init(&actions_)) {
        if (error_) return;
        error_ = posix_spawnattr_init(&attr_);
        if (error_) posix_spawn_file_actions_destroy(&actions_);
        made_ = !error_;
    }
    ~SpawnSettings() {
        if (!made_) return;
        posix_spawnattr_destroy(&attr_);
        posix_spawn_file_actions_destroy(&actions_);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;

    // Each function adds a setting, unless an earlier one failed.
    void descriptor(int fd, int source) { // also if the two are equal: clears close-on-exec
        if (!error_) error_ = posix_spawn_file_actions_adddup2(&actions_, source, fd);
    }
    void null_stream(int stream) {
        if (!error_) error_ = posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
    }
    void rest(const fiber_process_attr& attr) {
        if (error_) return;
        if (attr.directory) in_directory(attr.directory);
        short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        if (attr.session) {
            flags |= POSIX_SPAWN_SETSID; // a new session has a new process group
        } else if (attr.group >= 0) {
            flags |= POSIX_SPAWN_SETPGROUP;
        }
        note(posix_spawnattr_setsigmask(&attr_, &attr.mask));
        note(posix_spawnattr_setsigdefault(&attr_, &attr.reset));
        if (attr.group >= 0) note(posix_spawnattr_setpgroup(&attr_, attr.group));
        note(posix_spawnattr_setflags(&attr_, flags));
    }
    int spawn(pid_t* pid, const char* file, char* const argv[], char* const environment[]) {
        errno = ENOENT; // glibc leaves errno as it was if PATH is too long
        if (error_) return -error_;
#if FIBERRT_OLD_SPAWN
        if (directory_) return spawn_from_directory(pid, file, argv, environment);
#endif
        return -posix_spawnp(pid, file, &actions_, &attr_, argv, environment);
    }

private:
    void note(int error) {
        if (!error_) error_ = error;
    }

#if FIBERRT_OLD_SPAWN
    // The child inherits the working directory of the thread that starts it. So a thread that shares its directory with
    // no other thread starts the child. -ENOTSUP: a filter of system calls forbids such a thread.
    int spawn_from_directory(pid_t* pid, const char* file, char* const argv[], char* const environment[]) {
        struct Start {
            SpawnSettings& settings;
            pid_t* pid;
            const char* file;
            char* const* argv;
            char* const* environment;
            int error;
        } start = {*this, pid, file, argv, environment, 0};
        auto begin = [](void* argument) -> void* {
            auto& s = *static_cast<Start*>(argument);
            if (unshare(CLONE_FS) < 0) {
                s.error = ENOTSUP;
            } else if (chdir(s.settings.directory_) < 0) {
                s.error = errno;
            } else {
                errno = ENOENT; // as in spawn()
                s.error = posix_spawnp(s.pid, s.file, &s.settings.actions_, &s.settings.attr_, s.argv, s.environment);
            }
            return nullptr;
        };
        pthread_t thread;
        if (int error = thread_start(&thread, nullptr, begin, &start)) return error;
        pthread_join(thread, nullptr);
        return -start.error;
    }
    void in_directory(const char* directory) { directory_ = directory; }

    const char* directory_ = nullptr;
#else
    void in_directory(const char* directory) { note(posix_spawn_file_actions_addchdir_np(&actions_, directory)); }
#endif

    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attr_;
    bool made_ = false;
    int error_; // the first error
};

// Adds one of the child's streams to the settings. Returns 0, or -E...
int set_up(SpawnSettings& settings, Descriptors& descriptors, int stream, int source) {
    switch (source) {
    case FIBER_PROCESS_INHERIT: return 0;
    case FIBER_PROCESS_NULL: settings.null_stream(stream); return 0;
    case FIBER_PROCESS_STDOUT: settings.descriptor(stream, STDOUT_FILENO); return 0;
    default: break;
    }
    int fd = descriptors.prepare_stream(stream, source);
    if (fd < 0) return fd;
    settings.descriptor(stream, fd);
    return 0;
}

// Returns whether one of the descriptors that the child gets is closed.
bool is_any_closed(const fiber_process_attr& attr) {
    auto is_closed = [](int source) { return source >= 0 && fcntl(source, F_GETFD) < 0; };
    for (int source : attr.streams) {
        if (is_closed(source)) return true;
    }
    for (size_t i = 0; i < attr.fd_count; i++) {
        if (is_closed(attr.fds[i].source)) return true;
    }
    bool inherits = attr.streams[STDOUT_FILENO] == FIBER_PROCESS_INHERIT;
    return inherits && attr.streams[STDERR_FILENO] == FIBER_PROCESS_STDOUT && is_closed(STDOUT_FILENO);
}

} // namespace

int spawn(pid_t* pid, int* pipes, const fiber_process_attr& attr, const char* file, char* const argv[]) {
    KeepErrno keep;
    if (is_any_closed(attr)) return -EBADF; // checked before a new pipe could take its number
    Descriptors descriptors(attr);
    SpawnSettings settings;
    for (int stream = 0; stream < 3; stream++) {
        if (int error = set_up(settings, descriptors, stream, attr.streams[stream])) return error;
    }
    for (size_t i = 0; i < attr.fd_count; i++) {
        auto [fd, source] = attr.fds[i];
        source = descriptors.prepare(fd, source);
        if (source < 0) return source;
        settings.descriptor(fd, source);
    }
    settings.rest(attr);
    pid_t child;
    if (int error = settings.spawn(&child, file, argv, attr.environment ? attr.environment : environ)) return error;
    *pid = child;
    if (pipes) descriptors.give_out(pipes);
    return 0;
}

// The memory holds the pointers, then the strings.
char** copy_strings(char* const strings[]) {
    size_t count = 0;
    size_t bytes = 0;
    for (; strings[count]; count++) bytes += strlen(strings[count]) + 1;
    auto** copies = static_cast<char**>(malloc((count + 1) * sizeof(char*) + bytes));
    if (!copies) return nullptr;
    auto* to = reinterpret_cast<char*>(copies + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(strings[i]) + 1;
        copies[i] = static_cast<char*>(memcpy(to, strings[i], length));
        to += length;
    }
    copies[count] = nullptr;
    return copies;
}

} // namespace fiberrt
