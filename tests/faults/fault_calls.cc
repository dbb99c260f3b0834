// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions that replace the library's renamed calls: see fault_calls.h. For each function fault_NAME in here
// tests/faults.cmake renames NAME in the library's objects.
#include "fault_calls.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#if FIBERRT_TEST_URING
#include <liburing.h>
#endif
#if FIBERRT_TEST_EV
#include "backend/libev.h"
#endif

extern "C" const char __executable_start;

namespace faults {
namespace {

uint64_t address_of(const void *caller) {
    return reinterpret_cast<uint64_t>(caller) - reinterpret_cast<uint64_t>(&__executable_start);
}

Place &place_at(uint64_t address, Kind kind) {
    for (uint32_t i = uint32_t(address * 2654435761u) % most_places, tries = 0;; i = (i + 1) % most_places) {
        uint64_t there = shared->places[i].address.load();
        if (there == 0 && shared->places[i].address.compare_exchange_strong(there, address)) {
            shared->places[i].kind = kind;
            return shared->places[i];
        }
        if (there == address) return shared->places[i];
        if (++tries == most_places) {
            std::fputs("faults: more places than there is room for\n", stderr);
            std::abort();
        }
    }
}

// Whether this call is the one that is refused. Nothing in here changes errno.
bool refuse(Kind kind, const void *caller) {
    if (!shared || shared->over) return false;
    const uint64_t address = address_of(caller);
    Place &place = place_at(address, kind);
    place.calls++;
    shared->calls[int(kind)]++;
    const uint32_t which = shared->which;
    if (!which) return false;
    const uint64_t wanted = shared->address;
    if (wanted ? wanted != address : shared->kind.load() != kind) return false;
    if (++shared->come != which) return false;
    shared->refused++;
    shared->refused_at = address;
    return true;
}

template <class Result>
Result failed(int error, Result result) {
    errno = error;
    return result;
}

// A header in front of each block records the place that allocated it.
struct Block {
    void *base;
    size_t size;
    std::atomic<int32_t> *held;
    uint64_t mark;
};
constexpr uint64_t mark = 0xfa017b10c4a110c5;
static_assert(sizeof(Block) % 16 == 0);

void *make_block(size_t alignment, size_t size, const void *caller) {
    if (alignment < sizeof(Block)) alignment = sizeof(Block);
    const size_t whole = (alignment + size + alignment - 1) / alignment * alignment;
    if (whole < size) return failed<void *>(ENOMEM, nullptr);
    void *base = aligned_alloc(alignment, whole);
    if (!base) return nullptr;
    auto *memory = static_cast<char *>(base) + alignment;
    std::atomic<int32_t> *place = nullptr;
    if (shared) place = &held[&place_at(address_of(caller), Kind::memory) - shared->places];
    if (place) ++*place;
    const Block block = {base, size, place, mark};
    memcpy(memory - sizeof block, &block, sizeof block);
    return memory;
}

Block block_of(void *memory) {
    Block block;
    memcpy(&block, static_cast<char *>(memory) - sizeof block, sizeof block);
    return block;
}

void free_block(void *memory) {
    if (!memory) return;
    const Block block = block_of(memory);
    if (block.mark != mark) return free(memory); // it was given to the library
    memset(static_cast<char *>(memory) - sizeof block, 0, sizeof block);
    if (block.held) --*block.held;
    free(block.base);
}

} // namespace
} // namespace faults

using faults::failed;
using faults::Kind;
using faults::refuse;

#define HERE __builtin_return_address(0)
// A call that takes its arguments as they come.
#define FAULT(kind, result_type, name, parameters, arguments, refusal) \
    extern "C" result_type fault_##name parameters;                    \
    result_type fault_##name parameters { return refuse(kind, HERE) ? refusal : name arguments; }

#define NO_MEMORY failed<void *>(ENOMEM, nullptr)
#define NO_DESCRIPTOR failed(EMFILE, -1)

// ---- memory

extern "C" {
void *fault_malloc(size_t);
void *fault_calloc(size_t, size_t);
void *fault_realloc(void *, size_t);
void *fault_aligned_alloc(size_t, size_t);
char *fault_strdup(const char *);
void fault_free(void *);
int fault_open(const char *, int, ...);
int fault_fcntl(int, int, ...);
long fault_syscall(long, ...);
void *fault_mmap(void *, size_t, int, int, int, off_t);
int fault_munmap(void *, size_t);
int fault_pthread_setspecific(pthread_key_t, const void *);
}

void *fault_malloc(size_t size) { return refuse(Kind::memory, HERE) ? NO_MEMORY : faults::make_block(16, size, HERE); }

void *fault_calloc(size_t count, size_t size) {
    if (refuse(Kind::memory, HERE) || (size && count > SIZE_MAX / size)) return NO_MEMORY;
    void *memory = faults::make_block(16, count * size, HERE);
    return memory ? memset(memory, 0, count * size) : nullptr;
}

// Always moves the memory: code that keeps the old address is found out.
void *fault_realloc(void *old, size_t size) {
    if (refuse(Kind::memory, HERE)) return NO_MEMORY;
    void *memory = faults::make_block(16, size, HERE);
    if (!memory || !old) return memory;
    const size_t before = faults::block_of(old).size;
    memcpy(memory, old, before < size ? before : size);
    faults::free_block(old);
    return memory;
}

void *fault_aligned_alloc(size_t alignment, size_t size) {
    return refuse(Kind::memory, HERE) ? NO_MEMORY : faults::make_block(alignment, size, HERE);
}

char *fault_strdup(const char *text) {
    if (refuse(Kind::memory, HERE)) return failed<char *>(ENOMEM, nullptr);
    const size_t size = strlen(text) + 1;
    void *memory = faults::make_block(16, size, HERE);
    return memory ? static_cast<char *>(memcpy(memory, text, size)) : nullptr;
}

void fault_free(void *memory) {
    const int before = errno;
    faults::free_block(memory);
    errno = before;
}

// ---- mappings

void *fault_mmap(void *address, size_t size, int rights, int flags, int fd, off_t offset) {
    if (refuse(Kind::mapping, HERE)) return failed<void *>(ENOMEM, MAP_FAILED);
    void *memory = mmap(address, size, rights, flags, fd, offset);
    if (memory != MAP_FAILED) faults::mapped += int64_t(size);
    return memory;
}

int fault_munmap(void *address, size_t size) {
    const int result = munmap(address, size);
    if (result == 0) faults::mapped -= int64_t(size);
    return result;
}

FAULT(Kind::mapping, int, mprotect, (void *low, size_t size, int rights), (low, size, rights), failed(ENOMEM, -1))
FAULT(Kind::mapping, int, madvise, (void *low, size_t size, int advice), (low, size, advice), failed(ENOMEM, -1))

// ---- descriptors

FAULT(Kind::descriptor, int, eventfd, (unsigned count, int flags), (count, flags), NO_DESCRIPTOR)
FAULT(Kind::descriptor, int, timerfd_create, (clockid_t clock, int flags), (clock, flags), NO_DESCRIPTOR)
FAULT(Kind::descriptor, int, epoll_create1, (int flags), (flags), NO_DESCRIPTOR)
FAULT(Kind::descriptor, int, pipe2, (int *ends, int flags), (ends, flags), NO_DESCRIPTOR)
FAULT(Kind::descriptor, int, socket, (int family, int type, int protocol), (family, type, protocol), NO_DESCRIPTOR)
FAULT(Kind::descriptor, int, signalfd, (int fd, const sigset_t *signals, int flags), (fd, signals, flags),
      NO_DESCRIPTOR)
FAULT(Kind::descriptor, DIR *, opendir, (const char *path), (path), failed<DIR *>(EMFILE, nullptr))
FAULT(Kind::descriptor, int, accept4, (int fd, sockaddr *address, socklen_t *length, int flags),
      (fd, address, length, flags), NO_DESCRIPTOR)
FAULT(Kind::descriptor, int, epoll_ctl, (int epoll, int what, int fd, epoll_event *event), (epoll, what, fd, event),
      failed(ENOSPC, -1))

int fault_open(const char *path, int flags, ...) {
    if (refuse(Kind::descriptor, HERE)) return NO_DESCRIPTOR;
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open(path, flags, mode);
}

int fault_fcntl(int fd, int what, ...) {
    if ((what == F_DUPFD || what == F_DUPFD_CLOEXEC) && refuse(Kind::descriptor, HERE)) return NO_DESCRIPTOR;
    va_list rest;
    va_start(rest, what);
    const long argument = va_arg(rest, long);
    va_end(rest);
    return fcntl(fd, what, argument);
}

long fault_syscall(long number, ...) {
    const bool makes_descriptor = number == SYS_openat || number == SYS_openat2 || number == SYS_pidfd_open;
    if (makes_descriptor && refuse(Kind::descriptor, HERE)) return NO_DESCRIPTOR;
    va_list rest;
    va_start(rest, number);
    long a[6];
    for (long &argument : a) argument = va_arg(rest, long);
    va_end(rest);
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// ---- threads, and calls for them and for processes

FAULT(Kind::thread, int, pthread_create,
      (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg), (thread, attr, fn, arg), EAGAIN)
FAULT(Kind::thread, int, pthread_attr_init, (pthread_attr_t * attr), (attr), ENOMEM)
FAULT(Kind::thread, int, pthread_attr_setaffinity_np, (pthread_attr_t * attr, size_t size, const cpu_set_t *set),
      (attr, size, set), ENOMEM)
FAULT(Kind::thread, int, pthread_key_create, (pthread_key_t * key, void (*end)(void *)), (key, end), EAGAIN)
FAULT(Kind::thread, int, pthread_atfork, (void (*before)(), void (*parent)(), void (*child)()), (before, parent, child),
      ENOMEM)
FAULT(Kind::thread, int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * actions), (actions), ENOMEM)
FAULT(Kind::thread, int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t * actions, int from, int to),
      (actions, from, to), ENOMEM)
FAULT(Kind::thread, int, posix_spawn_file_actions_addopen,
      (posix_spawn_file_actions_t * actions, int fd, const char *path, int flags, mode_t mode),
      (actions, fd, path, flags, mode), ENOMEM)
FAULT(Kind::thread, int, posix_spawn_file_actions_addchdir_np, (posix_spawn_file_actions_t * actions, const char *path),
      (actions, path), ENOMEM)
FAULT(Kind::thread, int, posix_spawnattr_init, (posix_spawnattr_t * attr), (attr), ENOMEM)
FAULT(Kind::thread, int, posix_spawnp,
      (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
       char *const *arguments, char *const *environment),
      (pid, file, actions, attr, arguments, environment), EAGAIN)

int fault_pthread_setspecific(pthread_key_t key, const void *value) {
    const bool takes_memory = value && !pthread_getspecific(key); // the first time
    return takes_memory && refuse(Kind::thread, HERE) ? ENOMEM : pthread_setspecific(key, value);
}

// ---- rings, and libev's loops

#if FIBERRT_TEST_URING
FAULT(Kind::ring, int, io_uring_queue_init_params, (unsigned entries, io_uring *ring, io_uring_params *params),
      (entries, ring, params), -ENOMEM)
FAULT(Kind::ring, io_uring_probe *, io_uring_get_probe_ring, (io_uring * ring), (ring), nullptr)
FAULT(Kind::ring, int, io_uring_register_eventfd, (io_uring * ring, int fd), (ring, fd), -ENOMEM)
FAULT(Kind::ring, int, io_uring_register_iowq_max_workers, (io_uring * ring, unsigned *most), (ring, most), -ENOMEM)
FAULT(Kind::ring, int, io_uring_register_ring_fd, (io_uring * ring), (ring), -ENOMEM)
FAULT(Kind::ring, int, io_uring_ring_dontfork, (io_uring * ring), (ring), -ENOMEM)
FAULT(Kind::ring, int, io_uring_submit, (io_uring * ring), (ring), -EAGAIN)
FAULT(Kind::ring, int, io_uring_submit_and_get_events, (io_uring * ring), (ring), -EAGAIN)
FAULT(Kind::ring, int, io_uring_submit_and_wait, (io_uring * ring, unsigned count), (ring, count), -EAGAIN)
FAULT(Kind::ring, int, io_uring_submit_and_wait_timeout,
      (io_uring * ring, io_uring_cqe **cqe, unsigned count, __kernel_timespec *timeout, sigset_t *mask),
      (ring, cqe, count, timeout, mask), -EAGAIN)
#endif
#if FIBERRT_TEST_EV
FAULT(Kind::ring, struct ev_loop *, ev_loop_new, (unsigned flags), (flags), failed<struct ev_loop *>(ENOMEM, nullptr))
#endif
