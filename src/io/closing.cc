// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of descriptors that are being closed, and the requests to the other cords that use one.
#include "io/closing.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "io/op.h"
#include "io/try_op.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constinit pthread_mutex_t closings_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit List<Closing> closings; // under the mutex

// Returns the entry of a descriptor, or null. The caller holds the mutex.
Closing* find(int fd) {
    Closing* closing = closings.front();
    while (closing && closing->fd != fd) closing = closings.after(closing);
    return closing;
}

void come_home(Cord& cord, Message* message) {
    cord.shared.count--;
    wake(cord, static_cast<CloseRequest*>(message), 0);
}

} // namespace

constinit std::atomic<int> closings_listed{0};

bool is_listed_as_closing(int fd) {
    MutexGuard guard(closings_mutex);
    return find(fd);
}

void closings_lock() { pthread_mutex_lock(&closings_mutex); }
void closings_unlock() { pthread_mutex_unlock(&closings_mutex); }
void closings_forked() {
    closings.ends.prev = closings.ends.next = &closings.ends;
    closings_listed.store(0, std::memory_order_relaxed);
}

Closing::Closing(Cord& owner, int number) : cord(owner), fd(number) {
    cord.discard_closings = forget_all;
    MutexGuard guard(closings_mutex);
    if (find(fd)) return;
    closings.push_back(this);
    listed_ = true;
    closings_listed.fetch_add(1, std::memory_order_seq_cst);
}

Closing::~Closing() { // coverage: race
    if (!listed_) return;
    MutexGuard guard(closings_mutex);
    forget();
}

// CordWorld::discard_closings: takes the entries of a cord that ends off the list.
void Closing::forget_all(Cord& cord) {
    MutexGuard guard(closings_mutex);
    Closing* next;
    for (Closing* closing = closings.front(); closing; closing = next) {
        next = closings.after(closing);
        if (&closing->cord == &cord) closing->forget();
    }
}

void Closing::forget() {
    unlink();
    listed_ = false;
    closings_listed.fetch_sub(1, std::memory_order_seq_cst);
}

int64_t Closing::close_at_once() {
    Op op(OpCode::close, -1);
    op.offset = uint64_t(fd);
    MutexGuard guard(closings_mutex);
    int64_t result = try_op(op);
    if (result != op_blocking) forget();
    return result;
}

int64_t Closing::close_after_copy(int64_t* result) {
    KeepErrno keep;
    struct stat file;
    bool regular = fstat(fd, &file) == 0 && S_ISREG(file.st_mode); // some file systems write the file out at each close
    int copy = regular ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    MutexGuard guard(closings_mutex);
    bool closed = !regular && close(fd) == 0;
    *result = regular || closed ? 0 : -errno;
    forget();
    return copy >= 0 ? copy : regular ? fd : op_blocking;
}

void uses_ended(CloseRequest* request) {
    request->receive = come_home;
    send(*request->closer, request); // cannot fail: the closer's thread waits for this
}

void end_uses_elsewhere(Cord& here, int fd, void (*end_uses)(Cord& cord, Message* request)) {
    cords.each([&](Cord* cord) {
        if (cord == &here || !uses_of(*cord, fd).load(std::memory_order_seq_cst)) return;
        CloseRequest request;
        request.what = WaitFor::uses;
        request.receive = end_uses;
        request.closer = &here;
        request.fd = fd;
        here.shared.count++;
        if (send(*cord, &request)) {
            park(here, request);
        } else {
            // coverage: race
            here.shared.count--; // the cord has ended, and its uses with it
        }
    });
}

} // namespace fiberrt
