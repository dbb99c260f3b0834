// SPDX-License-Identifier: MIT OR Apache-2.0
// Child processes: what they are to be like, how they begin, and waiting for their ends.
#include "io/process.h"

#include "api/api.h"
#include "api/attr.h"
#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/noswitch.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fiberrt;

struct fiber_process_attr {
    int streams[3] = {FIBER_PROCESS_INHERIT, FIBER_PROCESS_INHERIT, FIBER_PROCESS_INHERIT};
    char** environment = nullptr; // and its strings behind it; null: the program's own
    char* directory = nullptr;
    pid_t group = -1; // -1: the program's
    bool session = false;
    size_t fd_count = 0;
    struct {
        int fd; // in the child
        int source;
    } fds[FIBER_PROCESS_FDS_MAX]; // that it has besides its streams
    sigset_t mask;
    sigset_t reset; // signals whose dispositions are to be the default ones

    fiber_process_attr() {
        sigemptyset(&mask);
        sigemptyset(&reset);
        sigaddset(&reset, SIGPIPE);
    }
};

namespace {

// ---- Beginning ------------------------------------------------------------------------------------------------------

// The descriptors that are made for a child: all of them are closed at the end, but for what the caller is given.
class Descriptors {
public:
    explicit Descriptors(const fiber_process_attr& attr) : attr_(attr) {}
    ~Descriptors() {
        for (int fd : fds_) close_one(fd);
        for (size_t i = 0; i < copy_count_; i++) close(copies_[i]);
    }
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;

    // The descriptor that is to become the child's `stream`; -E...
    int prepare_stream(int stream, int source) {
        return prepare(stream, source == FIBER_PROCESS_PIPE ? make_pipe(stream) : source);
    }
    // The child's descriptors are put in place one by one: a source that is still needed must not have the number of
    // one of them.
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
        int childs = stream == STDIN_FILENO ? 0 : 1;
        fds_[stream] = ends[!childs];
        fds_[3 + stream] = ends[childs];
        return ends[childs];
    }

    int fds_[6] = {-1, -1, -1, -1, -1, -1}; // the caller's ends of pipes, the child's
    const fiber_process_attr& attr_;
    size_t copy_count_ = 0;
    int copies_[3 + FIBER_PROCESS_FDS_MAX];
};

// posix_spawn's ways to say what a child is to be like.
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

    // Each of these only if there was memory for all before: else there is nothing that they could add to.
    void descriptor(int fd, int source) { // the same number: it is not closed on exec
        if (!error_) error_ = posix_spawn_file_actions_adddup2(&actions_, source, fd);
    }
    void null_stream(int stream) {
        if (!error_) error_ = posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
    }
    void rest(const fiber_process_attr& attr) {
        if (error_) return;
        if (attr.directory) note(posix_spawn_file_actions_addchdir_np(&actions_, attr.directory));
        short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        if (attr.session) {
            flags |= POSIX_SPAWN_SETSID; // and with it a process group
        } else if (attr.group >= 0) {
            flags |= POSIX_SPAWN_SETPGROUP;
        }
        note(posix_spawnattr_setsigmask(&attr_, &attr.mask));
        note(posix_spawnattr_setsigdefault(&attr_, &attr.reset));
        if (attr.group >= 0) note(posix_spawnattr_setpgroup(&attr_, attr.group));
        note(posix_spawnattr_setflags(&attr_, flags));
    }
    int spawn(pid_t* pid, const char* file, char* const argv[], char* const environment[]) {
        errno = ENOENT; // glibc tells what it was before, if the PATH is longer than any path
        if (!error_) error_ = posix_spawnp(pid, file, &actions_, &attr_, argv, environment);
        return -error_;
    }

private:
    void note(int error) {
        if (!error_) error_ = error;
    }

    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attr_;
    bool made_ = false;
    int error_; // the first
};

// A stream of the child. 0, or -E...
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

int spawn(pid_t* pid, int* pipes, const fiber_process_attr& attr, const char* file, char* const argv[]) {
    KeepErrno keep;
    if (is_any_closed(attr)) return -EBADF; // asked before a pipe is made, which would take its number
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

// One piece of memory: the pointers, then the strings.
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

// ---- Ending ---------------------------------------------------------------------------------------------------------

// The caller has been stopped, for that reason: ends the child, within a shield, and takes its end. The reason; or why
// that could not be.
int end_process(Cord& cord, Process& process, int* status, int64_t grace_ns, int reason) {
    // Before a signal goes to a number: somebody else may have taken the child's end, and the number be another's.
    int result = process.look(status);
    if (result) return result > 0 ? reason : result;
    Scope shield;
    shield.record_only = true;
    scope_push(cord, cord.current, &shield, grace_ns ? deadline_after(cord, grace_ns) : never, FIBER_SCOPE_SHIELD);
    if (grace_ns) {
        int sent = process.send(SIGTERM);
        if (sent == 0) process.send(SIGCONT); // one that is stopped would not take it
        if (sent != -EPERM) result = process.await_end(status);
    }
    if (result == 0 || result == -ETIMEDOUT) {
        scope_move_deadline(cord, &shield, never, true);
        result = process.send(SIGKILL) == -EPERM ? process.take_end(status) : process.await_end(status);
    }
    scope_pop(cord, cord.current);
    return result > 0 ? reason : result == 0 ? -EACCES : result;
}

} // namespace

int fiber_process_attr_create(fiber_process_attr_t** out) { return api::make_attr(out); }

int fiber_process_attr_destroy(fiber_process_attr_t* attr) {
    if (!attr) return 0;
    free(attr->environment);
    free(attr->directory);
    free(attr);
    return 0;
}

int fiber_process_attr_set_stream(fiber_process_attr_t* attr, int stream, int source) {
    if (!attr || stream < STDIN_FILENO || stream > STDERR_FILENO || source < FIBER_PROCESS_STDOUT) return -EINVAL;
    if (source == FIBER_PROCESS_STDOUT && stream != STDERR_FILENO) return -EINVAL;
    attr->streams[stream] = source;
    return 0;
}

int fiber_process_attr_add_fd(fiber_process_attr_t* attr, int fd, int source) {
    if (!attr || fd <= STDERR_FILENO || source < 0) return -EINVAL;
    size_t i = 0;
    while (i < attr->fd_count && attr->fds[i].fd != fd) i++;
    if (i == FIBER_PROCESS_FDS_MAX) return -EMFILE;
    attr->fds[i] = {fd, source};
    if (i == attr->fd_count) attr->fd_count++;
    return 0;
}

int fiber_process_attr_set_session(fiber_process_attr_t* attr, int session) {
    if (!attr) return -EINVAL;
    attr->session = session != 0;
    return 0;
}

int fiber_process_attr_set_environment(fiber_process_attr_t* attr, char* const environment[]) {
    if (!attr) return -EINVAL;
    KeepErrno keep;
    char** copies = environment ? copy_strings(environment) : nullptr;
    if (environment && !copies) return -ENOMEM;
    free(attr->environment);
    attr->environment = copies;
    return 0;
}

int fiber_process_attr_set_directory(fiber_process_attr_t* attr, const char* path) {
    if (!attr) return -EINVAL;
    KeepErrno keep;
    char* copy = path ? strdup(path) : nullptr;
    if (path && !copy) return -ENOMEM;
    free(attr->directory);
    attr->directory = copy;
    return 0;
}

int fiber_process_attr_set_group(fiber_process_attr_t* attr, pid_t group) {
    if (!attr || group < -1) return -EINVAL;
    attr->group = group;
    return 0;
}

int fiber_process_attr_set_mask(fiber_process_attr_t* attr, const sigset_t* mask) {
    if (!attr || !mask) return -EINVAL;
    attr->mask = *mask;
    return 0;
}

int fiber_process_attr_set_default_signals(fiber_process_attr_t* attr, const sigset_t* signals) {
    if (!attr || !signals) return -EINVAL;
    attr->reset = *signals;
    return 0;
}

int fiber_process_spawn(pid_t* pid, int pipes[3], const fiber_process_attr_t* attr, const char* file,
                        char* const argv[]) {
    if (!pid || !file || !argv || !argv[0]) return -EINVAL;
    const fiber_process_attr& wanted = attr ? *attr : fiber_process_attr();
    for (int source : wanted.streams) {
        if (source == FIBER_PROCESS_PIPE && !pipes) return -EINVAL;
    }
    if (wanted.session && wanted.group > 0) return -EINVAL;
    if (!cord_here()) return no_cord();
    return simulated ? -ENOTSUP : spawn(pid, pipes, wanted, file, argv);
}

int fiber_waitpid(pid_t pid, int* status, int options) {
    if (pid <= 0 || (options & ~WNOHANG)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->current;
    if (me->attention) return attend(*cord, me);
    if (simulated) return -ENOTSUP;
    Process process(*cord, pid);
    int result = options & WNOHANG ? process.take_end(status) : process.await_end(status);
    return result > 0 ? pid : result;
}

int fiber_process_wait(pid_t pid, int* status, int64_t grace_ns) {
    if (pid <= 0 || grace_ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (noswitch_refuses(cord->current)) return -EPERM;
    if (simulated) return -ENOTSUP;
    Process process(*cord, pid);
    int result = process.await_end(status);
    if (result == -ECANCELED || result == -ETIMEDOUT) return end_process(*cord, process, status, grace_ns, result);
    return result > 0 ? 0 : result;
}
