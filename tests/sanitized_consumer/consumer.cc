// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that is built with AddressSanitizer or ThreadSanitizer and uses a library that was built without: the
// sanitizer must not report its correct parts, and must report its mistakes. run.sh builds and runs it.
//
//     consumer                  does everything right; ends with "all is well" and 0
//     consumer MISTAKE          makes that mistake, which the sanitizer is to report
//
// The data handed from one thread to another here is plain memory, and only a library call orders the accesses: so
// ThreadSanitizer knows of the order only if the library tells it.
#include <fiberrt.h>

#include <atomic>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define REQUIRE(what)                                                         \
    do {                                                                      \
        if (!(what)) {                                                        \
            fprintf(stderr, "consumer.cc:%d: failed: %s\n", __LINE__, #what); \
            abort();                                                          \
        }                                                                     \
    } while (0)

namespace {

constexpr int64_t patience = FIBER_SEC(120);

template <class F>
void* call(void* f) {
    (*static_cast<F*>(f))();
    return nullptr;
}

template <class F>
int64_t call_child(void* f) {
    (*static_cast<F*>(f))();
    return 0;
}

template <class F>
fiber_t spawn(F& f) {
    fiber_t fiber;
    REQUIRE(fiber_spawn(&fiber, call<F>, &f) == 0);
    return fiber;
}

void join(fiber_t fiber) { REQUIRE(fiber_join(fiber, nullptr) == 0); }

template <class F>
fiber_cord_t start_cord(F& f) {
    fiber_cord_t cord;
    REQUIRE(fiber_cord_start(&cord, nullptr, call<F>, &f) == 0);
    return cord;
}

void join(fiber_cord_t cord) { REQUIRE(fiber_cord_join(cord, nullptr) == 0); }

fiber_pool_t make_pool(int workers) {
    fiber_pool_attr_t* attr;
    REQUIRE(fiber_pool_attr_create(&attr) == 0 && fiber_pool_attr_set_workers(attr, workers) == 0);
    fiber_pool_t pool;
    REQUIRE(fiber_pool_create(&pool, attr) == 0);
    fiber_pool_attr_destroy(attr);
    return pool;
}

// Hides a value from the compiler.
template <class T>
T* opaque(T* p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

// ---- Stacks

// Frames full of arrays, whose red zones lie on the running fiber's stack.
int deep(int depth) {
    int array[32];
    memset(opaque(array), depth, sizeof array);
    if (depth) array[depth % 32] += deep(depth - 1);
    return array[depth % 32];
}

struct Thrown {
    int depth;
};

int throw_at(int depth) {
    int array[16];
    memset(opaque(array), depth, sizeof array);
    if (!depth) throw Thrown{array[0]};
    return throw_at(depth - 1) + array[3];
}

void exit_at(int depth) {
    int array[64];
    memset(opaque(array), depth, sizeof array);
    if (!*opaque(&depth)) fiber_exit(nullptr); // its frames stay as they are
    if (depth >= 0) exit_at(depth - 1);
    memset(opaque(array), 0, sizeof array);
}

jmp_buf back;

void jump_at(int depth) {
    int array[64];
    memset(opaque(array), depth, sizeof array);
    if (!*opaque(&depth)) longjmp(back, 1);
    if (depth >= 0) jump_at(depth - 1);
    memset(opaque(array), 0, sizeof array);
}

void stacks() {
    auto deeply = [] {
        deep(100);
        fiber_reschedule();
        deep(200);
    };
    auto throwing = [] {
        for (int i = 0; i < 3; i++) {
            try {
                throw_at(20);
            } catch (const Thrown&) {
                fiber_reschedule();
            }
        }
    };
    auto exiting = [] { exit_at(30); };
    auto jumping = [] {
        if (setjmp(back) == 0) jump_at(30);
        deep(50);
    };
    // On the same stacks again and again.
    for (int i = 0; i < 50; i++) {
        fiber_t fibers[] = {spawn(deeply), spawn(throwing), spawn(exiting), spawn(deeply)};
        for (fiber_t fiber : fibers) join(fiber);
        join(spawn(jumping));
    }
    // Fibers that use each other's locals, and the main flow's.
    int sum = 0;
    auto adding = [&] {
        int mine = 1;
        auto inner = [&] {
            mine++;
            fiber_reschedule();
            mine++;
        };
        join(spawn(inner));
        sum += mine;
    };
    std::vector<fiber_t> fibers;
    for (int i = 0; i < 100; i++) fibers.push_back(spawn(adding));
    for (fiber_t fiber : fibers) join(fiber);
    REQUIRE(sum == 300);
    // Cancelled ones.
    auto parked = [] {
        int array[100];
        memset(opaque(array), 1, sizeof array);
        REQUIRE(fiber_sleep(patience) == -ECANCELED);
    };
    fibers.clear();
    for (int i = 0; i < 100; i++) fibers.push_back(spawn(parked));
    REQUIRE(fiber_reschedule() == 0);
    for (fiber_t fiber : fibers) REQUIRE(fiber_cancel(fiber, nullptr) == 0);
    for (fiber_t fiber : fibers) join(fiber);
}

// ---- Threads

// One cord's fiber makes a thing, another one's uses it when the call `hand` on the one side and `take` on the other say
// so. It lies in plain memory.
template <class Hand, class Take>
void hand_over(Hand hand, Take take) {
    constexpr int times = 20;
    static int things[times];
    auto giver = [&] {
        for (int i = 0; i < times; i++) {
            things[i] = i;
            hand(i);
        }
    };
    auto taker = [&] {
        for (int i = 0; i < times; i++) {
            take(i);
            things[i]++;
        }
    };
    fiber_cord_t cords[] = {start_cord(taker), start_cord(giver)};
    for (fiber_cord_t cord : cords) join(cord);
    for (int i = 0; i < times; i++) REQUIRE(things[i] == i + 1);
}

void cords() {
    int value = 1;
    auto body = [&] { value++; };
    join(start_cord(body));
    value++;
    // A fiber that is posted.
    fiber_cord_t here;
    REQUIRE(fiber_cord_self(&here) == 0);
    fiber_sem_t posted;
    REQUIRE(fiber_sem_init(&posted, 0) == 0);
    int order = 0;
    auto home = [&] {
        order++;
        REQUIRE(fiber_sem_post(&posted, 1) == 0);
    };
    auto away = [&] {
        order++;
        REQUIRE(fiber_post(here, call<decltype(home)>, &home) == 0);
    };
    for (int i = 0; i < 10; i++) {
        fiber_cord_t other = start_cord(away);
        REQUIRE(fiber_sem_wait(&posted, 1) == 0);
        order++;
        join(other);
    }
    REQUIRE(order == 30);
    // One that is cancelled with a reason, and joined, by another cord's.
    int reason = 0;
    int result = 0;
    auto waiting = [&] {
        REQUIRE(fiber_sleep(patience) == -ECANCELED);
        void* why = nullptr;
        REQUIRE(fiber_cancelled(&why) == 1);
        result = ++*static_cast<int*>(why);
    };
    fiber_t sleeper = spawn(waiting);
    REQUIRE(fiber_reschedule() == 0); // it has begun
    auto canceller = [&] {
        reason = 6;
        REQUIRE(fiber_cancel(sleeper, &reason) == 0);
        REQUIRE(fiber_join(sleeper, nullptr) == 0);
        result++;
    };
    join(start_cord(canceller));
    REQUIRE(result == 8);
    // One that is woken, and one that is interrupted.
    int number = 0;
    auto to_wake = [&] {
        REQUIRE(fiber_yield() == 0);
        number++;
        void* with = nullptr;
        REQUIRE(fiber_sleep(patience) == -EINTR && fiber_interrupted(&with) == 1);
        ++*static_cast<int*>(with);
    };
    fiber_t yielding = spawn(to_wake);
    REQUIRE(fiber_reschedule() == 0);
    auto waker = [&] {
        number = 1;
        REQUIRE(fiber_wakeup(yielding) == 0);
    };
    join(start_cord(waker));
    while (number == 1) REQUIRE(fiber_reschedule() == 0);
    auto interrupter = [&] {
        number++;
        REQUIRE(fiber_interrupt(yielding, &number) == 0);
    };
    join(start_cord(interrupter));
    join(yielding);
    REQUIRE(number == 4);
}

void primitives() {
    static fiber_mutex_t mutex;
    static fiber_cond_t cond;
    static int stage;
    hand_over(
        [](int i) {
            REQUIRE(fiber_mutex_lock(&mutex) == 0);
            stage = i + 1;
            REQUIRE(fiber_cond_signal(&cond) == 0 && fiber_mutex_unlock(&mutex) == 0);
        },
        [](int i) {
            REQUIRE(fiber_mutex_lock(&mutex) == 0);
            while (stage <= i) REQUIRE(fiber_cond_wait(&cond, &mutex) == 0);
            REQUIRE(fiber_mutex_unlock(&mutex) == 0);
        });

    static fiber_sem_t sem;
    REQUIRE(fiber_sem_init(&sem, 0) == 0);
    hand_over([](int) { REQUIRE(fiber_sem_post(&sem, 1) == 0); }, [](int) { REQUIRE(fiber_sem_wait(&sem, 1) == 0); });
    hand_over([](int) { REQUIRE(fiber_sem_post(&sem, 1) == 0); },
              [](int) {
                  while (fiber_sem_trywait(&sem, 1) != 0) REQUIRE(fiber_reschedule() == 0);
              });

    static fiber_event_t events[20];
    for (auto& event : events) REQUIRE(fiber_event_init(&event, FIBER_EVENT_MANUAL) == 0);
    hand_over([](int i) { REQUIRE(fiber_event_set(&events[i]) == 0); },
              [](int i) { REQUIRE(fiber_event_wait(&events[i]) == 0); });
    for (auto& event : events) REQUIRE(fiber_event_init(&event, FIBER_EVENT_MANUAL) == 0);
    hand_over([](int i) { REQUIRE(fiber_event_set(&events[i]) == 0); },
              [](int i) {
                  while (fiber_event_is_set(&events[i]) == 0) REQUIRE(fiber_reschedule() == 0);
              });

    static fiber_wg_t groups[20];
    for (auto& group : groups) REQUIRE(fiber_wg_add(&group, 1) == 0);
    hand_over([](int i) { REQUIRE(fiber_wg_done(&groups[i]) == 1); },
              [](int i) { REQUIRE(fiber_wg_wait(&groups[i]) == 0); });

    static fiber_rwlock_t rwlock;
    static int reached;
    hand_over(
        [](int i) {
            REQUIRE(fiber_rwlock_wrlock(&rwlock) == 0);
            reached = i + 1;
            REQUIRE(fiber_rwlock_unlock(&rwlock) == 0);
        },
        [](int i) {
            for (bool there = false; !there;) {
                REQUIRE(fiber_rwlock_rdlock(&rwlock) == 0);
                there = reached > i;
                REQUIRE(fiber_rwlock_unlock(&rwlock) == 0);
                REQUIRE(fiber_reschedule() == 0);
            }
        });

    static fiber_once_t once;
    static int made;
    auto making = [] {
        auto make = [](void*) {
            made = 7;
            return 0;
        };
        REQUIRE(fiber_once(&once, make, nullptr) == 0 && made == 7);
    };
    fiber_cord_t makers[] = {start_cord(making), start_cord(making), start_cord(making)};
    for (fiber_cord_t maker : makers) join(maker);

    // Contended, and by a thread that has no fibers.
    static fiber_mutex_t crowded;
    static int guarded;
    auto adding = [] {
        for (int i = 0; i < 200; i++) {
            REQUIRE(fiber_mutex_lock(&crowded) == 0);
            guarded++;
            if (i % 16 == 0) sched_yield();
            REQUIRE(fiber_mutex_unlock(&crowded) == 0);
        }
    };
    auto two = [&] {
        fiber_t fibers[] = {spawn(adding), spawn(adding)};
        for (fiber_t fiber : fibers) join(fiber);
    };
    std::thread plain(adding);
    fiber_cord_t adders[] = {start_cord(two), start_cord(two)};
    for (fiber_cord_t adder : adders) join(adder);
    plain.join();
    REQUIRE(guarded == 1000);
}

void channels() {
    static fiber_chan_t chan;
    static fiber_chan_t never;
    for (size_t capacity : {0, 1, 100}) {
        REQUIRE(fiber_chan_create(&chan, sizeof(int), capacity) == 0);
        REQUIRE(fiber_chan_create(&never, sizeof(int), 0) == 0);
        hand_over([](int i) { REQUIRE(fiber_chan_send(chan, &i) == 0); },
                  [](int i) {
                      int got = -1;
                      REQUIRE(fiber_chan_recv(chan, &got) == 0 && got == i);
                  });
        hand_over(
            [](int i) {
                fiber_case_t cases[2] = {};
                cases[0].kind = cases[1].kind = FIBER_CASE_SEND;
                cases[0].chan = never;
                cases[1].chan = chan;
                cases[0].item = cases[1].item = &i;
                REQUIRE(fiber_select(cases, 2, patience) == 1 && cases[1].result == 0);
            },
            [](int i) {
                int got = -1;
                fiber_case_t cases[2] = {};
                cases[0].kind = FIBER_CASE_RECV;
                cases[0].chan = chan;
                cases[0].item = &got;
                cases[1].kind = FIBER_CASE_TIMER;
                cases[1].number = patience;
                REQUIRE(fiber_select(cases, 2, patience) == 0 && cases[0].result == 0 && got == i);
            });
        REQUIRE(fiber_chan_destroy(never) == 0 && fiber_chan_destroy(chan) == 0);
    }
}

// The data that is handed to a task, and that its end hands back.
void pools() {
    for (int round = 0; round < 5; round++) {
        constexpr int tasks = 500;
        static int things[tasks];
        static int numbers[tasks];
        fiber_pool_t pool = make_pool(3);
        auto task = [](void* number) -> void* {
            int i = *static_cast<int*>(number);
            things[i]++;
            if (i % 10 == 0) REQUIRE(fiber_sleep(FIBER_USEC(10)) == 0);
            things[i]++;
            return nullptr;
        };
        auto submitting = [&](int from) {
            for (int i = from; i < tasks; i += 2) {
                things[i] = i;
                numbers[i] = i;
                REQUIRE(fiber_pool_submit(pool, task, &numbers[i]) == 0);
            }
        };
        auto odd = [&] { submitting(1); };
        fiber_cord_t other = start_cord(odd);
        submitting(0);
        join(other);
        REQUIRE(fiber_pool_close(pool) == 0);
        for (int i = 0; i < tasks; i++) REQUIRE(things[i] == i + 2);
    }
    // Tasks that submit others, also of a thread that is bound.
    static fiber_pool_t pool;
    pool = make_pool(2);
    REQUIRE(fiber_pool_bind(pool) == 0);
    static int cells[100];
    auto second = [](void* cell) -> void* {
        ++*static_cast<int*>(cell);
        return nullptr;
    };
    static void* (*const then)(void*) = second;
    auto first = [](void* cell) -> void* {
        ++*static_cast<int*>(cell);
        REQUIRE(fiber_pool_submit(pool, then, cell) == 0);
        return nullptr;
    };
    for (int& cell : cells) {
        cell = 1;
        REQUIRE(fiber_pool_submit(pool, first, &cell) == 0);
    }
    // Children of a scope.
    fiber_scope_t scope;
    REQUIRE(fiber_scope_open(&scope, patience, FIBER_SCOPE_COLLECT) == 0);
    fiber_attr_t* attr;
    REQUIRE(fiber_attr_create(&attr) == 0 && fiber_attr_set_pool(attr, pool) == 0);
    static int results[50];
    auto child = [](void* result) -> int64_t { return ++*static_cast<int*>(result); };
    for (int& result : results) {
        result = 1;
        REQUIRE(fiber_scope_spawn_attr(scope, nullptr, attr, child, &result) == 0);
    }
    fiber_attr_destroy(attr);
    REQUIRE(fiber_scope_close(scope, nullptr) == 0);
    for (int result : results) REQUIRE(result == 2);
    REQUIRE(fiber_pool_unbind(pool) == 0);
    REQUIRE(fiber_pool_close(pool) == 0);
    for (int cell : cells) REQUIRE(cell == 3);
}

// On another cord, of a scope here.
void children() {
    fiber_sem_t ready, over;
    REQUIRE(fiber_sem_init(&ready, 0) == 0 && fiber_sem_init(&over, 0) == 0);
    auto host = [&] { REQUIRE(fiber_sem_post(&ready, 1) == 0 && fiber_sem_wait(&over, 1) == 0); };
    fiber_cord_t other = start_cord(host);
    REQUIRE(fiber_sem_wait(&ready, 1) == 0);
    fiber_attr_t* attr;
    REQUIRE(fiber_attr_create(&attr) == 0 && fiber_attr_set_cord(attr, other) == 0);
    for (int i = 0; i < 10; i++) {
        fiber_scope_t scope;
        REQUIRE(fiber_scope_open(&scope, patience, 0) == 0);
        int value = 1;
        auto body = [&] { value++; };
        REQUIRE(fiber_scope_spawn_attr(scope, nullptr, attr, call_child<decltype(body)>, &body) == 0);
        REQUIRE(fiber_scope_next(scope, nullptr, nullptr) == 1);
        value++;
        REQUIRE(fiber_scope_close(scope, nullptr) == 0 && value == 3);
    }
    fiber_attr_destroy(attr);
    REQUIRE(fiber_sem_post(&over, 1) == 0);
    join(other);
}

// ---- The kernel

bool have_io() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    int64_t written = fiber_write(ends[1], "x", 1);
    close(ends[0]);
    close(ends[1]);
    REQUIRE(written == 1 || written == -ENOTSUP);
    return written == 1;
}

void calls() {
    for (int i = 0; i < 20; i++) {
        int value = 1;
        auto body = [&] { value++; };
        int64_t result = 1;
        REQUIRE(fiber_offload(call_child<decltype(body)>, &body, &result) == 0 && result == 0);
        REQUIRE(++value == 3);
    }
    if (!have_io()) {
        printf("left out: I/O, as the library was built without\n");
        return;
    }
    // A write comes before the read of those bytes: ThreadSanitizer takes that order from the C library's calls.
    static int ends[2];
    auto sending = [](int i) {
        char byte = char(i);
        REQUIRE(fiber_write(ends[1], &byte, 1) == 1);
    };
    auto receiving = [](int i) {
        char byte = -1;
        REQUIRE(fiber_read(ends[0], &byte, 1) == 1 && byte == char(i));
    };
    REQUIRE(pipe(ends) == 0);
    hand_over(sending, receiving);
    REQUIRE(fiber_close(ends[0]) == 0 && fiber_close(ends[1]) == 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    hand_over(sending, receiving);
    // Memory that the kernel fills.
    auto reading = [] {
        char* page = static_cast<char*>(malloc(4096));
        REQUIRE(fiber_recv(ends[0], page, 4096, 0) == 1 && page[0] == 'x');
        free(page);
    };
    for (int i = 0; i < 20; i++) {
        fiber_t reader = spawn(reading);
        REQUIRE(fiber_reschedule() == 0);
        REQUIRE(fiber_send(ends[1], "x", 1, 0) == 1);
        join(reader);
    }
    REQUIRE(fiber_close(ends[0]) == 0 && fiber_close(ends[1]) == 0);
}

long address_space() { // MiB in use
    FILE* file = fopen("/proc/self/statm", "r");
    REQUIRE(file);
    long pages = 0;
    REQUIRE(fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return pages / 256 * (sysconf(_SC_PAGESIZE) / 4096);
}

char* volatile seen;

// Threads that end with fibers left, whose stacks go to the next threads. AddressSanitizer has made a second stack, of
// some MiB, for each of these, and the library must tell it that the second stack is no longer needed.
void ends() {
    auto leaving = [] {
        auto body = [] {
            char local[100]; // (Without opaque(): see keep_a_local.)
            seen = local;
            memset(seen, 1, sizeof local);
            fiber_yield();
        };
        for (int i = 0; i < 20; i++) REQUIRE(fiber_spawn(nullptr, call<decltype(body)>, &body) == 0);
        REQUIRE(fiber_reschedule() == 0);
    };
    for (int i = 0; i < 10; i++) std::thread(leaving).join();
    long before = address_space();
    for (int i = 0; i < 20; i++) std::thread(leaving).join();
    long grown = address_space() - before;
    if (grown >= 200) fprintf(stderr, "400 fibers that never ran again have left %ld MiB\n", grown);
    REQUIRE(grown < 200);
}

void all_right() {
    stacks();
    cords();
    primitives();
    channels();
    pools();
    children();
    calls();
    ends();
}

// ---- Mistakes for AddressSanitizer

void heap_use_after_free() {
    auto body = [] {
        char* memory = static_cast<char*>(malloc(100));
        fiber_reschedule();
        free(opaque(memory));
        fiber_reschedule();
        opaque(memory)[3] = 1;
    };
    join(spawn(body));
}

void stack_buffer_overflow() {
    auto body = [] {
        char array[40];
        memset(opaque(array), 0, sizeof array);
        fiber_reschedule();
        opaque(&array[0])[41] = 1;
    };
    join(spawn(body));
}

char* volatile kept;

// Without opaque(): clang does not track the frames that functions with assembly return from.
__attribute__((noinline)) void keep_a_local() {
    char local[100];
    kept = local;
    memset(kept, 1, sizeof local);
    fiber_reschedule();
}

void stack_use_after_return() {
    auto body = [] {
        keep_a_local();
        fiber_reschedule();
        kept[3] = 1;
    };
    join(spawn(body));
}

__attribute__((noinline)) void lose() {
    char* memory = static_cast<char*>(malloc(1234));
    memset(opaque(memory), 1, 1234);
    fiber_reschedule();
}

// Overwrites pointers that calls have left on the stack. Not sanitized: its array would lie elsewhere.
__attribute__((noinline, no_sanitize("address"))) void overwrite_stack() {
    char bytes[32768];
    memset(opaque(bytes), 0, sizeof bytes);
}

void leak() {
    auto body = [] {
        lose();
        overwrite_stack();
    };
    join(spawn(body));
}

// ---- And for ThreadSanitizer

int shared;
std::atomic<int> arrived{0};

// Where two do it they begin together, else the library's own locks might happen to put one before the other. Relaxed:
// that orders nothing.
void write_shared() {
    arrived.fetch_add(1, std::memory_order_relaxed);
    while (arrived.load(std::memory_order_relaxed) < 2) sched_yield();
    for (int i = 0; i < 1000; i++) {
        ++*opaque(&shared);
        fiber_reschedule();
    }
}

void race_of_cords() {
    auto body = [] { write_shared(); };
    fiber_cord_t cords[] = {start_cord(body), start_cord(body)};
    for (fiber_cord_t cord : cords) join(cord);
}

void* write_shared_task(void*) {
    write_shared();
    return nullptr;
}

// The submitter goes on with the data that it has handed over.
void race_with_a_task() {
    fiber_pool_t pool = make_pool(1);
    REQUIRE(fiber_pool_submit(pool, write_shared_task, nullptr) == 0);
    write_shared();
    REQUIRE(fiber_pool_close(pool) == 0);
}

// A lock that one of two forgets.
void race_beside_a_lock() {
    static fiber_mutex_t mutex;
    auto locking = [] {
        REQUIRE(fiber_mutex_lock(&mutex) == 0);
        write_shared();
        REQUIRE(fiber_mutex_unlock(&mutex) == 0);
    };
    auto forgetting = [] { write_shared(); };
    fiber_cord_t cords[] = {start_cord(locking), start_cord(forgetting)};
    for (fiber_cord_t cord : cords) join(cord);
}

struct {
    const char* name;
    void (*make)();
} const mistakes[] = {
    {"heap-use-after-free", heap_use_after_free},
    {"stack-buffer-overflow", stack_buffer_overflow},
    {"stack-use-after-return", stack_use_after_return},
    {"leak", leak},
    {"race-of-cords", race_of_cords},
    {"race-with-a-task", race_with_a_task},
    {"race-beside-a-lock", race_beside_a_lock},
};

} // namespace

int main(int argc, char** argv) {
    if (argc == 1) {
        all_right();
        puts("all is well");
        return 0;
    }
    for (const auto& mistake : mistakes) {
        if (strcmp(argv[1], mistake.name) != 0) continue;
        mistake.make();
        puts("made, and not reported before the end");
        return 0;
    }
    fprintf(stderr, "consumer: there is no mistake %s\n", argv[1]);
    return 2;
}
