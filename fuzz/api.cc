// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `api`: any call of fiberrt.h with any arguments, by fibers of a simulation. The running fiber takes the next
// bytes.
//
// Handles are good, stale, forged and of other kinds; pointers are good or NULL; sizes, flags, times, descriptors and
// counts are anything, except arguments that would only use up the machine (stacks of a gigabyte, thousands of
// threads), that would end the process, or another, as POSIX has it (signals, exit), or that the contract calls
// undefined: memory that is not there or too short, primitives in use that are overwritten.
//
// What must hold: nothing crashes or hangs; a result below 0 is an errno that fiber_strerror knows; errno is unchanged;
// a NULL that the contract forbids gives -EINVAL; and when all fibers have been cancelled, all end.
//
// A byte chooses a call by its range or remainder. A new call may change which calls the bytes of a committed input
// make, and that does no harm: the replay of the corpus looks for crashes only, and libFuzzer keeps an input for the
// code that it reaches. After many such changes `./dev fuzz api` finds the lost paths again.
#include "check.h"

#include "fiberrt.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <map>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

// The sanitizers' allocators refuse too large a size, as other allocators do.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace {

struct Trial {
    explicit Trial(Input& bytes) : input(bytes) {}
    Input& input;
    std::vector<uint64_t> fibers, cords, scopes, keys, channels, pools; // good once
    std::vector<fiber_cord_t> started;                                  // not joined
    std::vector<int> fds;                                               // open
    fiber_attr_t* attr = nullptr;
    fiber_cord_attr_t* cord_attr = nullptr;
    fiber_pool_attr_t* pool_attr = nullptr;
    fiber_process_attr_t* process_attr = nullptr;
    unsigned running = 0; // fibers that take bytes
    unsigned made = 0;    // fibers in all
};
Trial* its;
uint64_t main_flow; // must not be cancelled or transferred to: it ends the others

// In static memory: all of it is zero when an input begins, before the objects with a number are made, and no caller waits.
struct Primitives {
    fiber_mutex_t mutex[2];
    fiber_cond_t cond;
    fiber_sem_t sem;
    fiber_event_t event;
    fiber_wg_t group;
    fiber_rwlock_t rwlock;
    fiber_once_t once;
    fiber_barrier_t barrier, unused_barrier;
};
Primitives shared;

// ---- arguments ------------------------------------------------------------------------------------------------------

uint8_t byte() { return its->input.byte(); }
bool one_in(unsigned n) { return byte() % n == 0; }

int number() {
    static const int some[] = {0, 1, 2, -1, 3, 4, 8, 64, 1024, 1025, INT_MAX, INT_MIN, 0x10000, -2, 255, 4096};
    uint8_t which = byte();
    return which & 128 ? which & 127 : some[which % 16];
}

int64_t large() {
    static const int64_t some[] = {0,    1,         -1,    INT64_MAX,       INT64_MIN, INT64_MAX - 1,
                                   1000, 1'000'000, -1000, INT64_C(1) << 32};
    uint8_t which = byte();
    return which & 128 ? which & 127 : some[which % 10];
}

// A time to wait. Within a minute where nothing else would end the wait.
int64_t duration() {
    static const int64_t some[] = {0, 1, 1000, 1'000'000, 1'000'000'000, 60'000'000'000, -1, INT64_MIN};
    return some[byte() % 8];
}
int64_t any_duration() { return one_in(4) ? FIBER_FOREVER : one_in(8) ? INT64_MAX - 1 : duration(); }

size_t bytes_up_to(size_t most) {
    uint8_t which = byte();
    if (which % 16 == 0) return SIZE_MAX - which / 16;
    if (which % 16 == 1) return (SIZE_MAX >> 1) + 1 + which / 16;
    return which % (most + 1);
}

// Of a handle of that kind: one that was given out, one of them changed, of another kind, anything.
uint64_t handle(const std::vector<uint64_t>& kind) {
    uint8_t how = byte();
    uint64_t id = kind.empty() ? 0 : kind[(how >> 3) % kind.size()];
    switch (how & 7) {
    case 0: return how & 8 ? 0 : ~uint64_t(0);
    case 1: return id ^ uint64_t(1) << (byte() & 63);
    case 2: return its->fibers.empty() ? 1 : its->fibers[0];
    case 3: return its->cords.empty() ? 1 : its->cords[0];
    default: return id;
    }
}
fiber_t a_fiber() { return {handle(its->fibers)}; }
fiber_t no_main_flow() { // for calls that would stop it
    fiber_t fiber = a_fiber();
    return {fiber.id == main_flow ? 0 : fiber.id};
}
fiber_cord_t a_cord() { return {handle(its->cords)}; }
fiber_scope_t a_scope() { return {handle(its->scopes)}; }
fiber_key_t a_key() { return {handle(its->keys)}; }
fiber_chan_t a_channel() { return {handle(its->channels)}; }

int a_fd() {
    uint8_t which = byte();
    if (which % 8 == 0) return number() > 2 ? 1'000'000 : -1;
    return its->fds.empty() ? -1 : its->fds[which % its->fds.size()];
}

alignas(16) char memory[256];
template <class T>
T* maybe(T* pointer) {
    return one_in(8) ? nullptr : pointer;
}

const char* a_path() {
    static const char* const some[] = {nullptr, "", "/nonexistent/a", "/dev/null", "/dev/zero", "/proc/self/none",
                                       "/",     "."};
    return some[byte() % 8];
}
// For calls that make or remove files.
const char* no_path() { return one_in(4) ? nullptr : one_in(4) ? "" : "/nonexistent/b"; }

// ---- results --------------------------------------------------------------------------------------------------------

void check(int64_t result, const char* call) {
    if (errno != 77) {
        fprintf(stderr, "%s changed errno to %d\n", call, errno);
        abort();
    }
    if (result >= 0) return;
    if (result < -4095 || strcmp(fiber_strerror(int(result)), "unknown error") == 0) {
        fprintf(stderr, "%s returned %lld, which is no error\n", call, static_cast<long long>(result));
        abort();
    }
}

#define CALL(function, ...)                               \
    do {                                                  \
        errno = 77;                                       \
        check(int64_t(function(__VA_ARGS__)), #function); \
    } while (0)

// The arguments take bytes, in an order that is not the compiler's: one statement each, then the call.
#define RESULT(result, function, ...)    \
    errno = 77;                          \
    auto result = function(__VA_ARGS__); \
    check(int64_t(result), #function)

// ---- the functions that fibers run ----------------------------------------------------------------------------------

void some_calls(unsigned most);

void* calls(void*) {
    if (its->running < 6) {
        its->running++;
        some_calls(40);
        its->running--;
    }
    return nullptr;
}
void* returns(void* arg) { return arg; }
void* yields(void*) {
    fiber_yield();
    return nullptr;
}
void* sleeps(void*) {
    fiber_sleep(1000);
    return nullptr;
}
using Function = void* (*)(void*);
Function a_function() {
    static const Function some[] = {calls, calls, returns, yields, sleeps, nullptr};
    return some[byte() % 6];
}
int64_t ends(void*) { return 0; }
int64_t fails(void*) { return -1; }
int64_t naps(void*) { return fiber_sleep(1000); }
using Child = int64_t (*)(void*);
Child a_child() {
    static const Child some[] = {ends, fails, naps, nullptr};
    return some[byte() % 4];
}
void frees(void*) {}
void applies(void*, void*) {}
int once_fails(void*) { return -EIO; }
int once_naps(void*) { return fiber_sleep(1000) ? 0 : 0; }
void begins(void*, int) {}
int steps(void*, int64_t) { return byte() % 5; }

void note(std::vector<uint64_t>& kind, uint64_t id, int result) {
    if (result == 0 && kind.size() < 200) kind.push_back(id);
}

void open_descriptors() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) its->fds.insert(its->fds.end(), {ends[0], ends[1]});
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0)
        its->fds.insert(its->fds.end(), {ends[0], ends[1]});
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file >= 0) its->fds.push_back(file);
}

void close_one(int fd) {
    CALL(fiber_close, fd);
    for (size_t i = 0; i < its->fds.size(); i++) {
        if (its->fds[i] == fd) its->fds.erase(its->fds.begin() + long(i--));
    }
}

void note_fd(int result) {
    if (result >= 0) its->fds.push_back(result);
}

const fiber_attr_t* an_attr() { return maybe(its->attr); }

// ---- the calls ------------------------------------------------------------------------------------------------------

void call_life() {
    fiber_t fiber{};
    void* pointer = nullptr;
    switch (byte() % 25) {
    case 0:
    case 1: {
        if (its->made > 60) break;
        fiber_t* out = maybe(&fiber);
        auto* attr = an_attr();
        Function function = a_function();
        RESULT(result, fiber_new, out, attr, function, nullptr);
        if (!out || !function) FUZZ_CHECK_EQ(result, -EINVAL);
        note(its->fibers, fiber.id, result);
        its->made++;
        break;
    }
    case 2: {
        if (its->made > 60) break;
        Function function = a_function();
        fiber_t* out = function == returns || function == sleeps ? maybe(&fiber) : &fiber; // else no fiber ends it
        auto* attr = one_in(2) ? an_attr() : nullptr;
        RESULT(result, fiber_spawn_attr, out, attr, function, nullptr);
        if (result == -EINVAL && function && !attr) FUZZ_CHECK(false);
        if (!attr && one_in(2)) CALL(fiber_spawn, nullptr, returns, nullptr);
        if (!function) FUZZ_CHECK_EQ(result, -EINVAL);
        if (out) note(its->fibers, fiber.id, result);
        its->made++;
        break;
    }
    case 3: CALL(fiber_start, a_fiber()); break;
    case 4:
        if (one_in(4)) {
            CALL(fiber_await, a_fiber());
        } else {
            CALL(fiber_join, a_fiber(), &pointer);
        }
        break;
    case 5: {
        fiber_t target = a_fiber();
        int64_t time = any_duration();
        if (one_in(4)) {
            CALL(fiber_await_timeout, target, time);
            break;
        }
        RESULT(result, fiber_join_timeout, target, &pointer, time);
        if (time < 0)
            FUZZ_CHECK(result == -EINVAL || result == -ESRCH || result == -EPERM || result == -ECANCELED ||
                       result == -EINTR || result == -ETIMEDOUT || result == -EDEADLK);
        break;
    }
    case 6: CALL(fiber_detach, no_main_flow()); break;
    case 7: {
        fiber_t* out = maybe(&fiber);
        RESULT(result, fiber_self, out);
        if (!out) FUZZ_CHECK_EQ(result, -EINVAL);
        break;
    }
    case 8: CALL(fiber_state, a_fiber()); break;
    case 9: {
        fiber_t target = a_fiber();
        size_t size = byte();
        char* buffer = maybe(memory);
        RESULT(result, fiber_name, target, buffer, size);
        if (!buffer || !size) FUZZ_CHECK(result < 0);
        break;
    }
    case 10: CALL(fiber_set_name, a_fiber(), maybe("a name that is longer than the library keeps")); break;
    case 11: CALL(fiber_yield); break;
    case 12: CALL(fiber_yield_timeout, any_duration()); break;
    case 13: CALL(fiber_yield_value, maybe(&pointer)); break;
    case 14: CALL(fiber_wakeup, a_fiber()); break;
    case 15: CALL(fiber_wakeup_value, a_fiber(), &pointer); break;
    case 16: CALL(fiber_reschedule); break;
    case 17: CALL(fiber_reschedule_if_due); break;
    case 18: CALL(fiber_transfer, no_main_flow(), nullptr, maybe(&pointer)); break;
    case 19: {
        fiber_t* out = maybe(&fiber);
        CALL(fiber_transferrer, out, maybe(&pointer));
        break;
    }
    case 20: CALL(fiber_sleep, any_duration()); break;
    case 21: {
        int64_t tick = large();
        int64_t period = any_duration();
        CALL(fiber_every, one_in(8) ? nullptr : &tick, period);
        break;
    }
    case 22: CALL(fiber_noswitch_enter); break;
    case 23: CALL(fiber_noswitch_leave); break;
    case 24: CALL(fiber_here); break;
    }
}

void call_scopes() {
    void* pointer = nullptr;
    fiber_t fiber{};
    fiber_scope_t scope{};
    int64_t value = 0;
    switch (byte() % 12) {
    case 0: CALL(fiber_cancel, no_main_flow(), nullptr); break;
    case 1: CALL(fiber_cancelled, maybe(&pointer)); break;
    case 2: CALL(fiber_interrupt, no_main_flow(), nullptr); break;
    case 3: CALL(fiber_interrupted, maybe(&pointer)); break;
    case 4:
    case 5: {
        fiber_scope_t* out = maybe(&scope);
        int64_t time = any_duration();
        unsigned flags = byte() % 20; // one that is shielded ends by its own deadline alone
        if (flags & (FIBER_SCOPE_SHIELD | FIBER_SCOPE_SHIELD_CANCEL)) time = duration();
        RESULT(result, fiber_scope_open, out, time, flags);
        if (!out || time < 0 || flags > 15) FUZZ_CHECK(result < 0);
        note(its->scopes, scope.id, result);
        break;
    }
    case 6: {
        fiber_scope_t in = a_scope();
        fiber_t* out = maybe(&fiber);
        Child child = a_child();
        RESULT(result, fiber_scope_spawn, in, out, child, nullptr);
        if (!child) FUZZ_CHECK(result < 0);
        if (out) note(its->fibers, fiber.id, result);
        break;
    }
    case 7: {
        fiber_scope_t in = a_scope();
        auto* attr = an_attr();
        Child child = a_child();
        CALL(fiber_scope_spawn_attr, in, &fiber, attr, child, nullptr);
        break;
    }
    case 8: {
        fiber_scope_t in = a_scope();
        CALL(fiber_scope_next, in, &fiber, maybe(&value));
        break;
    }
    case 9: CALL(fiber_scope_cancel, a_scope(), nullptr); break;
    case 10: {
        fiber_scope_t in = a_scope();
        CALL(fiber_scope_set_timeout, in, duration());
        break;
    }
    case 11: CALL(fiber_scope_close, a_scope(), maybe(&value)); break;
    }
}

void call_attributes() {
    static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 65536, 262144, (size_t(1) << 30) + 1, SIZE_MAX};
    switch (byte() % 24) {
    case 0:
        if (!its->attr) {
            CALL(fiber_attr_create, &its->attr);
        } else {
            CALL(fiber_attr_create, nullptr);
        }
        break;
    case 1:
        CALL(fiber_attr_destroy, its->attr);
        its->attr = nullptr;
        break;
    case 2: {
        size_t bytes = sizes[byte() % 9];
        CALL(fiber_attr_set_stack_reserve, its->attr, bytes / 256);
        CALL(fiber_attr_set_stack_size, its->attr, bytes);
        CALL(fiber_attr_set_guard_size, its->attr, bytes);
        break;
    }
    case 3: CALL(fiber_attr_set_guard, its->attr, number()); break;
    case 4: CALL(fiber_attr_set_name, its->attr, maybe("name")); break;
    case 5: CALL(fiber_attr_set_detached, its->attr, number()); break;
    case 6: CALL(fiber_attr_set_daemon, its->attr, number()); break;
    case 7: CALL(fiber_attr_set_cord, its->attr, a_cord()); break;
    case 8: CALL(fiber_attr_set_free_arg, its->attr, maybe(frees)); break;
    case 9: CALL(fiber_attr_set_pool, its->attr, fiber_pool_t{handle(its->pools)}); break;
    case 10:
        if (!its->cord_attr) CALL(fiber_cord_attr_create, &its->cord_attr);
        break;
    case 11:
        CALL(fiber_cord_attr_destroy, its->cord_attr);
        its->cord_attr = nullptr;
        break;
    case 12: CALL(fiber_cord_attr_set_name, its->cord_attr, maybe("cord")); break;
    case 13: {
        int cpus[] = {number(), number()};
        CALL(fiber_cord_attr_set_affinity, its->cord_attr, maybe(cpus), byte() % 3u);
        break;
    }
    case 14:
        if (!its->pool_attr) CALL(fiber_pool_attr_create, &its->pool_attr);
        break;
    case 15:
        CALL(fiber_pool_attr_destroy, its->pool_attr);
        its->pool_attr = nullptr;
        break;
    case 16: {
        int count = number();
        CALL(fiber_pool_attr_set_workers, its->pool_attr, count > 2 && count <= 1024 ? 2 : count);
        break;
    }
    case 17:
        CALL(fiber_pool_attr_set_stack_size, its->pool_attr, sizes[byte() % 9]);
        CALL(fiber_pool_attr_set_guard_size, its->pool_attr, sizes[byte() % 9]);
        break;
    case 18: {
        int cpus[] = {number(), number()};
        size_t count = byte() % 3u;
        CALL(fiber_pool_attr_set_affinity, its->pool_attr, maybe(cpus), count, number());
        break;
    }
    case 19: CALL(fiber_pool_attr_set_spin, its->pool_attr, large()); break;
    case 20: CALL(fiber_pool_attr_set_init, its->pool_attr, maybe(begins), nullptr); break;
    case 21:
        CALL(fiber_pool_attr_set_name, its->pool_attr, maybe("pool"));
        CALL(fiber_pool_attr_set_bound_help, its->pool_attr, byte() & 1);
        if (one_in(4)) { // not few: tasks may wait for tasks
            int count = number();
            CALL(fiber_pool_attr_set_task_limit, its->pool_attr, count > 0 && count < INT_MAX / 2 ? count + 64 : count);
        }
        break;
    case 22:
        if (!its->process_attr) CALL(fiber_process_attr_create, &its->process_attr);
        break;
    case 23: {
        int stream = number();
        CALL(fiber_process_attr_set_stream, its->process_attr, stream, number());
        CALL(fiber_process_attr_add_fd, its->process_attr, stream, number());
        CALL(fiber_process_attr_set_session, its->process_attr, stream);
        CALL(fiber_process_attr_set_directory, its->process_attr, maybe("/"));
        CALL(fiber_process_attr_set_group, its->process_attr, number());
        CALL(fiber_process_attr_set_environment, its->process_attr, nullptr);
        CALL(fiber_process_attr_set_mask, its->process_attr, nullptr);
        CALL(fiber_process_attr_set_default_signals, its->process_attr, nullptr);
        break;
    }
    }
}

// Its main flow can be cancelled as other fibers can: while it is bound to a pool, fiber_cord_shutdown refuses the cord.
void* runs_cord(void* function) {
    fiber_t self;
    FUZZ_CHECK_EQ(fiber_self(&self), 0);
    its->fibers.push_back(self.id);
    return reinterpret_cast<Function>(function)(nullptr);
}

void call_cords() {
    fiber_cord_t cord{};
    void* pointer = nullptr;
    switch (byte() % 18) {
    case 0:
    case 1: {
        if (its->started.size() > 2) break;
        fiber_cord_t* out = maybe(&cord);
        auto* attr = maybe(its->cord_attr);
        Function function = a_function();
        RESULT(result, fiber_cord_start, out, attr, function ? runs_cord : nullptr, reinterpret_cast<void*>(function));
        if (!out || !function) FUZZ_CHECK_EQ(result, -EINVAL);
        note(its->cords, cord.id, result);
        if (result == 0) its->started.push_back(cord);
        break;
    }
    case 2: {
        fiber_cord_t target = a_cord();
        CALL(fiber_cord_join_timeout, target, maybe(&pointer), duration());
        break;
    }
    case 3: {
        fiber_cord_t* out = maybe(&cord);
        RESULT(result, fiber_cord_self, out);
        if (!out) FUZZ_CHECK_EQ(result, -EINVAL);
        break;
    }
    case 4: {
        fiber_cord_t target = a_cord();
        size_t size = byte();
        CALL(fiber_cord_name, target, maybe(memory), size);
        break;
    }
    case 5: {
        fiber_cord_t target = a_cord();
        if (!its->cords.empty() && target.id == its->cords[0]) break; // the first one goes on for ever
        int64_t grace = duration();
        CALL(fiber_cord_shutdown, target, grace, duration());
        break;
    }
    case 6: {
        fiber_cord_t target = a_cord();
        Function function = one_in(4) ? nullptr : one_in(2) ? sleeps : returns;
        RESULT(result, fiber_post, target, function, nullptr);
        if (!function) FUZZ_CHECK(result < 0);
        break;
    }
    case 7: {
        if (its->pools.size() > 2) break;
        fiber_pool_t pool{};
        fiber_pool_t* out = maybe(&pool);
        RESULT(result, fiber_pool_create, out, its->pool_attr);
        if (!out) FUZZ_CHECK(result < 0);
        note(its->pools, pool.id, result);
        break;
    }
    case 8: {
        fiber_pool_t pool = {handle(its->pools)};
        Function function = one_in(4) ? nullptr : one_in(2) ? sleeps : returns;
        CALL(fiber_pool_submit, pool, function, nullptr);
        break;
    }
    case 9: {
        fiber_pool_t pool = {handle(its->pools)};
        CALL(fiber_pool_submit_flags, pool, returns, nullptr, unsigned(number()));
        break;
    }
    case 10: CALL(fiber_pool_unbind, fiber_pool_t{handle(its->pools)}); break;
    case 11: CALL(fiber_cord_next_deadline, nullptr); break;
    case 12: {
        int64_t next;
        CALL(fiber_cord_next_deadline, &next);
        break;
    }
    case 13: CALL(fiber_cord_run, duration()); break;
    case 14: CALL(fiber_cord_fd); break; // the library's
    case 15: CALL(fiber_cord_join, a_cord(), maybe(&pointer)); break;
    case 16: {
        fiber_pool_t pool = {handle(its->pools)};
        CALL(fiber_pool_bind, pool);
        CALL(fiber_pool_unbind, pool);
        break;
    }
    case 17: CALL(fiber_pool_close, fiber_pool_t{handle(its->pools)}); break;
    }
}

void call_barrier(int which) {
    fiber_barrier_t* barrier = maybe(&shared.barrier);
    switch (which % 4) {
    case 0: CALL(fiber_barrier_init, one_in(4) ? nullptr : &shared.unused_barrier, large()); break;
    case 1: CALL(fiber_barrier_wait, barrier); break;
    case 2: CALL(fiber_barrier_wait_timeout, barrier, any_duration()); break;
    case 3: CALL(fiber_barrier_destroy, barrier); break;
    }
}

void call_primitives() {
    int which = byte();
    if (which >= 248) return call_barrier(which);
    fiber_mutex_t* mutex = maybe(&shared.mutex[which >> 7]);
    switch (which % 40) {
    case 0: CALL(fiber_mutex_lock, mutex); break;
    case 1: CALL(fiber_mutex_lock_timeout, mutex, any_duration()); break;
    case 2: CALL(fiber_mutex_trylock, mutex); break;
    case 3:
    case 4: CALL(fiber_mutex_unlock, mutex); break;
    case 5: CALL(fiber_mutex_destroy, mutex); break;
    case 6: CALL(fiber_cond_wait, maybe(&shared.cond), mutex); break;
    case 7: {
        int64_t time = any_duration();
        CALL(fiber_cond_wait_timeout, maybe(&shared.cond), mutex, time);
        break;
    }
    case 8: CALL(fiber_cond_signal, maybe(&shared.cond)); break;
    case 9: CALL(fiber_cond_broadcast, maybe(&shared.cond)); break;
    case 10: CALL(fiber_cond_destroy, maybe(&shared.cond)); break;
    case 11: CALL(fiber_sem_wait, maybe(&shared.sem), large()); break;
    case 12: {
        int64_t n = large();
        CALL(fiber_sem_wait_timeout, maybe(&shared.sem), n, any_duration());
        break;
    }
    case 13: CALL(fiber_sem_trywait, maybe(&shared.sem), large()); break;
    case 14:
    case 15: CALL(fiber_sem_post, maybe(&shared.sem), large()); break;
    case 16: CALL(fiber_sem_value, maybe(&shared.sem)); break;
    case 17: CALL(fiber_sem_destroy, maybe(&shared.sem)); break;
    case 18: CALL(fiber_event_wait, maybe(&shared.event)); break;
    case 19: CALL(fiber_event_wait_timeout, maybe(&shared.event), any_duration()); break;
    case 20: CALL(fiber_event_set, maybe(&shared.event)); break;
    case 21: CALL(fiber_event_reset, maybe(&shared.event)); break;
    case 22: CALL(fiber_event_is_set, maybe(&shared.event)); break;
    case 23: CALL(fiber_event_destroy, maybe(&shared.event)); break;
    case 24: CALL(fiber_wg_add, maybe(&shared.group), large()); break;
    case 25: CALL(fiber_wg_done, maybe(&shared.group)); break;
    case 26: CALL(fiber_wg_wait, maybe(&shared.group)); break;
    case 27: CALL(fiber_wg_wait_timeout, maybe(&shared.group), any_duration()); break;
    case 28: CALL(fiber_wg_destroy, maybe(&shared.group)); break;
    case 29: CALL(fiber_rwlock_rdlock, maybe(&shared.rwlock)); break;
    case 30: CALL(fiber_rwlock_wrlock, maybe(&shared.rwlock)); break;
    case 31: CALL(fiber_rwlock_rdlock_timeout, maybe(&shared.rwlock), any_duration()); break;
    case 32: CALL(fiber_rwlock_wrlock_timeout, maybe(&shared.rwlock), any_duration()); break;
    case 33: CALL(fiber_rwlock_tryrdlock, maybe(&shared.rwlock)); break;
    case 34: CALL(fiber_rwlock_trywrlock, maybe(&shared.rwlock)); break;
    case 35:
    case 36: CALL(fiber_rwlock_unlock, maybe(&shared.rwlock)); break;
    case 37: CALL(fiber_rwlock_destroy, maybe(&shared.rwlock)); break;
    case 38: CALL(fiber_once, maybe(&shared.once), maybe(once_fails), nullptr); break;
    case 39: CALL(fiber_once, maybe(&shared.once), maybe(once_naps), nullptr); break;
    }
    if (!mutex && which % 40 < 6) {
        RESULT(result, fiber_mutex_trylock, mutex);
        FUZZ_CHECK(result < 0);
    }
}

void call_channels() {
    char item[16] = {};
    switch (byte() % 12) {
    case 0:
    case 1: {
        static const size_t sizes[] = {0, 1, 8, 16, 17, 4096, 4097, SIZE_MAX};
        static const size_t capacities[] = {0, 1, 4, 100, SIZE_MAX, SIZE_MAX / 8, SIZE_MAX / 16 + 1, 3};
        size_t size = sizes[byte() % 8];
        if (size > sizeof item && size <= 4096) size = sizeof item;
        size_t capacity = capacities[byte() % 8];
        if (its->channels.size() > 20) break;
        fiber_chan_t channel{};
        fiber_chan_t* out = maybe(&channel);
        RESULT(result, fiber_chan_create, out, size, capacity);
        if (!out || size > 4096) FUZZ_CHECK_EQ(result, -EINVAL);
        note(its->channels, channel.id, result);
        break;
    }
    case 2: CALL(fiber_chan_destroy, a_channel()); break;
    case 3: CALL(fiber_chan_close, a_channel()); break;
    case 4: {
        fiber_chan_t channel = a_channel();
        CALL(fiber_chan_count, channel);
        CALL(fiber_chan_capacity, channel);
        CALL(fiber_chan_is_closed, channel);
        break;
    }
    case 5: {
        fiber_chan_t channel = a_channel();
        CALL(fiber_chan_send, channel, maybe(item));
        break;
    }
    case 6: {
        fiber_chan_t channel = a_channel();
        CALL(fiber_chan_recv, channel, maybe(item));
        break;
    }
    case 7: {
        fiber_chan_t channel = a_channel();
        CALL(fiber_chan_send_timeout, channel, item, any_duration());
        break;
    }
    case 8: {
        fiber_chan_t channel = a_channel();
        CALL(fiber_chan_recv_timeout, channel, item, any_duration());
        break;
    }
    case 9: CALL(fiber_chan_try_send, a_channel(), item); break;
    case 10: CALL(fiber_chan_try_recv, a_channel(), item); break;
    case 11: {
        fiber_case_t cases[3];
        memset(cases, 0, sizeof cases);
        int count = number();
        for (fiber_case_t& one : cases) {
            auto* bytes = reinterpret_cast<unsigned char*>(&one);
            switch (byte() % 4) { // a channel, an event or a semaphore, a timer, or none
            case 0: {
                fiber_case_t with = {};
                with.kind = one_in(2) ? FIBER_CASE_SEND : FIBER_CASE_RECV;
                with.chan = a_channel();
                with.item = maybe(item);
                one = with;
                break;
            }
            case 1: {
                fiber_case_t with = {};
                with.kind = FIBER_CASE_JOIN;
                with.fiber = a_fiber();
                one = with;
                break;
            }
            case 2: {
                fiber_case_t with = {};
                with.kind = FIBER_CASE_SCOPE;
                with.scope = a_scope();
                one = with;
                break;
            }
            default: bytes[0] = uint8_t(byte() % 10 == 9 ? 200 : 0); break; // a kind that there is not
            }
        }
        int64_t time = any_duration();
        bool none = count > 3;
        RESULT(result, fiber_select, none ? nullptr : cases, count, time);
        if (none || count < 0) FUZZ_CHECK(result < 0);
        break;
    }
    }
}

void call_io() {
    int fd = a_fd();
    size_t count = bytes_up_to(sizeof memory);
    iovec parts[] = {{memory, 4}, {memory, 0}, {memory + 4, 8}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    sockaddr_storage address = {};
    address.ss_family = sa_family_t(one_in(2) ? AF_UNIX : byte());
    socklen_t length = socklen_t(byte() % (sizeof address + 1));
    int flags = one_in(2) ? 0 : MSG_DONTWAIT;
    switch (byte() % 40) {
    case 0: CALL(fiber_read, fd, maybe(memory), count); break;
    case 1: CALL(fiber_write, fd, maybe(memory), count); break;
    case 2: {
        int many = number();
        CALL(fiber_readv, fd, many > 3 || one_in(8) ? nullptr : parts, many);
        break;
    }
    case 3: {
        int many = number();
        CALL(fiber_writev, fd, many > 3 || one_in(8) ? nullptr : parts, many);
        break;
    }
    case 4: CALL(fiber_pread, fd, memory, count, large()); break;
    case 5: {
        int64_t at = large();
        CALL(fiber_pwrite, fd, memory, count, at > 1'000'000 ? 0 : at);
        break;
    }
    case 6: CALL(fiber_recv, fd, maybe(memory), count, flags); break;
    case 7: CALL(fiber_send, fd, maybe(memory), count, flags); break;
    case 8:
        CALL(fiber_recvmsg, fd, maybe(&message), flags);
        CALL(fiber_recvfrom, fd, memory, count, flags | MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&address), &length);
        break;
    case 9:
        CALL(fiber_sendmsg, fd, maybe(&message), flags);
        CALL(fiber_sendto, fd, memory, count, flags | MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&address), length);
        break;
    case 10: {
        errno = 77;
        int result = fiber_accept(fd, nullptr, nullptr);
        check(result, "fiber_accept");
        note_fd(result);
        break;
    }
    case 11: {
        socklen_t room = sizeof address;
        RESULT(result, fiber_accept4, fd, reinterpret_cast<sockaddr*>(&address), &room, number());
        note_fd(result);
        break;
    }
    case 12: CALL(fiber_connect, fd, maybe(reinterpret_cast<sockaddr*>(&address)), length); break;
    case 13: {
        const char* path = a_path();
        RESULT(result, fiber_open, path, O_CLOEXEC | (one_in(2) ? O_RDONLY : O_RDWR), 0);
        if (!path) FUZZ_CHECK(result < 0);
        note_fd(result);
        break;
    }
    case 14: close_one(fd); break;
    case 15: {
        struct statx status;
        const char* path = a_path();
        int how = number();
        CALL(fiber_statx, fd, path, how, STATX_SIZE, maybe(&status));
        break;
    }
    case 16: CALL(fiber_fsync, fd); break;
    case 17: CALL(fiber_fdatasync, fd); break;
    case 18: CALL(fiber_poll_fd, fd, number()); break;
    case 19: CALL(fiber_openat2, fd, a_path(), nullptr, byte()); break;
    case 20: {
        const char* from = no_path();
        CALL(fiber_renameat2, fd, from, fd, no_path(), unsigned(number()));
        break;
    }
    case 21: {
        const char* from = no_path();
        CALL(fiber_rename, from, no_path());
        break;
    }
    case 22: CALL(fiber_unlinkat, fd, no_path(), number()); break;
    case 23: CALL(fiber_unlink, no_path()); break;
    case 24: CALL(fiber_rmdir, no_path()); break;
    case 25: CALL(fiber_mkdirat, fd, no_path(), 0); break;
    case 26: CALL(fiber_mkdir, no_path(), 0); break;
    case 27: CALL(fiber_getdents64, fd, maybe(memory), byte()); break;
    case 28: {
        int64_t from = large(), to = large();
        if (to > 1'000'000) to = 0;
        int other = a_fd();
        int64_t *in = maybe(&from), *out = maybe(&to);
        CALL(fiber_splice, fd, in, other, out, count, unsigned(number()));
        break;
    }
    case 29: {
        int other = a_fd();
        int64_t written = 0, lost = 0;
        int64_t limit = large();
        if (limit > 4096) limit = 4096;
        CALL(fiber_copy, fd, other, limit, maybe(&written), maybe(&lost));
        break;
    }
    case 30: {
        int passed[] = {fd, -1};
        size_t many = byte();
        CALL(fiber_send_fds, fd, memory, count, many > 2 ? nullptr : passed, many);
        break;
    }
    case 31: {
        int got[4];
        size_t room = byte() % 5;
        int given = 0;
        RESULT(result, fiber_recv_fds, fd, memory, count, got, &room, maybe(&given));
        for (size_t i = 0; result >= 0 && i < room; i++) close(got[i]);
        break;
    }
    case 32: {
        int64_t (*function)(void*) = one_in(8) ? nullptr : one_in(2) ? ends : fails;
        int64_t result_of = 0;
        CALL(fiber_offload, function, nullptr, maybe(&result_of));
        break;
    }
    case 33: {
        int64_t (*function)(void*) = one_in(8) ? nullptr : ends;
        int64_t result_of = 0;
        CALL(fiber_offload_detached, function, nullptr, maybe(frees), maybe(&result_of));
        break;
    }
    case 34: {
        int threads = number();
        CALL(fiber_offload_set_limit, threads > 4 ? 4 : threads);
        break;
    }
    case 35: {
        addrinfo* found = nullptr;
        addrinfo hints = {};
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
        hints.ai_family = number();
        const char* node = one_in(4) ? nullptr : one_in(2) ? "127.0.0.1" : "x";
        const char* service = one_in(4) ? nullptr : one_in(2) ? "80" : "y";
        errno = 77;
        int result = fiber_getaddrinfo(node, service, &hints, maybe(&found)); // EAI_*, too
        FUZZ_CHECK_EQ(errno, 77);
        if (result == 0 && found) freeaddrinfo(found);
        break;
    }
    case 36: {
        static const char* const some[] = {nullptr,           "",     "x", ":", "127.0.0.1", "127.0.0.1:", "[::1",
                                           "127.0.0.1:99999", "unix:"};
        const char* where = some[byte() % 9];
        RESULT(result, fiber_dial, where, number());
        FUZZ_CHECK(result < 0);
        break;
    }
    case 37: CALL(fiber_sigwait, nullptr, nullptr); break;
    case 38: CALL(fiber_process_spawn, nullptr, nullptr, its->process_attr, nullptr, nullptr); break;
    case 39: CALL(fiber_recvmsg, fd, &message, number() & MSG_TRUNC ? MSG_DONTWAIT : 0); break;
    }
}

void call_others() {
    fiber_t fiber{};
    void* pointer = nullptr;
    switch (byte() % 30) {
    case 0:
    case 1: {
        if (its->keys.size() > 10) break;
        fiber_key_t key{};
        fiber_key_t* out = maybe(&key);
        bool ambient = one_in(2);
        auto* destructor = maybe(frees);
        auto* apply = maybe(applies);
        errno = 77;
        int result = ambient ? fiber_key_create_ambient(out, destructor, apply) : fiber_key_create(out, destructor);
        check(result, "fiber_key_create");
        if (!out) FUZZ_CHECK_EQ(result, -EINVAL);
        note(its->keys, key.id, result);
        break;
    }
    case 2: CALL(fiber_key_delete, a_key()); break;
    case 3: {
        errno = 77;
        fiber_key_get(a_key());
        check(0, "fiber_key_get");
        break;
    }
    case 4: CALL(fiber_key_set, a_key(), maybe(memory)); break;
    case 5: {
        alignas(fiber_hooks_t) unsigned char hooks[sizeof(fiber_hooks_t) + 16] = {};
        hooks[sizeof hooks - 1] = byte() & 1; // a member that this library does not know
        if (one_in(2)) reinterpret_cast<fiber_hooks_t*>(hooks)->before_poll = frees;
        size_t size = byte() % (sizeof hooks + 1);
        auto* given = maybe(reinterpret_cast<fiber_hooks_t*>(hooks));
        RESULT(result, fiber_hooks_set, given, size);
        if (given && size % sizeof(void*)) FUZZ_CHECK_EQ(result, -EINVAL);
        break;
    }
    case 6: {
        fiber_t target = a_fiber();
        CALL(fiber_tag_set, target, (fiber_tag_t{one_in(2) ? nullptr : memory, unsigned(number())}));
        break;
    }
    case 7: {
        fiber_tag_t tag;
        fiber_t target = a_fiber();
        fiber_tag_t* out = maybe(&tag);
        RESULT(result, fiber_tag_get, target, out);
        if (!out) FUZZ_CHECK(result < 0);
        break;
    }
    case 8: {
        if (its->made++ > 60) break;
        fiber_t* out = maybe(&fiber);
        auto* attr = an_attr();
        RESULT(result, fiber_hosted_new, out, attr, steps, nullptr);
        if (!out) FUZZ_CHECK_EQ(result, -EINVAL);
        note(its->fibers, fiber.id, result);
        break;
    }
    case 9: CALL(fiber_hosted_user, a_fiber(), maybe(&pointer)); break;
    case 10: CALL(fiber_hosted_end, a_fiber(), nullptr); break;
    case 11: CALL(fiber_hosted_leave); break;
    case 12: {
        fiber_op_t* ops = nullptr;
        fiber_op_t** out = maybe(&ops);
        size_t count = one_in(2) ? byte() : SIZE_MAX >> (byte() % 12); // few, or more than there is memory for
        RESULT(result, fiber_ops_create, out, count);
        if (!out || !count) FUZZ_CHECK_EQ(result, -EINVAL);
        if (count > 255) FUZZ_CHECK(result < 0);
        CALL(fiber_ops_destroy, ops);
        break;
    }
    case 13: {
        fiber_op_t op = {};
        op.code = uint32_t(number());
        op.fiber.id = byte() % 2; // no hosted one
        CALL(fiber_op_start, maybe(&op));
        break;
    }
    case 14: {
        fiber_completion_t out[2];
        int64_t time = duration();
        int most = number();
        if (most > 2) most = 2;
        CALL(fiber_exchange, nullptr, number(), maybe(out), most, time);
        break;
    }
    case 15: {
        fiber_info_t info;
        fiber_t target = a_fiber();
        fiber_info_t* out = maybe(&info);
        CALL(fiber_info, target, out, byte() % (sizeof info + 1));
        break;
    }
    case 16: {
        fiber_stats_t stats;
        fiber_stats_t* out = maybe(&stats);
        CALL(fiber_stats, out, byte() % (sizeof stats + 1));
        break;
    }
    case 17: {
        int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
        CALL(fiber_dump, one_in(8) ? -1 : sink);
        CALL(fiber_metrics_write, one_in(8) ? -1 : sink);
        RESULT(result, fiber_dump_as, one_in(8) ? -1 : sink, byte() % 16u);
        if (result != -EINVAL && result != -EBADF) FUZZ_CHECK(result <= 0);
        close(sink);
        break;
    }
    case 18: CALL(fiber_set_fork_policy, number() ? 0 : number() < 0 ? 0 : 2 + byte()); break;
    case 19:
        errno = 77;
        FUZZ_CHECK(fiber_strerror(number()) && fiber_backend_name() && fiber_version() > 0 && fiber_features());
        FUZZ_CHECK(fiber_now() > 0);
        CALL(fiber_sim_pick, byte(), byte());
        errno = 77;
        check(0, "fiber_strerror");
        break;
    case 20: {
        int verdict = 1;
        int64_t time = duration();
        errno = 77;
        fiber_timeout_block_t block = fiber_timeout_block_open(time, maybe(&verdict));
        check(fiber_reschedule(), "fiber_reschedule");
        fiber_timeout_block_close(&block);
        FUZZ_CHECK_EQ(errno, 77);
        break;
    }
    case 22:
        CALL(fiber_hosted_enter, a_fiber());
        CALL(fiber_hosted_leave);
        break;
    case 23: {
        int status = 0; // of a child; there is no child
        int pid = number();
        RESULT(result, fiber_waitpid, pid, maybe(&status), number());
        FUZZ_CHECK(result < 0);
        break;
    }
    case 24: {
        int on = number();
        CALL(fiber_report_overflows, on);
        CALL(fiber_report_overflows, 0);
        break;
    }
    case 25: {
        fiber_watchdog_t watchdog = {};
        watchdog.limit_ns = large();
        auto* given = maybe(&watchdog);
        RESULT(result, fiber_watchdog_start, given, byte() % (sizeof watchdog + 1));
        FUZZ_CHECK(result < 0); // a watchdog has a thread
        CALL(fiber_watchdog_stop);
        RESULT(agent, fiber_agent_start, maybe("fuzz-agent.sock"));
        FUZZ_CHECK(agent == -ENOTSUP || agent == -EINVAL); // so is an agent
        CALL(fiber_agent_stop);
        RESULT(dumps, fiber_dump_on_signal, number(), -1, byte() % 16u);
        FUZZ_CHECK(dumps < 0); // a thread writes them
        RESULT(asks, fiber_dump_running_signal, number());
        FUZZ_CHECK(asks < 0);
        CALL(fiber_record_creation, byte() % 2);
        const fiber_trace_t trace = {one_in(2) ? "/dev/null" : nullptr, -1, uint32_t(byte()) * 64};
        RESULT(traced, fiber_trace_start, one_in(8) ? nullptr : &trace, byte() % (sizeof trace + 1));
        FUZZ_CHECK(traced <= 0);
        CALL(fiber_trace_begin, maybe("slice"));
        CALL(fiber_trace_counter, maybe("counter"), number());
        CALL(fiber_trace_end);
        fiber_trace_stats_t trace_stats;
        CALL(fiber_trace_stats, one_in(8) ? nullptr : &trace_stats, byte() % (sizeof trace_stats + 1));
        CALL(fiber_trace_stop);
        CALL(fiber_accounting_start);
        fiber_times_t times;
        CALL(fiber_times, a_fiber(), maybe(&times), byte() % (sizeof times + 1));
        fiber_cord_times_t cord_times;
        CALL(fiber_cord_times, a_cord(), maybe(&cord_times), byte() % (sizeof cord_times + 1));
        auto add = [](const fiber_times_sum_t* sum, void* sums) {
            return int(sum->others + ++*static_cast<int*>(sums) < 0);
        };
        int sums = 0;
        CALL(fiber_times_each, byte() % 4, one_in(4) ? nullptr : +add, &sums);
        if (one_in(2)) CALL(fiber_accounting_stop);
        break;
    }
    case 26: {
        // The fuzzer itself is not adopted: its own calls must not wait.
        static const char* const names[] = {"", "libnone.so", "/libnone.so.1"};
        auto name = names[byte() % 3];
        CALL(fiber_posix_adopt, name, unsigned(number()));
        CALL(fiber_posix_release, name);
        auto visit = [](const char*, const char*, void*) { return 1; };
        CALL(fiber_posix_each, one_in(4) ? nullptr : +visit, nullptr);
        break;
    }
    case 27: {
        auto look = [](fiber_t target, void*) {
            fiber_info_t info;
            int result = fiber_info(target, &info, sizeof info);
            if (result == -ESRCH) return 0; // it has ended meanwhile
            void* frames[8];
            int count = fiber_backtrace(target, frames, 1 + info.state);
            fiber_code_frame_t code_frames[2];
            int code_count = fiber_code_frames(target, code_frames, 2);
            return result == 0 && info.id == target.id && count <= 1 + info.state && code_count <= 2 ? 0 : 1;
        };
        auto read = [](fiber_tag_t, int64_t (*copy)(void*, const void*, size_t), fiber_code_frame_t* frames, int) {
            frames[0] = {};
            return copy(&frames[0].line, &frames[0].reserved, sizeof frames[0].line) > 0 ? 1 : 0;
        };
        CALL(fiber_frames_reader_set, byte(), one_in(4) ? nullptr : "fuzz", one_in(4) ? nullptr : +read);
        RESULT(result, fiber_each, one_in(4) ? nullptr : +look, nullptr);
        FUZZ_CHECK(result <= 0);
        break;
    }
    case 28: {
        fiber_stats_t stats;
        fiber_cord_t target = a_cord();
        fiber_stats_t* out = maybe(&stats);
        CALL(fiber_cord_stats, target, out, byte() % (sizeof stats + 1));
        break;
    }
    case 29: {
        fiber_pool_stats_t stats;
        fiber_pool_t target{handle(its->pools)};
        fiber_pool_stats_t* out = maybe(&stats);
        CALL(fiber_pool_stats, target, out, byte() % (sizeof stats + 1));
        break;
    }
    case 21:
        if (one_in(16)) CALL(fiber_exit, memory); // returns to main flows alone, and in no-switch sections
        break;
    }
}

void some_calls(unsigned most) {
    while (most-- && !its->input.done()) {
        uint8_t what = byte();
        switch (what % 16) {
        case 0:
        case 1:
        case 2:
        case 3: call_life(); break;
        case 4:
        case 5: call_scopes(); break;
        case 6: call_attributes(); break;
        case 7:
        case 8: call_cords(); break;
        case 9:
        case 10: call_primitives(); break;
        case 11: call_channels(); break;
        case 12:
        case 13: call_io(); break;
        default: call_others(); break;
        }
    }
    while (fiber_noswitch_leave() == 0) {}
}

void* main_part(void*) {
    its->running++;
    some_calls(~0u);
    its->running--;
    return nullptr;
}

void begin_simulation() {
    if (main_flow) return;
    setenv("FIBERRT_BACKEND", "sim", 1);
    fiber_t self;
    FUZZ_CHECK_EQ(fiber_self(&self), 0);
    FUZZ_CHECK_EQ(strcmp(fiber_backend_name(), "sim"), 0);
    main_flow = self.id;
    signal(SIGPIPE, SIG_IGN); // of fiber_write to pipes, as of write
}

// Cancelled, everything ends: within so much time of the simulation.
void end_all() {
    FUZZ_CHECK_EQ(fiber_hooks_set(nullptr, 0), 0);
    for (int rounds = 0;; rounds++) {
        FUZZ_CHECK(rounds < 1000);
        for (uint64_t id : its->fibers) fiber_cancel(fiber_t{id}, nullptr);
        for (uint64_t id : its->channels) fiber_chan_close(fiber_chan_t{id});
        for (size_t i = 0; i < its->started.size(); i++) {
            fiber_cord_shutdown(its->started[i], 0, FIBER_SEC(1));
            if (fiber_cord_join_timeout(its->started[i], nullptr, FIBER_SEC(100)) == -ETIMEDOUT) continue;
            its->started.erase(its->started.begin() + long(i--));
        }
        for (uint64_t id : its->pools) {
            if (fiber_pool_close(fiber_pool_t{id}) > 0) abort();
        }
        its->pools.clear();
        bool waits = false;
        for (size_t i = 0; i < its->fibers.size(); i++) {
            fiber_t fiber = {its->fibers[i]};
            if (fiber.id == main_flow) continue;
            int state = fiber_state(fiber);
            if (state == FIBER_NEW) fiber_wakeup(fiber);
            if (state < 0) continue;
            int result = fiber_join_timeout(fiber, nullptr, FIBER_SEC(100));
            waits |= result == -ETIMEDOUT || result == -EINTR || (result == -EINVAL && fiber_state(fiber) >= 0);
            fiber_reschedule();
        }
        FUZZ_CHECK_EQ(fiber_sleep(FIBER_SEC(1)), 0);
        if (!waits && its->started.empty()) break;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    begin_simulation();
    Input input(data, size);
    uint8_t begin = input.byte();
    fiberrt::simulation.faults = 0;
    fiberrt::simulation.choices.seed(begin);
    Trial trial(input);
    its = &trial;
    memset(static_cast<void*>(&shared), 0, sizeof shared);
    fiber_cord_t own;
    FUZZ_CHECK_EQ(fiber_cord_self(&own), 0);
    trial.cords.push_back(own.id);
    open_descriptors();
    FUZZ_CHECK_EQ(fiber_sem_init(&shared.sem, begin & 3), 0);
    FUZZ_CHECK_EQ(fiber_event_init(&shared.event, begin >> 6), 0);
    FUZZ_CHECK_EQ(fiber_barrier_init(&shared.barrier, 2), 0);
    for (int i = 0; i < 3; i++) {
        fiber_t fiber;
        FUZZ_CHECK_EQ(fiber_spawn(&fiber, main_part, nullptr), 0);
        trial.fibers.push_back(fiber.id);
    }
    for (int i = 0; i < 20 && !input.done(); i++) FUZZ_CHECK_EQ(fiber_sleep(FIBER_SEC(1)), 0);
    while (!input.done()) input.byte();
    end_all();
    fiber_attr_destroy(trial.attr);
    fiber_cord_attr_destroy(trial.cord_attr);
    fiber_pool_attr_destroy(trial.pool_attr);
    fiber_process_attr_destroy(trial.process_attr);
    for (uint64_t id : trial.channels) fiber_chan_destroy(fiber_chan_t{id});
    for (uint64_t id : trial.keys) fiber_key_delete(fiber_key_t{id});
    for (int fd : trial.fds) close(fd);
    its = nullptr;
    return 0;
}
