// SPDX-License-Identifier: MIT OR Apache-2.0
// Child processes: attributes, spawn, and waiting for their ends.
#include "io/process.h"

#include "api/api.h"
#include "api/attr.h"
#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/noswitch.h"
#include "io/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fiberrt;

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
    return simulated() ? -ENOTSUP : spawn(pid, pipes, wanted, file, argv);
}

int fiber_waitpid(pid_t pid, int* status, int options) {
    if (pid <= 0 || (options & ~WNOHANG)) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    Fiber* me = cord->sched.current;
    if (me->sched.pending) return check_pending(*cord, me);
    if (simulated()) return -ENOTSUP;
    Process process(*cord, pid);
    int result = options & WNOHANG ? process.reap(status) : process.await_end(status);
    return result > 0 ? pid : result;
}

int fiber_process_wait(pid_t pid, int* status, int64_t grace_ns) {
    if (pid <= 0 || grace_ns < 0) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (noswitch_refuses(cord->sched.current)) return -EPERM;
    if (simulated()) return -ENOTSUP;
    Process process(*cord, pid);
    int result = process.await_end(status);
    if (result == -ECANCELED || result == -ETIMEDOUT) return process.end(status, grace_ns, result);
    return result > 0 ? 0 : result;
}
