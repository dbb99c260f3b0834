// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts and stops traces, and runs the writer's thread.
#include "trace/session.h"

#include "base/c_library.h"
#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/signals.h"
#include "core/begin.h"
#include "core/cord.h"
#include "record/clock.h"
#include "record/recorder.h"
#include "sim/sim.h"
#include "trace/clocks.h"
#include "trace/file_name.h"
#include "trace/probes.h"
#include "trace/story.h"
#include "trace/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <new>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt::trace {

constinit Relaxed<uint32_t> number;

namespace {

constexpr uint32_t slots_default = 1u << 16;
constexpr int64_t rest_least_ns = 5'000'000;    // how long the writer rests after it has found events
constexpr int64_t rest_most_ns = 160'000'000;   // and after it has found none, again and again
constexpr int64_t stop_most_ns = 2'000'000'000; // how long the stop waits for a reader that does not read

constinit pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // protects the variables up to `rings`
Story* story;                                                // null: there is no trace
pthread_t thread;
bool has_thread;
bool opening; // a thread opens the file of the next trace, without the mutex
bool exit_is_watched;
Relaxed<uint32_t> slots; // of each ring. A cord may read it late, for a trace that has ended
uint32_t present;        // the number of the trace

// The figures of the present trace, or of the last one. Any thread may read them.
struct Figures {
    Relaxed<uint64_t> events, dropped, bytes;
    Relaxed<int> error;
} figures;
constinit std::atomic<uint64_t> lost{0}; // events of cords that have no memory for a ring: dropped, too

// The rings of the present trace: cords push theirs, the writer takes out those that have ended.
constinit std::atomic<Ring*> rings{nullptr};

enum Bell : uint32_t { rests, rung, ends };
constinit std::atomic<uint32_t> bell{rung}; // a futex

void ring_bell() {
    uint32_t expected = rests;
    if (!bell.compare_exchange_strong(expected, rung, std::memory_order_acq_rel)) return;
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Takes a ring out of the list. Only the writer does so; cords only push in front.
void take_out(Ring* ring) {
    Ring* first = ring;
    if (rings.compare_exchange_strong(first, ring->next, std::memory_order_acq_rel)) return;
    Ring* before = first;
    while (before->next != ring) before = before->next;
    before->next = ring->next;
}

// The ring with the earliest event; null: no ring has one. *next: the time of the earliest event of the others.
Ring* earliest(uint64_t until, uint64_t* next) {
    Ring* first = nullptr;
    uint64_t first_time = until;
    *next = until;
    for (Ring* ring = rings.load(std::memory_order_acquire); ring; ring = ring->next) {
        if (!ring->has_event() || ring->next_time() > *next) continue;
        uint64_t time = ring->next_time();
        if (first && time >= first_time) {
            *next = time;
        } else {
            if (first) *next = first_time;
            first = ring;
            first_time = time;
        }
    }
    return first;
}

// Takes the events of all cords, in the order of time: a slot of a fiber, say, may go from one cord to another. until:
// later events stay for the next time, because another cord may be about to note an earlier one.
uint64_t take_all(uint64_t until) {
    uint64_t taken = 0;
    uint64_t next;
    TimePair pair = time_pair();
    while (Ring* ring = earliest(until, &next)) {
        while (ring->has_event() && ring->next_time() <= next) {
            char text[text_most + 1];
            Event event = ring->take(text);
            if (ring->session != present) continue; // its cord made it while the trace before this one ended
            taken++;
            story->take(ring->cord, event, time_of_ticks(pair, event.time), text);
        }
        ring->give_back();
    }
    return taken;
}

void count_dropped(Ring* ring) {
    uint64_t dropped = ring->dropped();
    figures.dropped = figures.dropped + (dropped - ring->counted);
    ring->counted = dropped;
}

// Empties the rings, at the end of the trace to the last event. Returns how many events there were.
uint64_t drain_all(bool at_end) {
    uint64_t until = at_end || simulated() ? UINT64_MAX : ticks_now();
    for (Ring* ring = rings.load(std::memory_order_acquire); ring; ring = ring->next) {
        ring->ends = ring->closed();
        ring->look();
    }
    uint64_t taken = take_all(until);
    for (Ring *ring = rings.load(std::memory_order_acquire), *next; ring; ring = next) {
        next = ring->next;
        count_dropped(ring);
        if (!ring->ends || ring->has_event()) continue;
        story->finish(ring->cord, ring->counted);
        take_out(ring);
        ring->leave();
    }
    figures.events = figures.events + taken;
    Packets& packets = story->packets();
    if (!simulated()) packets.flush();
    figures.bytes = packets.out().written();
    figures.error = packets.out().error();
    return taken;
}

void drain_here() { // in a simulation
    KeepErrno keep;
    drain_all(false);
}

void* write_all(void*) {
    pthread_setname_np(pthread_self(), "fiberrt-trace");
    int64_t rest = rest_least_ns;
    while (bell.load(std::memory_order_acquire) != ends) {
        rest = drain_all(false) ? rest_least_ns : rest * 2 > rest_most_ns ? rest_most_ns : rest * 2;
        uint32_t expected = rung;
        bell.compare_exchange_strong(expected, rests, std::memory_order_acq_rel);
        timespec at = {0, rest};
        syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, rests, &at, nullptr, 0);
        expected = rests;
        bell.compare_exchange_strong(expected, rung, std::memory_order_acq_rel);
    }
    return nullptr;
}

void stop_at_exit() { stop(); }

// Makes exit() complete the trace. 0, -ENOMEM.
int exit_watch() {
    if (!exit_is_watched && atexit(stop_at_exit) != 0) return -ENOMEM;
    exit_is_watched = true;
    return 0;
}

// Opens the file, or makes a descriptor of the trace's own. Waits until a FIFO has a reader.
int descriptor_of(const fiber_trace_t& options) {
    int fd;
    if (options.path) {
        char path[PATH_MAX];
        if (int error = file_name(options.path, path, sizeof path)) return error;
        int cancellable; // a pthread_cancel of this thread would leave `opening` set for ever
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
        fd = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
        int error = errno;
        pthread_setcancelstate(cancellable, nullptr);
        errno = error;
    } else {
        fd = fcntl(options.fd, F_DUPFD_CLOEXEC, 3);
    }
    return fd < 0 ? -errno : fd;
}

void figures_reset() {
    figures.events = figures.dropped = figures.bytes = 0;
    figures.error = 0;
    lost.store(0, std::memory_order_relaxed);
}

// Leaves the rings.
void rings_end() {
    Ring* ring = rings.exchange(nullptr, std::memory_order_acq_rel);
    while (ring) {
        Ring* next = ring->next;
        count_dropped(ring);
        story->finish(ring->cord, ring->counted);
        ring->leave();
        ring = next;
    }
}

// Returns the first error of the file.
int story_end() {
    story->close();
    figures.bytes = story->packets().out().written();
    figures.error = story->packets().out().error();
    munmap(story, sizeof *story);
    story = nullptr;
    return figures.error;
}

// Ends the trace; the caller holds the mutex. Cords of other threads may still note events in their rings, until they
// receive the recorder's message: these events are in no trace.
int stop_locked() {
    number = 0;
    tap_close();
    if (has_thread) {
        story->packets().out().hurry(stop_most_ns);
        bell.store(ends, std::memory_order_release);
        syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
        int cancellable; // a pthread_cancel of this thread would leave the trace half stopped for ever
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
        pthread_join(thread, nullptr);
        pthread_setcancelstate(cancellable, nullptr);
        has_thread = false;
    }
    drain_all(true);
    rings_end();
    return story_end();
}

// The caller holds the mutex. at_begin: before the first cord, for the environment variable.
int start_locked(int fd, bool at_begin) {
    void* memory = mmap(nullptr, sizeof(Story), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        close(fd);
        return -ENOMEM;
    }
    story = new (memory) Story;
    if (!++present) present = 1; // zero is no trace
    figures_reset();
    story->open(fd, clocks_now(), simulated());
    bell.store(rung, std::memory_order_relaxed);
    if (simulated()) story->packets().out().hurry(stop_most_ns); // a cord writes, and must not wait for ever
    recorder_ticks_begin();                                      // the thread reads them
    int error = simulated() ? 0 : thread_start(&thread, nullptr, write_all, nullptr);
    if (error) {
        story_end();
        return error;
    }
    has_thread = !simulated();
    number = present; // from here on cords note events
    error = at_begin ? tap_open_at_begin() : tap_open();
    if (error) stop_locked();
    return error;
}

// The number of slots for so many events; 0: they are too few or too many.
uint32_t slots_for(uint32_t events) {
    if (!events) return slots_default;
    if (events < Ring::slots_least || events > Ring::slots_most) return 0;
    uint32_t enough = Ring::slots_least;
    while (enough < events) enough *= 2;
    return enough;
}

int start_at(const fiber_trace_t& options, bool at_begin) {
    uint32_t wanted = slots_for(options.ring_events);
    {
        MutexGuard guard(mutex);
        if (int error = exit_watch()) return error;
        if (story || opening) return -EBUSY;
        if (!wanted) return -EINVAL;
        opening = true;
    }
    int fd = descriptor_of(options); // without the mutex, which a fork, an exit() and other calls take
    MutexGuard guard(mutex);
    opening = false;
    if (fd < 0) return fd;
    slots = wanted;
    return start_locked(fd, at_begin);
}

// FIBERRT_TRACE=file starts a trace before the first cord.
bool start_by_environment() {
    static bool looked; // the core calls this under a lock
    if (looked) return true;
    looked = true;
    simulation_begin(); // a trace of a simulation has its time
    const char* path = secure_getenv("FIBERRT_TRACE");
    if (!path || !*path) return true;
    fiber_trace_t options = {};
    options.path = path;
    int error = start_at(options, true);
    if (error) fprintf(stderr, "fiberrt: FIBERRT_TRACE: cannot write %s: %s\n", path, error_text(-error));
    return true;
}

FIBERRT_INITIALIZER(When::first_cord, start_by_environment);

} // namespace

int start(const fiber_trace_t& options) {
    KeepErrno keep;
    if (!process_begin()) return -ENOMEM;
    if (environment && !environment->admits()) return -ENOTSUP;
    return start_at(options, false);
}

int stop() {
    KeepErrno keep;
    if (environment && !environment->admits()) return -ENOTSUP;
    MutexGuard guard(mutex);
    return story ? stop_locked() : -ESRCH;
}

fiber_trace_stats_t stats() {
    fiber_trace_stats_t now = {};
    now.events = figures.events;
    now.dropped = figures.dropped + lost.load(std::memory_order_relaxed);
    now.bytes = figures.bytes;
    now.error = figures.error;
    now.running = number != 0;
    return now;
}

Ring* ring_make() {
    uint32_t session = number;
    if (!session) return nullptr;
    KeepErrno keep;
    Ring* ring = Ring::make(slots, session, simulated() ? drain_here : ring_bell, simulated());
    if (!ring) {
        lost.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }
    ring->next = rings.load(std::memory_order_relaxed);
    // Release: the writer that finds the ring finds it made.
    while (!rings.compare_exchange_weak(ring->next, ring, std::memory_order_acq_rel)) continue;
    return ring;
}

void lock() {
    pthread_mutex_lock(&mutex);
    probes_lock();
}

void unlock() {
    probes_unlock();
    pthread_mutex_unlock(&mutex);
}

void forked() {
    number = 0;
    opening = false;
    tap_forked();
    if (!story) return;
    for (Ring *ring = rings.exchange(nullptr, std::memory_order_relaxed), *next; ring; ring = next) {
        next = ring->next;
        ring->leave();
    }
    story->discard();
    munmap(story, sizeof *story);
    story = nullptr;
    has_thread = false;
}

} // namespace fiberrt::trace
