// SPDX-License-Identifier: MIT OR Apache-2.0
// Scenarios of docs/posix-calls.md: each is one row of a table there. A scenario makes its calls through `Calls`, so
// that the same code runs with the kernel's own calls in plain threads and with the library's in fibers; io_posix.cc
// runs both and compares the notes of each with the row.
#ifndef FIBERRT_TESTS_CONFORMANCE_IO_POSIX_H
#define FIBERRT_TESTS_CONFORMANCE_IO_POSIX_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <vector>

namespace posix {

// The calls under comparison. Each returns the result of the library's call: -errno for an error.
struct Calls {
    virtual ~Calls() = default;
    virtual int64_t read(int fd, void *buffer, size_t count) = 0;
    virtual int64_t write(int fd, const void *buffer, size_t count) = 0;
    virtual int64_t pread(int fd, void *buffer, size_t count, int64_t offset) = 0;
    virtual int64_t pwrite(int fd, const void *buffer, size_t count, int64_t offset) = 0;
    virtual int64_t readv(int fd, const iovec *iov, int count) = 0;
    virtual int64_t writev(int fd, const iovec *iov, int count) = 0;
    virtual int64_t recv(int fd, void *buffer, size_t count, int flags) = 0;
    virtual int64_t send(int fd, const void *buffer, size_t count, int flags) = 0;
    virtual int64_t recvfrom(int fd, void *buffer, size_t count, int flags, sockaddr *address, socklen_t *length) = 0;
    virtual int64_t sendto(int fd, const void *buffer, size_t count, int flags, const sockaddr *address,
                           socklen_t length) = 0;
    virtual int64_t recvmsg(int fd, msghdr *message, int flags) = 0;
    virtual int64_t sendmsg(int fd, const msghdr *message, int flags) = 0;
    virtual int64_t accept(int fd) = 0;
    virtual int64_t connect(int fd, const sockaddr *address, socklen_t length) = 0;
    virtual int64_t open(const char *path, int flags) = 0;
    virtual int64_t close(int fd) = 0;
    virtual int64_t poll(int fd, int events) = 0; // the events that hold
    virtual int64_t splice(int from, int to, size_t count) = 0;
};

// Texts of results.
std::string bytes(int64_t result);         // "3 bytes", "-EPIPE"
std::string name_of_error(int64_t result); // "0", "-EPIPE"
std::string descriptor(int64_t result);    // "a descriptor", which is closed
std::string events(int64_t result);        // "POLLIN POLLHUP"

// A call that was begun in another thread or fiber. When this goes out of scope, a call that still waits is ended, by a
// signal or by a cancel: so declare the objects that the call uses before it.
class Waiter {
public:
    virtual ~Waiter() = default;
    std::function<std::string(Calls &calls)> body;
    std::string result; // once it has ended
};

// One run of a scenario.
class Trial {
public:
    Trial(const Trial &) = delete;
    Trial &operator=(const Trial &) = delete;
    virtual ~Trial();

    virtual Calls &calls() = 0; // for calls that the scenario makes itself, which must not wait
    // Makes a call in another thread or fiber. body returns the result as text.
    virtual std::unique_ptr<Waiter> begin(std::function<std::string(Calls &calls)> body) = 0;
    // The state of the call: "waits", or its result. Where the row has "waits" as the next outcome, proves that it waits;
    // else gives it time to end.
    virtual std::string state(Waiter &waiter) = 0;
    void outcome(Waiter &waiter) { note(state(waiter)); }
    void note(const std::string &text); // one more of the outcomes that the row lists

    // Descriptors that the trial closes when the scenario has ended. In one of the runs with the library's calls they
    // have O_NONBLOCK.
    int own(int fd, bool for_calls = true);
    void disown(int fd); // the scenario has closed it
    struct Pair {
        int here;  // for the calls,
        int there; // and where the scenario acts by plain system calls
    };
    Pair pair(int type);                                                         // of unix sockets
    Pair tcp();                                                                  // a connection
    int listener(sockaddr_storage *address, socklen_t *length, int backlog = 8); // tcp, on a free port
    Pair udp();                                                                  // two sockets connected to each other
    Pair pipe();                                                                 // here: the end to read from

    // The outcome that comes next in the row; empty: it has no more.
    std::string expected() const;
    bool expected_waits() const { return expected() == "waits"; }
    bool nonblocking = false;
    bool by_kernel = false;

    std::vector<std::string> expected_outcomes;
    std::vector<std::string> outcomes;

protected:
    Trial() = default;

private:
    std::vector<int> descriptors_;
};

// How often the scenarios have filled a tcp socket.
extern int tcp_fills;

// A scenario, by the id of a row. Definitions at namespace scope register themselves.
struct Scenario {
    Scenario(std::string id, void (*run)(Trial &trial));
    std::string id;
    void (*run)(Trial &trial);
};

} // namespace posix

#endif
