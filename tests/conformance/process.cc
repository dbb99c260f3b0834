// SPDX-License-Identifier: MIT OR Apache-2.0
// Child processes: their initial state, waiting for their ends, and ending them in time.
#include "conformance.h"
#include "cord_support.h"
#include "doomed.h"
#include "io_support.h"

#include <climits>
#include <csignal>
#include <memory>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

using namespace support;

namespace {

#define NEEDS_PROCESSES() NOT_ON_SIM("has no other processes")

class Attr {
public:
    Attr() { EXPECT_EQ(fiber_process_attr_create(&attr_), 0); }
    ~Attr() { EXPECT_EQ(fiber_process_attr_destroy(attr_), 0); }
    Attr(const Attr &) = delete;
    Attr &operator=(const Attr &) = delete;
    operator fiber_process_attr_t *() const { return attr_; }
    Attr &stream(int stream, int source) {
        EXPECT_EQ(fiber_process_attr_set_stream(attr_, stream, source), 0);
        return *this;
    }

private:
    fiber_process_attr_t *attr_ = nullptr;
};

struct Child {
    pid_t pid = -1;
    Descriptor in, out, err; // this process's ends of the child's pipes
};

Child spawn_child(const fiber_process_attr_t *attr, std::vector<const char *> words) {
    words.push_back(nullptr);
    Child child;
    int pipes[3] = {-1, -1, -1};
    EXPECT_EQ(fiber_process_spawn(&child.pid, pipes, attr, words[0], const_cast<char **>(words.data())), 0);
    child.in = Descriptor(pipes[0]);
    child.out = Descriptor(pipes[1]);
    child.err = Descriptor(pipes[2]);
    return child;
}

Child shell(const char *script, const fiber_process_attr_t *attr = nullptr) {
    return spawn_child(attr, {"/bin/sh", "-c", script});
}

std::string read_all(int fd) {
    std::string text;
    char some[4096];
    for (int64_t got; (got = fiber_read(fd, some, sizeof some)) != 0; text.append(some, size_t(got))) {
        EXPECT_GT(got, 0);
        if (got < 0) break;
    }
    return text;
}

// The output of a script that runs under these attributes, with its standard output in a pipe.
std::string output_of(const char *script, Attr &attr) {
    Child child = shell(script, attr.stream(1, FIBER_PROCESS_PIPE));
    std::string text = read_all(child.out);
    int status = -1;
    EXPECT_EQ(fiber_process_wait(child.pid, &status, 0), 0);
    EXPECT_EQ(status, 0) << script;
    return text;
}

int end_of(pid_t pid) {
    int status = -1;
    EXPECT_EQ(fiber_waitpid(pid, &status, 0), pid);
    return status;
}

// A child that was refused has no number, and kill(2) takes -1 and 0 for all processes and for a group.
int signal_child(pid_t pid, int signal) { return pid > 0 ? ::kill(pid, signal) : -1; }

void kill_and_take(pid_t pid) {
    EXPECT_EQ(signal_child(pid, SIGKILL), 0);
    EXPECT_EQ(end_of(pid), SIGKILL);
}

// Its end has been taken: there is no such child.
void expect_gone(pid_t pid) {
    EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1) << pid;
    EXPECT_EQ(errno, ECHILD);
    errno = 0;
}

bool alive(pid_t pid) {
    siginfo_t info{};
    return ::waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

int descriptors() { return entry_count("/proc/self/fd"); }

// Opens the cord's I/O, and the descriptors that it opens with it.
void warm_up() {
    Pipe pipe;
    EXPECT_EQ(fiber_poll_fd(pipe.write_end, POLLOUT), POLLOUT);
}

class Disposition {
public:
    Disposition(int signal, void (*handler)(int)) : signal_(signal) {
        struct sigaction action = {};
        action.sa_handler = handler;
        EXPECT_EQ(::sigaction(signal, &action, &before_), 0);
    }
    ~Disposition() { ::sigaction(signal_, &before_, nullptr); }
    Disposition(const Disposition &) = delete;
    Disposition &operator=(const Disposition &) = delete;

private:
    int signal_;
    struct sigaction before_;
};

class Masked {
public:
    explicit Masked(int signal) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, signal);
        EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, &set, &before_), 0);
    }
    ~Masked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    Masked(const Masked &) = delete;
    Masked &operator=(const Masked &) = delete;

private:
    sigset_t before_;
};

// The bits of a line of a status of /proc, such as "SigBlk:\t0000000000000000".
uint64_t signals_of(const std::string &status, const char *line) {
    const size_t at = status.find(line);
    EXPECT_NE(at, std::string::npos) << line << " in " << status;
    return at == std::string::npos ? ~0ull : std::stoull(status.substr(at + strlen(line) + 1), nullptr, 16);
}

uint64_t bit(int signal) { return 1ull << (signal - 1); }

// A child that has reported that it is in its place: the script's first output is a line.
Child started(const char *script, Attr &attr) {
    Child child = shell(script, attr.stream(1, FIBER_PROCESS_PIPE));
    char line[16];
    EXPECT_GT(fiber_read(child.out, line, sizeof line), 0);
    return child;
}

} // namespace

// ---------------------------------------------------------------------------------------------------------------
// The initial state of a child
// ---------------------------------------------------------------------------------------------------------------

TEST(ProcessSpawn, RunsAProgramAndReturnsItsStatus) {
    NEEDS_PROCESSES();
    warm_up();
    const int before = descriptors();
    {
        int status = -1;
        Child child = shell("exit 7");
        EXPECT_EQ(fiber_process_wait(child.pid, &status, 0), 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
        expect_gone(child.pid);
        EXPECT_EQ(end_of(shell("kill -TERM $$").pid), SIGTERM);
        child = spawn_child(nullptr, {"true"}); // by PATH
        EXPECT_EQ(fiber_waitpid(child.pid, nullptr, 0), child.pid);
    }
    EXPECT_EQ(stats().ops_in_flight, 0u);
    EXPECT_EQ(descriptors(), before);
}

TEST(ProcessSpawn, APipeOnEachStream) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("takes long for a megabyte");
    Attr attr;
    attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE).stream(2, FIBER_PROCESS_PIPE);
    const std::string sent = pattern(1 << 20);
    Child child = shell("echo before >&2; cat; echo after >&2", attr);
    auto write = [&] {
        for (size_t at = 0; at < sent.size();) {
            const int64_t put = fiber_write(child.in, sent.data() + at, sent.size() - at);
            ASSERT_GT(put, 0);
            at += size_t(put);
        }
        EXPECT_EQ(fiber_close(child.in.release()), 0);
    };
    fiber_t writer = spawn(write);
    EXPECT_TRUE(read_all(child.out) == sent);
    EXPECT_EQ(read_all(child.err), "before\nafter\n");
    join(writer);
    for (int fd : {int(child.out), int(child.err)}) {
        EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
        EXPECT_FALSE(status_flags(fd) & O_NONBLOCK);
    }
    EXPECT_EQ(end_of(child.pid), 0);
}

TEST(ProcessSpawn, OtherStreams) {
    NEEDS_PROCESSES();
    {
        Attr attr; // null: nothing to read, and bytes written are gone
        attr.stream(0, FIBER_PROCESS_NULL).stream(2, FIBER_PROCESS_NULL);
        EXPECT_EQ(output_of("cat; echo lost >&2; echo out", attr), "out\n");
    }
    {
        Attr attr; // both into one pipe
        EXPECT_EQ(output_of("echo one; echo two >&2; echo three", attr.stream(2, FIBER_PROCESS_STDOUT)),
                  "one\ntwo\nthree\n");
    }
    { // descriptors: they stay the caller's, and are passed on as they are
        Pipe out, err;
        set_nonblock(err.write_end, true);
        Attr attr;
        attr.stream(1, out.write_end).stream(2, err.write_end);
        EXPECT_EQ(end_of(shell("echo out; echo err >&2", attr).pid), 0);
        EXPECT_EQ(drain(out.read_end), "out\n");
        EXPECT_EQ(drain(err.read_end), "err\n");
        EXPECT_EQ(::fcntl(out.write_end, F_GETFD), FD_CLOEXEC);
        EXPECT_TRUE(status_flags(err.write_end) & O_NONBLOCK);
    }
    { // one that is not open
        Pipe out;
        Attr attr;
        attr.stream(1, out.write_end);
        out.close_write();
        pid_t pid = -7;
        const char *words[] = {"true", nullptr};
        EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", const_cast<char **>(words)), -EBADF);
        EXPECT_EQ(pid, -7);
    }
}

// Descriptors among the child's standard streams are not overwritten before they are where they belong: exchanged ones,
// and pipes that got numbers which the program had closed.
TEST(ProcessSpawn, StreamsThatCollide) {
    NEEDS_PROCESSES();
    Pipe one, two;
    char byte;
    EXPECT_EQ(fiber_write(one.write_end, "x", 1),
              1); // this thread's backend is open, and gets none of the three numbers
    EXPECT_EQ(fiber_read(one.read_end, &byte, 1), 1);
    Descriptor keep[3];
    for (int fd = 0; fd < 3; fd++) keep[fd] = Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 10));
    EXPECT_EQ(::dup2(one.write_end, 1), 1);
    EXPECT_EQ(::dup2(two.write_end, 2), 2);
    Attr exchanged, same, piped;
    exchanged.stream(1, 2).stream(2, 1);
    same.stream(1, 1).stream(2, 2);
    int statuses[2];
    statuses[0] = end_of(shell("echo a; echo b >&2", exchanged).pid);
    statuses[1] = end_of(shell("echo c; echo d >&2", same).pid);
    for (int fd = 0; fd < 3; fd++) ::close(fd);
    piped.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE).stream(2, FIBER_PROCESS_PIPE);
    Child child = shell("cat; echo e >&2", piped);
    const int64_t put = fiber_write(child.in, "through", 7);
    child.in.close();
    const std::string out = read_all(child.out), err = read_all(child.err);
    const int status = end_of(child.pid);
    child.out.close();
    child.err.close();
    for (int fd = 0; fd < 3; fd++) EXPECT_EQ(::dup2(keep[fd], fd), fd);
    EXPECT_EQ(statuses[0], 0);
    EXPECT_EQ(statuses[1], 0);
    EXPECT_EQ(drain(one.read_end), "b\nc\n");
    EXPECT_EQ(drain(two.read_end), "a\nd\n");
    EXPECT_EQ(put, 7);
    EXPECT_EQ(out, "through");
    EXPECT_EQ(err, "e\n");
    EXPECT_EQ(status, 0);
}

TEST(ProcessSpawn, GivesTheChildMoreDescriptors) {
    NEEDS_PROCESSES();
    Pipe one, two;
    Attr attr;
    // Each has the number that the other must get in the child, and one stays where it is.
    const int a = one.write_end, b = two.write_end;
    EXPECT_EQ(fiber_process_attr_add_fd(attr, a, b), 0);
    EXPECT_EQ(fiber_process_attr_add_fd(attr, b, 1), 0); // replaced below
    EXPECT_EQ(fiber_process_attr_add_fd(attr, b, a), 0);
    Descriptor same(::fcntl(a, F_DUPFD_CLOEXEC, 20));
    EXPECT_EQ(fiber_process_attr_add_fd(attr, same, same), 0);
    const std::string script = "eval 'exec 3>&" + std::to_string(a) + " 4>&" + std::to_string(b) + " 5>&" +
                               std::to_string(int(same)) + "'; echo to-two >&3; echo to-one >&4; echo same >&5";
    const std::string bash = "/bin/bash"; // dash knows no numbers above 9
    EXPECT_EQ(end_of(spawn_child(attr, {bash.c_str(), "-c", script.c_str()}).pid), 0);
    EXPECT_EQ(drain(one.read_end), "to-one\nsame\n");
    EXPECT_EQ(drain(two.read_end), "to-two\n");
    EXPECT_EQ(::fcntl(same, F_GETFD), FD_CLOEXEC); // ours is as it was
}

TEST(ProcessSpawn, AMovedDescriptorDoesNotCollideWithAPipe) {
    NEEDS_PROCESSES();
    warm_up();
    Pipe one;
    const int before = descriptors();
    Attr attr;
    for (int fd = 3; fd < 30; fd++) EXPECT_EQ(fiber_process_attr_add_fd(attr, fd, one.write_end), 0);
    attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE);
    Child child = shell("cat; echo nine >&9", attr);
    EXPECT_EQ(fiber_write(child.in, "through", 7), 7);
    child.in.close();
    EXPECT_EQ(read_all(child.out), "through");
    EXPECT_EQ(end_of(child.pid), 0);
    EXPECT_EQ(drain(one.read_end), "nine\n");
    child.out.close();
    EXPECT_EQ(descriptors(), before);
}

TEST(ProcessSpawn, ADescriptorMayHaveTheHighestNumberOfAll) {
    NEEDS_PROCESSES();
    warm_up();
    rlimit limit;
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 256;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int fd : {254, 255}) {
        Pipe one;
        Attr attr;
        attr.stream(0, FIBER_PROCESS_PIPE);
        EXPECT_EQ(fiber_process_attr_add_fd(attr, fd, one.write_end), 0);
        const std::string script = "exec 3>&" + std::to_string(fd) + "; echo there >&3";
        Child child = spawn_child(attr, {"/bin/bash", "-c", script.c_str()});
        EXPECT_EQ(end_of(child.pid), 0);
        EXPECT_EQ(drain(one.read_end), "there\n");
    }
    limit.rlim_cur = before;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(ProcessSpawn, DescriptorsThatCannotBeGiven) {
    NEEDS_PROCESSES();
    const char *words[] = {"true", nullptr};
    char **argv = const_cast<char **>(words);
    pid_t pid = -7;
    {
        Attr attr;
        EXPECT_EQ(fiber_process_attr_add_fd(attr, 3, 1000), 0);
        EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", argv), -EBADF); // not open
    }
    {
        Attr attr;
        EXPECT_EQ(fiber_process_attr_add_fd(attr, INT_MAX - 1, 1), 0); // above any limit
        EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", argv), -EBADF);
    }
    {
        Attr attr;
        for (int i = 0; i < FIBER_PROCESS_FDS_MAX; i++) EXPECT_EQ(fiber_process_attr_add_fd(attr, 3 + i, 1), 0);
        EXPECT_EQ(fiber_process_attr_add_fd(attr, 3 + FIBER_PROCESS_FDS_MAX, 1), -EMFILE);
        EXPECT_EQ(fiber_process_attr_add_fd(attr, 3, 2), 0); // in the place of the one that there is
    }
    EXPECT_EQ(pid, -7);
}

// A pipe that is made for the child would take the number of the closed source.
TEST(ProcessSpawn, AClosedSourceIsRefusedNextToAPipe) {
    NEEDS_PROCESSES();
    const char *words[] = {"true", nullptr};
    char **argv = const_cast<char **>(words);
    pid_t pid = -7;
    for (int before : {0, 1, 2, 3}) { // of the lowest free numbers, which the pipe gets
        std::vector<Descriptor> lower;
        for (int i = 0; i < before; i++) lower.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        const int closed = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ASSERT_GE(closed, 0);
        ::close(closed);
        lower.clear();
        int pipes[3] = {-7, -7, -7};
        Attr more, stream;
        more.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE);
        EXPECT_EQ(fiber_process_attr_add_fd(more, 200, closed), 0);
        EXPECT_EQ(fiber_process_spawn(&pid, pipes, more, "true", argv), -EBADF) << closed;
        stream.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE).stream(2, closed);
        EXPECT_EQ(fiber_process_spawn(&pid, pipes, stream, "true", argv), -EBADF) << closed;
        EXPECT_EQ(pipes[0], -7);
    }
    EXPECT_EQ(pid, -7);
}

TEST(ProcessSpawn, ASessionOfItsOwn) {
    NEEDS_PROCESSES();
    for (pid_t group : {-1, 0}) {
        Attr attr;
        EXPECT_EQ(fiber_process_attr_set_session(attr, 1), 0);
        EXPECT_EQ(fiber_process_attr_set_group(attr, group), 0);
        Child child = started("echo; read forever", attr.stream(0, FIBER_PROCESS_PIPE));
        EXPECT_EQ(::getsid(child.pid), child.pid);
        EXPECT_EQ(::getpgid(child.pid), child.pid);
        kill_and_take(child.pid);
        EXPECT_EQ(fiber_process_attr_set_session(attr, 0), 0);
        Child plain = started("echo; read forever", attr);
        EXPECT_EQ(::getsid(plain.pid), ::getsid(0));
        kill_and_take(plain.pid);
    }
    Attr attr;
    const char *words[] = {"true", nullptr};
    pid_t pid = -7;
    EXPECT_EQ(fiber_process_attr_set_session(attr, 1), 0);
    EXPECT_EQ(fiber_process_attr_set_group(attr, ::getpgrp()), 0);
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", const_cast<char **>(words)), -EINVAL);
    EXPECT_EQ(pid, -7);
}

TEST(ProcessSpawn, EnvironmentDirectoryAndGroup) {
    NEEDS_PROCESSES();
    Attr attr;
    {
        std::string variable = "COLOUR=blue";
        char *environment[] = {variable.data(), nullptr};
        EXPECT_EQ(fiber_process_attr_set_environment(attr, environment), 0);
        variable = "COLOUR=grey"; // it was copied
        std::string path = "/";
        EXPECT_EQ(fiber_process_attr_set_directory(attr, path.c_str()), 0);
    }
    EXPECT_EQ(output_of("echo $COLOUR $HOME; pwd", attr), "blue\n/\n");
    EXPECT_EQ(fiber_process_attr_set_environment(attr, nullptr), 0);
    EXPECT_EQ(fiber_process_attr_set_directory(attr, nullptr), 0);
    ASSERT_EQ(::setenv("COLOUR", "red", 1), 0); // afterwards
    EXPECT_EQ(output_of("echo $COLOUR", attr), "red\n");
    ::unsetenv("COLOUR");
    char *nothing[] = {nullptr};
    EXPECT_EQ(fiber_process_attr_set_environment(attr, nothing), 0);
    EXPECT_EQ(output_of("echo \"$COLOUR\"", attr), "\n");

    Child inherits = started("echo; read forever", attr.stream(0, FIBER_PROCESS_PIPE));
    EXPECT_EQ(::getpgid(inherits.pid), ::getpgrp());
    EXPECT_EQ(fiber_process_attr_set_group(attr, 0), 0);
    Child leads = started("echo; read forever", attr);
    EXPECT_EQ(::getpgid(leads.pid), leads.pid);
    EXPECT_EQ(fiber_process_attr_set_group(attr, leads.pid), 0);
    Child joins = started("echo; read forever", attr);
    EXPECT_EQ(::getpgid(joins.pid), leads.pid);
    for (const Child *child : {&inherits, &leads, &joins}) kill_and_take(child->pid);
}

// Whatever signals the thread blocks, on whichever thread, the child blocks none, or those that it is told to. It does
// not ignore SIGPIPE, which this process ignores; it ignores the other signals that this process ignores.
TEST(ProcessSpawn, MaskAndDispositions) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("keeps the masks of threads to itself");
    Masked masked(SIGUSR1);
    Disposition pipe(SIGPIPE, SIG_IGN), hangup(SIGHUP, SIG_IGN), winch(SIGWINCH, [](int) {});
    const char *script = "exec cat /proc/self/status";
    auto look = [&] {
        Attr attr;
        const std::string plain = output_of(script, attr);
        EXPECT_EQ(signals_of(plain, "SigBlk:"), 0u);
        EXPECT_EQ(signals_of(plain, "SigIgn:") & (bit(SIGPIPE) | bit(SIGHUP)), bit(SIGHUP));
        EXPECT_EQ(signals_of(plain, "SigCgt:"), 0u);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        EXPECT_EQ(fiber_process_attr_set_mask(attr, &set), 0);
        sigemptyset(&set);
        sigaddset(&set, SIGHUP);
        EXPECT_EQ(fiber_process_attr_set_default_signals(attr, &set), 0);
        const std::string told = output_of(script, attr);
        EXPECT_EQ(signals_of(told, "SigBlk:"), bit(SIGUSR2));
        EXPECT_EQ(signals_of(told, "SigIgn:") & (bit(SIGPIPE) | bit(SIGHUP)), bit(SIGPIPE));
    };
    look();
    fiber_cord_t cord = start_cord(look);
    join_cord(cord);
}

// If anything fails, nothing is left: neither a child nor a descriptor, and the caller's out values are unchanged.
TEST(ProcessSpawn, FailsWithoutATrace) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("does not report that a program could not be run");
    warm_up();
    Attr attr;
    attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE).stream(2, FIBER_PROCESS_PIPE);
    const int before = descriptors();
    pid_t pid = -7;
    int pipes[3] = {-7, -8, -9};
    const char *words[] = {"word", nullptr};
    char **argv = const_cast<char **>(words);
    errno = 4711;
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "/no/such/program", argv), -ENOENT);
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "no-such-program-by-path", argv), -ENOENT);
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "", argv), -ENOENT);
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "/etc/passwd", argv), -EACCES);
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "/", argv), -EACCES);
    const std::string long_word(size_t(1) << 22, 'x');
    const char *too_long[] = {"true", long_word.c_str(), nullptr};
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "true", const_cast<char **>(too_long)), -E2BIG);
    ASSERT_EQ(fiber_process_attr_set_directory(attr, "/no/such/directory"), 0);
    EXPECT_EQ(fiber_process_spawn(&pid, pipes, attr, "true", argv), -ENOENT);
    EXPECT_EQ(errno, 4711);
    errno = 0;
    EXPECT_TRUE(pid == -7 && pipes[0] == -7 && pipes[1] == -8 && pipes[2] == -9);
    EXPECT_EQ(descriptors(), before);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1); // no child
}

TEST(ProcessSpawn, BadArguments) {
    Attr attr;
    pid_t pid = -7;
    const char *words[] = {"true", nullptr}, *none[] = {nullptr};
    char **argv = const_cast<char **>(words);
    EXPECT_EQ(fiber_process_spawn(nullptr, nullptr, attr, "true", argv), -EINVAL);
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, nullptr, argv), -EINVAL);
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", nullptr), -EINVAL);
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", const_cast<char **>(none)), -EINVAL);
    EXPECT_EQ(fiber_process_attr_create(nullptr), -EINVAL);
    EXPECT_EQ(fiber_process_attr_destroy(nullptr), 0);
    EXPECT_EQ(fiber_process_attr_set_stream(nullptr, 0, 0), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_stream(attr, -1, 0), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_stream(attr, 3, 0), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_stream(attr, 0, -5), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_stream(attr, 1, FIBER_PROCESS_STDOUT), -EINVAL);
    EXPECT_EQ(fiber_process_attr_add_fd(nullptr, 3, 0), -EINVAL);
    EXPECT_EQ(fiber_process_attr_add_fd(attr, 2, 0), -EINVAL);
    EXPECT_EQ(fiber_process_attr_add_fd(attr, 3, -1), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_session(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_environment(nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_directory(nullptr, "/"), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_group(nullptr, 0), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_group(attr, -2), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_mask(attr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_process_attr_set_default_signals(attr, nullptr), -EINVAL);
    attr.stream(2, FIBER_PROCESS_PIPE);
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, attr, "true", argv), -EINVAL);
    EXPECT_EQ(pid, -7);
}

TEST(ProcessSpawn, IsUnavailableInASimulation) {
    if (!simulated()) GTEST_SKIP() << "it tests only the simulation";
    pid_t pid = -7;
    int status = -7;
    const char *words[] = {"true", nullptr};
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, nullptr, "true", const_cast<char **>(words)), -ENOTSUP);
    EXPECT_EQ(fiber_waitpid(::getppid(), &status, 0), -ENOTSUP);
    EXPECT_EQ(fiber_waitpid(::getppid(), &status, WNOHANG), -ENOTSUP);
    EXPECT_EQ(fiber_process_wait(::getppid(), &status, 0), -ENOTSUP);
    EXPECT_TRUE(pid == -7 && status == -7);
}

// ---------------------------------------------------------------------------------------------------------------
// Waiting
// ---------------------------------------------------------------------------------------------------------------

TEST(ProcessWait, ANonChildIsAnError) {
    NEEDS_PROCESSES();
    int status = -7;
    for (int options : {0, WNOHANG}) {
        EXPECT_EQ(fiber_waitpid(::getppid(), &status, options), -ECHILD);
        EXPECT_EQ(fiber_waitpid(::getpid(), &status, options), -ECHILD);
        EXPECT_EQ(fiber_waitpid(INT_MAX, &status, options), -ECHILD);
        const pid_t taken = shell("exit 0").pid;
        EXPECT_EQ(end_of(taken), 0);
        EXPECT_EQ(fiber_waitpid(taken, &status, options), -ECHILD);
    }
    EXPECT_EQ(fiber_process_wait(::getppid(), &status, 0), -ECHILD);
    EXPECT_EQ(status, -7);
}

// And it gets no signal, whatever has ended the caller's wait.
TEST(ProcessWait, ANonChildIsSentNothing) {
    NEEDS_PROCESSES();
    Attr attr;
    // The shell's child is not a child of this process. A command in a shell's background has /dev/null as its input.
    Child shells = shell("exec 3<&0; sh -c 'read line <&3; exit 5' & echo $!; wait $!; echo $?",
                         attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE));
    char line[16] = {};
    EXPECT_GT(fiber_read(shells.out, line, sizeof line - 1), 0);
    const pid_t grandchild = std::atoi(line);
    ASSERT_GT(grandchild, 1);
    int status = -7;
    for (int64_t grace_ns : {int64_t(0), FIBER_MSEC(1), FIBER_FOREVER}) {
        int result = 0;
        auto body = [&] {
            EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
            result = fiber_process_wait(grandchild, &status, grace_ns);
        };
        run(body);
        EXPECT_EQ(result, -ECHILD);
    }
    EXPECT_EQ(status, -7);
    shells.in.close();
    EXPECT_EQ(read_all(shells.out), "5\n");
    EXPECT_EQ(end_of(shells.pid), 0);
}

TEST(ProcessWait, BadArguments) {
    int status = -7;
    for (pid_t pid : {0, -1, -::getpgrp(), INT_MIN}) {
        EXPECT_EQ(fiber_waitpid(pid, &status, 0), -EINVAL);
        EXPECT_EQ(fiber_process_wait(pid, &status, 0), -EINVAL);
    }
    EXPECT_EQ(fiber_waitpid(1, &status, WUNTRACED), -EINVAL);
    EXPECT_EQ(fiber_waitpid(1, &status, WNOHANG | WCONTINUED), -EINVAL);
    EXPECT_EQ(fiber_process_wait(1, &status, -1), -EINVAL);
    EXPECT_EQ(status, -7);
}

TEST(ProcessWait, AChildThatIsKilledMeanwhile) {
    NEEDS_PROCESSES();
    const pid_t pid = shell("exec sleep 1000").pid;
    int status = -1;
    auto body = [&] { EXPECT_EQ(fiber_waitpid(pid, &status, 0), pid); };
    const fiber_t waiter = start(body);
    settle();
    EXPECT_TRUE(eventually([&] { return fiber_state(waiter) == FIBER_WAITING; }));
    EXPECT_EQ(signal_child(pid, SIGKILL), 0);
    join(waiter);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(ProcessWait, WithoutHanging) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = shell("read line; exit 3", attr.stream(0, FIBER_PROCESS_PIPE));
    int status = -7;
    EXPECT_EQ(fiber_waitpid(child.pid, &status, WNOHANG), 0);
    EXPECT_EQ(status, -7);
    child.in.close();
    EXPECT_TRUE(eventually([&] { return fiber_waitpid(child.pid, &status, WNOHANG) == child.pid; }));
    EXPECT_EQ(status, 3 << 8);
}

// One that is stopped has not ended.
TEST(ProcessWait, AStoppedChildIsWaitedFor) {
    NEEDS_PROCESSES();
    const pid_t pid = shell("exec sleep 1000").pid;
    EXPECT_EQ(signal_child(pid, SIGSTOP), 0);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, id_t(pid), &info, WSTOPPED), 0); // by now
    EXPECT_EQ(fiber_waitpid(pid, nullptr, WNOHANG), 0);
    FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) { EXPECT_EQ(fiber_waitpid(pid, nullptr, 0), -ETIMEDOUT); }
    EXPECT_EQ(signal_child(pid, SIGTERM), 0);
    EXPECT_EQ(signal_child(pid, SIGCONT), 0);
    EXPECT_EQ(end_of(pid), SIGTERM);
}

// A cancel, an interrupt, a deadline, before the wait and during it: the end is still there to be taken.
TEST(ProcessWait, EndsEarlyWithoutTakingTheEnd) {
    NEEDS_PROCESSES();
    warm_up();
    const int before = descriptors();
    Attr attr;
    Child child = shell("read line; exit 3", attr.stream(0, FIBER_PROCESS_PIPE));
    auto scoped = [&](auto stop) {
        int result = 0;
        auto body = [&] {
            result = fiber_waitpid(child.pid, nullptr, 0);
            EXPECT_EQ(fiber_waitpid(child.pid, nullptr, WNOHANG), result == -EINTR ? 0 : result);
        };
        const fiber_t waiter = create(body);
        stop(waiter);
        join(waiter);
        return result;
    };
    EXPECT_EQ(scoped([](fiber_t waiter) {
                  EXPECT_EQ(fiber_start(waiter), 0);
                  EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
              }),
              -ECANCELED);
    EXPECT_EQ(scoped([](fiber_t waiter) {
                  EXPECT_EQ(fiber_start(waiter), 0);
                  settle();
                  EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
              }),
              -ECANCELED);
    EXPECT_EQ(scoped([](fiber_t waiter) {
                  EXPECT_EQ(fiber_interrupt(waiter, nullptr), 0);
                  EXPECT_EQ(fiber_start(waiter), 0);
              }),
              -EINTR);
    EXPECT_EQ(scoped([](fiber_t waiter) {
                  EXPECT_EQ(fiber_start(waiter), 0);
                  settle();
                  EXPECT_EQ(fiber_interrupt(waiter, nullptr), 0);
              }),
              -EINTR);
    FIBER_WITH_TIMEOUT(FIBER_MSEC(1), nullptr) { EXPECT_EQ(fiber_waitpid(child.pid, nullptr, 0), -ETIMEDOUT); }
    child.in.close();
    EXPECT_TRUE(eventually([&] { return !alive(child.pid); }));
    FIBER_WITH_TIMEOUT(0, nullptr) { // it has ended: but a call fails before it does anything
        EXPECT_EQ(fiber_sleep(FIBER_SEC(3600)), -ETIMEDOUT);
        EXPECT_EQ(fiber_waitpid(child.pid, nullptr, 0), -ETIMEDOUT);
    }
    EXPECT_EQ(end_of(child.pid), 3 << 8);
    EXPECT_EQ(descriptors(), before);
}

TEST(ProcessWait, OfTwoWaitersOneGetsTheStatus) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = shell("read line; exit 3", attr.stream(0, FIBER_PROCESS_PIPE));
    int results[3] = {}, statuses[3] = {};
    auto wait = [&](int i) { results[i] = fiber_waitpid(child.pid, &statuses[i], 0); };
    auto first = [&] { wait(0); };
    auto second = [&] { wait(1); };
    auto third = [&] { wait(2); };
    const fiber_t fibers[] = {start(first), start(second)};
    fiber_cord_t cord = start_cord(third);
    settle();
    child.in.close();
    for (fiber_t fiber : fibers) join(fiber);
    join_cord(cord);
    int told = 0;
    for (int i = 0; i < 3; i++) {
        told += results[i] == child.pid && statuses[i] == 3 << 8;
        if (results[i] != child.pid) {
            EXPECT_EQ(results[i], -ECHILD);
        }
    }
    EXPECT_EQ(told, 1);
}

// Five hundred at once, from here and from another cord, each with its own status.
TEST(ProcessWait, ManyAtOnce) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("takes long to start a process");
    warm_up();
    const int before = descriptors();
    constexpr int each = 250;
    auto many = [&] {
        std::vector<pid_t> pids;
        std::vector<int> statuses(each, -1);
        std::vector<std::unique_ptr<Child>> children;
        Pipe start; // all live until its end
        Attr attr;
        attr.stream(0, start.read_end);
        for (int i = 0; i < each; i++) {
            const std::string status = std::to_string(i);
            pids.push_back(spawn_child(attr, {"/bin/sh", "-c", "read line; exit $0", status.c_str()}).pid);
        }
        std::vector<fiber_t> fibers(each);
        for (int i = 0; i < each; i++) {
            struct Waiter {
                pid_t pid;
                int *status;
            };
            EXPECT_EQ(fiber_spawn(
                          &fibers[size_t(i)],
                          [](void *argument) -> void * {
                              std::unique_ptr<Waiter> waiter(static_cast<Waiter *>(argument));
                              EXPECT_EQ(fiber_waitpid(waiter->pid, waiter->status, 0), waiter->pid);
                              return nullptr;
                          },
                          new Waiter{pids[size_t(i)], &statuses[size_t(i)]}),
                      0);
        }
        settle();
        start.close_write();
        for (fiber_t fiber : fibers) join(fiber);
        for (int i = 0; i < each; i++) EXPECT_EQ(statuses[size_t(i)], i << 8);
    };
    fiber_cord_t cord = start_cord(many);
    many();
    join_cord(cord);
    EXPECT_EQ(descriptors(), before);
}

// The kernel takes the ends itself if the program ignores SIGCHLD.
TEST(ProcessWait, WhereTheProgramIgnoresSIGCHLD) {
    NEEDS_PROCESSES();
    Disposition ignored(SIGCHLD, SIG_IGN);
    Attr attr;
    Child child = shell("read line", attr.stream(0, FIBER_PROCESS_PIPE));
    auto body = [&] { EXPECT_EQ(fiber_waitpid(child.pid, nullptr, 0), -ECHILD); };
    const fiber_t waiter = start(body);
    settle();
    EXPECT_TRUE(eventually([&] { return fiber_state(waiter) == FIBER_WAITING; }));
    child.in.close();
    join(waiter);
    EXPECT_EQ(fiber_waitpid(child.pid, nullptr, 0), -ECHILD);
}

// The kernel keeps the end of a child that a debugger has got hold of, until that has taken it.
TEST(ProcessWait, WhileADebuggerHasTheEnd) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("has no ptrace");
    Attr attr;
    Child child = shell("read line; exit 3", attr.stream(0, FIBER_PROCESS_PIPE));
    Pipe attached(0), end(0);
    const pid_t debugger = ::fork();
    if (debugger == 0) { // only system calls
        const bool can = ::ptrace(PTRACE_SEIZE, child.pid, nullptr, nullptr) == 0;
        ::close(end.write_end);
        ::close(child.in);
        char byte = can ? 'y' : 'n';
        if (::write(attached.write_end, &byte, 1) != 1 || ::read(end.read_end, &byte, 1) < 0) _exit(1);
        _exit(0); // and it has let go of it
    }
    ASSERT_GT(debugger, 0);
    char can = 0;
    EXPECT_EQ(fiber_read(attached.read_end, &can, 1), 1);
    int status = -1;
    if (can == 'y') {
        auto body = [&] { EXPECT_EQ(fiber_waitpid(child.pid, &status, 0), child.pid); };
        const fiber_t waiter = start(body);
        child.in.close();
        const uint64_t ops = stats().ops;
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0);
        EXPECT_LT(stats().ops, ops + 20); // it does not turn in a circle
        EXPECT_EQ(status, -1);
        end.close_write();
        join(waiter);
        EXPECT_EQ(status, 3 << 8);
    } else {
        end.close_write();
        child.in.close();
        EXPECT_EQ(end_of(child.pid), 3 << 8);
    }
    EXPECT_EQ(end_of(debugger), 0);
    if (can != 'y') GTEST_SKIP() << "the system lets no debugger attach";
}

// glibc cuts a PATH that is longer than any path, finds nothing, and says nothing.
TEST(ProcessSpawn, APathThatIsTooLongIsAnError) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("does not report that a program could not be run");
    const char *before = getenv("PATH");
    const std::string path = before ? before : "";
    setenv("PATH", std::string(5000, 'x').c_str(), 1);
    const char *words[] = {"cat", nullptr};
    pid_t pid = -7;
    errno = EINTR;
    EXPECT_EQ(fiber_process_spawn(&pid, nullptr, nullptr, "cat", const_cast<char **>(words)), -ENOENT);
    EXPECT_EQ(errno, EINTR);
    before ? setenv("PATH", path.c_str(), 1) : unsetenv("PATH");
}

// No descriptor is left: a spawn has all that it needs or nothing, and a wait needs none.
TEST(ProcessWait, WithoutDescriptors) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("opens its own descriptors");
    warm_up();
    EXPECT_EQ(end_of(shell("exit 0").pid), 0);
    rlimit limit = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int before = descriptors();
    Attr attr;
    attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE).stream(2, FIBER_PROCESS_PIPE);
    const Child waits = shell("read line; exit 3", Attr().stream(0, FIBER_PROCESS_PIPE));
    Pipe lowest;
    const int next = lowest.read_end;
    lowest.close_read();
    lowest.close_write();
    int failures = 0;
    bool done = false;
    for (int room = 0; room < 64 && !done; room++) {
        rlimit low = limit;
        low.rlim_cur = rlim_t(next + room);
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
        pid_t pid = -7;
        int pipes[3] = {-7, -7, -7};
        const char *words[] = {"cat", nullptr};
        const int result = fiber_process_spawn(&pid, pipes, attr, "cat", const_cast<char **>(words));
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_TRUE(result == 0 || result == -EMFILE) << fiber_strerror(result);
        failures += result == -EMFILE;
        done = result == 0;
        if (!done) {
            EXPECT_TRUE(pid == -7 && pipes[0] == -7 && descriptors() == before + 1);
        }
        for (int fd : pipes) {
            if (done) ::close(fd);
        }
        if (done) {
            EXPECT_EQ(end_of(pid), 0);
        }
    }
    EXPECT_TRUE(done);
    EXPECT_GE(failures, 3);

    rlimit none = limit;
    none.rlim_cur = rlim_t(next);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    int early = 0, late = 0, status = -1;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(5), nullptr) { early = fiber_waitpid(waits.pid, nullptr, 0); }
    auto body = [&] { late = fiber_waitpid(waits.pid, &status, 0); };
    const fiber_t waiter = start(body);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
    EXPECT_EQ(plain_write(waits.in, "\n"), 1);
    join(waiter);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(early, -ETIMEDOUT);
    EXPECT_EQ(late, waits.pid);
    EXPECT_EQ(status, 3 << 8);
}

// A fiber that waits on a cord whose thread ends never runs again; the descriptor of its wait is closed, and the
// child's end can still be waited for.
TEST(ProcessWait, OnAThreadThatEnds) {
    NEEDS_PROCESSES();
    warm_up();
    Attr attr;
    const int before = descriptors();
    Child child = shell("read line; exit 3", attr.stream(0, FIBER_PROCESS_PIPE));
    {
        Doomed doomed([&] { fiber_waitpid(child.pid, nullptr, 0); }, 3);
    }
    EXPECT_EQ(descriptors(), before + 1);
    child.in.close();
    EXPECT_EQ(end_of(child.pid), 3 << 8);
}

// Signals a thousand times a second, whose handler does not restart system calls.
TEST(ProcessWait, InAStormOfSignals) {
    NEEDS_PROCESSES();
    static volatile sig_atomic_t handled;
    handled = 0;
    Disposition handler(SIGALRM, [](int) { handled = handled + 1; });
    const itimerval often = {{0, 1000}, {0, 1000}}, never = {};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
    for (int round = 0; round < 20 || handled < 20; round++) {
        Attr attr;
        Child child = shell("cat; exit 3", attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE));
        int status = -1;
        auto body = [&] { EXPECT_EQ(fiber_waitpid(child.pid, &status, 0), child.pid); };
        const fiber_t waiter = start(body);
        EXPECT_EQ(fiber_write(child.in, "hello", 5), 5);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_close(child.in.release()), 0);
        EXPECT_EQ(read_all(child.out), "hello");
        join(waiter);
        EXPECT_EQ(status, 3 << 8);
    }
    ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0); // one may be on its way
}

// ---------------------------------------------------------------------------------------------------------------
// Pipes to children that do not use them
// ---------------------------------------------------------------------------------------------------------------

TEST(ProcessPipes, AChildThatReadsNothing) {
    NEEDS_PROCESSES();
    Disposition ignored(SIGPIPE, SIG_IGN);
    Attr attr;
    attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE);
    Child child = shell("exec <&-; echo closed; exit 0", attr);
    EXPECT_EQ(read_all(child.out), "closed\n");
    EXPECT_EQ(fiber_write(child.in, "x", 1), -EPIPE);
    EXPECT_GE(end_of(child.pid), 0);
    EXPECT_EQ(fiber_write(child.in, "x", 1), -EPIPE);
}

// A writer whose child ends while the pipe is full.
TEST(ProcessPipes, AChildThatEndsWithoutReading) {
    NEEDS_PROCESSES();
    Disposition ignored(SIGPIPE, SIG_IGN);
    Attr attr;
    Child child = shell("exec sleep 1000", attr.stream(0, FIBER_PROCESS_PIPE));
    const std::string much(size_t(1) << 17, 'x');
    int64_t result = 0;
    auto body = [&] {
        do result = fiber_write(child.in, much.data(), much.size());
        while (result > 0);
    };
    const fiber_t writer = start(body);
    EXPECT_TRUE(eventually([&] { return fiber_state(writer) != FIBER_RUNNABLE; }));
    EXPECT_EQ(fiber_state(writer), FIBER_WAITING);
    kill_and_take(child.pid);
    join(writer);
    EXPECT_EQ(result, -EPIPE);
}

TEST(ProcessPipes, AChildThatClosesItsOutputEarly) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = shell("echo out; exec >&-; read line; exit 3",
                        attr.stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE));
    EXPECT_EQ(read_all(child.out), "out\n");
    EXPECT_EQ(fiber_waitpid(child.pid, nullptr, WNOHANG), 0);
    child.in.close();
    EXPECT_EQ(end_of(child.pid), 3 << 8);
}

// ---------------------------------------------------------------------------------------------------------------
// Ending children in time
// ---------------------------------------------------------------------------------------------------------------

namespace {

// It reports itself that it is there: a process that the shell forks inherits its traps, and until exec could overhear
// a signal.
#define STARTS_ANOTHER "sh -c 'echo ready; exec sleep 1000' & wait"

const char *obstinate = "trap '' TERM; echo ready; while :; do read line; done";

// fiber_process_wait of a child, stopped by stop(waiter).
template <class Stop>
int stopped_wait(pid_t pid, int *status, int64_t grace_ns, Stop stop) {
    int result = 0;
    auto body = [&] {
        result = fiber_process_wait(pid, status, grace_ns);
        if (result == -ECANCELED) {
            EXPECT_EQ(fiber_reschedule(), -ECANCELED);
        } // it stays so
    };
    const fiber_t waiter = create(body);
    stop(waiter);
    join(waiter);
    return result;
}

void start_and_cancel(fiber_t waiter) {
    EXPECT_EQ(fiber_start(waiter), 0);
    EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
}

} // namespace

TEST(ProcessKill, ACancelEndsTheChild) {
    NEEDS_PROCESSES();
    warm_up();
    const int before = descriptors();
    for (bool waits : {false, true}) {
        int status = -1;
        const pid_t pid = shell("exec sleep 1000").pid;
        EXPECT_EQ(stopped_wait(pid, &status, FIBER_FOREVER,
                               [&](fiber_t waiter) {
                                   EXPECT_EQ(fiber_start(waiter), 0);
                                   if (waits) settle();
                                   EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
                               }),
                  -ECANCELED);
        EXPECT_EQ(status, SIGTERM);
        expect_gone(pid);
    }
    EXPECT_EQ(descriptors(), before);
}

// Also a cancel that was pending before the call, which ends the child nevertheless.
TEST(ProcessKill, APendingCancelEndsTheChildToo) {
    NEEDS_PROCESSES();
    int result = 0, status = -1;
    const pid_t pid = shell("exec sleep 1000").pid;
    auto body = [&] {
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        result = fiber_process_wait(pid, &status, FIBER_SEC(60));
    };
    run(body);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(status, SIGTERM);
    expect_gone(pid);
}

TEST(ProcessKill, ADeadlineEndsTheChild) {
    NEEDS_PROCESSES();
    int result = 0, status = -1, verdict = 0;
    const pid_t pid = shell("exec sleep 1000").pid;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(2), &verdict) { result = fiber_process_wait(pid, &status, FIBER_SEC(60)); }
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_EQ(verdict, -ETIMEDOUT);
    EXPECT_EQ(status, SIGTERM);
    expect_gone(pid);
}

TEST(ProcessKill, AChildThatIgnoresTERMIsKilledAfterTheGrace) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = started(obstinate, attr.stream(0, FIBER_PROCESS_PIPE));
    int result = 0, status = -1;
    const int64_t begin = fiber_now();
    FIBER_WITH_TIMEOUT(FIBER_MSEC(1), nullptr) { result = fiber_process_wait(child.pid, &status, FIBER_MSEC(20)); }
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_EQ(status, SIGKILL);
    EXPECT_GE(fiber_now() - begin, FIBER_MSEC(21));
    expect_gone(child.pid);
}

// A child that ends within the grace period, in its own way: its status is reported.
TEST(ProcessKill, AChildThatEndsWithinTheGraceIsNotKilled) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = started("trap 'kill $!; exit 5' TERM; " STARTS_ANOTHER, attr);
    int status = -1;
    EXPECT_EQ(stopped_wait(child.pid, &status, FIBER_FOREVER, start_and_cancel), -ECANCELED);
    EXPECT_EQ(status, 5 << 8);
}

TEST(ProcessKill, WithoutAGraceTheChildIsKilledAtOnce) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = started(obstinate, attr.stream(0, FIBER_PROCESS_PIPE));
    int status = -1;
    EXPECT_EQ(stopped_wait(child.pid, &status, 0, start_and_cancel), -ECANCELED);
    EXPECT_EQ(status, SIGKILL);
}

// Cancels, interrupts and deadlines that come while the child is being ended change nothing.
TEST(ProcessKill, NothingEndsTheGrace) {
    NEEDS_PROCESSES();
    Attr attr;
    Child child = started("trap 'kill $!; echo term; read line; exit 5' TERM; " STARTS_ANOTHER,
                          attr.stream(0, FIBER_PROCESS_PIPE));
    int status = -1;
    EXPECT_EQ(stopped_wait(child.pid, &status, FIBER_FOREVER,
                           [&](fiber_t waiter) {
                               start_and_cancel(waiter);
                               char line[16];
                               EXPECT_EQ(fiber_read(child.out, line, sizeof line), 5); // it is at its end
                               EXPECT_EQ(fiber_interrupt(waiter, nullptr), 0);
                               EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
                               settle();
                               EXPECT_TRUE(eventually([&] { return fiber_state(waiter) == FIBER_WAITING; }));
                               EXPECT_TRUE(alive(child.pid));
                               child.in.close();
                           }),
              -ECANCELED);
    EXPECT_EQ(status, 5 << 8);
}

TEST(ProcessKill, AStoppedChildEndsToo) {
    NEEDS_PROCESSES();
    const pid_t pid = shell("exec sleep 1000").pid;
    EXPECT_EQ(signal_child(pid, SIGSTOP), 0);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, id_t(pid), &info, WSTOPPED), 0);
    int status = -1;
    EXPECT_EQ(stopped_wait(pid, &status, FIBER_FOREVER, start_and_cancel), -ECANCELED);
    EXPECT_EQ(status, SIGTERM);
}

// Processes that the child has started end with it, if it leads a group: no process holds the pipe any more.
TEST(ProcessKill, TheWholeGroup) {
    NEEDS_PROCESSES();
    for (int64_t grace_ns : {FIBER_FOREVER, int64_t(0)}) {
        Attr attr;
        EXPECT_EQ(fiber_process_attr_set_group(attr, 0), 0);
        Child child = started(STARTS_ANOTHER, attr);
        int status = -1;
        EXPECT_EQ(stopped_wait(child.pid, &status, grace_ns, start_and_cancel), -ECANCELED);
        EXPECT_EQ(status, grace_ns ? SIGTERM : SIGKILL);
        EXPECT_EQ(read_all(child.out), "");
    }
}

// A process of another user lives on, and the call says so: also if it leads a group whose other members take the
// signals.
TEST(ProcessKill, AChildThatMayNotBeSentSignals) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("has its own threads, which keep their user");
    if (::geteuid() != 0) GTEST_SKIP() << "only root can have children of other users";
    constexpr uid_t nobody = 65534;
    warm_up();
    for (bool leads : {false, true}) {
        Pipe begun(0), end(0);
        const pid_t pid = ::fork();
        if (pid == 0) { // only system calls
            char byte = 0;
            if (leads) ::setpgid(0, 0);
            if (leads && ::fork() == 0) { // of our user: this one takes them
                if (::syscall(SYS_setresuid, nobody, nobody, nobody) != 0) _exit(1);
                if (::write(begun.write_end, &byte, 1) == 1) ::pause();
                _exit(1);
            }
            ::close(end.write_end);
            if (!leads && ::write(begun.write_end, &byte, 1) != 1) _exit(1);
            _exit(::read(end.read_end, &byte, 1) == 0 ? 3 : 1);
        }
        ASSERT_GT(pid, 0);
        char byte;
        EXPECT_EQ(fiber_read(begun.read_end, &byte, 1), 1);
        for (int64_t grace_ns : {FIBER_FOREVER, int64_t(0)}) {
            int status = -7;
            ASSERT_EQ(::setresuid(nobody, nobody, 0), 0);
            const int result = stopped_wait(pid, &status, grace_ns, start_and_cancel);
            ASSERT_EQ(::setresuid(0, 0, 0), 0);
            EXPECT_EQ(result, -EACCES);
            EXPECT_EQ(status, -7);
            EXPECT_TRUE(alive(pid));
        }
        end.close_write();
        EXPECT_EQ(end_of(pid), 3 << 8);
    }
}

// An interrupt is no end: the child lives on.
TEST(ProcessKill, AnInterruptLeavesTheChildAlone) {
    NEEDS_PROCESSES();
    int status = -7;
    const pid_t pid = shell("exec sleep 1000").pid;
    EXPECT_EQ(stopped_wait(pid, &status, 0,
                           [&](fiber_t waiter) {
                               EXPECT_EQ(fiber_start(waiter), 0);
                               EXPECT_EQ(fiber_interrupt(waiter, nullptr), 0);
                           }),
              -EINTR);
    EXPECT_EQ(status, -7);
    EXPECT_TRUE(alive(pid));
    kill_and_take(pid);
}

// The child ends at about the time of the cancel: whichever comes first, its end is taken, and the status is true.
TEST(ProcessKill, AnEndThatMeetsACancel) {
    NEEDS_PROCESSES();
    for (int round = 0; round < 20; round++) {
        Attr attr;
        Child child = shell("read line; exit 3", attr.stream(0, FIBER_PROCESS_PIPE));
        int status = -1;
        const int result = stopped_wait(child.pid, &status, FIBER_FOREVER, [&](fiber_t waiter) {
            EXPECT_EQ(fiber_start(waiter), 0);
            child.in.close();
            if (round % 4) {
                EXPECT_EQ(fiber_sleep(FIBER_USEC(200 * (round % 4))), 0);
            }
            EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
        });
        EXPECT_TRUE(result == -ECANCELED || (result == 0 && status == 3 << 8)) << result;
        EXPECT_TRUE(status == 3 << 8 || status == SIGTERM) << status;
        expect_gone(child.pid);
    }
}

TEST(ProcessKill, WithoutDescriptors) {
    NEEDS_PROCESSES();
    NOT_UNDER_QEMU("opens its own descriptors");
    warm_up();
    rlimit limit = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    int status = -1;
    const pid_t pid = shell("exec sleep 1000").pid;
    rlimit none = limit;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const int result = stopped_wait(pid, &status, FIBER_FOREVER, start_and_cancel);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(status, SIGTERM);
    expect_gone(pid);
}
