// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The yardstick: the least that changing stacks can cost. Callee-saved registers and stack pointer, a ring of fibers,
// and nothing else: no run queue that can change, no handles, no guards, no floating-point control, no errno.
#include "bench.h"
#include "crosswake.h"
#include "tasks.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include <mutex>
#include <thread>
#include <vector>

// void bare_swap(void **save, void *next): puts the stack pointer of this flow in *save and goes on where `next` left.
//
//      next + 48   return address
//      next + 40   rbp
//      next + 32   rbx
//      next + 24   r12
//      next + 16   r13
//      next +  8   r14
//      next        r15
asm(R"(
    .text
    .globl  bare_swap
    .hidden bare_swap
    .type   bare_swap, @function
    .p2align 4
bare_swap:
    push    %rbp
    push    %rbx
    push    %r12
    push    %r13
    push    %r14
    push    %r15
    mov     %rsp, (%rdi)
    mov     %rsi, %rsp
    pop     %r15
    pop     %r14
    pop     %r13
    pop     %r12
    pop     %rbx
    pop     %rbp
    ret
    .size   bare_swap, . - bare_swap
)");
extern "C" __attribute__((visibility("hidden"))) void bare_swap(void **save, void *next);

namespace {

// Stacks that begin at the same offset of a page fight for the same cache sets; so each begins a line lower than the
// one before.
constexpr size_t colours = 61;
constexpr size_t colour_step_bytes = 64;

class Stacks {
public:
    explicit Stacks(long count) : bytes_(static_cast<size_t>(count) * bench::stack_bytes) {
        void *memory =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            throw std::runtime_error("no memory for the stacks");
        }
        madvise(memory, bytes_, MADV_NOHUGEPAGE);
        memory_ = static_cast<char *>(memory);
    }
    Stacks(const Stacks &) = delete;
    Stacks &operator=(const Stacks &) = delete;
    ~Stacks() { munmap(memory_, bytes_); }

    void *top(long index) const {
        size_t i = static_cast<size_t>(index);
        return memory_ + (i + 1) * bench::stack_bytes - 16 - i % colours * colour_step_bytes;
    }

private:
    size_t bytes_;
    char *memory_;
};

// The initial contents of an empty stack, from which bare_swap begins entry(): six registers and the address; the zero
// above it is where entry would return to, and aligns the stack as a call does.
inline void *prepare(void *top, void (*entry)()) {
    void **sp = static_cast<void **>(top);
    *--sp = nullptr;
    *--sp = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++) {
        *--sp = nullptr;
    }
    return sp;
}

struct Fiber {
    void *sp;
    Fiber *next;
    bench::Loop loop;
};

struct Bare {
    static inline Fiber *current;

    static bool yield() {
        Fiber *me = current;
        current = me->next;
        bare_swap(&me->sp, current->sp);
        return true;
    }

    static void entry() {
        bench::enter(current->loop);
        __builtin_trap(); // the loop does not end
    }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long), bool shuffled)
            : stacks_(count), fibers_(static_cast<size_t>(count) + 1) {
            current = fibers_.data(); // number 0 is the main flow
            for (long i = 0; i < count; i++) {
                Fiber &fiber = fibers_[static_cast<size_t>(i) + 1];
                fiber.loop = loop_of(i);
                fiber.sp = prepare(stacks_.top(i), entry);
            }
            Fiber *last = current;
            for (long i : bench::order_of(count, shuffled)) {
                last->next = &fibers_[static_cast<size_t>(i) + 1];
                last = last->next;
            }
            last->next = current;
        }

    private:
        Stacks stacks_;
        std::vector<Fiber> fibers_;
    };

    static inline void (*body)(long);
    static inline long index;
    static inline void *main_sp;
    static inline void *batch_sp;

    static void run_body() {
        body(index);
        bare_swap(&batch_sp, main_sp);
        __builtin_trap(); // no flow resumes it
    }

    // Each on a fresh stack; one page of it is touched.
    static void batch(long count, void (*of_each)(long)) {
        body = of_each;
        static Stacks stacks(count); // not given back while the clock runs
        std::vector<void *> fibers(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            fibers[static_cast<size_t>(i)] = prepare(stacks.top(i), run_body);
        }
        for (index = 0; index < count; index++) {
            bare_swap(&main_sp, fibers[static_cast<size_t>(index)]);
        }
    }
};

// Two fibers need no ring: each knows the other. This is the faster way and thus the stricter yardstick.
class Two {
public:
    explicit Two(void (*other)()) : stacks_(1) {
        other_sp_ = prepare(stacks_.top(0), other);
        run(1);
    }

    bool run(long rounds) { return first(&main_sp_, &other_sp_, rounds); }

    static void other_at_same_site() { first(&other_sp_, &main_sp_, LONG_MAX); }
    static void other_at_its_own_site() { second(&other_sp_, &main_sp_, LONG_MAX); }

private:
    BENCH_EXACT static bool first(void **from, void **to, long count) {
        for (; count > 0; count--) {
            bare_swap(from, *to);
        }
        return true;
    }

    BENCH_EXACT static bool second(void **from, void **to, long count) {
        for (; count > 0; count--) {
            bare_swap(from, *to);
        }
        return true;
    }

    static inline void *main_sp_;
    static inline void *other_sp_;
    Stacks stacks_;
};

// scope: the least that opening and closing one can cost: ten swaps, and a look at the clock.
class TenSwaps {
public:
    TenSwaps() : two_(Two::other_at_same_site) {}

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            benchmark::DoNotOptimize(now);
            two_.run(5); // and back, each
        }
        return true;
    }

private:
    Two two_;
};

// task: the least that one can cost: 25 swaps.
class Swaps25 {
public:
    explicit Swaps25(int) : two_(Two::other_at_same_site) {}

    void run(long count) { two_.run(count * 25 / 2); } // and back, each

    template <class Body>
    void inside(Body &body) {
        body();
    }

private:
    Two two_;
};

// parkwake: the main flow asks, the other fiber answers. Nothing but the exchange.
class Pair {
public:
    Pair() : stacks_(1) {
        other_sp_ = prepare(stacks_.top(0), answer);
        run(1);
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            turn_ = 1;
            while (turn_ != 0) {
                bare_swap(&main_sp_, other_sp_);
            }
        }
        return true;
    }

private:
    static void answer() {
        for (;;) {
            while (turn_ != 1) {
                bare_swap(&other_sp_, main_sp_);
            }
            turn_ = 0;
            bare_swap(&other_sp_, main_sp_);
        }
    }

    static inline void *main_sp_;
    static inline void *other_sp_;
    static inline volatile int turn_;
    Stacks stacks_;
};

// spawn, and the child of a scope: a first frame is written on a warm stack, the fiber runs, and gives the thread back.
class Spawner {
public:
    Spawner() : stacks_(1) { run(1); }

    BENCH_EXACT bool run(long rounds) {
        void *top = stacks_.top(0);
        for (; rounds > 0; rounds--) {
            fiber_sp_ = prepare(top, entry);
            bare_swap(&main_sp_, fiber_sp_);
        }
        return true;
    }

private:
    static void entry() {
        bare_swap(&fiber_sp_, main_sp_);
        __builtin_trap(); // no flow resumes it
    }

    static inline void *main_sp_;
    static inline void *fiber_sp_;
    Stacks stacks_;
};

// crosswake, awake: two threads that only read a variable.
class SpinningPair {
public:
    SpinningPair() { std::thread(answer).detach(); }

    void trip() {
        turn_ = 1;
        while (turn_ != 0) {}
    }

private:
    static void answer() {
        bench::begin_other();
        for (;;) {
            while (turn_ != 1) {}
            turn_ = 0;
        }
    }

    static inline std::atomic<uint32_t> turn_;
};

// crosswake, asleep: a futex each.
class FutexPair {
public:
    FutexPair() { std::thread(answer).detach(); }

    void trip() {
        wake(question_);
        wait(reply_);
    }

private:
    static void answer() {
        bench::begin_other();
        for (;;) {
            wait(question_);
            wake(reply_);
        }
    }

    static void wait(std::atomic<uint32_t> &word) {
        while (word == 0) {
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
        }
        word = 0;
    }

    static void wake(std::atomic<uint32_t> &word) {
        word = 1;
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }

    static inline std::atomic<uint32_t> question_;
    static inline std::atomic<uint32_t> reply_;
};

} // namespace

int main(int argc, char **argv) {
    bench::add<Two>("yield/same", 2, Two::other_at_same_site);
    bench::add<Two>("yield/different", 2, Two::other_at_its_own_site);
    for (const bench::YieldShape &shape : bench::yield_shapes<Bare>()) {
        const std::string name = shape.name;
        if (name != "same" && name != "different") {
            bench::add_yield<Bare>(shape);
        }
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add<Spawner>("spawn/warm", 1);
    bench::add_lock<std::mutex>();
    bench::add<TenSwaps>("scope/deadline", 1);
    bench::add<Spawner>("scope/child", 1);
    bench::add_tasks<Swaps25>();
    bench::add_once("crosswake/awake", bench::trips_awake<SpinningPair>);
    bench::add_once("crosswake/asleep", bench::trips_asleep<FutexPair>);
    bench::add_once("crosswake/asleep-ring", bench::trips_asleep<FutexPair>);
    bench::add_scale<Bare>();
    bench::add_once("spawnbatch/100000", bench::spawn_batch<Bare>);
    return bench::run_main(argc, argv);
}
