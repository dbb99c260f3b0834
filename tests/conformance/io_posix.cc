// SPDX-License-Identifier: MIT OR Apache-2.0
// docs/posix-calls.md holds: each row is tried with the kernel's own blocking calls in plain threads, and with the
// library's in fibers, on the backend that runs, on descriptors with and without O_NONBLOCK, by fibers with a stack and by
// hosted operations.
//
// "waits" is proven by events. Of a thread: /proc says that it sleeps inside a system call; the kernel makes a thread
// runnable before the call that wakes it returns, so a thread that still sleeps has not been woken. Of a fiber: it is
// still parked after its cord has looked at the kernel several times and slept for a while. A longer sleep could only
// turn a wrong "waits" into a failure, never a right one.
#include "io_posix.h"

#include "conformance.h"
#include "hosted_support.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace support;

namespace posix {

namespace {

std::vector<Scenario> &scenarios() {
    static std::vector<Scenario> all;
    return all;
}

const Scenario *find(const std::string &id) {
    for (const Scenario &scenario : scenarios())
        if (id == scenario.id) return &scenario;
    return nullptr;
}

// ---- The table ------------------------------------------------------------------------------------------------------

struct Row {
    int line = 0;
    std::string id, kernel, uring, ev, why;
    std::string section;
};

void PrintTo(const Row &row, std::ostream *out) { *out << row.id; }

std::string trimmed(const std::string &text) {
    size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
    return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

// The cells of a line of a table; "\|" is a bar within one.
std::vector<std::string> cells_of(const std::string &line) {
    std::vector<std::string> cells(1);
    for (size_t i = 1; i < line.size(); i++) {
        if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|')
            cells.back() += line[++i];
        else if (line[i] == '|')
            cells.emplace_back();
        else
            cells.back() += line[i];
    }
    if (trimmed(cells.back()).empty()) cells.pop_back();
    for (std::string &cell : cells) cell = trimmed(cell);
    return cells;
}

struct Table {
    std::vector<Row> rows;
    std::vector<std::string> mistakes;
};

Table read_table() {
    Table table;
    std::ifstream file(FIBERRT_POSIX_TABLE);
    if (!file) table.mistakes.push_back("it cannot be read");
    std::string line;
    std::string section;
    for (int number = 1; std::getline(file, line); number++) {
        if (line.rfind("## ", 0) == 0) section = line.substr(3);
        if (line.rfind("| `", 0) != 0) continue;
        auto mistake = [&](const std::string &what) {
            table.mistakes.push_back("line " + std::to_string(number) + ": " + what);
        };
        const std::vector<std::string> cells = cells_of(line);
        if (cells.size() != 5) {
            mistake("not five cells");
            continue;
        }
        const size_t end = cells[0].find('`', 1);
        Row row{number, cells[0].substr(1, end - 1), cells[1], cells[2], cells[3], cells[4], section};
        for (std::string *ours : {&row.uring, &row.ev})
            if (*ours == "the same") *ours = row.kernel;
        const bool differs = row.uring != row.kernel || row.ev != row.kernel;
        if (differs == row.why.empty()) mistake(differs ? "it does not say why they differ" : "nothing differs");
        for (const Row &other : table.rows)
            if (other.id == row.id) mistake("the id of line " + std::to_string(other.line));
        table.rows.push_back(row);
    }
    return table;
}

std::vector<std::string> split(const std::string &outcomes) {
    std::vector<std::string> all;
    for (size_t begin = 0;;) {
        const size_t end = outcomes.find(';', begin);
        all.push_back(trimmed(outcomes.substr(begin, end - begin)));
        if (end == std::string::npos) return all;
        begin = end + 1;
    }
}

std::string joined(const std::vector<std::string> &outcomes) {
    std::string all;
    for (const std::string &outcome : outcomes) all += (all.empty() ? "" : "; ") + outcome;
    return all;
}

// ---- The kernel's calls, in threads ---------------------------------------------------------------------------------

constexpr int64_t LIMIT_NS = FIBER_SEC(20); // the time within which the outcome of the row must have come

int64_t answer(int64_t result) { return result < 0 ? -errno : result; }

struct KernelCalls : Calls {
    int64_t read(int fd, void *buffer, size_t count) override { return answer(::read(fd, buffer, count)); }
    int64_t write(int fd, const void *buffer, size_t count) override { return answer(::write(fd, buffer, count)); }
    int64_t pread(int fd, void *buffer, size_t count, int64_t offset) override {
        return answer(::pread(fd, buffer, count, offset));
    }
    int64_t pwrite(int fd, const void *buffer, size_t count, int64_t offset) override {
        return answer(::pwrite(fd, buffer, count, offset));
    }
    int64_t readv(int fd, const iovec *iov, int count) override { return answer(::readv(fd, iov, count)); }
    int64_t writev(int fd, const iovec *iov, int count) override { return answer(::writev(fd, iov, count)); }
    int64_t recv(int fd, void *buffer, size_t count, int flags) override {
        return answer(::recv(fd, buffer, count, flags));
    }
    int64_t send(int fd, const void *buffer, size_t count, int flags) override {
        return answer(::send(fd, buffer, count, flags | MSG_NOSIGNAL));
    }
    int64_t recvfrom(int fd, void *buffer, size_t count, int flags, sockaddr *address, socklen_t *length) override {
        return answer(::recvfrom(fd, buffer, count, flags, address, length));
    }
    int64_t sendto(int fd, const void *buffer, size_t count, int flags, const sockaddr *address,
                   socklen_t length) override {
        return answer(::sendto(fd, buffer, count, flags | MSG_NOSIGNAL, address, length));
    }
    int64_t recvmsg(int fd, msghdr *message, int flags) override { return answer(::recvmsg(fd, message, flags)); }
    int64_t sendmsg(int fd, const msghdr *message, int flags) override {
        return answer(::sendmsg(fd, message, flags | MSG_NOSIGNAL));
    }
    int64_t accept(int fd) override { return answer(::accept(fd, nullptr, nullptr)); }
    int64_t connect(int fd, const sockaddr *address, socklen_t length) override {
        return answer(::connect(fd, address, length));
    }
    int64_t open(const char *path, int flags) override { return answer(::open(path, flags | O_CLOEXEC, 0600)); }
    int64_t close(int fd) override { return answer(::close(fd)); }
    int64_t poll(int fd, int events) override {
        pollfd look = {fd, short(events), 0};
        const int64_t result = answer(::poll(&look, 1, -1));
        return result < 0 ? result : look.revents;
    }
    int64_t splice(int from, int to, size_t count) override {
        return answer(::splice(from, nullptr, to, nullptr, count, 0));
    }
};

// A signal whose handler does nothing, and which no call is restarted after.
constexpr int THE_SIGNAL = SIGUSR2;

// The first word of a file of /proc about a thread.
std::string word_about(pid_t thread, const char *what) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/" + what);
    std::string word;
    file >> word;
    return word;
}

// Whether it sleeps inside a system call, except those for memory or for locks of the C library.
bool sleeps_in_call(pid_t thread) {
    const std::string number = word_about(thread, "syscall");
    return !number.empty() && isdigit(number[0]) && number != std::to_string(SYS_futex);
}

struct ThreadWaiter : Waiter {
    ThreadWaiter() = default;
    ThreadWaiter(const ThreadWaiter &) = delete;
    ThreadWaiter &operator=(const ThreadWaiter &) = delete;
    ~ThreadWaiter() override {
        while (!ended) { // a signal that comes before the call has begun is lost
            pthread_kill(thread.native_handle(), THE_SIGNAL);
            usleep(1000);
        }
        thread.join();
    }
    bool sleeps() const { return id && sleeps_in_call(id); }

    std::atomic<pid_t> id{0};
    std::atomic<bool> ended{false};
    std::thread thread;
};

class KernelTrial : public Trial {
public:
    KernelTrial() {
        by_kernel = true;
        struct sigaction handler = {};
        handler.sa_handler = [](int) {};
        sigaction(THE_SIGNAL, &handler, &before_);
    }
    ~KernelTrial() override { sigaction(THE_SIGNAL, &before_, nullptr); }
    Calls &calls() override { return calls_; }
    std::unique_ptr<Waiter> begin(std::function<std::string(Calls &calls)> body) override {
        auto waiter = std::make_unique<ThreadWaiter>();
        waiter->body = std::move(body);
        waiter->thread = std::thread([this, it = waiter.get()] {
            it->id = pid_t(syscall(SYS_gettid));
            it->result = it->body(calls_);
            it->ended = true;
        });
        // The scenario goes on when the call waits or has ended, as it does with a fiber.
        while (!waiter->ended && !waiter->sleeps()) sched_yield();
        return waiter;
    }
    std::string state(Waiter &of) override {
        auto &waiter = static_cast<ThreadWaiter &>(of);
        // The kernel may deliver a little later, by another thread.
        const int64_t limit = fiber_now() + LIMIT_NS;
        while (!waiter.ended && !(expected_waits() ? waiter.sleeps() : fiber_now() > limit)) usleep(100);
        return waiter.ended ? waiter.result : "waits";
    }

private:
    KernelCalls calls_;
    struct sigaction before_ = {};
};

// ---- The library's, in fibers ---------------------------------------------------------------------------------------

struct FiberCalls : Calls {
    int64_t read(int fd, void *buffer, size_t count) override { return fiber_read(fd, buffer, count); }
    int64_t write(int fd, const void *buffer, size_t count) override { return fiber_write(fd, buffer, count); }
    int64_t pread(int fd, void *buffer, size_t count, int64_t offset) override {
        return fiber_pread(fd, buffer, count, offset);
    }
    int64_t pwrite(int fd, const void *buffer, size_t count, int64_t offset) override {
        return fiber_pwrite(fd, buffer, count, offset);
    }
    int64_t readv(int fd, const iovec *iov, int count) override { return fiber_readv(fd, iov, count); }
    int64_t writev(int fd, const iovec *iov, int count) override { return fiber_writev(fd, iov, count); }
    int64_t recv(int fd, void *buffer, size_t count, int flags) override {
        return fiber_recv(fd, buffer, count, flags);
    }
    int64_t send(int fd, const void *buffer, size_t count, int flags) override {
        return fiber_send(fd, buffer, count, flags);
    }
    int64_t recvfrom(int fd, void *buffer, size_t count, int flags, sockaddr *address, socklen_t *length) override {
        return fiber_recvfrom(fd, buffer, count, flags, address, length);
    }
    int64_t sendto(int fd, const void *buffer, size_t count, int flags, const sockaddr *address,
                   socklen_t length) override {
        return fiber_sendto(fd, buffer, count, flags, address, length);
    }
    int64_t recvmsg(int fd, msghdr *message, int flags) override { return fiber_recvmsg(fd, message, flags); }
    int64_t sendmsg(int fd, const msghdr *message, int flags) override { return fiber_sendmsg(fd, message, flags); }
    int64_t accept(int fd) override { return fiber_accept(fd, nullptr, nullptr); }
    int64_t connect(int fd, const sockaddr *address, socklen_t length) override {
        return fiber_connect(fd, address, length);
    }
    int64_t open(const char *path, int flags) override { return fiber_open(path, flags | O_CLOEXEC, 0600); }
    int64_t close(int fd) override { return fiber_close(fd); }
    int64_t poll(int fd, int events) override { return fiber_poll_fd(fd, events); }
    int64_t splice(int from, int to, size_t count) override {
        return fiber_splice(from, nullptr, to, nullptr, count, 0);
    }
};

// Where there is a hosted operation of that kind: by that, in a hosted fiber that the calling one joins.
struct HostedCalls : FiberCalls {
    static int64_t perform(uint32_t code, int fd, const void *address, uint64_t length, int mode) {
        HostedOperation hosted(code, fd, address, length);
        hosted.op.mode = mode;
        if (int error = hosted.start()) return error;
        int joined = fiber_join(hosted.fiber, nullptr);
        if (joined == -ECANCELED) {
            fiber_scope_t shield{};
            EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
            EXPECT_EQ(fiber_cancel(hosted.fiber, nullptr), 0);
            joined = fiber_join(hosted.fiber, nullptr);
            EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
        }
        EXPECT_EQ(joined, 0);
        return hosted.result;
    }

    int64_t read(int fd, void *buffer, size_t count) override { return perform(FIBER_OP_READ, fd, buffer, count, 0); }
    int64_t write(int fd, const void *buffer, size_t count) override {
        return perform(FIBER_OP_WRITE, fd, buffer, count, 0);
    }
    int64_t recv(int fd, void *buffer, size_t count, int flags) override {
        return perform(FIBER_OP_RECV, fd, buffer, count, flags);
    }
    int64_t send(int fd, const void *buffer, size_t count, int flags) override {
        return perform(FIBER_OP_SEND, fd, buffer, count, flags);
    }
    int64_t accept(int fd) override { return perform(FIBER_OP_ACCEPT, fd, nullptr, 0, 0); }
    int64_t connect(int fd, const sockaddr *address, socklen_t length) override {
        return perform(FIBER_OP_CONNECT, fd, address, length, 0);
    }
    int64_t close(int fd) override { return perform(FIBER_OP_CLOSE, fd, nullptr, 0, 0); }
    int64_t poll(int fd, int events) override { return perform(FIBER_OP_POLL, fd, nullptr, 0, events); }
};

struct FiberWaiter : Waiter {
    FiberWaiter() = default;
    FiberWaiter(const FiberWaiter &) = delete;
    FiberWaiter &operator=(const FiberWaiter &) = delete;
    ~FiberWaiter() override {
        if (joined) return;
        fiber_cancel(fiber, nullptr);
        if (fiber_join_timeout(fiber, nullptr, LIMIT_NS) == 0) return;
        fprintf(stderr, "a cancelled call does not end\n"); // and continues to use the caller's memory
        abort();
    }
    bool ended() const { return joined || fiber_state(fiber) == FIBER_DEAD; }
    // Lets the operations that it has begun reach the kernel.
    void look() const {
        for (int looks = 0; looks < 5 && !ended(); looks++) EXPECT_EQ(fiber_sleep(0), 0);
    }
    // Gives it every chance to end: polls, and time for calls that try again at intervals.
    void settle() const {
        look();
        for (int times = 0; times < 10 && !ended(); times++) EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    }

    fiber_t fiber{};
    bool joined = false;
    Calls *calls = nullptr;
};

class FiberTrial : public Trial {
public:
    FiberTrial(bool hosted, bool descriptors_nonblocking) : hosted_(hosted) { nonblocking = descriptors_nonblocking; }
    Calls &calls() override { return hosted_ ? static_cast<Calls &>(hosted_calls_) : fiber_calls_; }
    std::unique_ptr<Waiter> begin(std::function<std::string(Calls &calls)> body) override {
        auto waiter = std::make_unique<FiberWaiter>();
        waiter->body = std::move(body);
        waiter->calls = &calls();
        auto *run_body = +[](void *arg) -> void * {
            auto &it = *static_cast<FiberWaiter *>(arg);
            it.result = it.body(*it.calls);
            return nullptr;
        };
        EXPECT_EQ(fiber_new(&waiter->fiber, nullptr, run_body, waiter.get()), 0);
        EXPECT_EQ(fiber_start(waiter->fiber), 0);
        waiter->look();
        return waiter;
    }
    std::string state(Waiter &of) override {
        auto &waiter = static_cast<FiberWaiter &>(of);
        if (expected_waits())
            waiter.settle();
        else
            waiter.joined = waiter.joined || fiber_join_timeout(waiter.fiber, nullptr, LIMIT_NS) == 0;
        return waiter.ended() ? waiter.result : "waits";
    }

private:
    const bool hosted_;
    FiberCalls fiber_calls_;
    HostedCalls hosted_calls_;
};

} // namespace

// ---- Calls and helpers of the scenarios -----------------------------------------------------------------------------

Scenario::Scenario(std::string name, void (*body)(Trial &trial)) : id(std::move(name)), run(body) {
    scenarios().push_back(*this);
}

std::string name_of_error(int64_t result) {
    static const std::map<int, const char *> names = {
        {EPERM, "EPERM"},
        {EINTR, "EINTR"},
        {EIO, "EIO"},
        {EBADF, "EBADF"},
        {EAGAIN, "EAGAIN"},
        {EMFILE, "EMFILE"},
        {EFBIG, "EFBIG"},
        {ENOMEM, "ENOMEM"},
        {EFAULT, "EFAULT"},
        {EINVAL, "EINVAL"},
        {ENXIO, "ENXIO"},
        {ELOOP, "ELOOP"},
        {EPIPE, "EPIPE"},
        {ESPIPE, "ESPIPE"},
        {ENOTSOCK, "ENOTSOCK"},
        {EMSGSIZE, "EMSGSIZE"},
        {EOPNOTSUPP, "EOPNOTSUPP"},
        {ECONNABORTED, "ECONNABORTED"},
        {ECONNRESET, "ECONNRESET"},
        {ENOBUFS, "ENOBUFS"},
        {EISCONN, "EISCONN"},
        {ENOTCONN, "ENOTCONN"},
        {ETIMEDOUT, "ETIMEDOUT"},
        {ECONNREFUSED, "ECONNREFUSED"},
        {EALREADY, "EALREADY"},
        {EINPROGRESS, "EINPROGRESS"},
        {ECANCELED, "ECANCELED"},
        {EDESTADDRREQ, "EDESTADDRREQ"},
        {ENOTTY, "ENOTTY"},
        {ENOENT, "ENOENT"},
        {EADDRNOTAVAIL, "EADDRNOTAVAIL"},
        {EPROTOTYPE, "EPROTOTYPE"},
    };
    if (result >= 0) return std::to_string(result);
    const auto found = names.find(int(-result));
    return found == names.end() ? std::to_string(result) : std::string("-") + found->second;
}

std::string bytes(int64_t result) {
    if (result < 0) return name_of_error(result);
    return std::to_string(result) + (result == 1 ? " byte" : " bytes");
}

std::string descriptor(int64_t result) {
    if (result < 0) return name_of_error(result);
    ::close(int(result));
    return "a descriptor";
}

std::string events(int64_t result) {
    if (result < 0) return name_of_error(result);
    static constexpr struct {
        int bit;
        const char *name;
    } all[] = {{POLLIN, "POLLIN"},   {POLLPRI, "POLLPRI"}, {POLLOUT, "POLLOUT"},
               {POLLERR, "POLLERR"}, {POLLHUP, "POLLHUP"}, {POLLRDHUP, "POLLRDHUP"}};
    std::string text;
    for (const auto &event : all)
        if (result & event.bit) text += std::string(text.empty() ? "" : " ") + event.name;
    return text;
}

void Trial::note(const std::string &text) { outcomes.push_back(text); }

std::string Trial::expected() const {
    return outcomes.size() < expected_outcomes.size() ? expected_outcomes[outcomes.size()] : "";
}

int Trial::own(int fd, bool for_calls) {
    EXPECT_GE(fd, 0) << strerror(errno);
    if (for_calls && nonblocking) {
        EXPECT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    }
    descriptors_.push_back(fd);
    return fd;
}

void Trial::disown(int fd) { std::erase(descriptors_, fd); }

Trial::~Trial() {
    for (int fd : descriptors_) ::close(fd);
}

Trial::Pair Trial::pair(int type) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    return {own(ends[0]), own(ends[1], false)};
}

int Trial::listener(sockaddr_storage *address, socklen_t *length, int backlog) {
    const int fd = own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind_to_own_address(fd), 0);
    EXPECT_EQ(listen(fd, backlog), 0);
    *length = sizeof *address;
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(address), length), 0);
    return fd;
}

int tcp_fills = 0;

Trial::Pair Trial::tcp() {
    sockaddr_storage address;
    socklen_t length;
    const int listening = listener(&address, &length);
    const int there = own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), false);
    EXPECT_EQ(::connect(there, reinterpret_cast<sockaddr *>(&address), length), 0);
    const int here = own(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    disown(listening);
    ::close(listening);
    return {here, there};
}

Trial::Pair Trial::udp() {
    int ends[2];
    sockaddr_storage addresses[2];
    socklen_t length = 0;
    for (int i = 0; i < 2; i++) {
        ends[i] = own(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), i == 0);
        EXPECT_EQ(bind_to_own_address(ends[i]), 0);
        length = sizeof addresses[i];
        EXPECT_EQ(getsockname(ends[i], reinterpret_cast<sockaddr *>(&addresses[i]), &length), 0);
    }
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(::connect(ends[i], reinterpret_cast<sockaddr *>(&addresses[1 - i]), length), 0);
    return {ends[0], ends[1]};
}

Trial::Pair Trial::pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    return {own(ends[0]), own(ends[1], false)};
}

namespace {

// ---- The tests ------------------------------------------------------------------------------------------------------

// A tcp socket that was full may have room again by itself: the kernel asks the other side now and then, which may have
// enlarged its window. Then the scenario runs again, with a new trial.
template <class MakeTrial>
void expect_outcomes(const Row &row, MakeTrial make_trial, const std::string &expected, const std::string &how) {
    const Scenario *scenario = find(row.id);
    ASSERT_TRUE(scenario) << "no scenario is registered for " << row.id;
    std::string outcomes;
    for (int tries = 0; tries < 5; tries++) {
        const std::unique_ptr<Trial> trial = make_trial();
        trial->expected_outcomes = split(expected);
        const int fills = tcp_fills;
        scenario->run(*trial);
        outcomes = joined(trial->outcomes);
        if (outcomes == expected || tcp_fills == fills) break;
    }
    EXPECT_EQ(outcomes, expected) << FIBERRT_POSIX_TABLE << ":" << row.line << ": " << row.id << ", " << how;
}

// Why a simulation leaves a row out; null: it does not.
const char *left_out_in_simulation(const Row &row) {
    if (row.section != "Sockets") return "is compared with the rows of sockets alone";
    static const std::map<std::string, const char *> rows = {
        {"close_linger", "has one thread, which waits in a close"},
        {"close_linger_over", "has one thread, which waits in a close"},
        {"lowat_parked_tcp", "takes the bytes available without asking for readiness"},
        {"send_own_shut_wr_seqpacket", "sees no shutdown of a full socket for messages"},
        {"send_own_shut_wr_unix_dgram", "sees no shutdown of a full socket for messages"},
        {"send_peer_shut_rd_seqpacket", "sees no shutdown of a full socket for messages"},
    };
    const auto found = rows.find(row.id);
    return found == rows.end() ? nullptr : found->second;
}

class PosixCalls : public testing::TestWithParam<Row> {};

TEST_P(PosixCalls, FollowsItsRow) {
    const Row &row = GetParam();
    if (const char *why = left_out_in_simulation(row)) {
        NOT_ON_SIM(<< why);
    }
    if (row.id.rfind("positions_", 0) == 0) {
        NOT_UNDER_QEMU("itself decides whether a transfer takes a position");
    }
    if (!simulated()) {
        expect_outcomes(
            row, [] { return std::make_unique<KernelTrial>(); }, row.kernel, "the kernel's calls");
    }
    const std::string &ours = std::string(fiber_backend_name()) == "ev" ? row.ev : row.uring;
    for (const bool hosted : {false, true}) {
        for (const bool nonblocking : {false, true}) {
            const auto make_trial = [&] { return std::make_unique<FiberTrial>(hosted, nonblocking); };
            expect_outcomes(row, make_trial, ours,
                            std::string(hosted ? "hosted operations" : "fibers") +
                                (nonblocking ? ", with O_NONBLOCK" : ""));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Row, PosixCalls, testing::ValuesIn(read_table().rows),
                         [](const auto &of) { return of.param.id; });

TEST(PosixTable, EveryRowHasAScenarioAndEveryScenarioARow) {
    const Table table = read_table();
    for (const std::string &mistake : table.mistakes) ADD_FAILURE() << FIBERRT_POSIX_TABLE << ": " << mistake;
    EXPECT_FALSE(table.rows.empty());
    for (const Row &row : table.rows) EXPECT_TRUE(find(row.id)) << row.id << ", line " << row.line;
    for (const Scenario &scenario : scenarios()) {
        EXPECT_TRUE(
            std::any_of(table.rows.begin(), table.rows.end(), [&](const Row &row) { return row.id == scenario.id; }))
            << scenario.id << " is in no row";
    }
}

} // namespace

} // namespace posix
