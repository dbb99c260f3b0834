// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Our subject, through its public header and the shared library, as a program uses it. Every result is checked, as a
// program has to.
#include "bench.h"
#include "crosswake.h"
#include "tasks.h"
#include "turns.h"

#include <fcntl.h>
#include <fiberrt.hpp>

#include <vector>

namespace {

void check(int result, const char *what) {
    if (result < 0) {
        throw std::runtime_error(std::string(what) + ": " + fiber_strerror(result));
    }
}

// The attributes of a fiber with a stack of that size.
class Attr {
public:
    explicit Attr(size_t stack) {
        check(fiber_attr_create(&attr_), "fiber_attr_create");
        check(fiber_attr_set_stack_size(attr_, stack), "fiber_attr_set_stack_size");
    }
    Attr(const Attr &) = delete;
    Attr &operator=(const Attr &) = delete;
    ~Attr() { fiber_attr_destroy(attr_); }

    void detach() { check(fiber_attr_set_detached(attr_, 1), "fiber_attr_set_detached"); }
    const fiber_attr_t *get() const { return attr_; }

private:
    fiber_attr_t *attr_;
};

struct Fiberrt {
    static bool yield() { return fiber_reschedule() == 0; }

    class Crowd {
    public:
        Crowd(long count, bench::Loop (*loop_of)(long), bool shuffled) {
            Attr attr(bench::stack_bytes);
            for (long i = 0; i < count; i++) {
                fiber_t fiber;
                void *arg = reinterpret_cast<void *>(loop_of(i));
                check(fiber_new(&fiber, attr.get(), shuffled ? park_first : entry, arg), "fiber_new");
                fibers_.push_back(fiber);
                check(fiber_wakeup(fiber), "fiber_wakeup");
            }
            if (shuffled) {
                check(fiber_reschedule(), "fiber_reschedule"); // they park
                for (long i : bench::order_of(count, true)) {
                    check(fiber_wakeup(fibers_[static_cast<size_t>(i)]), "fiber_wakeup");
                }
            }
        }

        // The cancel makes each one's yield fail, which ends its loop.
        ~Crowd() {
            for (fiber_t fiber : fibers_) {
                fiber_cancel(fiber, nullptr);
            }
            for (fiber_t fiber : fibers_) {
                check(fiber_join(fiber, nullptr), "fiber_join");
            }
        }

    private:
        static void *entry(void *loop) {
            bench::enter(reinterpret_cast<bench::Loop>(loop));
            return nullptr;
        }

        static void *park_first(void *loop) { return fiber_yield() == 0 ? entry(loop) : nullptr; }

        std::vector<fiber_t> fibers_;
    };

    static inline void (*body)(long);

    static void batch(long count, void (*of_each)(long)) {
        body = of_each;
        Attr attr(bench::stack_bytes);
        std::vector<fiber_t> fibers(static_cast<size_t>(count));
        for (long i = 0; i < count; i++) {
            fiber_t *fiber = &fibers[static_cast<size_t>(i)];
            check(fiber_new(fiber, attr.get(), run_body, reinterpret_cast<void *>(i)), "fiber_new");
            check(fiber_wakeup(*fiber), "fiber_wakeup");
        }
        for (fiber_t fiber : fibers) {
            check(fiber_join(fiber, nullptr), "fiber_join");
        }
    }

    static void *run_body(void *index) {
        body(reinterpret_cast<long>(index));
        return nullptr;
    }

    static void sleep(int64_t ns) { fiber_sleep(ns); }

    static void park(long count, size_t stack) {
        Attr attr(stack);
        attr.detach();
        for (long i = 0; i < count; i++) {
            fiber_t fiber;
            check(fiber_new(&fiber, attr.get(), park_for_good, nullptr), "fiber_new");
            check(fiber_wakeup(fiber), "fiber_wakeup");
        }
        check(fiber_reschedule(), "fiber_reschedule");
    }

    static void *park_for_good(void *) {
        bench::about_to_park();
        fiber_yield();
        return nullptr;
    }
};

// parkwake: a round trip is two wakeups and two parks, handles checked each time.
class Pair {
public:
    Pair() {
        turn_ = 0;
        check(fiber_self(&main_), "fiber_self");
        check(fiber_spawn(&other_, answer, nullptr), "fiber_spawn");
        check(fiber_reschedule(), "fiber_reschedule"); // the other one parks
    }

    ~Pair() {
        fiber_cancel(other_, nullptr);
        check(fiber_join(other_, nullptr), "fiber_join");
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            turn_ = 1;
            if (fiber_wakeup(other_) != 0) {
                return false;
            }
            while (turn_ != 0) {
                if (fiber_yield() != 0) {
                    return false;
                }
            }
        }
        return true;
    }

private:
    static void *answer(void *) {
        for (;;) {
            while (turn_ != 1) {
                if (fiber_yield() != 0) {
                    return nullptr;
                }
            }
            turn_ = 0;
            if (fiber_wakeup(main_) != 0) {
                return nullptr;
            }
        }
    }

    static inline fiber_t main_;
    static inline fiber_t other_;
    static inline volatile int turn_;
};

// spawn: a fiber is made, runs, and is joined. Its stack and its slot are those of the one before.
class Spawner {
public:
    Spawner() {
        if (!run(100)) {
            throw std::runtime_error("fiber_spawn or fiber_join failed");
        }
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            fiber_t fiber;
            void *result;
            if (fiber_spawn(&fiber, entry, &fiber) != 0 || fiber_join(fiber, &result) != 0 || result != &fiber) {
                return false;
            }
        }
        return true;
    }

private:
    static void *entry(void *arg) { return arg; }
};

struct Mutex {
    Mutex() { fiber_reschedule(); } // from here on the thread has a cord, and it is a fiber that locks
    void lock() { check(fiber_mutex_lock(&mutex), "fiber_mutex_lock"); }
    void unlock() { check(fiber_mutex_unlock(&mutex), "fiber_mutex_unlock"); }
    fiber_mutex_t mutex = {};
};

// channel: the other fiber sends back what it receives.
class ChannelPair {
public:
    ChannelPair() {
        check(fiber_chan_create(&there_, sizeof(long), 0), "fiber_chan_create");
        check(fiber_chan_create(&back_, sizeof(long), 0), "fiber_chan_create");
        check(fiber_spawn(&other_, answer, this), "fiber_spawn");
    }

    ~ChannelPair() {
        fiber_chan_close(there_);
        check(fiber_join(other_, nullptr), "fiber_join");
        fiber_chan_destroy(there_);
        fiber_chan_destroy(back_);
    }

    BENCH_EXACT bool run(long rounds) {
        long item;
        for (; rounds > 0; rounds--) {
            if (fiber_chan_send(there_, &rounds) != 0 || fiber_chan_recv(back_, &item) != 0 || item != rounds) {
                return false;
            }
        }
        return true;
    }

private:
    static void *answer(void *self) {
        auto *pair = static_cast<ChannelPair *>(self);
        long item;
        while (fiber_chan_recv(pair->there_, &item) == 0) {
            check(fiber_chan_send(pair->back_, &item), "fiber_chan_send");
        }
        return nullptr;
    }

    fiber_chan_t there_;
    fiber_chan_t back_;
    fiber_t other_;
};

// scope: one with a deadline that does not fire, and one with a child that ends at once.
class Scoped {
public:
    explicit Scoped(bool child) : child_(child) {}

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            fiber_scope_t scope;
            if (fiber_scope_open(&scope, FIBER_SEC(10), 0) != 0 ||
                (child_ && fiber_scope_spawn(scope, nullptr, ended, nullptr) != 0) ||
                fiber_scope_close(scope, nullptr) != 0) {
                return false;
            }
        }
        return true;
    }

private:
    static int64_t ended(void *) { return 0; }
    bool child_;
};

// task: a pool, and a wait group.
class Tasks {
public:
    explicit Tasks(int workers) {
        fiber_pool_attr_t *attr;
        check(fiber_pool_attr_create(&attr), "fiber_pool_attr_create");
        check(fiber_pool_attr_set_workers(attr, workers), "fiber_pool_attr_set_workers");
        check(fiber_pool_create(&pool_, attr), "fiber_pool_create");
        fiber_pool_attr_destroy(attr);
    }
    ~Tasks() { check(fiber_pool_close(pool_), "fiber_pool_close"); }

    void run(long count) {
        check(fiber_wg_add(&group_, static_cast<int>(count)), "fiber_wg_add");
        for (long i = 0; i < count; i++) {
            check(fiber_pool_submit(pool_, task, &group_), "fiber_pool_submit");
        }
        check(fiber_wg_wait(&group_), "fiber_wg_wait");
    }

    template <class Body>
    void inside(Body &body) {
        Outer<Body> outer = {&body, {}};
        check(fiber_event_init(&outer.done, 0), "fiber_event_init");
        check(fiber_pool_submit(pool_, Outer<Body>::run, &outer), "fiber_pool_submit");
        check(fiber_event_wait(&outer.done), "fiber_event_wait");
    }

private:
    template <class Body>
    struct Outer {
        Body *body;
        fiber_event_t done;
        static void *run(void *argument) {
            auto *outer = static_cast<Outer *>(argument);
            (*outer->body)();
            fiber_event_set(&outer->done);
            return nullptr;
        }
    };

    static void *task(void *group) {
        fiber_wg_done(static_cast<fiber_wg_t *>(group));
        return nullptr;
    }

    fiber_pool_t pool_;
    alignas(64) fiber_wg_t group_ = {}; // who submits reads the pool's handle, not what each task writes
};

// select: channels that always have an item; what is received is replaced. cases 0: by a plain receive.
class Selecting {
public:
    explicit Selecting(int cases) : cases_(cases) {
        for (int i = 0; i < 4; i++) {
            fiber_case_t &one = all_[i];
            one.kind = FIBER_CASE_RECV;
            one.item = &items_[i];
            check(fiber_chan_create(&one.chan, sizeof(long), 2), "fiber_chan_create");
            check(fiber_chan_send(one.chan, &items_[i]), "fiber_chan_send");
        }
    }

    ~Selecting() {
        for (const fiber_case_t &one : all_) {
            fiber_chan_destroy(one.chan);
        }
    }

    BENCH_EXACT bool run(long rounds) {
        for (; rounds > 0; rounds--) {
            int index = 0;
            if (cases_ == 0) {
                if (fiber_chan_recv(all_[0].chan, &items_[0]) != 0) {
                    return false;
                }
            } else {
                index = fiber_select(all_, cases_, FIBER_FOREVER);
                if (index < 0) {
                    return false;
                }
            }
            if (fiber_chan_try_send(all_[index].chan, &rounds) != 0) {
                return false;
            }
        }
        return true;
    }

private:
    int cases_;
    fiber_case_t all_[4] = {};
    long items_[4] = {};
};

// crosswake: two cords, of which the main flows ask and answer. With a ring, what a cord sleeps in is io_uring, not a
// futex.
template <bool with_ring>
class CordPair {
public:
    CordPair() {
        begin_side();
        check(fiber_self(&asker_), "fiber_self");
        fiber_cord_t cord;
        check(fiber_cord_start(&cord, nullptr, answer, nullptr), "fiber_cord_start");
        while (!ready_) {
            sched_yield();
        }
    }

    void trip() {
        turn_ = 1;
        check(fiber_wakeup(answerer_), "fiber_wakeup");
        while (turn_ != 0) {
            check(fiber_yield(), "fiber_yield");
        }
    }

private:
    static void begin_side() {
        if (with_ring) {
            int fd = fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
            check(fd, "fiber_open");
            check(fiber_close(fd), "fiber_close");
        }
    }

    static void *answer(void *) {
        bench::begin_other();
        begin_side();
        check(fiber_self(&answerer_), "fiber_self");
        ready_ = true;
        for (;;) {
            while (turn_ != 1) {
                check(fiber_yield(), "fiber_yield");
            }
            turn_ = 0;
            check(fiber_wakeup(asker_), "fiber_wakeup");
        }
    }

    static inline fiber_t asker_;
    static inline fiber_t answerer_;
    static inline std::atomic<bool> ready_;
    static inline std::atomic<int> turn_;
};

// sim: steps of a simulated run, made by 20 fibers that do the same.
class Simulated {
public:
    // turn: what each of them does again and again; it takes that many steps at least.
    static bench::Figures measure(bool (*turn)(), long steps_per_turn) {
        setenv("FIBERRT_BACKEND", "sim", 1); // the first call that needs a cord looks at it
        check(pipe2(ends_, O_CLOEXEC), "pipe2");
        turn_ = turn;
        const long turns = 400000 / fibers;
        const double steps = static_cast<double>(turns * fibers * steps_per_turn);
        double before = bench::cpu_time_ns();
        std::vector<fiber_t> all(fibers);
        for (fiber_t &fiber : all) {
            check(fiber_spawn(&fiber, take_turns, reinterpret_cast<void *>(turns)), "fiber_spawn");
        }
        for (fiber_t fiber : all) {
            void *failed;
            check(fiber_join(fiber, &failed), "fiber_join");
            if (failed != nullptr) {
                throw std::runtime_error("a call of the subject failed");
            }
        }
        double after = bench::cpu_time_ns();
        fiber_stats_t stats;
        check(fiber_stats(&stats, sizeof stats), "fiber_stats");
        if (fiber_backend_name() != std::string("sim") ||
            static_cast<double>(stats.switches + stats.instant_resumes) < steps) {
            throw std::runtime_error("that was not simulated");
        }
        return {{"million_steps_per_s", steps / (after - before) * 1e3}};
    }

    static bool give_way() { return fiber_reschedule() == 0; }
    static bool sleep() { return fiber_sleep(FIBER_USEC(1)) == 0; }
    static bool pass_byte() {
        char byte = 'x';
        return fiber_write(ends_[1], &byte, 1) == 1 && fiber_read(ends_[0], &byte, 1) == 1;
    }

private:
    static constexpr long fibers = 20;

    static void *take_turns(void *turns) {
        for (auto left = reinterpret_cast<intptr_t>(turns); left > 0; left--) {
            if (!turn_()) {
                return turns;
            }
        }
        return nullptr;
    }

    static inline bool (*turn_)();
    static inline int ends_[2];
};

// hosted: coroutines as hosted fibers; the first counts the rounds, and wakes the main flow after the last.
class Turns {
public:
    explicit Turns(long count) {
        check(fiber_self(&main_), "fiber_self");
        for (long i = 0; i < count; i++) {
            fiber_t fiber;
            void *frame = bench::take_turns(&turns_).handle.address();
            if (i == 0) {
                first_ = std::coroutine_handle<>::from_address(frame);
                check(fiber_hosted_new(&fiber, nullptr, count_round, this), "fiber_hosted_new");
            } else {
                check(fiber_hosted_new(&fiber, nullptr, step, frame), "fiber_hosted_new");
            }
            check(fiber_wakeup(fiber), "fiber_wakeup");
        }
    }

    bool run(long rounds) {
        left_ = rounds;
        return fiber_yield() == 0;
    }

private:
    static int step(void *frame, int64_t) {
        std::coroutine_handle<>::from_address(frame).resume();
        return FIBER_STEP_AGAIN;
    }
    static int count_round(void *argument, int64_t) {
        auto *it = static_cast<Turns *>(argument);
        it->first_.resume();
        if (--it->left_ == 0) {
            fiber_wakeup(it->main_);
        }
        return FIBER_STEP_AGAIN;
    }

    long turns_ = 0;
    long left_ = 0;
    fiber_t main_;
    std::coroutine_handle<> first_;
};

// hosted/task: the same by the C++ header; the first ends the round as well.
class TaskTurns {
public:
    explicit TaskTurns(long count) {
        check(fiber_self(&main_), "fiber_self");
        for (long i = 0; i < count; i++) {
            fiberrt::spawn_detached(i == 0 ? count_rounds(this) : take_turns(this));
        }
    }

    bool run(long rounds) {
        left_ = rounds;
        return fiber_yield() == 0;
    }

private:
    static fiberrt::task<> take_turns(TaskTurns *it) {
        for (;;) {
            ++it->turns_;
            co_await fiberrt::co::reschedule();
        }
    }
    static fiberrt::task<> count_rounds(TaskTurns *it) {
        for (;;) {
            ++it->turns_;
            if (--it->left_ == 0) {
                fiber_wakeup(it->main_);
            }
            co_await fiberrt::co::reschedule();
        }
    }

    long turns_ = 0;
    long left_ = 0;
    fiber_t main_;
};

// hooks: two fibers that give way to each other, with what is told of that. They do so at the same place, as fibers of a
// binding do, or each in a loop of its own.
enum class Told { nothing, untagged, tagged, ambient };
enum class Place { same, own };

class Hooked {
public:
    Hooked(Told told, Place place) : told_(told), place_(place) {
        check(fiber_key_create_ambient(&key_, nullptr, [](void *, void *now) { in_force_ = now; }),
              "fiber_key_create_ambient");
    }
    ~Hooked() { fiber_key_delete(key_); }

    bool run(long rounds) {
        rounds_ = rounds;
        ok_ = true;
        hook(true);
        fiber_t one = spawn(take_turns), other{};
        if (place_ == Place::same) {
            other = spawn(take_turns_with_value);
        } else {
            fiber_t main;
            check(fiber_self(&main), "fiber_self");
            tag(main, true);
            set_value(this);
            for (long i = 0; i < rounds && ok_; i++) {
                ok_ = fiber_reschedule() == 0;
            }
            set_value(nullptr);
            tag(main, false);
        }
        check(fiber_join(one, nullptr), "fiber_join");
        if (place_ == Place::same) check(fiber_join(other, nullptr), "fiber_join");
        hook(false);
        return ok_;
    }

private:
    static void *take_turns(void *argument) {
        auto *it = static_cast<Hooked *>(argument);
        for (long i = 0; i < it->rounds_ && it->ok_; i++) {
            it->ok_ = fiber_reschedule() == 0;
        }
        return nullptr;
    }
    static void *take_turns_with_value(void *argument) {
        static_cast<Hooked *>(argument)->set_value(argument);
        return take_turns(argument);
    }

    fiber_t spawn(void *(*body)(void *)) {
        fiber_t fiber;
        check(fiber_spawn(&fiber, body, this), "fiber_spawn");
        tag(fiber, true);
        return fiber;
    }
    void hook(bool on) {
        if (told_ != Told::untagged && told_ != Told::tagged) return;
        fiber_hooks_t hooks = {};
        hooks.before_switch = hooks.after_switch = [](void *, fiber_tag_t, fiber_tag_t to) { in_force_ = to.pointer; };
        check(fiber_hooks_set(on ? &hooks : nullptr, sizeof hooks), "fiber_hooks_set");
    }
    void tag(fiber_t fiber, bool on) {
        if (told_ != Told::tagged) return;
        check(fiber_tag_set(fiber, {on ? this : nullptr, on}), "fiber_tag_set");
    }
    void set_value(void *value) {
        if (told_ == Told::ambient) check(fiber_key_set(key_, value), "fiber_key_set");
    }

    static inline void *in_force_;
    Told told_;
    Place place_;
    fiber_key_t key_;
    long rounds_ = 0;
    bool ok_ = true;
};

} // namespace

int main(int argc, char **argv) {
    for (const bench::YieldShape &shape : bench::yield_shapes<Fiberrt>()) {
        bench::add_yield<Fiberrt>(shape);
    }
    bench::add<Pair>("parkwake/pair", 1);
    bench::add<Spawner>("spawn/warm", 1);
    bench::add_lock<Mutex>();
    bench::add<ChannelPair>("channel/pair", 1);
    bench::add<Scoped>("scope/deadline", 1, false);
    bench::add<Scoped>("scope/child", 1, true);
    bench::add<Selecting>("select/receive", 1, 0);
    bench::add<Selecting>("select/four", 1, 4);
    bench::add_tasks<Tasks>();
    bench::add_turns<Turns>();
    bench::add_turns<TaskTurns>("task-");
    for (const Place place : {Place::same, Place::own}) {
        const std::string apart = place == Place::own ? "-apart" : "";
        bench::add<Hooked>("hooks/none" + apart, 2, Told::nothing, place);
        bench::add<Hooked>("hooks/untagged" + apart, 2, Told::untagged, place);
        bench::add<Hooked>("hooks/pair" + apart, 2, Told::tagged, place);
        bench::add<Hooked>("hooks/ambient" + apart, 2, Told::ambient, place);
    }
    bench::add_once("crosswake/awake", bench::trips_awake<CordPair<false>>);
    bench::add_once("crosswake/asleep", bench::trips_asleep<CordPair<false>>);
    bench::add_once("crosswake/asleep-ring", bench::trips_asleep<CordPair<true>>);
    bench::add_once("sim/switches", [] { return Simulated::measure(Simulated::give_way, 1); });
    bench::add_once("sim/sleeps", [] { return Simulated::measure(Simulated::sleep, 1); });
    bench::add_once("sim/pipe", [] { return Simulated::measure(Simulated::pass_byte, 2); });
    bench::add_crowds<Fiberrt>();
    bench::add_once("sleep/100000x10", bench::sleep_batch<Fiberrt>);
    bench::add_memory<Fiberrt>("100000x256k", 100000, FIBER_STACK_DEFAULT);
    bench::add_memory<Fiberrt>("1000000x256k", 1000000, FIBER_STACK_DEFAULT);
    return bench::run_main(argc, argv);
}
