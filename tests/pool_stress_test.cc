// SPDX-License-Identifier: MIT OR Apache-2.0
// Pools under a mixture of all calls on them at the same time: each accepted task runs once. FIBERRT_TEST_SIZE=number:
// tasks.
#include "cord_support.h"

#include <random>
#include <time.h>

using namespace support;

namespace {

constexpr int workers = 6, binders = 3, outsiders = 3;
const int tasks = size_of_test(20000);

struct Stress;
struct Job {
    Stress *stress;
    unsigned kind;
};

struct Stress {
    fiber_pool_t pool{};
    fiber_attr_t *of_pool = nullptr;
    fiber_sem_t few{};
    std::atomic<uint64_t> accepted{0}, ran{0};
    std::atomic<int> left{tasks}; // that threads outside the pool have still to submit

    // Called by a task, or by any other fiber or thread.
    void submit(unsigned kind, unsigned flags = 0) {
        auto *job = new Job{this, kind};
        const int error = fiber_pool_submit_flags(pool, run, job, flags);
        if (error) {
            delete job;
            EXPECT_TRUE(error == -EPIPE || (flags && error == -EPERM)) << error;
        } else {
            accepted++;
        }
    }

    static int64_t child(void *stress) {
        static_cast<Stress *>(stress)->ran++;
        return fiber_reschedule();
    }

    void with_children(std::minstd_rand &random) {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT), 0);
        const int count = int(random() % 5);
        for (int i = 0; i < count; i++) {
            const int error = fiber_scope_spawn_attr(scope, nullptr, of_pool, child, this);
            EXPECT_EQ(error, 0);
            accepted++;
        }
        int64_t failure = 0;
        EXPECT_EQ(fiber_scope_close(scope, &failure), 0);
        EXPECT_EQ(failure, 0);
    }

    static void *run(void *argument) {
        auto *job = static_cast<Job *>(argument);
        Stress &it = *job->stress;
        std::minstd_rand random(job->kind | 1);
        switch (job->kind % 8) {
        case 0: // only runs
            break;
        case 1: EXPECT_EQ(fiber_sleep(FIBER_USEC(int64_t(random() % 300))), 0); break;
        case 2: EXPECT_EQ(fiber_reschedule(), 0); break;
        case 3: // waits for others
            EXPECT_EQ(fiber_sem_wait(&it.few, 1), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_sem_post(&it.few, 1), 0);
            break;
        case 4: // none of the tasks it submits is of this kind
            for (unsigned i = random() % 3; i > 0; i--) it.submit(unsigned(random()) / 8 * 8 + unsigned(random() % 4));
            break;
        case 5: it.submit(unsigned(random()) / 8 * 8 + 1, FIBER_TASK_SAME_THREAD); break;
        case 6: it.with_children(random); break;
        case 7: // leaves something
            EXPECT_EQ(fiber_set_name(self(), "job"), 0);
            break;
        }
        it.ran++;
        const bool exits = job->kind % 8 == 7;
        delete job;
        if (exits) fiber_exit(nullptr);
        return nullptr;
    }

    void from_outside(unsigned seed) {
        std::minstd_rand random(seed);
        while (left-- > 0) {
            submit(unsigned(random()));
            if (random() % 64 == 0) fiber_sleep(FIBER_USEC(int64_t(random() % 200)));
        }
    }

    void bound(unsigned seed) {
        std::minstd_rand random(seed);
        while (left > 0) {
            EXPECT_EQ(fiber_pool_bind(pool), 0);
            for (unsigned i = random() % 20; i > 0; i--) submit(unsigned(random()), random() % 2);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(int64_t(random() % 500))), 0);
            EXPECT_EQ(fiber_pool_unbind(pool), 0);
        }
    }
};

TEST(PoolStress, EveryAcceptedTaskRunsOnce) {
    Stress it;
    Watch watch([&] { return it.ran.load() + uint64_t(it.left.load()); },
                [&] { return std::to_string(it.ran) + " of " + std::to_string(it.accepted); });
    fiber_pool_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_pool_attr_create(&attr), 0);
    ASSERT_EQ(fiber_pool_attr_set_workers(attr, workers), 0);
    ASSERT_EQ(fiber_pool_create(&it.pool, attr), 0);
    ASSERT_EQ(fiber_pool_attr_destroy(attr), 0);
    ASSERT_EQ(fiber_attr_create(&it.of_pool), 0);
    ASSERT_EQ(fiber_attr_set_pool(it.of_pool, it.pool), 0);
    ASSERT_EQ(fiber_sem_init(&it.few, 2), 0);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < outsiders; i++) threads.emplace_back([&it, i] { it.from_outside(i + 1); });
    for (unsigned i = 0; i < binders; i++) threads.emplace_back([&it, i] { it.bound(i + 100); });
    for (std::thread &thread : threads) thread.join();
    // Children are submitted by tasks, which a close does not stop.
    EXPECT_EQ(fiber_pool_close(it.pool), 0);
    EXPECT_EQ(it.ran, it.accepted);
    EXPECT_EQ(fiber_attr_destroy(it.of_pool), 0);
}

// Pools come and go, and get each other's records, while others submit with handles that are old or soon will be.
TEST(PoolStress, PoolsComeAndGo) {
    std::atomic<uint64_t> latest{0}, closed{0};
    std::atomic<int> accepted{0}, counted{0};
    std::atomic<bool> end{false};
    auto counts = [&] { counted++; };
    Watch watch([&] { return closed.load(); }, [&] { return std::to_string(closed) + " pools"; });
    std::vector<std::thread> outsiders;
    for (int i = 0; i < 2; i++) {
        outsiders.emplace_back([&] {
            for (fiber_pool_t pool{}; !end; pool.id = latest) {
                const int error = fiber_pool_submit(pool, entry<decltype(counts)>, &counts);
                accepted += !error;
                EXPECT_TRUE(!error || error == -EPIPE || error == -ESRCH || error == -EINVAL) << error;
                if (error) std::this_thread::yield();
            }
        });
    }
    for (int i = 0; i < tasks / 100; i++) {
        fiber_pool_t pool{};
        fiber_pool_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_pool_attr_create(&attr), 0);
        ASSERT_EQ(fiber_pool_attr_set_workers(attr, 1 + i % 4), 0);
        ASSERT_EQ(fiber_pool_create(&pool, attr), 0);
        ASSERT_EQ(fiber_pool_attr_destroy(attr), 0);
        latest = pool.id;
        std::atomic<int> ran{0};
        auto task = [&] { ran++; };
        for (int k = 0; k < i % 7; k++) ASSERT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), 0);
        ASSERT_EQ(fiber_pool_close(pool), 0);
        ASSERT_EQ(ran, i % 7);
        closed++;
    }
    end = true;
    for (std::thread &thread : outsiders) thread.join();
    EXPECT_EQ(counted, accepted);
}

// A pool without work sleeps.
TEST(PoolStress, AnIdlePoolTakesNoTime) {
    fiber_pool_t pool{};
    ASSERT_EQ(fiber_pool_create(&pool, nullptr), 0);
    fiber_wg_t group{};
    auto task = [&] { EXPECT_GE(fiber_wg_done(&group), 0); };
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(fiber_wg_add(&group, 1), 0);
        EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), 0);
        EXPECT_EQ(fiber_wg_wait(&group), 0);
    }
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(10)), 0); // it has looked out for the last time
    timespec before{}, after{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(500)), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double seconds = double(after.tv_sec - before.tv_sec) + double(after.tv_nsec - before.tv_nsec) * 1e-9;
    EXPECT_LT(seconds, 0.025);
    EXPECT_EQ(fiber_pool_close(pool), 0);
}

} // namespace
