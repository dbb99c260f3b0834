// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt.hpp: child processes, signals, blocking code, names, copies, ambient values. Above all that nothing is left
// behind: no child, no descriptor, nothing that a function has captured.
#include "hpp_support.h"

#include <fcntl.h>
#include <memory>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

namespace {

#define NEEDS_THE_WORLD() \
    if (simulated() || !FIBERRT_TEST_IO) GTEST_SKIP() << "the simulation, or a build without I/O, has no processes"

// Whether it is a child of this process whose end no call has taken.
bool is_child(pid_t pid) {
    siginfo_t info;
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

f::process_attributes piped(int stream) {
    f::process_attributes attr;
    attr.stream(stream, FIBER_PROCESS_PIPE);
    return attr;
}

// A child that reports that it is there, and then sleeps for longer than any test waits.
f::process sleeper(const char* script = "echo there; exec sleep 1000") {
    f::process made({"sh", "-c", script}, piped(1));
    char text[6];
    EXPECT_EQ(made.pipe(1).read(text, sizeof text), 6u);
    return made;
}

} // namespace

// ---- child processes ------------------------------------------------------------------------------------------------

TEST(Process, RunsAProgramAndReturnsHowItEnded) {
    NEEDS_THE_WORLD();
    f::process cat({"cat"}, piped(0).stream(1, FIBER_PROCESS_PIPE));
    EXPECT_TRUE(cat);
    cat.pipe(0).write_all("words", 5);
    cat.pipe(0).close();
    char text[8];
    EXPECT_EQ(std::string(text, cat.pipe(1).read(text, sizeof text)), "words");
    EXPECT_TRUE(cat.wait().success());
    EXPECT_FALSE(cat);
    EXPECT_EQ(cat.id(), 0);
    EXPECT_EQ(code_of([&] { cat.wait(); }), EINVAL);
    EXPECT_EQ(code_of([&] { cat.send(SIGTERM); }), ESRCH);

    f::process_status three = f::process({"sh", "-c", "exit 3"}).wait();
    EXPECT_FALSE(three.success());
    EXPECT_EQ(three.exit_code(), 3);
    EXPECT_EQ(three.signal(), 0);
    const char* words[] = {"sh", "-c", "kill -KILL $$", nullptr};
    f::process_status killed = f::process(const_cast<char* const*>(words)).wait();
    EXPECT_EQ(killed.exit_code(), -1);
    EXPECT_EQ(killed.signal(), SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(killed.native()));
}

TEST(Process, FollowsItsAttributes) {
    NEEDS_THE_WORLD();
    if (std::getenv("FIBERRT_UNDER_QEMU")) GTEST_SKIP() << "qemu keeps the masks of threads to itself";
    f::signal_set usr{SIGUSR1};
    const char* variables[] = {"WORD=hello", "PATH=/usr/bin:/bin", nullptr};
    f::process_attributes attr = piped(1);
    attr.stream(2, FIBER_PROCESS_STDOUT).directory("/").environment(const_cast<char* const*>(variables));
    attr.group().blocked(usr).default_signals(usr).session().descriptor(9, STDOUT_FILENO);
    f::process told({"sh", "-c", "pwd >&2; echo $WORD; kill -USR1 $$; [ -e /dev/fd/9 ] && echo lived"}, attr);
    EXPECT_EQ(::getsid(told.id()), told.id());
    std::string all;
    char some[64];
    while (std::size_t n = told.pipe(1).read(some, sizeof some)) all.append(some, n);
    EXPECT_EQ(all, "/\nhello\nlived\n");
    EXPECT_TRUE(told.wait().success());
    EXPECT_EQ(code_of([&] { attr.stream(3, FIBER_PROCESS_PIPE); }), EINVAL);
    EXPECT_EQ(code_of([] { (void)f::process({"/no/such/program"}); }), ENOENT);
    EXPECT_EQ(code_of([] { (void)f::process(std::initializer_list<const char*>{}); }), EINVAL);
}

// By all ways in which its handle can be lost.
TEST(Process, DestroyedIsEndedAndItsEndTaken) {
    NEEDS_THE_WORLD();
    pid_t first, second, third, fourth;
    {
        f::process by_end = sleeper();
        first = by_end.id();
        f::process moved = std::move(by_end);
        EXPECT_FALSE(by_end); // NOLINT: the state after the move is under test
        EXPECT_TRUE(is_child(first));
    }
    EXPECT_FALSE(is_child(first));
    f::process assigned = sleeper();
    second = assigned.id();
    assigned = sleeper("trap '' TERM; echo there; while :; do sleep 0.05; done");
    assigned.grace(1ms);
    EXPECT_FALSE(is_child(second));
    third = assigned.id();
    try {
        f::process during_unwinding = std::move(assigned);
        throw std::out_of_range("thrown");
    } catch (const std::out_of_range&) {}
    EXPECT_FALSE(is_child(third));
    {
        f::process where_nothing_may_wait = sleeper();
        fourth = where_nothing_may_wait.id();
        f::noswitch section;
        f::process ends_here = std::move(where_nothing_may_wait);
    }
    EXPECT_FALSE(is_child(fourth));
}

// In the child of a fork that may not wait, however it came to that.
TEST(Process, IsNotEndedByAForkedCopyOfItsParent) {
    NEEDS_THE_WORLD();
    for (const bool in_section : {false, true}) {
        f::process child = sleeper();
        if (in_section) {
            EXPECT_EQ(fiber_noswitch_enter(), 0);
        } else {
            EXPECT_EQ(fiber_set_fork_policy(FIBER_FORK_REFUSE), 0);
        }
        const pid_t forked = fork();
        if (forked == 0) {
            { f::process inherited = std::move(child); }
            _exit(0);
        }
        if (in_section) {
            EXPECT_EQ(fiber_noswitch_leave(), 0);
        } else {
            EXPECT_EQ(fiber_set_fork_policy(FIBER_FORK_CONTINUE), 0);
        }
        int status = -1;
        EXPECT_EQ(fiber_waitpid(forked, &status, 0), forked);
        EXPECT_EQ(status, 0);
        child.send(SIGTERM);
        EXPECT_EQ(child.wait().signal(), SIGTERM); // no SIGKILL was before it
    }
}

TEST(Process, DestroyedLetsItsChildSeeTheEndOfItsInput) {
    NEEDS_THE_WORLD();
    std::optional<f::process> child(
        std::in_place, std::initializer_list<const char*>{"sh", "-c", "trap '' TERM; echo there; exec cat"},
        piped(0).stream(1, FIBER_PROCESS_PIPE));
    char text[6];
    EXPECT_EQ(child->pipe(1).read(text, sizeof text), 6u);
    child->grace(f::forever);
    bool hung = false;
    auto watch = f::spawn([&hung, pid = child->id()] {
        f::sleep_for(hang);
        hung = true;
        kill(pid, SIGKILL);
    });
    f::this_fiber::reschedule();
    child.reset();
    EXPECT_FALSE(hung);
}

TEST(Process, DestructorHoldsBackACancelOfItsWait) {
    NEEDS_THE_WORLD();
    pid_t pid = 0;
    int code = 0;
    f::event begun;
    auto owner = f::spawn([&] {
        {
            f::process child = sleeper("trap '' TERM; echo there; while :; do sleep 0.05; done");
            child.grace(50ms);
            pid = child.id();
            begun.set(); // others have their turn when the destructor waits
        }
        code = code_of([] { f::this_fiber::reschedule(); });
    });
    begun.wait();
    EXPECT_EQ(fiber_interrupt(owner.handle(), nullptr), 0);
    owner.join();
    EXPECT_FALSE(is_child(pid));
    EXPECT_EQ(code, EINTR);
}

TEST(Process, IsEndedIfTheWaitForItIs) {
    NEEDS_THE_WORLD();
    f::process child = sleeper();
    EXPECT_FALSE(child.try_wait());
    const pid_t pid = child.id();
    EXPECT_FALSE(f::with_timeout(1ms, [&] { return child.wait(); }));
    EXPECT_FALSE(is_child(pid));
    EXPECT_FALSE(child);

    f::process other = sleeper();
    auto waiter = f::spawn([&] { return other.wait().signal(); });
    f::this_fiber::reschedule();
    EXPECT_EQ(fiber_interrupt(waiter.handle(), nullptr), 0);
    EXPECT_THROW(waiter.join(), f::interrupted);
    EXPECT_TRUE(is_child(other.id())); // it lives on
    other.send(SIGINT);
    EXPECT_EQ(other.wait().signal(), SIGINT);
}

TEST(Process, ReleasedIsTheCallersToWaitFor) {
    NEEDS_THE_WORLD();
    pid_t pid;
    {
        f::process child({"sh", "-c", "exit 5"});
        pid = child.release();
        EXPECT_FALSE(child);
    }
    int status = 0;
    EXPECT_EQ(fiber_waitpid(pid, &status, 0), pid);
    EXPECT_EQ(f::process_status(status).exit_code(), 5);
    f::process other({"true"});
    const auto begin = f::clock::now();
    std::optional<f::process_status> end;
    while (!(end = other.try_wait()) && f::clock::now() - begin < hang) f::sleep_for(1ms);
    ASSERT_TRUE(end);
    EXPECT_TRUE(end->success());
    EXPECT_FALSE(other);
}

// ---- signals --------------------------------------------------------------------------------------------------------

TEST(SignalSet, IsWaitedForByAFiber) {
    NEEDS_THE_WORLD();
    const f::signal_set usr{SIGUSR1, SIGUSR2};
    EXPECT_EQ(code_of([&] { usr.wait(); }), EINVAL); // they are not blocked
    usr.block();
    auto handler = f::spawn([usr] { return usr.wait(); });
    f::this_fiber::reschedule();
    EXPECT_EQ(kill(getpid(), SIGUSR2), 0);
    EXPECT_EQ(handler.join(), SIGUSR2);
    EXPECT_FALSE(f::with_timeout(1ms, [&] { return usr.wait(); }));
    usr.unblock();
    EXPECT_EQ(code_of([] { f::signal_set{4711}; }), EINVAL);
}

// ---- blocking code --------------------------------------------------------------------------------------------------

TEST(Offload, CarriesValuesAndExceptionsFromAnotherThread) {
    const auto here = std::this_thread::get_id();
    int on_stack = 1;
    auto there = f::offload([&on_stack] {
        on_stack++;
        return std::this_thread::get_id();
    });
    EXPECT_EQ(there == here, simulated());
    EXPECT_EQ(on_stack, 2);
    EXPECT_EQ(*f::offload([only_moved = std::make_unique<int>(7)]() mutable { return std::move(only_moved); }), 7);
    f::offload([&] { on_stack = 3; });
    EXPECT_EQ(on_stack, 3);
    EXPECT_EQ(message_of<std::out_of_range>([] { f::offload([] { throw std::out_of_range("there"); }); }), "there");
    auto counter = [count = 0]() mutable { return ++count; };
    EXPECT_EQ(f::offload(counter), 1);
    EXPECT_EQ(f::offload(counter), 2); // not a copy
    EXPECT_EQ(f::offload_detached([] { return std::string("there"); }), "there");
    EXPECT_EQ(message_of<std::out_of_range>(
                  []() -> void { f::offload_detached([]() -> int { throw std::out_of_range("there"); }); }),
              "there");
}

TEST(Offload, DestroysTheFunctionOnceWhicheverSideEndsFirst) {
    int alive = 0;
    f::offload_detached([token = Token(alive)] {});
    EXPECT_EQ(alive, 0);
    auto cancelled = f::spawn([&] {
        EXPECT_THROW(f::sleep_for(hang), f::cancelled);
        f::offload_detached([token = Token(alive)] {});
    });
    f::this_fiber::reschedule();
    cancelled.cancel();
    EXPECT_THROW(cancelled.join(), f::cancelled);
    EXPECT_EQ(alive, 0);
    NEEDS_THE_WORLD();
    struct Counted {
        std::atomic<int>& alive;
        explicit Counted(std::atomic<int>& count) : alive(count) { ++alive; }
        ~Counted() { --alive; }
    };
    std::atomic<int> elsewhere{0};
    std::atomic<bool> go_on{false};
    auto slow = [&go_on, counted = std::make_unique<Counted>(elsewhere)]() mutable {
        while (!go_on) std::this_thread::yield();
        auto left_behind = std::move(counted);
        if (left_behind) throw std::out_of_range("nobody is told");
        return left_behind;
    };
    EXPECT_FALSE(f::with_timeout(20ms, [&] { return f::offload_detached(std::move(slow)); }));
    EXPECT_LE(elsewhere, 1); // none if no thread had begun with it in time
    go_on = true;
    const auto begin = f::clock::now();
    while (elsewhere && f::clock::now() - begin < hang) f::sleep_for(1ms);
    EXPECT_EQ(elsewhere, 0);
}

// ---- names, connections, copies -------------------------------------------------------------------------------------

TEST(Addresses, AreTriedInOrder) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    int count = 0;
    const f::addresses found("127.0.0.1", "80", &hints);
    for (const addrinfo& one : found) count += one.ai_family == AF_INET && one.ai_addrlen == sizeof(sockaddr_in);
    EXPECT_EQ(count, 1);
    auto at = found.begin();
    EXPECT_EQ(at->ai_socktype, SOCK_STREAM);
    EXPECT_EQ(at++, found.begin());
    EXPECT_EQ(at, found.end());
    EXPECT_EQ(code_of([] { f::addresses("127.0.0.1", nullptr, nullptr); }), 0);
    EXPECT_EQ(code_of([] { f::addresses(nullptr, nullptr); }), EINVAL);
}

TEST(Dial, GivesADescriptorThatIsClosed) {
    if (!FIBERRT_TEST_IO) GTEST_SKIP() << "the library was built without I/O";
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    f::descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t length = sizeof(sa_family_t); // the kernel chooses a name
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    length = sizeof address;
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    std::string name(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
    int fd;
    {
        f::descriptor client = f::dial(("unix:@" + name).c_str());
        fd = client.get();
        EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
        client.write_all("hello", 5);
    }
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
    char text[6] = {};
    EXPECT_EQ(listener.accept().read(text, 5), 5u);
    EXPECT_STREQ(text, "hello");
    EXPECT_EQ(code_of([] { f::dial("127.0.0.1:0"); }), EINVAL);
}

TEST(Copy, GoesToTheEndOrALimit) {
    if (!FIBERRT_TEST_IO) GTEST_SKIP() << "the library was built without I/O";
    int ends[2], others[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(others, O_CLOEXEC), 0);
    f::descriptor out(ends[0]), in(ends[1]), to_read(others[0]), to_write(others[1]);
    in.write_all("0123456789", 10);
    EXPECT_EQ(f::splice(out, to_write, 2), 2u);
    EXPECT_EQ(f::copy(out, to_write, 3), 3);
    in.close();
    EXPECT_EQ(f::copy(out, to_write), 5);
    EXPECT_EQ(f::splice(out, to_write, 2), 0u);
    char text[11] = {};
    EXPECT_EQ(to_read.read(text, 10), 10u);
    EXPECT_STREQ(text, "0123456789");
    std::int64_t written = -1, lost = -1;
    EXPECT_EQ(code_of([&] { f::copy(f::descriptor(), to_write, 1, &written, &lost); }), EBADF);
    EXPECT_EQ(written, 0);
    EXPECT_EQ(lost, 0);
}

// ---- ambient values -------------------------------------------------------------------------------------------------

namespace {

const char* in_force = "the thread's";

struct put_on {
    void operator()(const char* const*, const char* const* now) const noexcept {
        in_force = now ? *now : "the thread's";
    }
};

} // namespace

TEST(Ambient, IsInForceWhileItsFiberRuns) {
    static const char* const red = "red";
    static const char* const blue = "blue";
    static f::ambient<const char* const, put_on> hat;
    EXPECT_EQ(hat.get(), nullptr);
    auto other = f::spawn([] {
        hat.set(&blue);
        for (int i = 0; i < 3; i++) {
            EXPECT_STREQ(in_force, "blue");
            f::this_fiber::reschedule();
        }
    });
    {
        decltype(hat)::scoped here(hat, red);
        EXPECT_STREQ(in_force, "red");
        f::this_fiber::reschedule();
        EXPECT_STREQ(in_force, "red");
        {
            decltype(hat)::scoped inner(hat, blue);
            EXPECT_STREQ(in_force, "blue");
        }
        EXPECT_EQ(hat.get(), &red);
        EXPECT_STREQ(in_force, "red");
    }
    EXPECT_STREQ(in_force, "the thread's");
    other.join();
    EXPECT_STREQ(in_force, "the thread's");
}
