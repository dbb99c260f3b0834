// SPDX-License-Identifier: MIT OR Apache-2.0
// posix: calls of an adopted program that need not wait.
#include "subject.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

using namespace subject;

namespace {

enum class Caller { plain, thread, fiber }; // not adopted; adopted, by a thread without fibers; adopted, by a fiber

// A call that fails at once, so that the price of the way to it shows.
bool fail() { return ::recv(-1, nullptr, 0, 0) == -1 && errno == EBADF; }

int ends[2];

bool read_ready() {
    char byte = 'x';
    return ::write(ends[0], &byte, 1) == 1 && ::read(ends[1], &byte, 1) == 1;
}

bool receive_ready() {
    char byte = 'x';
    return ::send(ends[0], &byte, 1, 0) == 1 && ::recv(ends[1], &byte, 1, 0) == 1;
}

bool poll_ready() {
    pollfd entry = {ends[0], POLLOUT, 0};
    return ::poll(&entry, 1, 1000) == 1;
}

class Posix {
public:
    Posix(Caller caller, bool (*call)()) : caller_(caller), call_(call) {
        if (!ends[0]) check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "socketpair");
        if (caller != Caller::plain) check(fiber_posix_adopt(nullptr, 0), "fiber_posix_adopt");
        if (caller == Caller::fiber) check(fiber_reschedule(), "fiber_reschedule"); // makes the main flow a fiber
        if (fiber_here() != (caller == Caller::fiber)) throw std::runtime_error("the caller is another one");
    }
    ~Posix() {
        if (caller_ != Caller::plain) fiber_posix_release(nullptr);
    }

    BENCH_EXACT bool run(long rounds) {
        bool ok = true;
        for (long i = 0; i < rounds && ok; i++) ok = call_();
        return ok;
    }

private:
    Caller caller_;
    bool (*call_)();
};

} // namespace

void subject::add_posix() {
    struct {
        const char *name;
        bool (*call)();
    } const calls[] = {{"fail", fail}, {"read", read_ready}, {"receive", receive_ready}, {"poll", poll_ready}};
    for (const auto &one : calls) {
        const std::string name = std::string("posix/") + one.name;
        bench::add<Posix>(name + "-plain", 1, Caller::plain, one.call);
        bench::add<Posix>(name + "-thread", 1, Caller::thread, one.call);
        bench::add<Posix>(name + "-fiber", 1, Caller::fiber, one.call);
    }
}
