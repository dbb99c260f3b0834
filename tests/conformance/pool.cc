// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools: every accepted task runs once, whatever the number of workers; a task as a fiber, for itself and for others;
// bound threads; the end.
#include "conformance.h"
#include "cord_support.h"

#include <cerrno>
#include <cfenv>
#include <climits>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <random>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <thread>

using namespace support;

namespace {

class PoolAttr {
public:
    PoolAttr() { EXPECT_EQ(fiber_pool_attr_create(&attr_), 0); }
    explicit PoolAttr(int workers) : PoolAttr() { EXPECT_EQ(fiber_pool_attr_set_workers(attr_, workers), 0); }
    ~PoolAttr() { fiber_pool_attr_destroy(attr_); }
    PoolAttr(const PoolAttr &) = delete;
    PoolAttr &operator=(const PoolAttr &) = delete;
    operator fiber_pool_attr_t *() const { return attr_; }

private:
    fiber_pool_attr_t *attr_ = nullptr;
};

// A pool that is closed at the end of the scope; the calling thread is bound if it has no workers.
class Pool {
public:
    explicit Pool(int workers) : Pool(PoolAttr(workers)) {
        if (!workers) {
            EXPECT_EQ(fiber_pool_bind(pool_), 0);
        }
    }
    explicit Pool(const PoolAttr &attr) { EXPECT_EQ(fiber_pool_create(&pool_, attr), 0); }
    ~Pool() { close(); }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    void close(int expected = 0) {
        if (pool_.id) {
            const int error = fiber_pool_close(pool_);
            if (error != expected) expect_joined(error); // tasks use the scenario's variables
            EXPECT_EQ(error, expected);
        }
        pool_ = {};
    }
    operator fiber_pool_t() const { return pool_; }

private:
    fiber_pool_t pool_{};
};

template <class Body>
void submit(fiber_pool_t pool, Body &body, unsigned flags = 0) {
    EXPECT_EQ(fiber_pool_submit_flags(pool, entry<Body>, &body, flags), 0);
}

// Tasks that are waited for.
class Group {
public:
    void add(int n = 1) { EXPECT_EQ(fiber_wg_add(&group_, n), 0); }
    void done() { EXPECT_GE(fiber_wg_done(&group_), 0); }
    void wait() { EXPECT_EQ(fiber_wg_wait(&group_), 0); }

private:
    fiber_wg_t group_{};
};

// Runs a lambda as a task, to its end.
template <class Body>
void run_task(fiber_pool_t pool, Body body) {
    Group group;
    auto task = [&] {
        body();
        group.done();
    };
    group.add();
    submit(pool, task);
    group.wait();
}

uint64_t this_cord_id() { return this_cord_handle().id; }

// ---- With each number of workers ------------------------------------------------------------------------------------

class PoolOf : public testing::TestWithParam<int> {
protected:
    int workers() const { return often(GetParam(), 8); }
};
INSTANTIATE_TEST_SUITE_P(Workers, PoolOf, testing::Values(0, 1, 2, 4, 8, 64));

TEST_P(PoolOf, RunsEveryTaskOnce) {
    const int n = often(20000, 1000);
    std::vector<std::atomic<int>> ran(static_cast<size_t>(n));
    Pool pool(workers());
    Group group;
    struct Task {
        std::atomic<int> *ran;
        Group *group;
        void operator()() {
            ++*ran;
            group->done();
        }
    };
    std::vector<Task> tasks;
    for (auto &one : ran) tasks.push_back({&one, &group});
    group.add(n);
    for (Task &task : tasks) submit(pool, task);
    group.wait();
    pool.close();
    for (auto &one : ran) EXPECT_EQ(one, 1);
}

// A tree of tasks: each task submits two more, and the pool is closed while the tree grows.
TEST_P(PoolOf, RunsTasksThatTasksSubmitWhileItIsClosed) {
    struct Tree {
        fiber_pool_t pool;
        std::atomic<int> ran{0};
        static void *node(void *argument) {
            auto *it = static_cast<std::pair<Tree *, int> *>(argument);
            Tree *tree = it->first;
            for (int i = 0; it->second && i < 2; i++) {
                auto *child = new std::pair<Tree *, int>(tree, it->second - 1);
                EXPECT_EQ(fiber_pool_submit(tree->pool, node, child), 0);
            }
            delete it;
            tree->ran++;
            return nullptr;
        }
    };
    const int depth = often(9, 3);
    Pool pool(workers());
    Tree tree{pool};
    EXPECT_EQ(fiber_pool_submit(pool, Tree::node, new std::pair<Tree *, int>(&tree, depth)), 0);
    pool.close();
    EXPECT_EQ(tree.ran, (1 << (depth + 1)) - 1);
}

// Others submit until they are refused, and tasks submit more: every accepted task has run when the close returns.
TEST_P(PoolOf, RunsTasksThatOthersSubmitWhileItIsClosed) {
    const int outsiders = often(3, 2);
    Pool pool(workers());
    const fiber_pool_t handle = pool;
    std::atomic<int> accepted{0}, ran{0};
    auto last = [&] { ran++; };
    auto task = [&] {
        submit(handle, last);
        accepted++;
        ran++;
    };
    std::vector<Thread> threads;
    for (int i = 0; i < outsiders; i++) {
        threads.emplace_back([&] {
            int error;
            while ((error = fiber_pool_submit(handle, entry<decltype(task)>, &task)) == 0) {
                accepted++;
                EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
            }
            EXPECT_TRUE(error == -EPIPE || error == -ESRCH) << error;
        });
    }
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
    pool.close();
    const int at_the_end = ran;
    for (Thread &thread : threads) thread.join();
    EXPECT_EQ(ran, at_the_end);
    EXPECT_EQ(ran, accepted);
}

TEST_P(PoolOf, ManyTasksWaitForOneEvent) {
    const int n = often(1000, 12);
    Pool pool(workers());
    Group group, arrived;
    fiber_event_t event{};
    ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    auto waits = [&] {
        arrived.done();
        EXPECT_EQ(fiber_event_wait(&event), 0);
        group.done();
    };
    group.add(n);
    arrived.add(n);
    for (int i = 0; i < n; i++) submit(pool, waits);
    arrived.wait(); // so a task that waits does not keep others from running
    auto releases = [&] { EXPECT_EQ(fiber_event_set(&event), 0); };
    submit(pool, releases);
    group.wait();
}

TEST_P(PoolOf, ATaskStaysOnItsThread) {
    const int n = often(200, 10);
    Pool pool(workers());
    Group group;
    auto task = [&] {
        const uint64_t cord = this_cord_id();
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            EXPECT_EQ(this_cord_id(), cord);
        }
        group.done();
    };
    group.add(n);
    for (int i = 0; i < n; i++) submit(pool, task);
    group.wait();
}

TEST_P(PoolOf, TasksWaitForTasks) {
    Pool pool(workers());
    const int n = often(50, 5);
    auto outer = [&] {
        Group inner;
        std::atomic<int> ran{0};
        auto task = [&] {
            ran++;
            inner.done();
        };
        inner.add(n);
        for (int i = 0; i < n; i++) submit(pool, task);
        inner.wait();
        EXPECT_EQ(ran, n);
    };
    run_task(pool, outer);
}

// A task that never waits but gives others a turn does not keep a task on the same thread from beginning.
TEST_P(PoolOf, ATaskThatOnlyGivesTurnsLetsOthersBegin) {
    Pool pool(workers());
    Group group;
    std::atomic<bool> set{false};
    auto looks = [&] {
        while (!is_set(set)) EXPECT_EQ(fiber_reschedule(), 0);
        group.done();
    };
    auto sets = [&] {
        set = true;
        group.done();
    };
    group.add(2);
    submit(pool, looks);
    submit(pool, sets);
    group.wait();
}

TEST_P(PoolOf, ScopeHasTasksAsChildren) {
    const int n = often(500, 10);
    Pool pool(workers());
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    ASSERT_EQ(fiber_attr_set_pool(attr, pool), 0);
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    std::atomic<int> ran{0};
    auto child = [](void *ran) -> int64_t { return ++*static_cast<std::atomic<int> *>(ran); };
    for (int i = 0; i < n; i++) ASSERT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, child, &ran), 0);
    int64_t sum = 0, result = 0;
    fiber_t who{};
    while (fiber_scope_next(scope, &who, &result) == 1) {
        sum += result;
        EXPECT_EQ(fiber_state(who), -ESRCH);
    }
    EXPECT_EQ(sum, int64_t(n) * (n + 1) / 2);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

// ---- A task as a fiber ----------------------------------------------------------------------------------------------

TEST(Task, IsAFiberOfItsOwn) {
    Pool pool(1);
    fiber_t first{}, second{};
    fiber_t *which = &first;
    auto task = [&] {
        *which = self();
        const fiber_info_t is = info(*which);
        EXPECT_EQ(is.detached, 1);
        EXPECT_EQ(is.main_flow, 0);
        EXPECT_EQ(is.permit, 0);
        EXPECT_EQ(is.cancelled, 0);
        EXPECT_STREQ(is.name, "");
        EXPECT_GT(is.stack_size, 0u);
        EXPECT_EQ(fiber_detach(*which), -EINVAL);
        EXPECT_EQ(fiber_join(*which, nullptr), -EINVAL);
        EXPECT_EQ(fiber_state(*which), FIBER_RUNNING);
    };
    run_task(pool, task);
    which = &second;
    run_task(pool, task);
    EXPECT_NE(first.id, second.id);
    pool.close();
    EXPECT_EQ(fiber_state(first), -ESRCH);
    EXPECT_EQ(fiber_state(second), -ESRCH);
}

TEST(Task, HandleIsStaleWhenItHasEnded) {
    Pool pool(0); // so all is done by this thread, in order
    fiber_t first{};
    Group group;
    auto begins = [&] {
        first = self();
        group.done();
    };
    auto looks = [&] {
        EXPECT_NE(self().id, first.id);
        EXPECT_EQ(fiber_state(first), -ESRCH);
        EXPECT_EQ(fiber_wakeup(first), -ESRCH);
        EXPECT_EQ(fiber_cancel(first, nullptr), -ESRCH);
        group.done();
    };
    group.add(2);
    submit(pool, begins);
    submit(pool, looks);
    group.wait();
}

// Whatever state a task leaves, the next task on that thread finds none of it.
TEST(Task, LeavesNothingToTheNext) {
    Pool pool(0);
    fiber_key_t key{};
    static int destroyed;
    destroyed = 0;
    ASSERT_EQ(fiber_key_create(&key, [](void *) { destroyed++; }), 0);
    fiber_mutex_t mutex{};
    Group group;
    int fresh = 0;
    auto looks = [&] {
        const int at_begin = errno;
        const fiber_info_t is = info(self());
        EXPECT_STREQ(is.name, "");
        EXPECT_EQ(is.permit, 0);
        EXPECT_EQ(fiber_key_get(key), nullptr);
        EXPECT_EQ(fiber_cancelled(nullptr), 0);
        void *value = nullptr;
        EXPECT_EQ(fiber_interrupted(&value), 0);
        EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
        EXPECT_EQ(fiber_transferrer(nullptr, nullptr), -ESRCH);
        EXPECT_EQ(fegetround(), FE_TONEAREST);
        EXPECT_EQ(at_begin, 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        fresh++;
        group.done();
    };
    auto name = [&] { EXPECT_EQ(fiber_set_name(self(), "named"), 0); };
    auto permit = [&] { EXPECT_EQ(fiber_wakeup(self()), 0); };
    auto value = [&] { EXPECT_EQ(fiber_key_set(key, &key), 0); };
    auto cancels = [&] { EXPECT_EQ(fiber_cancel(self(), nullptr), 0); };
    auto interrupts = [&] { EXPECT_EQ(fiber_interrupt(self(), nullptr), 0); };
    auto interrupted = [&] {
        EXPECT_EQ(fiber_interrupt(self(), nullptr), 0);
        EXPECT_EQ(fiber_reschedule(), -EINTR);
    };
    auto noswitch = [&] { EXPECT_EQ(fiber_noswitch_enter(), 0); };
    auto scope = [&] {
        fiber_scope_t left{};
        EXPECT_EQ(fiber_scope_open(&left, 0, 0), 0);
    };
    auto locks = [&] { EXPECT_EQ(fiber_mutex_lock(&mutex), 0); };
    auto exits = [&] { fiber_exit(nullptr); };
    auto transfers = [&] {
        fiber_t task = self();
        auto gives = [&] { EXPECT_EQ(fiber_transfer(task, nullptr, nullptr), -ECANCELED); };
        fiber_t giver = create(gives);
        EXPECT_EQ(fiber_transfer(giver, nullptr, nullptr), 0);
        EXPECT_EQ(fiber_cancel(giver, nullptr), 0);
        expect_joined(fiber_join(giver, nullptr));
    };
    auto each = [&](auto &body) {
        group.add();
        submit(pool, body);
        submit(pool, looks);
        group.wait();
    };
    auto rounds = [&] { EXPECT_EQ(fesetround(FE_UPWARD), 0); };
    auto fails = [&] { errno = ERANGE; };
    each(rounds);
    each(fails);
    each(name);
    each(permit);
    each(value);
    each(cancels);
    each(interrupts);
    each(interrupted);
    each(noswitch);
    each(scope);
    each(locks);
    each(exits);
    each(transfers);
    EXPECT_EQ(fresh, 13);
    EXPECT_EQ(destroyed, 1);
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(Task, ExceptionsAreItsOwn) {
    Pool pool(2);
    Group group;
    std::atomic<int> caught{0};
    auto task = [&] {
        try {
            throw std::runtime_error("mine");
        } catch (const std::runtime_error &error) {
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0); // others are caught meanwhile
            EXPECT_STREQ(error.what(), "mine");
            caught++;
        }
        group.done();
    };
    const int n = often(100, 5);
    group.add(n);
    for (int i = 0; i < n; i++) submit(pool, task);
    group.wait();
    EXPECT_EQ(caught, n);
}

TEST(Task, CanBeCancelledAndInterrupted) {
    Pool pool(1);
    Group group, ready;
    fiber_t fiber{};
    int result = 0;
    auto task = [&] {
        fiber = self();
        ready.done();
        result = fiber_sleep(FIBER_SEC(100));
        group.done();
    };
    auto begin = [&] {
        group.add();
        ready.add();
        submit(pool, task);
        ready.wait();
    };
    begin();
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    group.wait();
    EXPECT_EQ(result, -ECANCELED);
    begin();
    EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
    group.wait();
    EXPECT_EQ(result, -EINTR);
    auto plain = [&] { EXPECT_EQ(fiber_sleep(0), 0); };
    run_task(pool, plain);
}

TEST(Task, OnTheSameThread) {
    Pool pool(often(4, 2));
    Group group;
    auto outer = [&] {
        const uint64_t cord = this_cord_id();
        Group inner;
        auto same = [&] {
            EXPECT_EQ(this_cord_id(), cord);
            inner.done();
        };
        inner.add(20);
        for (int i = 0; i < 20; i++) submit(pool, same, FIBER_TASK_SAME_THREAD);
        inner.wait();
        group.done();
    };
    group.add(10);
    for (int i = 0; i < 10; i++) submit(pool, outer);
    group.wait();
    auto never = [] { ADD_FAILURE(); };
    EXPECT_EQ(fiber_pool_submit_flags(pool, entry<decltype(never)>, &never, FIBER_TASK_SAME_THREAD), -EPERM);
}

// That tasks which submit their like, by these flags, do not keep another one from beginning.
void expect_a_turn_beside(uint32_t flags_of_many, uint32_t flags_of_one) {
    Pool pool(0);
    bool ran = false;
    int times = 0;
    struct Again {
        fiber_pool_t pool;
        uint32_t flags;
        bool *ran;
        int *times;
        void operator()() {
            if (!*ran && ++*times < 1000) submit(pool, *this, flags);
        }
    } many{pool, flags_of_many, &ran, &times};
    auto one = [&] { ran = true; };
    submit(pool, many, flags_of_many);
    submit(pool, one, flags_of_one);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    pool.close();
    EXPECT_TRUE(ran);
    EXPECT_LT(times, 3);
}

TEST(Task, OnTheSameThreadLeavesOthersATurn) { expect_a_turn_beside(FIBER_TASK_SAME_THREAD, 0); }

TEST(Task, OnTheSameThreadHasItsTurnAmongOthers) { expect_a_turn_beside(0, FIBER_TASK_SAME_THREAD); }

// A worker that has just been called for a fiber is no good place for a task if that fiber runs long: then another
// worker takes the task.
TEST(Task, DoesNotWaitBehindALongRunningFiber) {
    const int times = often(20, 3);
    Pool pool(4);
    for (int i = 0; i < times; i++) {
        Group group;
        std::atomic<bool> waiting{false}, ran{false};
        fiber_event_t event{};
        ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
        auto runs_long = [&] {
            waiting = true;
            EXPECT_EQ(fiber_event_wait(&event), 0);
            await_holding_the_thread([&] { return ran.load(); });
            group.done();
        };
        auto task = [&] {
            ran = true;
            group.done();
        };
        group.add(2);
        submit(pool, runs_long);
        await([&] { return waiting.load(); });
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // it waits, and the workers sleep, if all goes well
        EXPECT_EQ(fiber_event_set(&event), 0);
        submit(pool, task);
        group.wait();
    }
}

// Woken fibers go on before new tasks begin.
TEST(Task, WokenFibersComeFirst) {
    Pool pool(0);
    Group group;
    Trace trace;
    fiber_t sleeper{};
    auto sleeps = [&] {
        sleeper = self();
        EXPECT_EQ(fiber_yield(), 0);
        trace += "woken ";
        group.done();
    };
    auto wakes = [&] {
        EXPECT_EQ(fiber_wakeup(sleeper), 0);
        trace += "wakes ";
        group.done();
    };
    auto last = [&] {
        trace += "last ";
        group.done();
    };
    group.add(3);
    submit(pool, sleeps);
    submit(pool, wakes);
    submit(pool, last);
    group.wait();
    EXPECT_EQ(trace, "wakes woken last ");
}

// ---- Children -------------------------------------------------------------------------------------------------------

class PoolChild : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_pool(attr, pool), 0);
        ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    }
    void TearDown() override { EXPECT_EQ(fiber_attr_destroy(attr), 0); }
    static int64_t never(void *) {
        ADD_FAILURE();
        return 0;
    }
    Pool pool{0}; // this thread is the only one: nothing begins before it waits
    fiber_attr_t *attr = nullptr;
    fiber_scope_t scope{};
};

TEST_F(PoolChild, LooksAtItsScopeBeforeItBegins) {
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, never, nullptr), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, never, nullptr), 0); // nor do those that come later
    int64_t failure = 1;
    EXPECT_EQ(fiber_scope_close(scope, &failure), -ECANCELED);
    EXPECT_EQ(failure, 0);
}

TEST_F(PoolChild, IsCancelledWhileItRuns) {
    auto child = [](void *) -> int64_t { return fiber_sleep(FIBER_SEC(100)); };
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, child, nullptr), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ECANCELED);
}

TEST_F(PoolChild, FailureCancelsTasksThatHaveNotBegun) {
    auto fails = [](void *) -> int64_t { return -EIO; };
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, fails, nullptr), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, never, nullptr), 0);
    int64_t failure = 0;
    EXPECT_EQ(fiber_scope_close(scope, &failure), 0);
    EXPECT_EQ(failure, -EIO);
}

TEST_F(PoolChild, ExitsWithItsResult) {
    auto exits = [](void *) -> int64_t {
        fiber_exit(pointer(42));
        return 0;
    };
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, exits, nullptr), 0);
    int64_t result = 0;
    EXPECT_EQ(fiber_scope_next(scope, nullptr, &result), 1);
    EXPECT_EQ(result, 42);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
}

TEST_F(PoolChild, ThatIsRefusedWasNeverAChild) {
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, never, nullptr), -ENXIO);
    EXPECT_EQ(fiber_scope_next(scope, nullptr, nullptr), 0);
    int64_t failure = 1;
    EXPECT_EQ(fiber_scope_close(scope, &failure), 0);
    EXPECT_EQ(failure, 0);
}

TEST_F(PoolChild, ThatIsRefusedEndsNoSelect) {
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
    auto slow = [](void *) -> int64_t { return fiber_sleep(FIBER_MSEC(5)) ? -1 : 7; };
    EXPECT_EQ(fiber_scope_spawn(scope, nullptr, slow, nullptr), 0);
    auto spawns = [&] { EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, never, nullptr), -ENXIO); };
    fiber_t fiber = spawn(spawns);
    fiber_case_t what{};
    what.kind = FIBER_CASE_SCOPE;
    what.scope = scope;
    EXPECT_EQ(fiber_select(&what, 1, FIBER_FOREVER), 0);
    EXPECT_EQ(what.result, 1);
    EXPECT_EQ(what.number, 7);
    join(fiber);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
}

TEST_F(PoolChild, HasNoHandleBeforeItBegins) {
    fiber_t out{};
    EXPECT_EQ(fiber_scope_spawn_attr(scope, &out, attr, never, nullptr), -EINVAL);
    EXPECT_EQ(fiber_attr_set_cord(attr, this_cord_handle()), 0);
    EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, attr, never, nullptr), -EINVAL);
    EXPECT_EQ(fiber_new(
                  &out, attr, [](void *) -> void * { return nullptr; }, nullptr),
              -EINVAL);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
}

// ---- Threads that are bound -----------------------------------------------------------------------------------------

TEST(Bound, RunsTasksWhenItWaits) {
    Pool pool(0);
    bool ran = false;
    auto task = [&] { ran = true; };
    submit(pool, task);
    EXPECT_FALSE(ran);
    while (!ran) EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // a wait that is over at once runs none
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
    EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), -ENXIO);
}

// As in marl: where there are workers, a bound thread runs the tasks that are for it alone.
TEST(Bound, WithoutHelpRunsOnlyItsOwnTasksWhileThereAreWorkers) {
    PoolAttr attr(1);
    EXPECT_EQ(fiber_pool_attr_set_bound_help(attr, 0), 0);
    Pool pool(attr);
    EXPECT_EQ(fiber_pool_bind(pool), 0);
    const uint64_t here = this_cord_id();
    const int tasks = often(200, 20);
    std::atomic<int> elsewhere{0};
    Group group;
    auto task = [&] {
        if (this_cord_id() != here) elsewhere++;
        group.done();
    };
    for (int i = 0; i < tasks; i++) {
        group.add();
        submit(pool, task);
        if (i % 10 == 0) {
            EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); // it could take some
        }
    }
    group.wait();
    EXPECT_EQ(elsewhere, tasks);
    bool ran_here = false;
    auto own = [&] { ran_here = this_cord_id() == here; };
    submit(pool, own, FIBER_TASK_SAME_THREAD);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    EXPECT_TRUE(ran_here);
    auto submits = [&] { // a task of a bound thread's own gives the workers others
        group.add();
        submit(pool, task);
    };
    submit(pool, submits, FIBER_TASK_SAME_THREAD);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    group.wait();
    EXPECT_EQ(elsewhere, tasks + 1);
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
}

TEST(Bound, WithoutHelpTakesAllTasksWhereThereIsNoWorker) {
    PoolAttr attr(0);
    EXPECT_EQ(fiber_pool_attr_set_bound_help(attr, 0), 0);
    Pool pool(attr);
    EXPECT_EQ(fiber_pool_bind(pool), 0);
    run_task(pool, [] {});
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
}

// Each task waits until all that may begin have begun, so that without the limit all of them would have.
TEST(TaskLimit, NoMoreTasksThanThatHaveBegunAndNotEnded) {
    constexpr int limit = 3;
    PoolAttr attr(1);
    EXPECT_EQ(fiber_pool_attr_set_task_limit(attr, limit), 0);
    Pool pool(attr);
    const int tasks = often(60, 12);
    std::atomic<int> begun{0}, most{0};
    Group group;
    auto task = [&] {
        const int now = ++begun;
        if (now > most) most = now;
        EXPECT_EQ(fiber_sleep(FIBER_USEC(200)), 0); // the others could begin
        begun--;
        group.done();
    };
    for (int i = 0; i < tasks; i++) {
        group.add();
        submit(pool, task);
    }
    group.wait();
    EXPECT_LE(most, limit);
    EXPECT_EQ(begun, 0);
}

// The tasks of one thread that has as many as it may are taken by another one.
TEST(TaskLimit, TasksOfAThreadAtItsLimitAreTakenByOthers) {
    PoolAttr attr(2);
    EXPECT_EQ(fiber_pool_attr_set_task_limit(attr, 1), 0);
    Pool pool(attr);
    fiber_event_t go = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    std::atomic<int> begun{0};
    Group group;
    auto waits = [&] {
        begun++;
        EXPECT_EQ(fiber_event_wait(&go), 0);
        group.done();
    };
    for (int i = 0; i < 4; i++) {
        group.add();
        submit(pool, waits);
    }
    await([&] { return begun == 2; }); // one on each
    for (int i = 0; i < often(20, 5); i++) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
    EXPECT_EQ(begun, 2);
    EXPECT_EQ(fiber_event_set(&go), 0);
    group.wait();
    EXPECT_EQ(begun, 4);
}

// A task that leaves something behind ends as a fiber does, and the next one still begins; children of a scope
// are tasks like the others; a bound thread has the limit, too.
TEST(TaskLimit, CountsEveryKindOfTaskAndOfEnd) {
    PoolAttr attr(0);
    EXPECT_EQ(fiber_pool_attr_set_task_limit(attr, 1), 0);
    Pool pool(attr);
    EXPECT_EQ(fiber_pool_bind(pool), 0);
    fiber_attr_t *children = nullptr;
    EXPECT_EQ(fiber_attr_create(&children), 0);
    EXPECT_EQ(fiber_attr_set_pool(children, pool), 0);
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    static int running;
    running = 0;
    auto child = [](void *) -> int64_t {
        EXPECT_EQ(++running, 1);
        EXPECT_EQ(fiber_set_name(self(), "leaves its name"), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        running--;
        return 1;
    };
    for (int i = 0; i < 5; i++) EXPECT_EQ(fiber_scope_spawn_attr(scope, nullptr, children, child, nullptr), 0);
    int ended = 0;
    for (int64_t result = 0; fiber_scope_next(scope, nullptr, &result) == 1; ended++) EXPECT_EQ(result, 1);
    EXPECT_EQ(ended, 5);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    fiber_attr_destroy(children);
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
}

TEST(TaskLimit, BadArguments) {
    PoolAttr attr;
    EXPECT_EQ(fiber_pool_attr_set_task_limit(attr, -1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_task_limit(nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_task_limit(attr, INT_MAX), 0);
    EXPECT_EQ(fiber_pool_attr_set_bound_help(nullptr, 1), -EINVAL);
}

// A task can be waited for by the handle that it has while it runs.
TEST(Bound, ATaskIsAwaited) {
    Pool pool(0);
    fiber_t task_fiber{};
    auto task = [&] {
        task_fiber = self();
        EXPECT_EQ(fiber_yield(), 0);
    };
    submit(pool, task);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    ASSERT_NE(task_fiber.id, 0u);
    auto awaits = [&] { return pointer(fiber_await(task_fiber)); };
    fiber_t other = start(awaits);
    EXPECT_EQ(fiber_wakeup(task_fiber), 0);
    EXPECT_EQ(join(other), pointer(0));
    EXPECT_EQ(fiber_state(task_fiber), -ESRCH);
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
}

TEST(Bound, UnbindingRunsTheRemainingTasks) {
    Pool pool(0);
    int ran = 0;
    auto slow = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        ran++;
    };
    auto submits = [&] {
        submit(pool, slow);
        submit(pool, slow, FIBER_TASK_SAME_THREAD);
        ran++;
    };
    submit(pool, submits);
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
    EXPECT_EQ(ran, 3);
}

// One fiber of the thread closes the pool, which unbinds the thread in the end, another one unbinds it meanwhile.
TEST(Bound, TwoFibersUnbindTheThread) {
    Pool pool(0);
    const fiber_pool_t handle = pool;
    auto slow = [] { EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0); };
    submit(pool, slow);
    auto unbinds = [&] { EXPECT_EQ(fiber_pool_unbind(handle), 0); };
    fiber_t fiber = spawn(unbinds);
    pool.close();
    expect_joined(fiber_join_timeout(fiber, nullptr, FIBER_SEC(10)));
}

TEST(Bound, ACordEndsWhileAFiberUnbindsIt) {
    Pool pool(0);
    const fiber_pool_t handle = pool;
    auto slow = [] { EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0); };
    auto unbinds = [&] { EXPECT_EQ(fiber_pool_unbind(handle), 0); };
    auto body = [&] {
        EXPECT_EQ(fiber_pool_bind(handle), 0);
        submit(handle, slow, FIBER_TASK_SAME_THREAD);
        EXPECT_EQ(fiber_detach(spawn(unbinds)), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    };
    expect_joined(fiber_cord_join_timeout(start_cord(body), nullptr, FIBER_SEC(10)));
}

// One fiber of the thread gives up unbinding it at the moment at which another fiber, the cord's end, is told to check
// again and finds one more task: the second fiber goes on to leave, and takes no tasks from others.
TEST(Bound, AThreadThatIsAboutToLeaveTakesNothingFromOthers) {
    fiber_pool_t pool{};
    ASSERT_EQ(fiber_pool_create(&pool, PoolAttr(0)), 0);
    std::atomic<bool> leaves{false}, given{false}, ended{false};
    std::atomic<int> ran{0};
    uint64_t leaver = 0;
    fiber_event_t event{};
    ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    auto others = [&] {
        EXPECT_NE(this_cord_id(), leaver);
        ran++;
    };
    auto helper = [&] { // gives its worker much to do, and runs none of it
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        while (!is_set(leaves)) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        for (int i = 0; i < 10; i++) submit(pool, others);
        given = true;
        await_holding_the_thread([&] { return ended.load(); });
    };
    auto waits = [&] {
        EXPECT_EQ(fiber_event_wait(&event), 0);
        EXPECT_EQ(fiber_set_name(self(), "named"), 0); // so it ends as a fiber, and gives no other a turn before
    };
    auto more = [&] { ran++; };
    auto unbinds = [&] {
        EXPECT_EQ(fiber_pool_unbind(pool), -EINTR);
        submit(pool, more, FIBER_TASK_SAME_THREAD);
    };
    fiber_t unbinding{};
    auto disturbs = [&] {
        leaves = true;
        while (!is_set(given)) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        EXPECT_EQ(fiber_event_set(&event), 0);             // the task ends, by which both are woken,
        EXPECT_EQ(fiber_interrupt(unbinding, nullptr), 0); // but this one has been before
    };
    auto body = [&] {
        leaver = this_cord_id();
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        submit(pool, waits, FIBER_TASK_SAME_THREAD);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        unbinding = spawn(unbinds);
        EXPECT_EQ(fiber_detach(unbinding), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_detach(spawn(disturbs)), 0);
    };
    fiber_cord_t helping = start_cord(helper), leaving = start_cord(body);
    join_cord(leaving);
    ended = true;
    join_cord(helping);
    EXPECT_EQ(ran, 11);
    EXPECT_EQ(fiber_pool_close(pool), 0);
}

// Once a cord's function has returned, the ending cord cannot be bound: no call would unbind it.
TEST(Bound, ACordThatEndsIsNotBoundAnyMore) {
    Pool pool(0);
    const fiber_pool_t handle = pool;
    int error = 0;
    auto late = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        error = fiber_pool_bind(handle);
    };
    auto body = [&] { EXPECT_EQ(fiber_detach(spawn(late)), 0); };
    join_cord(start_cord(body));
    EXPECT_EQ(error, -EPIPE);
}

TEST(Bound, ManyThreadsBindAndUnbind) {
    const int n = often(1000, 12), at_a_time = often(20, 3);
    Pool pool(2);
    std::atomic<int> ran{0};
    auto task = [&] { ran++; };
    for (int begun = 0; begun < n;) {
        std::vector<Thread> threads;
        for (int i = 0; i < at_a_time && begun < n; i++, begun++) {
            threads.emplace_back([&] {
                EXPECT_EQ(fiber_pool_bind(pool), 0);
                EXPECT_EQ(fiber_pool_bind(pool), -EBUSY);
                for (int k = 0; k < 3; k++) submit(pool, task);
                submit(pool, task, FIBER_TASK_SAME_THREAD);
                EXPECT_EQ(fiber_pool_unbind(pool), 0);
            });
        }
        for (Thread &thread : threads) thread.join();
    }
    pool.close();
    EXPECT_EQ(ran, 4 * n);
}

// The thread's last task may end before the thread sees that the pool is being closed, and after the closer has checked
// whether all has ended: then only the thread, which leaves, can notify the closer. To make that likely, the task's
// stores to uncached memory are still under way when the task ends, and the closer comes at a different moment each
// time.
TEST(Bound, LeavesWhileThePoolIsClosed) {
    NEEDS_THREADS();
    const int rounds = often(2000, 20);
    const size_t stores = 8, apart = often(8 << 20, 4096);
    std::vector<char> memory(stores * apart);
    std::atomic<int> round{0}, running{0};
    std::atomic<uint64_t> handle{0};
    auto task = [&] {
        running = round.load();
        const size_t at = size_t(running) * 4160 % apart;
        for (size_t i = 0; i < stores; i++) const_cast<volatile char &>(memory[i * apart + at]) = 1;
    };
    Thread bound([&] {
        for (int mine = 1; mine <= rounds; mine++) {
            EXPECT_TRUE(await_holding_the_thread([&] { return round == mine || round < 0; }));
            if (round != mine) return;
            const fiber_pool_t pool = {handle};
            EXPECT_EQ(fiber_pool_bind(pool), 0);
            submit(pool, task, FIBER_TASK_SAME_THREAD);
            EXPECT_EQ(fiber_pool_unbind(pool), 0);
        }
    });
    int verdict = 0;
    for (int now = 1; now <= rounds && verdict == 0; now++) {
        Pool pool(1);
        handle = static_cast<fiber_pool_t>(pool).id;
        round = now;
        for (const int64_t end = fiber_now() + FIBER_SEC(60); running != now && fiber_now() < end;) continue;
        for (int i = 0; i < now % 500; i++) asm volatile("");
        FIBER_WITH_TIMEOUT(FIBER_SEC(20), &verdict) { pool.close(); }
        EXPECT_EQ(verdict, 0) << "in round " << now;
    }
    if (verdict) round = -1;
    bound.join();
}

// A thread that only waits helps the pool's only worker, which is kept busy by a task.
TEST(Bound, TakesTasksFromOthers) {
    Pool pool(1);
    ASSERT_EQ(fiber_pool_bind(pool), 0);
    Group group;
    std::atomic<bool> hogging{false}, ran{false};
    const uint64_t here = this_cord_id();
    auto task = [&] {
        EXPECT_EQ(this_cord_id(), here);
        ran = true;
        group.done();
    };
    auto hogs = [&] {
        EXPECT_NE(this_cord_id(), here);
        hogging = true;
        submit(pool, task);
        await_holding_the_thread([&] { return ran.load(); });
        group.done();
    };
    group.add(2);
    submit(pool, hogs);
    await_holding_the_thread([&] { return hogging.load(); }); // so it is the worker that has taken it
    group.wait();
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
}

TEST(Bound, AThreadThatExitsLeavesItsTasksToOthers) {
    Pool pool(0);
    std::atomic<int> ran{0};
    auto task = [&] { ran++; };
    const fiber_pool_t handle = pool;
    in_thread([&] {
        EXPECT_EQ(fiber_pool_bind(handle), 0);
        for (int i = 0; i < 10; i++) submit(handle, task);
    });
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    pool.close();
    EXPECT_EQ(ran, 10);
}

TEST(Bound, TasksThatNoThreadCanRunAreReported) {
    NOT_ON_SIM("ends its cords with their fibers");
    fiber_pool_t pool{};
    ASSERT_EQ(fiber_pool_create(&pool, PoolAttr(0)), 0);
    auto never = [] { ADD_FAILURE(); };
    in_thread([&] {
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        submit(pool, never);
        submit(pool, never, FIBER_TASK_SAME_THREAD);
    });
    EXPECT_EQ(fiber_pool_close(pool), -EOWNERDEAD);
    EXPECT_EQ(fiber_pool_close(pool), -ESRCH);
}

TEST(Bound, ACordThatWasStartedUnbindsAtItsEnd) {
    Pool pool(0);
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
    std::atomic<int> ran{0};
    auto task = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        ran++;
    };
    auto body = [&] {
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        submit(pool, task);
        submit(pool, task, FIBER_TASK_SAME_THREAD);
    };
    join_cord(start_cord(body));
    EXPECT_EQ(ran, 2);
}

// No memory for a stack: the thread sleeps, and its other fibers go on, until there is some again.
TEST(Bound, WaitsForMemory) {
    NEEDS_THREADS();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    Pool pool(0);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    bool ran = false;
    auto task = [&] { ran = true; };
    submit(pool, task);
    rlimit none = before;
    none.rlim_cur = 1;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    const int slept = fiber_sleep(FIBER_MSEC(5)); // whether the task finds a stack that is kept depends on other tests
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_EQ(slept, 0);
    pool.close();
    EXPECT_TRUE(ran);
}

// As before, but another worker has the tasks, and is too busy for them.
TEST(Bound, WaitsForMemoryForTheTasksOfOthers) {
    NEEDS_THREADS();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    Pool pool(1);
    Group group;
    std::atomic<bool> begun{false}, limited{false}, slept{false};
    auto small = [&] { group.done(); };
    auto busy = [&] {
        begun = true;
        EXPECT_TRUE(await_holding_the_thread([&] { return limited.load(); }));
        for (int i = 0; i < 100; i++) submit(pool, small);
        EXPECT_TRUE(await_holding_the_thread([&] { return slept.load(); }));
        group.done();
    };
    group.add(101);
    submit(pool, busy);
    EXPECT_TRUE(await_holding_the_thread([&] { return begun.load(); }));
    EXPECT_EQ(fiber_pool_bind(pool), 0);
    rlimit before{}, none{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 1;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    limited = true;
    const int result = fiber_sleep(FIBER_MSEC(20));
    slept = true;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_EQ(result, 0);
    group.wait();
    EXPECT_EQ(fiber_pool_unbind(pool), 0);
}

// Whether a thread of this process is asleep.
bool thread_sleeps(int number) {
    char text[512] = {};
    const int fd = ::open(("/proc/self/task/" + std::to_string(number) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t size = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    const char *end = size > 0 ? strrchr(text, ')') : nullptr;
    return end && end[1] == ' ' && end[2] == 'S';
}

// No memory for a stack or a fiber while there are others, which wait for the task: another worker has it, and runs it.
TEST(PoolWorkers, WithoutAStackLeaveTheTaskToOthers) {
    NEEDS_THREADS();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    constexpr int most = 5000;
    PoolAttr attr(2);
    static std::atomic<uint64_t> first_worker;
    auto init = [](void *, int worker) {
        if (!worker) first_worker = this_cord_id();
    };
    ASSERT_EQ(fiber_pool_attr_set_init(attr, init, nullptr), 0);
    ASSERT_EQ(fiber_pool_attr_set_spin(attr, 0), 0);
    Pool pool(attr);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // there is memory for that later on
    Group group, both;
    fiber_event_t event{};
    ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    rlimit before{}, none{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 1;
    std::atomic<int> arrived{0};
    auto waits = [&] {
        arrived++;
        EXPECT_EQ(fiber_event_wait(&event), 0);
    };
    std::vector<fiber_t> fibers;
    fibers.reserve(most);
    bool exhausted = false;
    std::atomic<int> here{0};
    auto uses_all = [&] { // uses up all available stacks of the first worker, which is called first
        here++;
        EXPECT_TRUE(await_holding_the_thread([&] { return here == 2; })); // so that the other worker has one as well
        if (this_cord_id() != first_worker) return both.done();
        ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
        for (int i = 0; i < most && !exhausted; i++) {
            fiber_t fiber{};
            exhausted = fiber_spawn(&fiber, entry<decltype(waits)>, &waits) != 0;
            if (!exhausted) fibers.push_back(fiber);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            exhausted |= arrived <= i;
        }
        group.done();
        for (fiber_t fiber : fibers) expect_joined(fiber_join(fiber, nullptr));
        both.done();
    };
    both.add(2);
    group.add();
    submit(pool, uses_all);
    submit(pool, uses_all);
    group.wait();
    auto nothing = [&] { group.done(); };
    auto sets = [&] { EXPECT_EQ(fiber_event_set(&event), 0); };
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        group.add();
        submit(pool, nothing);
        group.wait();
    }
    submit(pool, sets);
    both.wait();
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_TRUE(exhausted);
}

// As before, while a fiber that was woken together with the task keeps the worker's thread: the pool calls other
// workers before that fiber runs. A signal handler holds the sleeping thread until both have been sent to it.
TEST(PoolWorkers, WithoutAStackLeaveTheTaskToOthersAtOnce) {
    NEEDS_THREADS();
    NEEDS_LIMITS_ON_ADDRESS_SPACE();
    constexpr int most = 5000;
    static std::atomic<uint64_t> first_worker;
    static std::atomic<pthread_t> first_thread;
    static std::atomic<int> first_number;
    static std::atomic<bool> kept, let_go;
    kept = let_go = false;
    PoolAttr attr(2);
    auto init = [](void *, int worker) {
        if (worker) return;
        first_worker = this_cord_id();
        first_thread = pthread_self();
        first_number = int(syscall(SYS_gettid));
        sigset_t unblocked;
        sigemptyset(&unblocked);
        sigaddset(&unblocked, SIGUSR1);
        EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr), 0);
    };
    ASSERT_EQ(fiber_pool_attr_set_init(attr, init, nullptr), 0);
    ASSERT_EQ(fiber_pool_attr_set_spin(attr, 0), 0);
    struct sigaction keeps = {}, old_action = {};
    keeps.sa_handler = [](int) {
        kept = true;
        while (!let_go) continue;
    };
    ASSERT_EQ(sigaction(SIGUSR1, &keeps, &old_action), 0);
    Pool pool(attr);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); // there is memory for that later on
    fiber_event_t wakes_keeper{}, event{};
    ASSERT_EQ(fiber_event_init(&wakes_keeper, FIBER_EVENT_MANUAL), 0);
    ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    rlimit before{}, none{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 1;
    std::atomic<bool> exhausted{false};
    std::atomic<uint64_t> ran_on{0};
    auto task = [&] { ran_on = this_cord_id(); };
    auto keeper = [&] {
        EXPECT_EQ(fiber_event_wait(&wakes_keeper), 0);
        EXPECT_TRUE(await_holding_the_thread([&] { return ran_on != 0; }));
    };
    int arrived = 0;
    auto waits = [&] {
        arrived++;
        EXPECT_EQ(fiber_event_wait(&event), 0);
    };
    std::atomic<int> here{0};
    Group both;
    auto uses_all = [&] {
        here++;
        EXPECT_TRUE(await_holding_the_thread([&] { return here >= 2; })); // so that the other one has a stack as well
        if (this_cord_id() != first_worker) return both.done();
        const fiber_t kept_by = start(keeper);
        EXPECT_EQ(fiber_reschedule(), 0);
        std::vector<fiber_t> fibers;
        for (int i = 0; i < most; i++) fibers.push_back(create(waits));
        for (fiber_t fiber : fibers) { // their records remain, but not their stacks
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            expect_joined(fiber_join(fiber, nullptr));
        }
        fibers.clear();
        ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
        while (!exhausted && fibers.size() < most) {
            fiber_t fiber{};
            if (fiber_spawn(&fiber, entry<decltype(waits)>, &waits) != 0) break;
            fibers.push_back(fiber);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            if (arrived == int(fibers.size())) continue;
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            expect_joined(fiber_join(fiber, nullptr));
            fibers.pop_back();
            exhausted = true;
        }
        here++;
        for (fiber_t fiber : fibers) expect_joined(fiber_join(fiber, nullptr));
        join(kept_by);
        both.done();
    };
    both.add(2);
    submit(pool, uses_all);
    submit(pool, uses_all);
    EXPECT_TRUE(await([&] { return here == 3; }));
    EXPECT_TRUE(exhausted);
    EXPECT_TRUE(await([&] { return thread_sleeps(first_number); }));
    EXPECT_EQ(pthread_kill(first_thread, SIGUSR1), 0);
    EXPECT_TRUE(await_holding_the_thread([&] { return kept.load(); }));
    submit(pool, task);
    EXPECT_EQ(fiber_event_set(&wakes_keeper), 0);
    let_go = true;
    EXPECT_TRUE(await([&] { return ran_on != 0; }));
    EXPECT_NE(ran_on, first_worker);
    EXPECT_EQ(fiber_event_set(&event), 0);
    both.wait();
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    ASSERT_EQ(sigaction(SIGUSR1, &old_action, nullptr), 0);
}

// ---- The end --------------------------------------------------------------------------------------------------------

TEST(PoolEnd, IsAwaited) {
    for (int workers : {0, 1, 3}) {
        Pool pool(workers);
        std::atomic<int> ran{0};
        auto task = [&] {
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
            ran++;
        };
        for (int i = 0; i < 10; i++) submit(pool, task);
        pool.close();
        EXPECT_EQ(ran, 10);
    }
}

TEST(PoolEnd, NoOtherThreadSubmitsAnyMore) {
    Pool pool(1);
    const fiber_pool_t handle = pool;
    std::atomic<int> refused{0}, accepted{0};
    std::atomic<bool> seen{false};
    auto last = [&] { accepted++; };
    auto task = [&] { // lives until the others have been refused
        while (!is_set(seen)) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        submit(handle, last);
    };
    auto early = [&] { accepted++; };
    auto outsider = [&] {
        for (;;) {
            const int error = fiber_pool_submit(handle, entry<decltype(early)>, &early);
            if (!error) {
                accepted--;
                EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
                continue;
            }
            EXPECT_EQ(error, -EPIPE);
            break;
        }
        EXPECT_EQ(fiber_pool_bind(handle), -EPIPE);
        EXPECT_EQ(fiber_pool_close(handle), -EBUSY);
        refused++;
        seen = true;
    };
    submit(pool, task);
    fiber_t fiber = spawn(outsider);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    pool.close();
    EXPECT_EQ(refused, 1);
    EXPECT_EQ(accepted, 1);
    join(fiber);
    EXPECT_EQ(fiber_pool_submit(handle, entry<decltype(last)>, &last), -ESRCH);
    EXPECT_EQ(fiber_pool_bind(handle), -ESRCH);
    EXPECT_EQ(fiber_pool_unbind(handle), -ESRCH);
    EXPECT_EQ(fiber_pool_close(handle), -ESRCH);
}

// A refused task does not use up a worker's place among those that may be called.
TEST(PoolEnd, RefusedTasksKeepNoWorkerIdle) {
    NEEDS_THREADS();
    constexpr int workers = 4;
    Pool pool(workers);
    const fiber_pool_t handle = pool;
    std::atomic<bool> refused{false};
    std::atomic<int> running{0};
    auto never = [] { ADD_FAILURE(); };
    auto task = [&] { // all of them at once, each on its own thread
        running++;
        await_holding_the_thread([&] { return running == workers; });
    };
    auto feeds = [&] {
        while (!is_set(refused)) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        for (int i = 0; i < workers; i++) submit(handle, task);
    };
    submit(pool, feeds);
    Thread outsider([&] {
        while (fiber_pool_bind(handle) != -EPIPE) EXPECT_EQ(fiber_pool_unbind(handle), 0); // until it is being closed
        for (int i = 0; i < 2 * workers; i++) {
            EXPECT_EQ(fiber_pool_submit(handle, entry<decltype(never)>, &never), -EPIPE);
        }
        refused = true;
    });
    pool.close();
    outsider.join();
    EXPECT_EQ(running, workers);
}

// Also when its workers work no more, and only a fiber that a task has made still runs on one of them.
TEST(PoolEnd, RefusesTasksOnceTheWorkersHaveLeft) {
    Pool pool(1);
    const fiber_pool_t handle = pool;
    std::atomic<bool> told{false};
    auto stays = [&] {
        while (!is_set(told)) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
    };
    auto spawns = [&] { EXPECT_EQ(fiber_detach(spawn(stays)), 0); };
    auto never = [] { ADD_FAILURE(); };
    run_task(pool, spawns);
    auto outsider = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0); // the worker has left by then, if all goes well
        EXPECT_EQ(fiber_pool_submit(handle, entry<decltype(never)>, &never), -EPIPE);
        told = true;
    };
    fiber_t fiber = spawn(outsider);
    pool.close();
    join(fiber);
}

TEST(PoolEnd, CanBeAskedForAgain) {
    Pool pool(1);
    const fiber_pool_t handle = pool;
    Group group;
    fiber_t fiber{};
    auto task = [&] {
        fiber = self();
        group.done();
        EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED);
    };
    group.add();
    submit(pool, task);
    group.wait();
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_MSEC(2), 0), 0);
    EXPECT_EQ(fiber_pool_close(handle), -ETIMEDOUT);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    pool.close();
}

TEST(PoolEnd, IsRefusedToTasks) {
    Pool pool(1);
    const fiber_pool_t handle = pool;
    auto task = [&] {
        EXPECT_EQ(fiber_pool_close(handle), -EDEADLK);
        EXPECT_EQ(fiber_pool_unbind(handle), -EPERM); // of a worker
        EXPECT_EQ(fiber_pool_bind(handle), -EBUSY);
        EXPECT_EQ(fiber_cord_shutdown(this_cord_handle(), 0, 0), -EBUSY);
        auto fiber = [&] { EXPECT_EQ(fiber_pool_close(handle), -EDEADLK); };
        run(fiber);
    };
    run_task(pool, task);
    Pool bound(0);
    const fiber_pool_t other = bound;
    auto unbinds = [&] {
        EXPECT_EQ(fiber_pool_unbind(other), -EDEADLK);
        EXPECT_EQ(fiber_pool_close(other), -EDEADLK);
        EXPECT_EQ(fiber_pool_unbind(handle), -EPERM);
    };
    run_task(bound, unbinds);
}

TEST(PoolEnd, WaitsForBoundThreads) {
    Pool pool(1);
    const fiber_pool_t handle = pool;
    std::atomic<bool> bound{false}, unbound{false};
    auto body = [&] {
        EXPECT_EQ(fiber_pool_bind(handle), 0);
        bound = true;
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        unbound = true;
        EXPECT_EQ(fiber_pool_unbind(handle), 0);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return bound.load(); });
    pool.close();
    EXPECT_TRUE(unbound);
    join_cord(cord);
}

// ---- Workers --------------------------------------------------------------------------------------------------------

TEST(PoolWorkers, AreInitialised) {
    struct Seen {
        std::atomic<int> calls{0};
        std::atomic<uint64_t> cords[4]{};
    } seen;
    {
        PoolAttr attr(4);
        auto init = [](void *argument, int worker) {
            auto *seen = static_cast<Seen *>(argument);
            seen->calls++;
            ASSERT_GE(worker, 0);
            ASSERT_LT(worker, 4);
            EXPECT_EQ(seen->cords[worker], 0u);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0); // it may wait
            seen->cords[worker] = this_cord_id();
        };
        ASSERT_EQ(fiber_pool_attr_set_init(attr, init, &seen), 0);
        ASSERT_EQ(fiber_pool_attr_set_name(attr, "a_name_that_is_long"), 0);
        Pool pool(attr);
        auto task = [&] {
            bool known = false;
            for (auto &cord : seen.cords) known |= cord == this_cord_id();
            EXPECT_TRUE(known); // so it was initialised before it took the task
            char name[32];
            EXPECT_EQ(fiber_cord_name(this_cord_handle(), name, sizeof name), 15);
            EXPECT_EQ(std::string(name).substr(0, 14), "a_name_that_is");
        };
        for (int i = 0; i < 10; i++) run_task(pool, task);
    }
    EXPECT_EQ(seen.calls, 4);
}

// fiber_cord_fd leaves the cord to a loop, and the next wait takes it back.
TEST(PoolWorkers, WorkAfterTheirInitialiserHasRunTheirCordAsALoopDoes) {
    static std::atomic<int> descriptor;
    descriptor = 0;
    PoolAttr attr(1);
    auto init = [](void *, int) {
        descriptor = fiber_cord_fd();
        if (descriptor >= 0) {
            EXPECT_EQ(fiber_cord_run(0), 0);
        }
    };
    ASSERT_EQ(fiber_pool_attr_set_init(attr, init, nullptr), 0);
    Pool pool(attr);
    int ran = 0;
    for (int i = 0; i < 10; i++) run_task(pool, [&] { ran++; });
    pool.close();
    EXPECT_EQ(ran, 10);
    if (descriptor == -ENOTSUP) GTEST_SKIP() << "this backend has no loop: " << fiber_backend_name();
    EXPECT_GE(descriptor, 0);
}

// The pool has one worker less, and ends.
TEST(PoolWorkers, MayExitInTheirInitialiser) {
    NEEDS_THREADS();
    PoolAttr attr(2);
    auto init = [](void *, int worker) {
        if (worker == 0) pthread_exit(nullptr);
    };
    ASSERT_EQ(fiber_pool_attr_set_init(attr, init, nullptr), 0);
    Pool pool(attr);
    int ran = 0;
    for (int i = 0; i < 10; i++) run_task(pool, [&] { ran++; });
    pool.close();
    EXPECT_EQ(ran, 10);
}

TEST(PoolWorkers, AreNotBoundElsewhereByTheirInitialiser) {
    static fiber_pool_t other;
    static std::atomic<int> bound;
    Pool elsewhere(0);
    other = elsewhere;
    bound = 0;
    PoolAttr attr(1);
    auto init = [](void *, int) { bound = fiber_pool_bind(other); };
    ASSERT_EQ(fiber_pool_attr_set_init(attr, init, nullptr), 0);
    Pool(attr).close();
    EXPECT_EQ(bound, -EBUSY);
}

TEST(PoolWorkers, RunWhereTheyMay) {
    NEEDS_THREADS();
    const std::vector<int> cpus = allowed_cpus();
    for (int policy : {FIBER_POOL_ANY_OF, FIBER_POOL_ONE_OF}) {
        PoolAttr attr(2);
        struct Seen {
            std::vector<int> cpus[2];
            std::atomic<int> count{0};
        } seen;
        ASSERT_EQ(fiber_pool_attr_set_affinity(attr, cpus.data(), cpus.size(), policy), 0);
        auto init = [](void *argument, int worker) {
            auto *seen = static_cast<Seen *>(argument);
            seen->cpus[worker] = allowed_cpus();
            seen->count++;
        };
        ASSERT_EQ(fiber_pool_attr_set_init(attr, init, &seen), 0);
        Pool(attr).close();
        ASSERT_EQ(seen.count, 2);
        for (size_t i = 0; i < 2; i++) {
            if (policy == FIBER_POOL_ANY_OF) {
                EXPECT_EQ(seen.cpus[i], cpus);
            } else {
                EXPECT_EQ(seen.cpus[i], std::vector<int>{cpus[i % cpus.size()]});
            }
        }
    }
}

TEST(PoolWorkers, ThatCannotBeStartedAreAnError) {
    NEEDS_THREADS();
    const int none = 1023;
    PoolAttr attr(3);
    ASSERT_EQ(fiber_pool_attr_set_affinity(attr, &none, 1, FIBER_POOL_ANY_OF), 0);
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_create(&pool, attr), -EINVAL);
    EXPECT_EQ(pool.id, 0u);
}

// Nor if another than the first thread cannot be created: the started workers end, and the last one gives back the
// pool's place: there are 1,024 places.
TEST(PoolWorkers, ThatAreStartedEndIfOthersCannotBe) {
    NEEDS_THREADS();
    const int cpus[] = {allowed_cpus().front(), 1023};
    PoolAttr attr(2);
    ASSERT_EQ(fiber_pool_attr_set_affinity(attr, cpus, 2, FIBER_POOL_ONE_OF), 0);
    for (int i = 0; i < 1100; i++) {
        fiber_pool_t pool{};
        int error = 0;
        // Threads that are ending may have all places for a moment.
        await([&] { return (error = fiber_pool_create(&pool, attr)) != -EAGAIN; });
        ASSERT_EQ(error, -EINVAL);
    }
}

// They may look out for ever, if that is wished; and miss nothing, though they are called for nothing now and then.
TEST(PoolWorkers, SpinNoLongerThanAllowed) {
    for (int64_t spin : {int64_t(0), FIBER_SEC(1), FIBER_FOREVER}) {
        PoolAttr attr(1);
        ASSERT_EQ(fiber_pool_attr_set_spin(attr, spin), 0);
        Pool pool(attr);
        for (int i = 0; i < often(3000, 10); i++) run_task(pool, [] {});
    }
}

// Many threads' worth of tasks in a queue need memory, and when the pool is closed not any more.
TEST(PoolEnd, GivesBackTheMemoryOfItsQueues) {
    NOT_ON_SIM("would take too long");
    constexpr int n = 200000;
    std::vector<char> probe(1 << 20);
    NEEDS_THE_MEMORY_IN_USE();
    const size_t begun = allocated();
    if (begun < probe.size()) GTEST_SKIP() << "the allocator does not report how much is allocated";
    Pool pool(0);
    int ran = 0;
    auto task = [&] { ran++; };
    for (int i = 0; i < n; i++) submit(pool, task, i % 2 ? FIBER_TASK_SAME_THREAD : 0);
    EXPECT_GT(allocated(), begun + n * sizeof(void *));
    pool.close();
    EXPECT_EQ(ran, n);
    EXPECT_LT(allocated(), begun + n * sizeof(void *));
}

// One worker is given everything, by a task on it; the others take their share.
TEST(PoolWorkers, ShareAnUnbalancedLoad) {
    NEEDS_THREADS(); // how many take part is up to the seed there
    constexpr int workers = 4, tasks = 200;
    Pool pool(workers);
    Group group;
    std::atomic<uint64_t> seen[workers]{};
    std::atomic<int> different{0};
    auto task = [&] {
        const uint64_t cord = this_cord_id();
        for (auto &slot : seen) {
            uint64_t none = 0;
            if (slot.compare_exchange_strong(none, cord)) {
                different++;
                break;
            }
            if (none == cord) break;
        }
        // Each thread keeps its first task until all have had one.
        if (different < workers) await_holding_the_thread([&] { return different == workers; });
        group.done();
    };
    auto all = [&] {
        for (int i = 0; i < tasks; i++) submit(pool, task);
        group.done();
    };
    group.add(tasks + 1);
    submit(pool, all);
    group.wait();
    EXPECT_EQ(different, workers);
}

// A worker that was called for a task which another one has taken meanwhile can be called again, also if the call meets
// its last look before it sleeps.
TEST(PoolWorkers, TRAP_ThatAreWokenInVainAreWokenAgain) {
    NEEDS_THREADS();
    std::atomic<int> ended{0}, present{0};
    auto task = [&] { ended++; };
    auto meets_the_other = [&] { // which needs both workers
        present++;
        await_holding_the_thread([&] { return present == 2; });
        ended++;
    };
    PoolAttr attr(2);
    ASSERT_EQ(fiber_pool_attr_set_spin(attr, FIBER_USEC(20)), 0);
    Pool pool(attr);
    Group group;
    auto submits = [&] {
        int submitted = 0;
        const auto all_end = [&] { return await_holding_the_thread([&] { return ended == submitted; }); };
        const auto pass = [](int64_t duration_ns) {
            for (const int64_t end = fiber_now() + duration_ns; fiber_now() < end;) continue;
        };
        std::minstd_rand random;
        bool well = true;
        for (const int64_t enough = fiber_now() + FIBER_SEC(2); well && fiber_now() < enough;) {
            for (int i = 0; well && i < 2000 && fiber_now() < enough; i++) {
                for (auto n = 1 + random() % 4; n > 0; n--, submitted++) submit(pool, task);
                const auto what = random() % 5;
                if (what < 3) well = all_end();
                if (what < 4) pass(int64_t(random() % 30'000));
            }
            if (well) well = all_end();
            if (!well) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            present = 0;
            submit(pool, meets_the_other);
            submit(pool, meets_the_other);
            submitted += 2;
            well = all_end();
        }
        group.done();
    };
    group.add();
    Thread thread(submits);
    group.wait(); // this thread sleeps: with more awake than processors no worker looks out
    thread.join();
}

// A task that a worker has taken from its queue to run next may still be taken by other workers.
TEST(PoolWorkers, OthersTakeTasksBehindALongTask) {
    NEEDS_THREADS();
    constexpr int tasks = 20;
    Pool pool(2);
    Group group;
    std::atomic<bool> held{false}, let_go{false};
    std::atomic<int> ran{0};
    auto holds_one = [&] {
        held = true;
        await_holding_the_thread([&] { return let_go.load(); });
        group.done();
    };
    auto long_task = [&] {
        let_go = true;
        await_holding_the_thread([&] { return ran == tasks; });
        group.done();
    };
    auto task = [&] {
        ran++;
        group.done();
    };
    auto all = [&] { // on the other worker, into whose queue they come
        submit(pool, long_task);
        for (int i = 0; i < tasks; i++) submit(pool, task);
        group.done();
    };
    group.add(tasks + 3);
    submit(pool, holds_one);
    await_holding_the_thread([&] { return held.load(); });
    submit(pool, all);
    group.wait();
    EXPECT_EQ(ran, tasks);
}

TEST(PoolWorkers, EightRunTenThousandEach) {
    const int workers = 8, n = often(10000, 10);
    Pool pool(workers);
    Group group;
    std::atomic<int> ran{0};
    auto task = [&] {
        ran++;
        group.done();
    };
    auto feeds = [&] {
        for (int i = 0; i < n; i++) submit(pool, task);
        group.done();
    };
    group.add(workers * (n + 1));
    for (int i = 0; i < workers; i++) submit(pool, feeds);
    group.wait();
    EXPECT_EQ(ran, workers * n);
}

// ---- Mistakes -------------------------------------------------------------------------------------------------------

TEST(PoolMistakes, AreTold) {
    fiber_pool_attr_t *none = nullptr;
    const int cpu = 0, wrong = 1024;
    EXPECT_EQ(fiber_pool_attr_create(nullptr), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_destroy(nullptr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(none, 1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_stack_size(none, FIBER_STACK_DEFAULT), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_guard_size(none, FIBER_GUARD_SIZE_DEFAULT), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_affinity(none, &cpu, 1, FIBER_POOL_ANY_OF), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_spin(none, 0), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_init(none, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_name(none, "name"), -EINVAL);
    PoolAttr attr;
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, -1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, FIBER_POOL_WORKERS_MAX + 1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_stack_size(attr, FIBER_STACK_MIN - 1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_stack_size(attr, FIBER_STACK_MAX + 1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_guard_size(attr, 0), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_guard_size(attr, FIBER_GUARD_SIZE_MAX + 1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_affinity(attr, nullptr, 1, FIBER_POOL_ANY_OF), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_affinity(attr, &wrong, 1, FIBER_POOL_ANY_OF), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_affinity(attr, &cpu, 1, 2), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_affinity(attr, nullptr, 0, FIBER_POOL_ONE_OF), 0);
    EXPECT_EQ(fiber_pool_attr_set_spin(attr, -1), -EINVAL);
    EXPECT_EQ(fiber_pool_attr_set_name(attr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_pool_create(nullptr, attr), -EINVAL);
    auto never = [](void *) -> void * { return nullptr; };
    for (uint64_t id : {uint64_t(0), self().id, this_cord_id()}) {
        const fiber_pool_t bad = {id};
        EXPECT_EQ(fiber_pool_submit(bad, never, nullptr), -EINVAL);
        EXPECT_EQ(fiber_pool_bind(bad), -EINVAL);
        EXPECT_EQ(fiber_pool_unbind(bad), -EINVAL);
        EXPECT_EQ(fiber_pool_close(bad), -EINVAL);
        fiber_attr_t *fibers = nullptr;
        EXPECT_EQ(fiber_attr_create(&fibers), 0);
        EXPECT_EQ(fiber_attr_set_pool(fibers, bad), -EINVAL);
        EXPECT_EQ(fiber_attr_destroy(fibers), 0);
    }
    Pool pool(0);
    EXPECT_EQ(fiber_attr_set_pool(nullptr, pool), -EINVAL);
    EXPECT_EQ(fiber_pool_submit(pool, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_pool_submit_flags(pool, never, nullptr, 2), -EINVAL);
    EXPECT_EQ(fiber_pool_bind(pool), -EBUSY);
}

TEST(PoolMistakes, NoSwitchSections) {
    Pool pool(0);
    const fiber_pool_t handle = pool;
    bool ran = false;
    auto task = [&] { ran = true; };
    ASSERT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_pool_unbind(handle), -EPERM);
    EXPECT_EQ(fiber_pool_close(handle), -EPERM);
    submit(handle, task);
    ASSERT_EQ(fiber_noswitch_leave(), 0);
    pool.close();
    EXPECT_TRUE(ran);
}

} // namespace
