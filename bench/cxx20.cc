// SPDX-License-Identifier: MIT OR Apache-2.0
//
// C++20 coroutines that hand over by symmetric transfer: no stacks, so only the program counter changes. The price
// shows in deep3: every function on the way to a wait is a coroutine, with a frame on the heap (which clang, unlike
// gcc, can do without where it sees through the calls).
#include "bench.h"
#include "turns.h"

#include <bit>
#include <coroutine>
#include <memory>
#include <utility>
#include <vector>

namespace {

// A coroutine that begins when it is awaited, and then resumes its awaiter.
struct Task {
    struct promise_type {
        std::coroutine_handle<> awaiting;
        bool result = false;

        struct Finish {
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) const noexcept {
                return ended.promise().awaiting;
            }
            void await_resume() const noexcept {}
        };

        Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        Finish final_suspend() const noexcept { return {}; }
        void return_value(bool value) { result = value; }
        void unhandled_exception() { std::terminate(); }
    };

    explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    Task(Task &&from) : handle_(std::exchange(from.handle_, nullptr)) {}
    ~Task() {
        if (handle_) {
            handle_.destroy();
        }
    }

    bool await_ready() const { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
        handle_.promise().awaiting = awaiting;
        return handle_;
    }
    bool await_resume() const { return handle_.promise().result; }

    // For those at the bottom, which no coroutine awaits.
    void resume() { handle_.resume(); }
    std::coroutine_handle<> handle() const { return handle_; }

private:
    std::coroutine_handle<promise_type> handle_;
};

// The ring. An entry holds where its coroutine waits, which in deep3 is an inner one.
struct Fiber {
    std::coroutine_handle<> waiting;
    Fiber *next;
};

Fiber *current;

struct Yield {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> me) const noexcept {
        current->waiting = me;
        current = current->next;
        return current->waiting;
    }
    void await_resume() const noexcept {}
};

// Number 0 of the ring counts its rounds and then gives way to the caller of run(), which is no coroutine.
template <int site>
Task loop(const long *rounds) {
    for (;;) {
        for (long count = *rounds; count > 0; count--) {
            co_await Yield();
        }
        co_await std::suspend_always();
    }
}

Task deep1() {
    co_await Yield();
    co_return true;
}
Task deep2() { co_return co_await deep1(); }
Task deep3() { co_return co_await deep2(); }

template <int site>
Task deep_loop(const long *rounds) {
    for (;;) {
        for (long count = *rounds; count > 0; count--) {
            co_await deep3();
        }
        co_await std::suspend_always();
    }
}

using Body = Task (*)(const long *rounds);

struct Shape {
    const char *name;
    long fibers;
    Body first;
    Body (*body_of)(long index);
    bool shuffled = false;
};

Body body_numbered(long index) {
    static constexpr Body all[bench::numbered_sites] = {loop<1>,  loop<2>,  loop<3>,  loop<4>,  loop<5>,  loop<6>,
                                                        loop<7>,  loop<8>,  loop<9>,  loop<10>, loop<11>, loop<12>,
                                                        loop<13>, loop<14>, loop<15>, loop<16>};
    return all[bench::site_of(index)];
}

class YieldWorld {
public:
    explicit YieldWorld(const Shape &shape) : ring_(static_cast<size_t>(shape.fibers)) {
        for (size_t i = 0; i < ring_.size(); i++) {
            tasks_.push_back(i == 0 ? shape.first(&rounds_) : shape.body_of(static_cast<long>(i) - 1)(&endless));
            ring_[i].waiting = tasks_[i].handle();
        }
        Fiber *last = ring_.data();
        for (long i : bench::order_of(shape.fibers - 1, shape.shuffled)) {
            last->next = &ring_[static_cast<size_t>(i) + 1];
            last = last->next;
        }
        last->next = ring_.data();
        current = ring_.data();
        run(2);
    }

    bool run(long rounds) {
        rounds_ = rounds;
        tasks_[0].resume();
        return true;
    }

private:
    static constexpr long endless = LONG_MAX;

    long rounds_ = 0;
    std::vector<Fiber> ring_;
    std::vector<Task> tasks_;
};

// parkwake: the exchange of the bare swap.
struct To {
    std::coroutine_handle<> &me;
    std::coroutine_handle<> &other;

    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) const noexcept {
        me = handle;
        return other;
    }
    void await_resume() const noexcept {}
};

class Pair {
public:
    Pair() : asker_(ask()), answerer_(answer()) {
        turn_ = 0;
        other_at_ = answerer_.handle();
        run(1);
    }

    bool run(long rounds) {
        rounds_ = rounds;
        asker_.resume();
        return true;
    }

private:
    static Task ask() {
        for (;;) {
            for (long count = rounds_; count > 0; count--) {
                turn_ = 1;
                while (turn_ != 0) {
                    co_await To{main_at_, other_at_};
                }
            }
            co_await std::suspend_always();
        }
    }

    static Task answer() {
        for (;;) {
            while (turn_ != 1) {
                co_await To{other_at_, main_at_};
            }
            turn_ = 0;
            co_await To{other_at_, main_at_};
        }
    }

    static inline long rounds_;
    static inline volatile int turn_;
    static inline std::coroutine_handle<> main_at_;
    static inline std::coroutine_handle<> other_at_;
    Task asker_;
    Task answerer_;
};

// spawn: a coroutine is made, awaited, and destroyed.
class Spawner {
public:
    Spawner() : spawner_(spawn_all()) { run(100); }

    bool run(long rounds) {
        rounds_ = rounds;
        spawner_.resume();
        return ok_;
    }

private:
    BENCH_EXACT static Task child() { co_return true; }

    static Task spawn_all() {
        for (;;) {
            for (long count = rounds_; count > 0; count--) {
                ok_ = co_await child();
            }
            co_await std::suspend_always();
        }
    }

    static inline long rounds_;
    static inline bool ok_ = true;
    Task spawner_;
};

// spawnbatch.
struct Cxx20 {
    static Task child(void (*body)(long), long index) {
        body(index);
        co_return true;
    }

    static Task await_all(std::vector<Task> *all) {
        for (Task &task : *all) {
            co_await task;
        }
        co_await std::suspend_always(); // no coroutine is left to resume at the end
    }

    static void batch(long count, void (*body)(long)) {
        std::vector<Task> all;
        all.reserve(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            all.push_back(child(body, i));
        }
        await_all(&all).resume();
    }
};

// hosted: the least that can be called a scheduler of coroutines: a ring of handles, and a loop that resumes the first
// and puts it at the end.
class Turns {
public:
    explicit Turns(long count)
        : count_(count), ring_(std::bit_ceil(static_cast<size_t>(count) + 16)), mask_(ring_.size() - 1) {
        for (long i = 0; i < count; i++) {
            ring_[tail_++ & mask_] = bench::take_turns(&turns_).handle;
        }
    }
    bool run(long rounds) {
        for (long left = rounds * count_; left > 0; left--) {
            std::coroutine_handle<> first = ring_[head_++ & mask_];
            first.resume();
            ring_[tail_++ & mask_] = first;
        }
        return true;
    }

private:
    long turns_ = 0;
    long count_;
    std::vector<std::coroutine_handle<>> ring_;
    size_t mask_;
    size_t head_ = 0;
    size_t tail_ = 0;
};

} // namespace

int main(int argc, char **argv) {
    static const Shape shapes[] = {
        {"same", 2, loop<0>, [](long) -> Body { return loop<0>; }},
        {"different", 2, loop<0>, [](long) -> Body { return loop<1>; }},
        {"1000", 1000, loop<0>, [](long) -> Body { return loop<0>; }},
        {"100000", 100000, loop<0>, [](long) -> Body { return loop<0>; }},
        {"1000x16", 1000, loop<0>, body_numbered},
        {"deep3", 2, deep_loop<0>, [](long) -> Body { return deep_loop<1>; }},
        {"shuffled1000", 1000, loop<0>, [](long) -> Body { return loop<0>; }, true},
        {"shuffled100000", 100000, loop<0>, [](long) -> Body { return loop<0>; }, true},
    };
    for (const Shape &shape : shapes) {
        bench::add<YieldWorld>(std::string("yield/") + shape.name, shape.fibers, shape);
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add_turns<Turns>();
    bench::add_turns<Turns>("task-");
    bench::add<Spawner>("spawn/warm", 1);
    for (const char *name : bench::scale_shapes) {
        Shape shape = {name, std::stol(name), loop<0>, [](long) -> Body { return loop<0>; }};
        bench::add<YieldWorld>(std::string("scale/") + name, shape.fibers, shape);
    }
    bench::add_once("spawnbatch/100000", bench::spawn_batch<Cxx20>);
    return bench::run_main(argc, argv);
}
