// SPDX-License-Identifier: MIT OR Apache-2.0
// Admission of guard pages that cost mappings. Counting the mappings of a process means reading the kernel's list of
// them, which takes milliseconds when there are tens of thousands. So each count admits half of the free room, and the
// next count is due when that half is used up. Mappings that the program makes meanwhile show in the next count.
#include "core/mappings.h"

#include "base/mutex.h"
#include "core/backend.h"

#include <atomic>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int64_t usual_limit = 65530;      // the kernel's default, if it cannot be read
constexpr int64_t usual_others = 1024;      // mappings of the program, if they cannot be counted
constexpr int64_t kept_share = 16;          // one in this many of the limit is never taken
constexpr int64_t last_portion = 2048;      // no more room than this is admitted whole
constexpr int64_t pause_ns = 1'000'000'000; // between counts that find no room: each fiber that is refused would count

std::atomic<int64_t> admitted{0}; // mappings that may be taken without a count
std::atomic<int64_t> taken{0};

pthread_mutex_t mappings_mutex = PTHREAD_MUTEX_INITIALIZER; // guards next_count_ns, and lets one thread count at a time
int64_t next_count_ns = 0;

// Relaxed everywhere: no other data depends on these numbers.
bool take_admitted(int64_t count) {
    int64_t have = admitted.load(std::memory_order_relaxed);
    while (have >= count) {
        if (admitted.compare_exchange_weak(have, have - count, std::memory_order_relaxed)) {
            taken.fetch_add(count, std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

// The files of /proc, by system calls: the C library's open is a point of thread cancellation.
int open_to_read(const char* path) { return int(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC)); }
ssize_t read_some(int fd, char* buffer, size_t size) { return syscall(SYS_read, fd, buffer, size); }

// The number of lines of a file; -1: it cannot be read to its end.
int64_t lines_of(const char* path) {
    int fd = open_to_read(path);
    int64_t lines = 0;
    char text[2048]; // on a fiber's stack, which may be small
    ssize_t length = -1;
    while (fd >= 0 && (length = read_some(fd, text, sizeof text)) > 0) {
        for (char* at = text; (at = static_cast<char*>(memchr(at, '\n', size_t(text + length - at)))); at++) lines++;
    }
    if (fd >= 0) syscall(SYS_close, fd);
    return length == 0 ? lines : -1;
}

// Mappings that the process has.
int64_t in_use() {
    int64_t lines = lines_of("/proc/self/maps");
    if (lines == 0) lines = lines_of("/proc/thread-self/maps"); // the process's first thread has ended
    return lines > 0 ? lines : taken.load(std::memory_order_relaxed) + usual_others;
}

// The mappings that could still be admitted, if at most `most` may exist.
int64_t room_of(int64_t most) { return most - most / kept_share - in_use() - admitted.load(std::memory_order_relaxed); }

void admit_more(int64_t wanted) {
    int64_t now = clock_now();
    if (now < next_count_ns) return;
    int64_t room = room_of(mappings_limit());
    if (room < wanted) {
        next_count_ns = now + pause_ns;
    } else {
        admitted.fetch_add(room <= last_portion ? room : room / 2, std::memory_order_relaxed);
    }
}

} // namespace

int64_t mappings_limit() {
    int fd = open_to_read("/proc/sys/vm/max_map_count");
    if (fd < 0) return usual_limit;
    char text[24];
    ssize_t length = read_some(fd, text, sizeof text);
    syscall(SYS_close, fd);
    int64_t number = 0;
    for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++) number = number * 10 + (text[i] - '0');
    return number ? number : usual_limit;
}

bool mappings_take(int64_t count) {
    if (take_admitted(count)) return true;
    MutexGuard guard(mappings_mutex);
    if (take_admitted(count)) return true; // another thread has counted meanwhile
    admit_more(count);
    return take_admitted(count);
}

int64_t mappings_room(int64_t limit) {
    int64_t room = room_of(limit) + admitted.load(std::memory_order_relaxed);
    return room > 0 ? room : 0;
}

void mappings_lock() { pthread_mutex_lock(&mappings_mutex); }
void mappings_unlock() { pthread_mutex_unlock(&mappings_mutex); }

void mappings_give_back(int64_t count) {
    taken.fetch_sub(count, std::memory_order_relaxed);
    admitted.fetch_add(count, std::memory_order_relaxed);
}

} // namespace fiberrt
