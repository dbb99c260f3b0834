// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for child processes and ends them. A pidfd is opened only when the child turns out to live.
#include "io/process.h"

#include "base/keep_errno.h"
#include "base/linux_numbers.h"
#include "core/cancel.h"
#include "core/cord.h"
#include "core/scheduler.h"
#include "fiberrt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fiberrt {

namespace {

int status_of(const siginfo_t& info) {
    if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
    return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

// Whether the error is about the calling fiber, and not about the pidfd.
bool ends_the_call(int64_t result) {
    return result == -EPERM || result == -ECANCELED || result == -EINTR || result == -ETIMEDOUT;
}

} // namespace

int Process::reap(int* status) {
    KeepErrno keep;
    siginfo_t info;
    info.si_pid = 0;
    bool by_number = pidfd_.number() < 0;
    idtype_t kind = by_number ? P_PID : idtype_t(waitid_pidfd);
    if (waitid(kind, id_t(by_number ? pid_ : pidfd_.number()), &info, WEXITED | WNOHANG) < 0) return -errno;
    if (info.si_pid == 0) return 0;
    if (status) *status = status_of(info);
    return 1;
}

int Process::await_end(int* status) {
    Fiber* me = cord_.sched.current;
    if (me->sched.pending) return check_pending(cord_, me);
    for (;;) {
        if (int result = look(status)) return result;
        if (int error = wait()) return error;
    }
}

int Process::look(int* status) {
    int result = reap(status);
    if (result || opened_) return result;
    open();
    return reap(status); // another process may have got the number meanwhile
}

void Process::open() {
    KeepErrno keep;
    opened_ = true;
    if (!cord_.io && Io::open(cord_) < 0) return;
    int fd = int(syscall(SYS_pidfd_open, pid_, 0));
    if (fd < 0) return;
    pidfd_.keep(cord_, fd);
    siginfo_t info;
    int known = waitid(idtype_t(waitid_pidfd), id_t(fd), &info, WEXITED | WNOHANG | WNOWAIT);
    if (known < 0 && errno != ECHILD) pidfd_.close();
}

int Process::wait() {
    // Once the pidfd has reported the end, this only checks at intervals: the kernel withholds the end until a debugger
    // has taken it.
    if (pidfd_.number() >= 0 && !pidfd_readable_) {
        DescriptorGuard guard(cord_, pidfd_.number());
        int64_t result = guard.wait_until_ready(pidfd_.number(), POLLIN, false);
        pidfd_readable_ = result >= 0;
        if (pidfd_readable_) return 0;
        if (ends_the_call(result)) return int(result);
    }
    return pause();
}

int Process::pause() {
    Fiber* me = cord_.sched.current;
    if (me->sched.pending) return check_pending(cord_, me);
    Wait time;
    time.what = WaitFor::time;
    time.stop = stop_at_once;
    int result = int(park(cord_, time, deadline_after(cord_, pause_ns_)));
    if (pause_ns_ < longest_pause_ns) pause_ns_ *= 2;
    return result;
}

int Process::send(int signal) {
    KeepErrno keep;
    if (getpgid(pid_) != pid_) return send_to_it(signal);
    // A group is signalled by its number, which succeeds if the process may signal any member.
    int probe = send_to_it(0);
    if (probe == -ESRCH) return probe;
    int error = kill(-pid_, signal) < 0 ? -errno : 0;
    return probe ? probe : error;
}

int Process::send_to_it(int signal) {
    if (pidfd_.number() >= 0) {
        if (syscall(SYS_pidfd_send_signal, pidfd_.number(), signal, nullptr, 0) == 0) return 0;
        if (errno == ESRCH) return -ESRCH;
    }
    return kill(pid_, signal) < 0 ? -errno : 0;
}

int Process::end(int* status, int64_t grace_ns, int reason) {
    // Before it signals by number: the child may have been reaped elsewhere, and another process may have its number.
    int result = look(status);
    if (result) return result > 0 ? reason : result;
    Scope shield;
    shield.record_only = true;
    scope_push(cord_, cord_.sched.current, &shield, grace_ns ? deadline_after(cord_, grace_ns) : never,
               FIBER_SCOPE_SHIELD);
    if (grace_ns) {
        int sent = send(SIGTERM);
        if (sent == 0) send(SIGCONT); // a stopped process would not react to SIGTERM
        if (sent != -EPERM) result = await_end(status);
    }
    if (result == 0 || result == -ETIMEDOUT) {
        scope_move_deadline(cord_, &shield, never, true);
        result = send(SIGKILL) == -EPERM ? reap(status) : await_end(status);
    }
    scope_pop(cord_, cord_.sched.current);
    return result > 0 ? reason : result == 0 ? -EACCES : result;
}

} // namespace fiberrt
