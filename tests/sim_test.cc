// SPDX-License-Identifier: MIT OR Apache-2.0
// The simulation, from the outside: each test runs a part of this program as a simulated process and checks how it ends
// and what it prints or traces.
#include "hosted_support.h"
#include "io_support.h"

#include <csignal>
#include <functional>
#include <set>
#include <sstream>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <thread>

using namespace support;

namespace {

using Settings = std::vector<std::pair<const char *, std::string>>;

struct Ended {
    int status;         // its exit status, or minus the signal that killed it
    std::string output; // its standard output and standard error
    std::string trace;
};

std::string read_all(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// Runs body, which returns the exit status, in a simulated process that has done nothing with fibers before.
Ended simulate(const Settings &settings, const std::function<int()> &body) {
    char folder[] = "/tmp/fiberrt-sim-test-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    std::string output = std::string(folder) + "/output", trace = std::string(folder) + "/trace";
    fflush(nullptr);
    pid_t child = fork(); // no cord was opened in this process, so that it forks like any other
    if (child == 0) {
        int fd = ::open(output.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) _exit(126);
        ::setenv("FIBERRT_BACKEND", "sim", 1);
        ::setenv("FIBERRT_SIM_TRACE", trace.c_str(), 1);
        for (const auto &[name, value] : settings) ::setenv(name, value.c_str(), 1);
        alarm(60);
        int status = body();
        fflush(nullptr);
        _exit(status);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    Ended ended = {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_all(output), read_all(trace)};
    ::unlink(output.c_str());
    ::unlink(trace.c_str());
    ::rmdir(folder);
    return ended;
}

#define SIMULATED_OK(settings, ...)                    \
    do {                                               \
        Ended ended = simulate(settings, __VA_ARGS__); \
        EXPECT_EQ(ended.status, 0) << ended.output;    \
    } while (0)

#define CHECK_IN_CHILD(condition)                                  \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("line %d: not so: %s\n", __LINE__, #condition); \
            return 1;                                              \
        }                                                          \
    } while (0)

Settings seed(int number) { return {{"FIBERRT_SEED", std::to_string(number)}}; }

// The last choice of the list is of the position at which the trace made it.
std::string list_of(const std::string &trace) {
    std::istringstream lines(trace);
    std::string line, list;
    for (int position = 0; std::getline(lines, line);) {
        unsigned chosen, possible;
        if (sscanf(line.c_str(), "%*d pick %u/%u", &chosen, &possible) != 2) continue;
        if (chosen) list += (list.empty() ? "" : ",") + std::to_string(position) + ':' + std::to_string(chosen);
        position++;
    }
    return list;
}

// Three fibers read one byte each of a pipe of their own and print in which order they got it.
int three_readers() {
    static int ends[3][2];
    std::string order;
    std::function<void()> bodies[3];
    fiber_t fibers[3];
    for (int i = 0; i < 3; i++) {
        CHECK_IN_CHILD(pipe(ends[i]) == 0 && write(ends[i][1], "x", 1) == 1);
        bodies[i] = [&order, i] {
            char byte;
            if (fiber_read(ends[i][0], &byte, 1) == 1) order += char('a' + i);
        };
        fibers[i] = spawn(bodies[i]);
    }
    for (fiber_t fiber : fibers) CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0);
    printf("%s\n", order.c_str());
    return order.size() == 3 ? 0 : 1;
}

int three_sleepers() {
    std::string order;
    std::function<void()> bodies[3];
    fiber_t fibers[3];
    for (int i = 0; i < 3; i++) {
        bodies[i] = [&order, i] {
            if (fiber_sleep(FIBER_MSEC(1)) == 0) order += char('a' + i);
        };
        fibers[i] = spawn(bodies[i]);
    }
    for (fiber_t fiber : fibers) CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0);
    printf("%s\n", order.c_str());
    return order.size() == 3 ? 0 : 1;
}

std::set<std::string> outputs_of_seeds(int count, const std::function<int()> &body) {
    std::set<std::string> outputs;
    for (int i = 1; i <= count; i++) {
        Ended ended = simulate(seed(i), body);
        EXPECT_EQ(ended.status, 0) << ended.output;
        outputs.insert(ended.output);
    }
    return outputs;
}

template <class Body>
fiber_cord_t cord_of(Body &body) {
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_start(&cord, nullptr, entry<Body>, &body), 0);
    return cord;
}

int three_cords() {
    std::string order;
    std::function<void()> bodies[3];
    fiber_cord_t cords[3];
    for (int i = 0; i < 3; i++) {
        bodies[i] = [&order, i] {
            fiber_sleep(FIBER_MSEC(1));
            order += char('a' + i);
        };
        cords[i] = cord_of(bodies[i]);
    }
    for (fiber_cord_t cord : cords) CHECK_IN_CHILD(fiber_cord_join(cord, nullptr) == 0);
    printf("%s\n", order.c_str());
    return order.size() == 3 ? 0 : 1;
}

// The first cord wakes a fiber of another cord, and runs on; both print a line.
int wake_and_go_on(bool in_section) {
    std::string order;
    fiber_t main_flow = self(), other{};
    auto body = [&] {
        other = self();
        fiber_wakeup(main_flow);
        fiber_yield();
        order += 'b';
    };
    fiber_cord_t cord = cord_of(body);
    CHECK_IN_CHILD(fiber_yield() == 0);
    fiber_sleep(FIBER_MSEC(1)); // it yields
    if (in_section) CHECK_IN_CHILD(fiber_noswitch_enter() == 0);
    CHECK_IN_CHILD(fiber_wakeup(other) == 0);
    order += 'a';
    if (in_section) CHECK_IN_CHILD(fiber_noswitch_leave() == 0);
    CHECK_IN_CHILD(fiber_cord_join(cord, nullptr) == 0);
    printf("%s\n", order.c_str());
    return 0;
}

// Reads under the faults of FIBERRT_SIM_FAULTS, and returns how often each of some answers came.
int answers_under_faults() {
    int ends[2];
    CHECK_IN_CHILD(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    char name[] = "/tmp/fiberrt-sim-test-XXXXXX";
    int file = mkstemp(name);
    CHECK_IN_CHILD(file >= 0 && ::unlink(name) == 0);
    bool cut = false;
    for (int i = 0; i < 50; i++) {
        char text[8] = {};
        int64_t sent = cut ? 0 : fiber_send(ends[0], "12345678", 8, 0);
        if (sent > 0 && sent < 8) printf("short\n");
        int64_t got = 0, last = 1;
        while (got < sent && (last = fiber_recv(ends[1], text + got, 8, 0)) > 0) got += last;
        if (sent == -ECONNRESET || last == -ECONNRESET) cut = true, printf("reset\n");
        CHECK_IN_CHILD(cut || (sent > 0 && got == sent && memcmp(text, "12345678", size_t(got)) == 0));
        int64_t written = fiber_write(file, "12345678", 8);
        if (written == -ENOSPC) printf("full\n");
        CHECK_IN_CHILD(written == 8 || written == -ENOSPC);
    }
    return 0;
}

// A read or write that is cut short moves a byte at least, whichever of the buffers are empty: 0 is the end of a file.
int empty_buffers_under_faults() {
    int ends[2], socket_ends[2];
    CHECK_IN_CHILD(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, socket_ends) == 0);
    for (int i = 0; i < 30; i++) {
        for (auto [in, out] : {std::pair{ends[0], ends[1]}, std::pair{socket_ends[0], socket_ends[1]}}) {
            char sent[] = "1234567", got[8] = {};
            iovec parts[] = {{sent, 0}, {sent, 0}, {sent, 2}, {nullptr, 0}, {sent + 2, 5}};
            int64_t put = fiber_writev(out, parts, 5);
            CHECK_IN_CHILD(put > 0 && put <= 7);
            iovec places[] = {{nullptr, 0}, {got, 0}, {got, 1}, {got + 1, 0}, {got + 1, 7}};
            for (int64_t all = 0, some = 0; all < put; all += some) {
                some = fiber_readv(in, places, 5);
                CHECK_IN_CHILD(some > 0 && some <= put - all && memcmp(got, sent + all, size_t(some)) == 0);
            }
        }
    }
    return 0;
}

int64_t receive_by_stack(int fd) {
    char text[8];
    return fiber_recv(fd, text, sizeof text, 0);
}

int64_t receive_hosted(int fd) {
    char text[8];
    HostedOperation receive(FIBER_OP_RECV, fd, text, sizeof text);
    if (receive.start() != 0) abort();
    join(receive.fiber);
    return receive.result;
}

// False readiness is reported again and again, and still the bytes before a shutdown are received before the end.
int shutdowns_under_faults() {
    for (int i = 0; i < 100; i++) {
        int ends[2];
        CHECK_IN_CHILD(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        int64_t got = 0;
        auto receive = i % 2 ? receive_hosted : receive_by_stack;
        auto body = [&] {
            while (int64_t bytes = receive(ends[1])) got += bytes;
        };
        CHECK_IN_CHILD(::send(ends[0], "1234", 4, 0) == 4);
        fiber_t fiber = spawn(body);
        CHECK_IN_CHILD(fiber_sleep(FIBER_USEC(1)) == 0);
        CHECK_IN_CHILD(::send(ends[0], "1234", 4, 0) == 4 && ::shutdown(ends[0], SHUT_WR) == 0);
        join(fiber);
        CHECK_IN_CHILD(got == 8);
        ::close(ends[0]);
        ::close(ends[1]);
    }
    return 0;
}

// A cord is woken while it takes the last look before its thread sleeps, which hooks of polls make it take.
int wakeups_before_the_sleep() {
    fiber_t sleeper{};
    int wanted = 0, woken = 0;
    bool over = false;
    auto body = [&] {
        fiber_hooks_t hooks{};
        hooks.before_poll = [](void *) {};
        if (fiber_hooks_set(&hooks, sizeof hooks) < 0) abort();
        sleeper = self();
        while (!over && fiber_yield() == 0) woken++;
    };
    fiber_cord_t cord = cord_of(body);
    CHECK_IN_CHILD(fiber_sleep(FIBER_MSEC(1)) == 0);
    for (int i = 0; i < 20; i++) {
        wanted = woken + 1;
        CHECK_IN_CHILD(fiber_wakeup(sleeper) == 0);
        for (int looks = 0; woken < wanted; looks++) {
            CHECK_IN_CHILD(looks < 10000);
            CHECK_IN_CHILD(fiber_reschedule() == 0);
        }
    }
    over = true;
    CHECK_IN_CHILD(fiber_wakeup(sleeper) == 0);
    CHECK_IN_CHILD(fiber_cord_join(cord, nullptr) == 0);
    return 0;
}

int fibers_under_want() {
    auto body = [] { fiber_sleep(1); };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 100; i++) {
        fiber_t fiber;
        int result = fiber_spawn(&fiber, entry<decltype(body)>, &body);
        if (result == -ENOMEM) printf("memory\n");
        if (result == 0) fibers.push_back(fiber);
    }
    for (fiber_t fiber : fibers) {
        if (fiber_join(fiber, nullptr) == -EAGAIN) printf("stack\n");
    }
    return 0;
}

} // namespace

TEST(Sim, TheClockBeginsAtAFixedTimeAndAnHourIsOverAtOnce) {
    SIMULATED_OK({}, [] {
        int64_t begun = fiber_now();
        CHECK_IN_CHILD(begun > 1'000'000'000'000 && begun < 1'000'000'100'000);
        CHECK_IN_CHILD(fiber_sleep(FIBER_SEC(3600)) == 0);
        int64_t slept = fiber_now() - begun;
        CHECK_IN_CHILD(slept >= FIBER_SEC(3600) && slept < FIBER_SEC(3600) + FIBER_MSEC(1));
        return 0;
    });
}

TEST(Sim, AFiberThatPollsTheClockComesToAnEnd) {
    SIMULATED_OK({}, [] {
        int64_t until = fiber_now() + FIBER_MSEC(1);
        while (fiber_now() < until) {}
        bool over = false;
        auto body = [&] { over = fiber_sleep(FIBER_MSEC(1)) == 0; };
        fiber_t fiber = spawn(body);
        while (!over) CHECK_IN_CHILD(fiber_reschedule() == 0);
        CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0);
        over = false;
        fiber = spawn(body);
        while (!over) CHECK_IN_CHILD(fiber_reschedule_if_due() == 0);
        CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0);
        return 0;
    });
}

TEST(Sim, TheSameSeedMakesTheSameTraceAndAnotherMakesAnother) {
    Ended first = simulate(seed(5), three_readers), again = simulate(seed(5), three_readers);
    EXPECT_EQ(first.status, 0) << first.output;
    EXPECT_GT(first.trace.size(), 200u);
    EXPECT_EQ(first.trace, again.trace);
    std::set<std::string> traces;
    for (int i = 1; i <= 20; i++) traces.insert(simulate(seed(i), three_readers).trace);
    EXPECT_GT(traces.size(), 5u);
}

// Prints twenty numbers that the simulation chooses.
int twenty_picks() {
    for (int i = 0; i < 20; i++) printf("%d ", int(fiber_sim_pick(10, i % 2 ? 3 : 0)));
    return 0;
}

TEST(Sim, AProgramsOwnChoicesBelongToTheRun) {
    std::set<std::string> outputs;
    for (int i = 1; i <= 10; i++) {
        Ended drawn = simulate(seed(i), twenty_picks), again = simulate(seed(i), twenty_picks);
        EXPECT_EQ(drawn.output, again.output);
        EXPECT_NE(drawn.trace.find("/10 program\n"), std::string::npos) << drawn.trace;
        EXPECT_EQ(simulate({{"FIBERRT_SIM_REPLAY", list_of(drawn.trace)}}, twenty_picks).output, drawn.output);
        outputs.insert(drawn.output);
    }
    EXPECT_GT(outputs.size(), 5u);
    EXPECT_EQ(simulate({{"FIBERRT_SIM_REPLAY", "2:9"}}, twenty_picks).output.substr(0, 8), "0 0 9 0 ");
}

TEST(Sim, AProgramsChoiceIsRefusedWithoutASimulation) {
    SIMULATED_OK({}, [] {
        CHECK_IN_CHILD(fiber_sim_pick(0, 0) == -EINVAL);
        CHECK_IN_CHILD(fiber_sim_pick(1, 0) == 0);
        CHECK_IN_CHILD(fiber_sim_pick(UINT32_MAX, 1) > 0); // never 0, as one in one is another number
        int64_t elsewhere = 0;
        std::thread([&] { elsewhere = fiber_sim_pick(2, 0); }).join();
        CHECK_IN_CHILD(elsewhere == -ENOTSUP);
        return 0;
    });
    auto refused = [] { return fiber_sim_pick(2, 0) == -ENOTSUP && fiber_sim_pick(0, 0) == -EINVAL ? 0 : 1; };
    EXPECT_EQ(simulate({{"FIBERRT_BACKEND", ""}}, refused).status, 0);
    EXPECT_EQ(simulate({{"FIBERRT_SEED", "none"}}, refused).status, 0);
}

TEST(Sim, ATraceIsRepeatedByItsListOfChoices) {
    for (int i = 1; i <= 10; i++) {
        Ended drawn = simulate(seed(i), three_readers);
        Ended repeated = simulate({{"FIBERRT_SIM_REPLAY", list_of(drawn.trace)}}, three_readers);
        EXPECT_EQ(drawn.trace, repeated.trace);
    }
}

TEST(Sim, AListMayComeFromAFile) {
    Ended drawn = simulate(seed(3), three_readers);
    char path[] = "/tmp/fiberrt-sim-test-XXXXXX";
    Descriptor file(mkstemp(path));
    std::string list = list_of(drawn.trace);
    ASSERT_EQ(write(file, list.data(), list.size()), ssize_t(list.size()));
    EXPECT_EQ(simulate({{"FIBERRT_SIM_REPLAY", std::string("@") + path}}, three_readers).trace, drawn.trace);
    ::unlink(path);
}

TEST(Sim, ATraceHoldsNeitherAddressesNorDescriptors) {
    Ended few = simulate(seed(5), three_readers);
    Ended many = simulate(seed(5), [] {
        for (int i = 0; i < 20; i++) CHECK_IN_CHILD(dup(1) >= 0);
        return three_readers();
    });
    EXPECT_EQ(few.trace, many.trace);
    EXPECT_EQ(few.trace.find("0x"), std::string::npos);
}

TEST(Sim, OperationsAreDoneInEveryOrder) { EXPECT_EQ(outputs_of_seeds(100, three_readers).size(), 6u); }

TEST(Sim, TimersOfTheSameTimeFireInEveryOrder) { EXPECT_EQ(outputs_of_seeds(100, three_sleepers).size(), 6u); }

TEST(Sim, ATimerNeverFiresBeforeAnEarlierOne) {
    for (int i = 1; i <= 50; i++) {
        SIMULATED_OK(seed(i), [] {
            std::string order;
            auto late = [&] { fiber_sleep(FIBER_USEC(20)), order += 'b'; };
            auto early = [&] { fiber_sleep(FIBER_USEC(10)), order += 'a'; };
            fiber_t fibers[] = {spawn(late), spawn(early)};
            for (fiber_t fiber : fibers) CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0);
            CHECK_IN_CHILD(order == "ab");
            return 0;
        });
    }
}

TEST(Sim, DescriptorsThatOthersHoldAreRefused) {
    int from_outside[2], to_outside[2], sockets[2];
    ASSERT_EQ(pipe(from_outside), 0);
    ASSERT_EQ(pipe(to_outside), 0);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0); // this process made it
    SIMULATED_OK({}, [&] {
        char byte;
        ::close(from_outside[1]);
        ::close(to_outside[0]);
        CHECK_IN_CHILD(fiber_read(from_outside[0], &byte, 1) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_write(to_outside[1], "x", 1) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_send(sockets[0], "x", 1, 0) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_poll_fd(from_outside[0], POLLIN) == -ENOTSUP);
        int own[2];
        CHECK_IN_CHILD(pipe(own) == 0 && write(own[1], "own", 3) == 3);
        CHECK_IN_CHILD(fiber_splice(from_outside[0], nullptr, own[1], nullptr, 1, 0) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_splice(own[0], nullptr, to_outside[1], nullptr, 1, 0) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_copy(from_outside[0], own[1], 1, nullptr, nullptr) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_copy(own[0], to_outside[1], 1, nullptr, nullptr) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_getdents64(from_outside[0], own, sizeof own) == -ENOTSUP);
        int terminal = posix_openpt(O_RDWR | O_NOCTTY);
        CHECK_IN_CHILD(terminal < 0 || fiber_read(terminal, &byte, 1) == -ENOTSUP);
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        CHECK_IN_CHILD(fiber_read(timer, &byte, 8) == -ENOTSUP);
        int ends[2]; // the kind found for a number does not outlive the descriptor
        CHECK_IN_CHILD(pipe(ends) == 0 && fiber_write(ends[1], "x", 1) == 1 && dup2(to_outside[1], ends[1]) == ends[1]);
        CHECK_IN_CHILD(fiber_write(ends[1], "x", 1) == -ENOTSUP);
        CHECK_IN_CHILD(fiber_open("/dev/tty0", O_RDONLY, 0) < 0);
        sockaddr_in elsewhere = {};
        elsewhere.sin_family = AF_INET;
        elsewhere.sin_port = htons(9);
        elsewhere.sin_addr.s_addr = htonl(0xc0000201); // 192.0.2.1
        int tcp = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_IN_CHILD(fiber_connect(tcp, reinterpret_cast<sockaddr *>(&elsewhere), sizeof elsewhere) == -ENOTSUP);
        sockaddr_storage longer = {};
        memcpy(&longer, &elsewhere, sizeof elsewhere);
        CHECK_IN_CHILD(fiber_connect(tcp, reinterpret_cast<sockaddr *>(&longer), sizeof longer) == -ENOTSUP);
        return 0;
    });
    for (int fd : {from_outside[0], from_outside[1], to_outside[0], to_outside[1], sockets[0], sockets[1]}) ::close(fd);
}

TEST(Sim, DescriptorsThatThisProcessAloneHoldsAreServed) {
    SIMULATED_OK(seed(7), [] {
        char byte = 0, text[3];
        int ends[2], listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_IN_CHILD(pipe(ends) == 0 && fiber_write(ends[1], "p", 1) == 1 && fiber_read(ends[0], &byte, 1) == 1);
        ::close(ends[1]);
        CHECK_IN_CHILD(fiber_read(ends[0], &byte, 1) == 0); // though the other end is gone
        sockaddr_in here = {};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof here;
        CHECK_IN_CHILD(bind(listener, reinterpret_cast<sockaddr *>(&here), length) == 0 && listen(listener, 1) == 0);
        CHECK_IN_CHILD(getsockname(listener, reinterpret_cast<sockaddr *>(&here), &length) == 0);
        int server = -1;
        auto accepting = [&] { server = fiber_accept(listener, nullptr, nullptr); };
        fiber_t fiber = spawn(accepting);
        CHECK_IN_CHILD(fiber_connect(client, reinterpret_cast<sockaddr *>(&here), length) == 0);
        CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0 && server >= 0);
        CHECK_IN_CHILD(fiber_send(client, "tcp", 3, 0) == 3 && fiber_recv(server, text, 3, 0) == 3);
        char name[] = "/tmp/fiberrt-sim-test-XXXXXX";
        int file = mkstemp(name);
        CHECK_IN_CHILD(fiber_write(file, "file", 4) == 4 && fiber_fsync(file) == 0 &&
                       fiber_pread(file, &byte, 1, 2) == 1);
        CHECK_IN_CHILD(byte == 'l' && ::unlink(name) == 0 && fiber_close(file) == 0);
        CHECK_IN_CHILD(fiber_close(server) == 0 && fiber_recv(client, &byte, 1, 0) == 0);
        return 0;
    });
}

TEST(Sim, UnixDatagramsByNameAreServedIfTheNameIsOurs) {
    Descriptor outside(socket(AF_UNIX, SOCK_DGRAM, 0));
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    socklen_t length = sizeof(sa_family_t);
    ASSERT_EQ(bind(outside, reinterpret_cast<sockaddr *>(&name), length), 0); // the kernel finds an abstract name
    length = sizeof name;
    ASSERT_EQ(getsockname(outside, reinterpret_cast<sockaddr *>(&name), &length), 0);
    auto send_there = [&](bool ours) {
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        if (!ours) ::close(outside.release());
        CHECK_IN_CHILD(connect(fd, reinterpret_cast<sockaddr *>(&name), length) == 0);
        CHECK_IN_CHILD(fiber_send(fd, "x", 1, 0) == (ours ? 1 : -ENOTSUP));
        return 0;
    };
    SIMULATED_OK({}, [&] { return send_there(true); });
    SIMULATED_OK({}, [&] { return send_there(false); });
}

TEST(Sim, ASecondThreadIsRefused) {
    SIMULATED_OK({}, [] {
        CHECK_IN_CHILD(fiber_sleep(1) == 0);
        int results[4] = {};
        std::thread([&] {
            fiber_t fiber;
            auto body = [] {};
            results[0] = fiber_spawn(&fiber, entry<decltype(body)>, &body);
            results[1] = fiber_sleep(1);
            results[2] = int(fiber_read(0, nullptr, 0));
            results[3] = fiber_yield();
        }).join();
        for (int result : results) CHECK_IN_CHILD(result == -ENOTSUP);
        return 0;
    });
}

TEST(Sim, ADeadLockIsReportedThoughAnOperationIsUnderWay) {
    for (int i = 1; i <= 20; i++) {
        SIMULATED_OK(seed(i), [] {
            int ends[2];
            char byte;
            CHECK_IN_CHILD(pipe(ends) == 0);
            CHECK_IN_CHILD(fiber_read(ends[0], &byte, 1) == -EDEADLK);
            auto body = [&] { fiber_read(ends[0], &byte, 1); };
            fiber_t fiber = spawn(body);
            CHECK_IN_CHILD(fiber_join(fiber, nullptr) == -EDEADLK);
            CHECK_IN_CHILD(fiber_write(ends[1], "x", 1) == 1 && fiber_join(fiber, nullptr) == 0);
            std::thread([] {}).join(); // not even a thread excuses it
            CHECK_IN_CHILD(fiber_yield() == -EDEADLK);
            return 0;
        });
    }
}

// Not every step is looked at where there are many fibers: then a wakeup may have been taken in between.
TEST(Sim, AWakeupTakenBetweenTwoPollsIsNotLost) {
    SIMULATED_OK(seed(1), [] {
        bool woken = false, taken = false, over = false;
        auto remembers = [&] {
            while (!woken) fiber_reschedule();
            for (int i = 0; i < 5; i++) fiber_reschedule(); // now there are many
            taken = fiber_yield() == 0;
            while (!over) fiber_reschedule();
        };
        fiber_t fiber = spawn(remembers);
        fiber_reschedule();
        CHECK_IN_CHILD(fiber_wakeup(fiber) == 0);
        fiber_reschedule();
        auto waits = [&] {
            while (!over) fiber_reschedule();
        };
        fiber_t many[70];
        for (fiber_t &each : many) each = spawn(waits);
        woken = true;
        while (!taken) fiber_reschedule();
        for (int i = 0; i < 30; i++) fiber_reschedule(); // 72 steps each: some are looked at
        over = true;
        for (fiber_t each : many) CHECK_IN_CHILD(fiber_join(each, nullptr) == 0);
        CHECK_IN_CHILD(fiber_join(fiber, nullptr) == 0);
        return 0;
    });
}

TEST(SimCords, GoOnInEveryOrder) { EXPECT_EQ(outputs_of_seeds(100, three_cords).size(), 6u); }

TEST(SimCords, ATraceIsRepeatedByItsListOfChoices) {
    for (int i = 1; i <= 10; i++) {
        Ended drawn = simulate(seed(i), three_cords);
        EXPECT_EQ(drawn.trace, simulate(seed(i), three_cords).trace);
        EXPECT_EQ(drawn.trace, simulate({{"FIBERRT_SIM_REPLAY", list_of(drawn.trace)}}, three_cords).trace);
        EXPECT_NE(drawn.trace.find("cord 1 goes on"), std::string::npos);
    }
}

TEST(SimCords, AWokenFiberMayGoOnBeforeItsWaker) {
    const std::set<std::string> both = {"ab\n", "ba\n"};
    EXPECT_EQ(outputs_of_seeds(50, [] { return wake_and_go_on(false); }), both);
}

TEST(SimCords, ANoSwitchSectionIsNotInterrupted) {
    EXPECT_EQ(outputs_of_seeds(50, [] { return wake_and_go_on(true); }), std::set<std::string>{"ab\n"});
}

TEST(SimCords, TimePassesForAllWhenNoneCanGoOn) {
    for (int i = 1; i <= 30; i++) {
        SIMULATED_OK(seed(i), [] {
            std::string order;
            auto late = [&] { fiber_sleep(FIBER_SEC(7200)), order += 'b'; };
            auto early = [&] { fiber_sleep(FIBER_SEC(3600)), order += 'a'; };
            const int64_t begun = fiber_now();
            fiber_cord_t cords[] = {cord_of(late), cord_of(early)};
            for (fiber_cord_t cord : cords) CHECK_IN_CHILD(fiber_cord_join(cord, nullptr) == 0);
            CHECK_IN_CHILD(order == "ab");
            CHECK_IN_CHILD(fiber_now() - begun >= FIBER_SEC(7200) && fiber_now() - begun < FIBER_SEC(7201));
            return 0;
        });
    }
}

TEST(SimCords, ADeadLockIsReportedToTheMainFlowOfTheFirst) {
    for (int i = 1; i <= 30; i++) {
        SIMULATED_OK(seed(i), [] {
            int ends[2], told = 1;
            fiber_t other{};
            char byte;
            CHECK_IN_CHILD(pipe(ends) == 0);
            auto yields = [&] {
                other = self();
                told = fiber_yield();
            };
            auto reads = [&] { fiber_read(ends[0], &byte, 1); };
            fiber_cord_t cords[] = {cord_of(yields), cord_of(reads)};
            CHECK_IN_CHILD(fiber_cord_join(cords[0], nullptr) == -EDEADLK);
            CHECK_IN_CHILD(fiber_cord_join(cords[1], nullptr) == -EDEADLK);
            CHECK_IN_CHILD(told == 1 && fiber_wakeup(other) == 0);
            CHECK_IN_CHILD(fiber_cord_join(cords[0], nullptr) == 0 && told == 0);
            CHECK_IN_CHILD(write(ends[1], "x", 1) == 1 && fiber_cord_join(cords[1], nullptr) == 0);
            CHECK_IN_CHILD(fiber_yield() == -EDEADLK);
            return 0;
        });
    }
}

TEST(SimCords, ErrnoAndExceptionsAreEachCordsOwn) {
    for (int i = 1; i <= 20; i++) {
        SIMULATED_OK(seed(i), [] {
            int right = 0;
            auto one = [&](int number) {
                errno = number;
                try {
                    throw number;
                } catch (int) {
                    for (int turn = 0; turn < 5; turn++) fiber_reschedule();
                    try {
                        throw;
                    } catch (int caught) {
                        right += caught == number && errno == number;
                    }
                }
            };
            auto first = [&] { one(1); };
            auto second = [&] { one(2); };
            fiber_cord_t cords[] = {cord_of(first), cord_of(second)};
            one(3);
            for (fiber_cord_t cord : cords) CHECK_IN_CHILD(fiber_cord_join(cord, nullptr) == 0);
            CHECK_IN_CHILD(right == 3);
            return 0;
        });
    }
}

TEST(SimCords, AFiberThatPollsTheClockLetsOthersGoOn) {
    for (int i = 1; i <= 20; i++) {
        SIMULATED_OK(seed(i), [] {
            volatile bool flags[2] = {};
            auto body = [&] {
                flags[0] = true;
                while (!flags[1]) fiber_now();
            };
            fiber_cord_t cord = cord_of(body);
            while (!flags[0]) fiber_now();
            flags[1] = true;
            CHECK_IN_CHILD(fiber_cord_join(cord, nullptr) == 0);
            return 0;
        });
    }
}

TEST(SimCords, GoOnWhenTheFirstThreadHasEnded) {
    for (int i = 1; i <= 20; i++) {
        Ended ended = simulate(seed(i), [] {
            static auto last = [] {
                fiber_sleep(FIBER_SEC(10));
                _exit(7);
            };
            static auto body = [] {
                fiber_sleep(FIBER_SEC(5));
                cord_of(last);
            };
            std::thread([] { cord_of(body); }).join(); // which begins the simulation
            return 1;
        });
        EXPECT_EQ(ended.status, 7) << ended.output;
    }
}

TEST(SimCords, EndlessTurnsOfTwoAreEnded) {
    Ended ended = simulate({{"FIBERRT_SIM_STEPS", "1000"}}, [] {
        auto body = [] {
            for (;;) fiber_now();
        };
        cord_of(body);
        for (;;) fiber_now();
        return 0;
    });
    EXPECT_EQ(ended.status, -SIGABRT);
    EXPECT_NE(ended.output.find("FIBERRT_SIM_STEPS"), std::string::npos) << ended.output;
}

TEST(Sim, FaultsComeByLevel) {
    auto seen = [](const char *level, const std::function<int()> &body) {
        std::string all;
        for (int i = 1; i <= 40; i++) {
            Ended ended = simulate({{"FIBERRT_SEED", std::to_string(i)}, {"FIBERRT_SIM_FAULTS", level}}, body);
            EXPECT_EQ(ended.status, 0) << ended.output;
            all += ended.output + ended.trace;
        }
        return all;
    };
    auto has = [](const std::string &text, const char *what) { return text.find(what) != std::string::npos; };
    std::string none = seen("0", answers_under_faults);
    for (const char *answer : {"short\n", "reset\n", "full\n", "signal", "again", "no_room", "overflow", "doorbell"}) {
        EXPECT_FALSE(has(none, answer)) << answer;
    }
    std::string first = seen("1", answers_under_faults);
    for (const char *answer : {"short\n", "1/2 signal", "1/2 again", "1/2 no_room", "1/2 doorbell"}) {
        EXPECT_TRUE(has(first, answer)) << answer;
    }
    EXPECT_FALSE(has(first, "reset\n") || has(first, "full\n"));
    std::string second = seen("2", answers_under_faults);
    EXPECT_TRUE(has(second, "reset\n") && has(second, "full\n"));
    std::string third = seen("3", fibers_under_want);
    EXPECT_TRUE(has(third, "memory\n") && has(third, "stack\n"));
    EXPECT_FALSE(has(seen("2", fibers_under_want), "\nstack\n"));
}

TEST(Sim, AShortReadIsNotTakenForTheEnd) {
    for (int i = 1; i <= 20; i++) {
        Settings settings = seed(i);
        settings.push_back({"FIBERRT_SIM_FAULTS", "1"});
        SIMULATED_OK(settings, empty_buffers_under_faults);
    }
}

TEST(Sim, BytesBeforeAShutdownComeBeforeTheEnd) {
    for (int i = 1; i <= 20; i++) {
        Settings settings = seed(i);
        settings.push_back({"FIBERRT_SIM_FAULTS", "1"});
        SIMULATED_OK(settings, shutdowns_under_faults);
    }
}

TEST(SimCords, AWakeupBetweenTheDecisionToSleepAndTheSleepIsNotLost) {
    for (int i = 1; i <= 30; i++) SIMULATED_OK(seed(i), wakeups_before_the_sleep);
}

TEST(Sim, ARunThatDoesNotEndIsEnded) {
    Ended ended = simulate({{"FIBERRT_SIM_STEPS", "1000"}}, [] {
        for (;;) fiber_reschedule();
        return 0;
    });
    EXPECT_EQ(ended.status, -SIGABRT);
    EXPECT_NE(ended.output.find("FIBERRT_SIM_STEPS"), std::string::npos) << ended.output;
}

TEST(Sim, TheBackendIsNamedBeforeItBegins) {
    Ended named = simulate(seed(1), [] {
        CHECK_IN_CHILD(fiber_backend_name() == std::string("sim"));
        CHECK_IN_CHILD(::setenv("FIBERRT_SEED", "5", 1) == 0); // read at the first call that needs a cord
        int status = three_readers();
        CHECK_IN_CHILD(fiber_backend_name() == std::string("sim"));
        return status;
    });
    EXPECT_EQ(named.status, 0) << named.output;
    EXPECT_EQ(named.trace, simulate(seed(5), three_readers).trace);
    SIMULATED_OK({}, [] { // it has not begun, and cannot any more
        CHECK_IN_CHILD(::unsetenv("FIBERRT_BACKEND") == 0 && fiber_sleep(1) == 0 &&
                       ::setenv("FIBERRT_BACKEND", "sim", 1) == 0);
        CHECK_IN_CHILD(fiber_backend_name() == std::string("none"));
        return 0;
    });
}

// The environment's answer about the thread comes first, then the memory, then the fork's policy.
TEST(Sim, TheRefusalsOfACordOrPoolHaveTheirOrder) {
    static fiber_cord_t cord;
    static fiber_pool_t pool;
    static auto start_cord = [] {
        return fiber_cord_start(
            &cord, nullptr, [](void *nothing) { return nothing; }, nullptr);
    };
    static auto create_pool = [] { return fiber_pool_create(&pool, nullptr); };
    Ended ended = simulate({{"FIBERRT_SEED", "x"}}, [] {
        pthread_key_t key;
        while (pthread_key_create(&key, nullptr) == 0) continue;
        CHECK_IN_CHILD(start_cord() == -ENOTSUP);
        CHECK_IN_CHILD(create_pool() == -ENOTSUP);
        return 0;
    });
    EXPECT_EQ(ended.status, 0) << ended.output;
    SIMULATED_OK(seed(1), [] {
        CHECK_IN_CHILD(fiber_set_fork_policy(FIBER_FORK_REFUSE) == 0 && fiber_sleep(1) == 0);
        const pid_t child = fork();
        if (child == 0) {
            int here[] = {start_cord(), create_pool()}, elsewhere[2];
            std::thread([&] { elsewhere[0] = start_cord(), elsewhere[1] = create_pool(); }).join();
            const bool refused = here[0] == -EPERM && here[1] == -EPERM;
            _exit(refused && elsewhere[0] == -ENOTSUP && elsewhere[1] == -ENOTSUP ? 42 : 43);
        }
        int status = 0;
        CHECK_IN_CHILD(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_IN_CHILD(WIFEXITED(status) && WEXITSTATUS(status) == 42);
        return 0;
    });
}

TEST(Sim, InvalidSettingsAreRefused) {
    const Settings wrong[] = {{{"FIBERRT_SEED", "x"}},
                              {{"FIBERRT_SIM_FAULTS", "9"}},
                              {{"FIBERRT_SIM_STEPS", "-1"}},
                              {{"FIBERRT_SIM_REPLAY", "1:2,1:3"}},
                              {{"FIBERRT_SIM_REPLAY", "@/nowhere"}},
                              {{"FIBERRT_SIM_REPLAY", "@/"}},
                              {{"FIBERRT_SIM_TRACE", "/nowhere/trace"}}};
    for (const Settings &settings : wrong) {
        Ended ended = simulate(settings, [] { return fiber_sleep(1) == -ENOTSUP ? 0 : 1; });
        EXPECT_EQ(ended.status, 0);
        EXPECT_NE(ended.output.find(settings[0].first), std::string::npos) << ended.output;
    }
    for (const auto &[list, message] :
         {std::pair{"@/nowhere", "cannot read /nowhere: No such file or directory"},
          std::pair{"@/", "cannot read /: Is a directory"}, std::pair{"1:2,", "must be a list of choices"}}) {
        Ended ended = simulate({{"FIBERRT_SIM_REPLAY", list}}, [] { return fiber_sleep(1) == -ENOTSUP ? 0 : 1; });
        EXPECT_NE(ended.output.find(message), std::string::npos) << ended.output;
    }
}
