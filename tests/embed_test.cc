// SPDX-License-Identifier: MIT OR Apache-2.0
// Cords in foreign event loops: a plain poll loop, libev's, GLib's.
//
// There are two programs of it: embed_test, and embed_eventfd_test, where the ring's doorbell is an eventfd, as on
// kernels before 6.7 (embed_doorbell.cc).
#include "cord_support.h"
#include "io_support.h"
#include "subprocess.h"

#include <atomic>
#include <csignal>
#include <functional>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <vector>
#if FIBERRT_TEST_LIBEV
#include <ev.h>
#endif
#if FIBERRT_TEST_GLIB
#include <glib-unix.h>
#include <glib.h>
#endif

void choose_doorbell(); // embed_doorbell.cc

using namespace support;

namespace {

// All of these need a backend to wait on, and a thread of their own, as a cord is embedded once and for all.
class EmbedTest : public testing::Test {
protected:
    void SetUp() override {
        NEEDS_IO();
        choose_doorbell();
    }
};

template <class Body>
void in_thread(Body body) {
    std::thread(body).join();
}

bool readable(int fd, int milliseconds = 0) {
    pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, milliseconds) == 1 && (wait.revents & POLLIN);
}

// A readiness backend may report a few times more, for some milliseconds, descriptors that no operation waits for any
// longer.
bool only_readiness() { return std::string(fiber_backend_name()) == "ev"; }

// Runs the cord until it has nothing to do.
void settle(int fd) {
    int64_t end = fiber_now() + FIBER_MSEC(200);
    for (int runs = 0; readable(fd) && (runs < 10 || (only_readiness() && fiber_now() < end)); runs++)
        EXPECT_EQ(fiber_cord_run(0), 0);
}

// The calling thread's cord, embedded, with nothing to do.
int embedded() {
    int fd = fiber_cord_fd();
    EXPECT_GE(fd, 0);
    EXPECT_TRUE(readable(fd)) << "until the first run";
    settle(fd);
    EXPECT_FALSE(readable(fd, 5)) << "nothing to do";
    return fd;
}

// It becomes readable; runs the cord, after which it is readable no more.
void run_when_readable(int fd) {
    EXPECT_TRUE(readable(fd, 10000));
    settle(fd);
    EXPECT_FALSE(readable(fd)) << "nothing to do any more";
}

// --- Readable if and only if a run would do something, cause by cause
// --------------------------------------------------

TEST_F(EmbedTest, TheDescriptorIsTheSameAtEveryCallAndClosedOnExec) {
    in_thread([] {
        int fd = embedded();
        EXPECT_EQ(fiber_cord_fd(), fd);
        EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
        EXPECT_FALSE(readable(fd)) << "to ask for it is no reason to run";
    });
}

TEST_F(EmbedTest, ASpawnMakesItReadable) {
    in_thread([] {
        int fd = embedded();
        int ran = 0;
        auto body = [&] { ran++; };
        fiber_t fiber = spawn(body);
        EXPECT_TRUE(readable(fd));
        EXPECT_EQ(ran, 0);
        run_when_readable(fd);
        EXPECT_EQ(ran, 1);
        join(fiber);
        run_when_readable(fd);
    });
}

// A thread that is bound to a pool works in its runs.
TEST_F(EmbedTest, ATaskOfItsPoolMakesItReadable) {
    in_thread([] {
        fiber_pool_attr_t *attr = nullptr;
        fiber_pool_t pool{};
        ASSERT_EQ(fiber_pool_attr_create(&attr), 0);
        ASSERT_EQ(fiber_pool_attr_set_workers(attr, 0), 0);
        ASSERT_EQ(fiber_pool_create(&pool, attr), 0);
        ASSERT_EQ(fiber_pool_attr_destroy(attr), 0);
        int fd = embedded();
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        run_when_readable(fd);
        int ran = 0;
        auto task = [&] { ran++; };
        using Task = decltype(task);
        EXPECT_EQ(fiber_pool_submit(pool, entry<Task>, &task), 0);
        EXPECT_EQ(ran, 0);
        run_when_readable(fd);
        EXPECT_EQ(ran, 1);
        EXPECT_EQ(fiber_pool_submit_flags(pool, entry<Task>, &task, FIBER_TASK_SAME_THREAD), 0);
        run_when_readable(fd);
        EXPECT_EQ(ran, 2);
        in_thread([&] { EXPECT_EQ(fiber_pool_submit(pool, entry<Task>, &task), 0); });
        run_when_readable(fd);
        EXPECT_EQ(ran, 3);
        EXPECT_EQ(fiber_pool_submit(pool, entry<Task>, &task), 0);
        EXPECT_EQ(fiber_pool_close(pool), 0);
        EXPECT_EQ(ran, 4);
    });
}

// A thread that is left to a loop may be kept there for long: tasks that come meanwhile are others'.
TEST_F(EmbedTest, ALoopThatIsBusyKeepsNoTask) {
    in_thread([] {
        fiber_pool_attr_t *attr = nullptr;
        fiber_pool_t pool{};
        ASSERT_EQ(fiber_pool_attr_create(&attr), 0);
        ASSERT_EQ(fiber_pool_attr_set_workers(attr, 0), 0);
        ASSERT_EQ(fiber_pool_create(&pool, attr), 0);
        ASSERT_EQ(fiber_pool_attr_destroy(attr), 0);
        int fd = embedded();
        EXPECT_EQ(fiber_pool_bind(pool), 0); // the first place is this one's
        std::atomic<bool> bound{false};
        fiber_event_t stop{};
        EXPECT_EQ(fiber_event_init(&stop, FIBER_EVENT_MANUAL), 0);
        Thread other([&] {
            EXPECT_EQ(fiber_pool_bind(pool), 0);
            bound = true;
            EXPECT_EQ(fiber_event_wait(&stop), 0);
            EXPECT_EQ(fiber_pool_unbind(pool), 0);
        });
        EXPECT_TRUE(await_holding_the_thread([&] { return bound.load(); }));
        run_when_readable(fd);           // from here on the loop does other things
        for (int i = 0; i < 5000; i++) { // the other is just about to be idle, now and then
            std::atomic<bool> ran{false};
            auto task = [&] { ran = true; };
            EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), 0);
            ASSERT_TRUE(await_holding_the_thread([&] { return ran.load(); }));
        }
        EXPECT_EQ(fiber_event_set(&stop), 0);
        other.join();
        EXPECT_EQ(fiber_pool_unbind(pool), 0);
        EXPECT_EQ(fiber_pool_close(pool), 0);
    });
}

// It does not count as a searching worker: of two workers one is busy, and calls the other as soon as it is idle.
TEST_F(EmbedTest, ALoopThatIsBusyKeepsNoOtherFromBeingCalled) {
    in_thread([] {
        fiber_pool_attr_t *attr = nullptr;
        fiber_pool_t pool{};
        ASSERT_EQ(fiber_pool_attr_create(&attr), 0);
        ASSERT_EQ(fiber_pool_attr_set_workers(attr, 2), 0);
        ASSERT_EQ(fiber_pool_create(&pool, attr), 0);
        ASSERT_EQ(fiber_pool_attr_destroy(attr), 0);
        int fd = embedded();
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        run_when_readable(fd); // from here on the loop does other things
        std::atomic<int> first{0}, second{0}, begun{0}, ended{0};
        std::atomic<bool> may_end{false};
        auto one = [&] { first++; };
        auto two = [&] { second++; };
        auto short_one = [&] {
            begun++;
            EXPECT_TRUE(await_holding_the_thread([&] { return may_end.load(); }));
            ended++;
        };
        auto long_one = [&] {
            EXPECT_TRUE(await_holding_the_thread([&] { return begun == 1; }));
            EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(one)>, &one), 0); // only the loop's thread is idle
            may_end = true;
            EXPECT_TRUE(await_holding_the_thread([&] { return first == 1; })); // by the other worker, idle then
            const int64_t asleep = fiber_now() + FIBER_MSEC(20);               // if all goes well
            EXPECT_TRUE(await_holding_the_thread([&] { return fiber_now() >= asleep; }));
            EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(two)>, &two), 0);
            EXPECT_TRUE(await_holding_the_thread([&] { return second == 1; }));
            ended++;
        };
        EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(long_one)>, &long_one), 0);
        EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(short_one)>, &short_one), 0);
        EXPECT_TRUE(await_holding_the_thread([&] { return ended == 2; }));
        EXPECT_EQ(fiber_pool_unbind(pool), 0);
        EXPECT_EQ(fiber_pool_close(pool), 0);
    });
}

// It comes when the call itself reads the messages.
TEST_F(EmbedTest, TRAP_AnInterruptThatCameBetweenRunsEndsAnyWait) {
    in_thread([] {
        int fd = embedded();
        const fiber_t me = self();
        fiber_sem_t sem{};
        fiber_event_t event{};
        fiber_mutex_t mutex{};
        fiber_cond_t cond{};
        fiber_chan_t chan{};
        EXPECT_EQ(fiber_chan_create(&chan, 1, 0), 0);
        char item;
        auto wait_for = [&](int what) {
            switch (what) {
            case 0: return fiber_sem_wait(&sem, 1);
            case 1: return fiber_event_wait(&event);
            case 2: return fiber_chan_recv(chan, &item);
            case 3: {
                fiber_case_t receive{};
                receive.kind = FIBER_CASE_RECV;
                receive.chan = chan;
                receive.item = &item;
                return fiber_select(&receive, 1, FIBER_FOREVER);
            }
            default: return fiber_cond_wait(&cond, &mutex);
            }
        };
        for (int what = 0; what < 5; what++) {
            if (what == 4) {
                EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            }
            settle(fd);
            in_thread([=] { EXPECT_EQ(fiber_interrupt(me, nullptr), 0); });
            EXPECT_EQ(wait_for(what), -EINTR) << what;
        }
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_chan_destroy(chan), 0);
    });
}

TEST_F(EmbedTest, OwnWakeupsOfAllKindsMakeItReadable) {
    in_thread([] {
        int fd = embedded();
        void *value = nullptr;
        int result = 0, rounds = 0;
        auto body = [&] {
            while ((result = fiber_yield_value(&value)) == 0) rounds++;
            result = fiber_sleep(FIBER_SEC(100)); // cancelled
        };
        fiber_t fiber = spawn(body);
        run_when_readable(fd);
        for (int i = 1; i <= 10; i++) {
            EXPECT_EQ(fiber_wakeup(fiber), 0);
            EXPECT_TRUE(readable(fd));
            EXPECT_EQ(fiber_wakeup(fiber), 0) << "absorbed";
            EXPECT_EQ(rounds, i - 1);
            run_when_readable(fd);
            EXPECT_EQ(rounds, i);
        }
        EXPECT_EQ(fiber_wakeup_value(fiber, pointer(7)), 0);
        EXPECT_EQ(fiber_wakeup_value(fiber, pointer(8)), -EBUSY);
        run_when_readable(fd);
        EXPECT_EQ(value, pointer(7));
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        EXPECT_EQ(fiber_wakeup_value(fiber, pointer(8)), -EBUSY);
        run_when_readable(fd);
        EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
        run_when_readable(fd);
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        run_when_readable(fd);
        EXPECT_EQ(result, -ECANCELED);
        EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        EXPECT_EQ(fiber_detach(fiber), 0);
        run_when_readable(fd);
        EXPECT_EQ(fiber_state(fiber), -ESRCH);
    });
}

// The order of wakeups is the order of turns, whichever way each of them took.
TEST_F(EmbedTest, WakeupsSpawnsAndPostsBetweenRunsKeepTheirOrder) {
    in_thread([] {
        int fd = embedded();
        std::string log;
        auto a = [&] {
            fiber_yield();
            log += 'a';
        };
        auto b = [&] { log += 'b'; };
        auto c = [&] { log += 'c'; };
        auto d = [&] { log += 'd'; };
        fiber_t first = spawn(a);
        run_when_readable(fd);
        fiber_t third = create(c);
        run_when_readable(fd);
        EXPECT_EQ(fiber_wakeup(first), 0);
        EXPECT_EQ(fiber_post(this_cord_handle(), entry<decltype(b)>, &b), 0);
        EXPECT_EQ(fiber_wakeup(third), 0);
        fiber_t fourth = create(d, On(this_cord_handle()));
        EXPECT_EQ(fiber_wakeup(fourth), 0);
        run_when_readable(fd);
        EXPECT_EQ(log, "abcd");
        for (fiber_t fiber : {first, third, fourth}) join(fiber);
    });
}

TEST_F(EmbedTest, ADeadlineMakesItReadableAndNotBefore) {
    in_thread([] {
        int fd = embedded();
        int wakes = 0;
        auto body = [&] {
            for (; wakes < 3; wakes++) fiber_sleep(FIBER_MSEC(30));
        };
        int64_t begun = fiber_now();
        fiber_t fiber = spawn(body);
        int early = 0;
        while (wakes < 3 && !HasFailure()) {
            int64_t due = begun + FIBER_MSEC(30 * (wakes + 1));
            bool already = readable(fd); // by the run before, or as this thread was held up
            EXPECT_TRUE(readable(fd, 10000));
            if (!already) {
                EXPECT_GE(fiber_now(), due);
            }
            if (fiber_now() < due) early++;
            EXPECT_EQ(fiber_cord_run(0), 0);
            EXPECT_GE(fiber_now(), begun + FIBER_MSEC(30 * wakes));
        }
        if (!only_readiness()) {
            EXPECT_LE(early, 30) << "nothing to do any more";
        }
        join(fiber);
    });
}

// The wheel of timers looks once or twice at where it was.
TEST_F(EmbedTest, ADeadlineThatIsDroppedNoLongerCounts) {
    in_thread([] {
        int fd = embedded();
        int result = -ETIMEDOUT;
        auto body = [&] { result = fiber_yield_timeout(FIBER_MSEC(50)); };
        fiber_t fiber{};
        for (int tries = 0; result == -ETIMEDOUT && tries < 100; tries++) { // it was woken too late
            if (tries) join(fiber);
            result = 0;
            fiber = spawn(body);
            settle(fd);
            int woken = fiber_wakeup(fiber);
            EXPECT_TRUE(woken == 0 || result == -ETIMEDOUT);
            settle(fd);
        }
        EXPECT_EQ(result, 0);
        int turns = 0;
        for (int64_t end = fiber_now() + FIBER_MSEC(100); fiber_now() < end;) {
            if (!readable(fd, 100)) break;
            turns++;
            EXPECT_EQ(fiber_cord_run(0), 0);
        }
        EXPECT_LE(turns, 2);
        EXPECT_FALSE(readable(fd, 100));
        join(fiber);
    });
}

TEST_F(EmbedTest, AScopeOfTheMainFlowCountsAsADeadlineFromItsOpening) {
    in_thread([] {
        int fd = embedded();
        for (bool set_later : {false, true}) {
            fiber_scope_t scope{};
            int64_t due = fiber_now() + FIBER_MSEC(60);
            EXPECT_EQ(fiber_scope_open(&scope, set_later ? FIBER_SEC(100) : FIBER_MSEC(60), 0), 0);
            if (set_later) {
                run_when_readable(fd);
                due = fiber_now() + FIBER_MSEC(60);
                EXPECT_EQ(fiber_scope_set_timeout(scope, FIBER_MSEC(60)), 0);
            }
            int result = 0;
            while (!result && !HasFailure()) {
                bool already = readable(fd);
                EXPECT_TRUE(readable(fd, 10000));
                if (!already) {
                    EXPECT_GE(fiber_now(), due);
                }
                result = fiber_cord_run(0);
            }
            EXPECT_EQ(result, -ETIMEDOUT);
            EXPECT_GE(fiber_now(), due);
            EXPECT_TRUE(readable(fd)) << "the scope must be closed first";
            EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
            run_when_readable(fd);
        }
    });
}

TEST_F(EmbedTest, ACompletedOperationMakesItReadable) {
    in_thread([] {
        int fd = embedded();
        Pipe pipe;
        int64_t got = 0;
        char text[8];
        auto body = [&] {
            while ((got = fiber_read(pipe.read_end, text, sizeof text)) > 0)
                ;
        };
        fiber_t fiber = spawn(body);
        run_when_readable(fd);
        EXPECT_FALSE(readable(fd, 20));
        for (int i = 1; i <= 5; i++) {
            EXPECT_EQ(write(pipe.write_end, "12345", i), i);
            EXPECT_TRUE(readable(fd, 10000));
            EXPECT_NE(got, i);
            run_when_readable(fd);
            EXPECT_EQ(got, i);
        }
        pipe.close_write();
        run_when_readable(fd);
        EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        join(fiber);
    });
}

// An operation given to the backend between runs has not reached the kernel before the next run.
TEST_F(EmbedTest, AnOperationGivenBetweenRunsMakesItReadable) {
    in_thread([] {
        int fd = embedded();
        Pipe pipe;
        int64_t got = 0;
        auto body = [&] {
            char text[8];
            got = fiber_read(pipe.read_end, text, sizeof text);
        };
        fiber_t fiber = create(body);
        run_when_readable(fd);
        EXPECT_EQ(fiber_start(fiber), 0); // comes back when the fiber waits
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
        run_when_readable(fd);
        EXPECT_EQ(write(pipe.write_end, "1", 1), 1);
        run_when_readable(fd);
        EXPECT_EQ(got, 1);
        join(fiber);

        fiber = spawn(body);
        run_when_readable(fd);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        run_when_readable(fd);
        for (int i = 0; i < 1000 && fiber_state(fiber) != FIBER_DEAD; i++) run_when_readable(fd);
        EXPECT_EQ(got, -ECANCELED);
        join(fiber);
    });
}

TEST_F(EmbedTest, MessagesOfAnotherThreadMakeItReadable) {
    in_thread([] {
        int fd = embedded();
        fiber_cord_t cord = this_cord_handle();
        int rounds = 0, posted = 0;
        auto body = [&] {
            while (fiber_yield() == 0) rounds++;
        };
        fiber_t fiber = spawn(body);
        run_when_readable(fd);
        auto post = [&] { posted++; };
        for (int i = 1; i <= 20; i++) {
            in_thread([=] { EXPECT_EQ(fiber_wakeup(fiber), 0); });
            EXPECT_TRUE(readable(fd)) << "by the time the call has returned";
            EXPECT_EQ(rounds, i - 1);
            run_when_readable(fd);
            EXPECT_EQ(rounds, i);
            in_thread([&] { EXPECT_EQ(fiber_post(cord, entry<decltype(post)>, &post), 0); });
            run_when_readable(fd);
            EXPECT_EQ(posted, i);
        }
        in_thread([=] { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
        run_when_readable(fd);
        EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        join(fiber);
    });
}

TEST_F(EmbedTest, AFiberOfAnotherCordJoinsOneOfAnEmbeddedCord) {
    in_thread([] {
        int fd = embedded();
        auto body = [] { return fiber_yield(), pointer(5); };
        fiber_t fiber = spawn(body);
        run_when_readable(fd);
        std::atomic<void *> result = nullptr;
        std::thread other([&] {
            void *value = nullptr;
            EXPECT_EQ(fiber_join(fiber, &value), 0);
            result = value;
        });
        run_when_readable(fd); // its question
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        run_when_readable(fd);
        other.join();
        EXPECT_EQ(result, pointer(5));
    });
}

TEST_F(EmbedTest, CallsThatOnlyLookLeaveItAlone) {
    in_thread([] {
        int fd = embedded();
        auto body = [] { fiber_sleep(FIBER_SEC(100)); };
        fiber_t fiber = spawn(body);
        run_when_readable(fd);
        fiber_key_t key{};
        EXPECT_EQ(fiber_key_create(&key, nullptr), 0);
        fiber_t me{};
        void *value = nullptr;
        int64_t deadline = 0;
        char name[8];
        EXPECT_EQ(fiber_self(&me), 0);
        EXPECT_EQ(info(me).main_flow, 1);
        EXPECT_EQ(info(me).state, FIBER_RUNNING);
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
        EXPECT_EQ(fiber_name(fiber, name, sizeof name), 0);
        EXPECT_NE(this_cord_handle().id, 0u);
        EXPECT_EQ(stats().fibers, 2u);
        EXPECT_EQ(fiber_key_set(key, pointer(3)), 0);
        EXPECT_EQ(fiber_key_get(key), pointer(3));
        EXPECT_EQ(fiber_cancelled(nullptr), 0);
        EXPECT_EQ(fiber_interrupted(&value), 0);
        EXPECT_EQ(fiber_transferrer(nullptr, nullptr), -ESRCH);
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        EXPECT_EQ(fiber_cord_run(0), -EPERM);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_GT(deadline, fiber_now());
        EXPECT_LT(deadline, fiber_now() + FIBER_SEC(101));
        EXPECT_FALSE(readable(fd));
        EXPECT_EQ(fiber_key_delete(key), 0);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        run_when_readable(fd);
        join(fiber);
    });
}

TEST_F(EmbedTest, TheNextDeadlineIsThatOfTheNextTimer) {
    in_thread([] {
        int64_t deadline = -1;
        int64_t time = FIBER_SEC(1);
        auto sleeper = [&] { fiber_sleep(time); };
        fiber_t fiber = spawn(sleeper); // not embedded yet
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, 0);
        int64_t before = fiber_now();
        EXPECT_EQ(fiber_cord_run(0), 0);
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_GE(deadline, before + time);
        EXPECT_LE(deadline, fiber_now() + time + FIBER_MSEC(1));
        join(fiber);
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, FIBER_FOREVER);

        int fd = embedded();
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, FIBER_FOREVER);
        time = FIBER_SEC(100); // unless cancelled
        fiber = spawn(sleeper);
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, 0);
        before = fiber_now();
        run_when_readable(fd);
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_GE(deadline, before + time);
        EXPECT_LE(deadline, fiber_now() + time + FIBER_MSEC(1));
        fiber_t waited_for = fiber;
        in_thread([=] { EXPECT_EQ(fiber_wakeup(waited_for), 0); });
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, 0) << "a message has come";
        run_when_readable(fd);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        run_when_readable(fd);
        join(fiber);
    });
}

// --- The main flow between runs, and errors
// ---------------------------------------------------------------------------

TEST_F(EmbedTest, CallsThatWaitWorkBetweenRunsAndTheOthersRunMeanwhile) {
    in_thread([] {
        int fd = embedded();
        int ticks = 0;
        auto body = [&] {
            for (; ticks < 5; ticks++) fiber_sleep(FIBER_MSEC(5));
        };
        fiber_t fiber = spawn(body);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(60)), 0);
        EXPECT_TRUE(await([&] { return ticks == 5; })); // each tick may come late
        join(fiber);
        Pipe pipe;
        char text[4];
        EXPECT_EQ(fiber_write(pipe.write_end, "abc", 3), 3);
        EXPECT_EQ(fiber_read(pipe.read_end, text, sizeof text), 3);
        EXPECT_TRUE(readable(fd));
        run_when_readable(fd);
        fiber_t me = self();
        in_thread([=] { EXPECT_EQ(fiber_wakeup(me), 0); });
        EXPECT_EQ(fiber_yield(), 0) << "the permit of a wakeup that came while the loop waited";
        run_when_readable(fd);
    });
}

TEST_F(EmbedTest, InANoSwitchSectionCallsThatWaitAreRefused) {
    in_thread([] {
        int fd = embedded();
        int ran = 0;
        auto body = [&] { ran++; };
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        fiber_t fiber = spawn(body);
        EXPECT_EQ(fiber_sleep(1), -EPERM);
        EXPECT_EQ(fiber_join(fiber, nullptr), -EPERM);
        EXPECT_EQ(fiber_cord_run(0), -EPERM);
        EXPECT_EQ(ran, 0);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        run_when_readable(fd);
        EXPECT_EQ(ran, 1);
        join(fiber);
    });
}

TEST_F(EmbedTest, OnlyTheMainFlowMayRunTheCord) {
    in_thread([] {
        auto body = [] {
            int64_t deadline;
            EXPECT_EQ(fiber_cord_run(0), -EPERM);
            EXPECT_EQ(fiber_cord_fd(), -EPERM);
            EXPECT_EQ(fiber_cord_next_deadline(&deadline), -EPERM);
        };
        join(spawn(body));
        int fd = embedded();
        fiber_t fiber = spawn(body);
        run_when_readable(fd);
        join(fiber);
        EXPECT_EQ(fiber_cord_run(-1), -EINVAL);
        EXPECT_EQ(fiber_cord_next_deadline(nullptr), -EINVAL);
    });
}

TEST_F(EmbedTest, ACordOfManyWaitsCanStillBeEmbedded) {
    in_thread([] {
        constexpr int many = 200;
        int ends[many][2];
        for (auto &pair : ends) EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        int next = 0;
        auto read_one = [&] {
            char byte;
            EXPECT_EQ(fiber_read(ends[next++][0], &byte, 1), 1);
        };
        fiber_t fibers[many];
        for (fiber_t &fiber : fibers) fiber = spawn(read_one);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(20)), 0); // the kernel knows of all of them
        EXPECT_GE(fiber_cord_fd(), 0);
        for (auto &pair : ends) EXPECT_EQ(::send(pair[1], "x", 1, MSG_NOSIGNAL), 1);
        for (fiber_t fiber : fibers) join(fiber);
        for (auto &pair : ends) close(pair[0]), close(pair[1]);
    });
}

// libev makes itself a new epoll instance when it learns of a closed number: the file lives on by its copy.
TEST_F(EmbedTest, AClosedNumberWhoseCopyBecomesReadableLosesNoWake) {
    in_thread([] {
        int fd = embedded();
        int first[2], second[2], copy = -1;
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);
        char byte;
        auto read_and_close = [&] {
            EXPECT_EQ(fiber_read(first[0], &byte, 1), 1);
            copy = dup(first[0]);
            EXPECT_EQ(fiber_close(first[0]), 0);
        };
        fiber_t fiber = spawn(read_and_close);
        settle(fd);
        EXPECT_EQ(::send(first[1], "ab", 2, MSG_NOSIGNAL), 2); // one for the copy
        while (copy < 0 && readable(fd, 10000)) EXPECT_EQ(fiber_cord_run(0), 0);
        settle(fd);
        EXPECT_FALSE(readable(fd, 50));
        bool done = false;
        auto read_one = [&] {
            EXPECT_EQ(fiber_read(second[0], &byte, 1), 1);
            done = true;
        };
        fiber_t other = spawn(read_one);
        settle(fd);
        EXPECT_EQ(::send(second[1], "c", 1, MSG_NOSIGNAL), 1);
        EXPECT_TRUE(readable(fd, 10000));
        while (!done && readable(fd, 1000)) EXPECT_EQ(fiber_cord_run(0), 0);
        EXPECT_TRUE(done);
        join(fiber);
        join(other);
        for (int end : {copy, first[1], second[0], second[1]}) close(end);
    });
}

TEST_F(EmbedTest, APostFromAnotherThreadIsDueWithoutTheDescriptorToo) {
    in_thread([] {
        fiber_cord_t cord{};
        EXPECT_EQ(fiber_cord_self(&cord), 0);
        EXPECT_EQ(fiber_cord_run(0), 0);
        std::thread([&] {
            EXPECT_EQ(fiber_post(
                          cord, [](void *) -> void * { return nullptr; }, nullptr),
                      0);
        }).join();
        int64_t deadline = -1;
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, 0);
        EXPECT_EQ(fiber_cord_run(0), 0);
        EXPECT_EQ(fiber_cord_next_deadline(&deadline), 0);
        EXPECT_EQ(deadline, FIBER_FOREVER);
    });
}

TEST_F(EmbedTest, ADumpBetweenTheRunsShowsTheWaitsOfItsFibers) {
    in_thread([] {
        int fd = embedded();
        auto body = [] { fiber_sleep(FIBER_SEC(100)); };
        fiber_t fiber = spawn(body);
        settle(fd);
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        EXPECT_EQ(fiber_dump(ends[1]), 0);
        char text[16384];
        const ssize_t length = read(ends[0], text, sizeof text);
        const std::string dump(text, size_t(length > 0 ? length : 0));
        EXPECT_NE(dump.find(": sleeps"), std::string::npos) << dump;
        EXPECT_NE(dump.find(", of this thread"), std::string::npos) << dump;
        EXPECT_EQ(dump.find("none yet"), std::string::npos) << dump;
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
        close(ends[0]), close(ends[1]);
    });
}

TEST_F(EmbedTest, ErrnoStays) {
    in_thread([] {
        errno = 77;
        int fd = fiber_cord_fd();
        EXPECT_EQ(fiber_cord_run(0), 0);
        auto body = [] { errno = 5; };
        fiber_t fiber = spawn(body);
        EXPECT_EQ(fiber_cord_run(0), 0);
        EXPECT_EQ(errno, 77);
        EXPECT_GE(fd, 0);
        join(fiber);
    });
}

TEST_F(EmbedTest, WithoutDescriptorsItSaysSoAndWorksLater) {
    in_thread([] {
        Pipe pipe; // opens the backend, which needs descriptors
        EXPECT_EQ(fiber_write(pipe.write_end, "a", 1), 1);
        int descriptors = entry_count("/proc/self/fd");
        rlimit before{};
        EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
        for (int room = 0; room < 2; room++) {
            int lowest_free = dup(0);
            close(lowest_free);
            rlimit few = {rlim_t(lowest_free + room), before.rlim_max};
            EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
            EXPECT_EQ(fiber_cord_fd(), -EMFILE) << room;
            EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
            EXPECT_EQ(entry_count("/proc/self/fd"), descriptors);
        }
        EXPECT_EQ(fiber_cord_run(0), 0);
        embedded();
    });
}

TEST_F(EmbedTest, ACancelOfTheMainFlowIsReturnedAndFibersGoOnAfterIt) {
    auto main_flow = [] {
        int fd = embedded();
        EXPECT_EQ(fiber_cancel(self(), nullptr), 0);
        EXPECT_TRUE(readable(fd));
        EXPECT_EQ(fiber_cord_run(0), -ECANCELED);
        EXPECT_EQ(fiber_cord_run(FIBER_FOREVER), -ECANCELED);
        EXPECT_TRUE(readable(fd));
    };
    join_cord(start_cord(main_flow));
}

// --- Runs
// -------------------------------------------------------------------------------------------------------------

TEST_F(EmbedTest, ARunWaitsForItsTimeout) {
    in_thread([] {
        for (bool embed : {false, true}) {
            int64_t begun = fiber_now();
            EXPECT_EQ(fiber_cord_run(FIBER_MSEC(20)), 0);
            EXPECT_GE(fiber_now() - begun, FIBER_MSEC(20));
            int ran = 0;
            auto body = [&] {
                fiber_sleep(FIBER_MSEC(20));
                ran++;
            };
            fiber_t fiber = spawn(body);
            begun = fiber_now();
            EXPECT_EQ(fiber_cord_run(FIBER_SEC(60)), 0) << "it has run, which is enough";
            EXPECT_EQ(ran, 0);
            EXPECT_EQ(fiber_cord_run(FIBER_SEC(60)), 0);
            EXPECT_EQ(ran, 1);
            EXPECT_GE(fiber_now() - begun, FIBER_MSEC(20));
            EXPECT_LT(fiber_now() - begun, FIBER_SEC(30));
            join(fiber);
            fiber_cord_t cord = this_cord_handle();
            auto post = [&] { ran++; };
            std::thread other([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                EXPECT_EQ(fiber_post(cord, entry<decltype(post)>, &post), 0);
            });
            EXPECT_EQ(fiber_cord_run(FIBER_FOREVER), 0);
            EXPECT_EQ(ran, 2);
            other.join();
            if (embed) break;
            embedded();
        }
    });
}

TEST_F(EmbedTest, FibersThatAlwaysHaveSomethingToDoLeaveTheLoopItsTurn) {
    in_thread([] {
        int fd = embedded();
        bool stop = false;
        auto body = [&] {
            while (!stop) fiber_reschedule();
        };
        fiber_t one = spawn(body), two = spawn(body);
        for (int i = 0; i < 10; i++) {
            int64_t begun = fiber_now();
            EXPECT_EQ(fiber_cord_run(0), 1);
            EXPECT_LT(fiber_now() - begun, FIBER_SEC(10));
            EXPECT_TRUE(readable(fd));
        }
        EXPECT_EQ(fiber_cord_run(FIBER_FOREVER), 1) << "it is not idle, so it does not wait";
        stop = true;
        run_when_readable(fd);
        join(one);
        join(two);
    });
}

// Two that wake each other are one run, not a turn of the loop each time.
TEST_F(EmbedTest, ARunGoesOnUntilNothingIsRunnable) {
    in_thread([] {
        int fd = embedded();
        fiber_t one{}, two{};
        int rounds = 0;
        auto ping = [&] {
            for (; rounds < 100; rounds++) {
                fiber_wakeup(two);
                fiber_yield();
            }
            fiber_wakeup(two);
        };
        auto pong = [&] {
            while (rounds < 100) {
                fiber_wakeup(one);
                fiber_yield();
            }
        };
        one = spawn(ping);
        two = spawn(pong);
        int runs = 0;
        while (readable(fd) && runs < 1000) EXPECT_GE(fiber_cord_run(0), 0), runs++;
        EXPECT_EQ(rounds, 100);
        EXPECT_LE(runs, 20) << "only the later ones were due to the time slice";
        join(one);
        join(two);
    });
}

// More cancels and operations at once than the submission queue holds are all handed in.
TEST_F(EmbedTest, ARunSubmitsEveryOperation) {
    in_thread([] {
        int fd = embedded();
        constexpr int count = 1000;
        Pipe pipe;
        int ended = 0;
        auto body = [&] {
            char text;
            if (fiber_read(pipe.read_end, &text, 1) == 1) ended++;
        };
        std::vector<fiber_t> fibers;
        for (int i = 0; i < count; i++) fibers.push_back(spawn(body));
        for (int i = 0; i < 1000 && readable(fd); i++) fiber_cord_run(0);
        EXPECT_EQ(stats().ops_in_flight, unsigned(count));
        EXPECT_EQ(write(pipe.write_end, std::string(count / 2, 'x').data(), count / 2), count / 2);
        for (int i = 0; i < 10000 && ended < count / 2; i++) {
            EXPECT_TRUE(readable(fd, 10000));
            fiber_cord_run(0);
        }
        EXPECT_EQ(ended, count / 2);
        for (fiber_t fiber : fibers) fiber_cancel(fiber, nullptr);
        for (int i = 0; i < 10000 && stats().ops_in_flight; i++) {
            EXPECT_TRUE(readable(fd, 10000));
            fiber_cord_run(0);
        }
        EXPECT_EQ(ended, count / 2);
        for (fiber_t fiber : fibers) join(fiber);
    });
}

// On entry a kernel does a few dozen of the things that it has put off, and all of those may come to nothing: if many
// fibers wait for one byte, all try to read it, and one gets it.
TEST_F(EmbedTest, ACompletionBehindManyWaitsThatGoOnIsReported) {
    in_thread([] {
        int fd = embedded();
        constexpr int many = 1000;
        Pipe crowded, other;
        int got = 0;
        bool done = false;
        auto one_of_many = [&] {
            char text;
            if (fiber_read(crowded.read_end, &text, 1) == 1) got++;
        };
        auto alone = [&] {
            char text;
            EXPECT_EQ(fiber_read(other.read_end, &text, 1), 1);
            done = true;
        };
        std::vector<fiber_t> fibers;
        for (int i = 0; i < many; i++) fibers.push_back(spawn(one_of_many));
        fiber_t last = spawn(alone);
        for (int i = 0; i < 1000 && readable(fd); i++) fiber_cord_run(0);
        EXPECT_EQ(stats().ops_in_flight, unsigned(many + 1));
        EXPECT_EQ(write(crowded.write_end, "x", 1), 1);
        EXPECT_EQ(write(other.write_end, "y", 1), 1);
        while ((!done || !got) && readable(fd, 10000)) EXPECT_GE(fiber_cord_run(0), 0); // in either order
        EXPECT_TRUE(done);
        for (fiber_t fiber : fibers) fiber_cancel(fiber, nullptr);
        other.close_write(); // in case it still waits
        for (int i = 0; i < 10000 && stats().ops_in_flight && readable(fd, 10000); i++) fiber_cord_run(0);
        EXPECT_EQ(got, 1);
        for (fiber_t fiber : fibers) join(fiber);
        join(last);
    });
}

// --- Loops
// ------------------------------------------------------------------------------------------------------------

// Runs until done() holds, and counts how often the descriptor was found readable. A single wait of 30 s is a failure,
// not many short ones together, which ThreadSanitizer on a busy machine makes of a test of a second.
using Done = std::function<bool()>;
struct ForeignLoop {
    const char *name;
    int (*run)(int fd, const Done &done);
};

int run_poll_loop(int fd, const Done &done) {
    int runs = 0;
    while (!done()) {
        pollfd wait = {fd, POLLIN, 0};
        int ready = poll(&wait, 1, 30000);
        EXPECT_EQ(ready, 1) << "a wake was lost";
        if (ready != 1) break;
        EXPECT_GE(fiber_cord_run(0), 0);
        runs++;
    }
    return runs;
}

// As before, edge-triggered: a descriptor that has not become readable anew is not reported.
int run_edge_loop(int fd, const Done &done) {
    int runs = 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    EXPECT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    while (!done()) {
        int ready = epoll_wait(epoll, &event, 1, 30000);
        if (ready < 0 && errno == EINTR) continue; // the process was stopped and goes on
        EXPECT_EQ(ready, 1) << "a wake was lost";
        if (ready != 1) break;
        do runs++;
        while (fiber_cord_run(0) == 1);
    }
    close(epoll);
    return runs;
}

#if FIBERRT_TEST_LIBEV
struct EvLoop {
    ev_timer *limit;
    int runs;
};

int run_libev(int fd, const Done &done) {
    struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
    ev_io io;
    ev_timer limit;
    EvLoop state{&limit, 0};
    ev_set_userdata(loop, &state);
    ev_io_init(
        &io,
        [](struct ev_loop *l, ev_io *, int) {
            EXPECT_GE(fiber_cord_run(0), 0);
            auto *now = static_cast<EvLoop *>(ev_userdata(l));
            now->runs++;
            ev_now_update(l);
            ev_timer_again(l, now->limit);
        },
        fd, EV_READ);
    ev_timer_init(
        &limit,
        [](struct ev_loop *l, ev_timer *, int) {
            ADD_FAILURE() << "a wake was lost";
            ev_break(l, EVBREAK_ALL);
            static_cast<EvLoop *>(ev_userdata(l))->runs = -1;
        },
        30., 30.);
    ev_io_start(loop, &io);
    ev_timer_start(loop, &limit);
    while (!done() && state.runs >= 0) ev_run(loop, EVRUN_ONCE);
    ev_io_stop(loop, &io);
    ev_timer_stop(loop, &limit);
    ev_loop_destroy(loop);
    return state.runs;
}
#endif

#if FIBERRT_TEST_GLIB
struct GlibLoop {
    GSource *limit;
    int runs;
    bool late;
};

void set_limit(GSource *limit) { g_source_set_ready_time(limit, g_get_monotonic_time() + 30 * G_USEC_PER_SEC); }

int run_glib(int fd, const Done &done) {
    GMainContext *context = g_main_context_new();
    GSource *source = g_unix_fd_source_new(fd, G_IO_IN);
    GlibLoop state{g_timeout_source_new_seconds(30), 0, false};
    GUnixFDSourceFunc run = [](gint, GIOCondition, gpointer data) -> gboolean {
        EXPECT_GE(fiber_cord_run(0), 0);
        auto *now = static_cast<GlibLoop *>(data);
        now->runs++;
        set_limit(now->limit);
        return G_SOURCE_CONTINUE;
    };
    g_source_set_callback(source, reinterpret_cast<GSourceFunc>(reinterpret_cast<void *>(run)), &state, nullptr);
    g_source_set_callback(
        state.limit,
        [](gpointer data) -> gboolean {
            ADD_FAILURE() << "a wake was lost";
            return static_cast<GlibLoop *>(data)->late = true, G_SOURCE_REMOVE;
        },
        &state, nullptr);
    g_source_attach(source, context);
    g_source_attach(state.limit, context);
    while (!done() && !state.late) g_main_context_iteration(context, TRUE);
    for (GSource *each : {source, state.limit}) {
        g_source_destroy(each);
        g_source_unref(each);
    }
    g_main_context_unref(context);
    return state.runs;
}
#endif

class EmbedLoopTest : public EmbedTest, public testing::WithParamInterface<ForeignLoop> {
protected:
    void SetUp() override {
        EmbedTest::SetUp();
        if (!GetParam().run) GTEST_SKIP() << "the tests were built without " << GetParam().name;
    }
    int run_loop(int fd, const Done &done) { return GetParam().run(fd, done); }
    int run_rounds(int rounds);
};

// Makes a sleep, a read and a wakeup in each round. Returns how often the loop ran the cord.
int EmbedLoopTest::run_rounds(int rounds) {
    int fd = embedded();
    Pipe pipe;
    int ticks = 0, bytes = 0, wakes = 0, finished = 0;
    auto ticker = [&] {
        for (; ticks < rounds; ticks++) EXPECT_EQ(fiber_sleep(FIBER_MSEC(5)), 0);
        finished++;
    };
    auto reader = [&] {
        for (char text; fiber_read(pipe.read_end, &text, 1) == 1;) bytes++;
        finished++;
    };
    std::atomic<int> asked{0};
    auto yielder = [&] { // several wakeups may be one, or none before the first run
        while (wakes < rounds) {
            if (wakes < asked) {
                wakes++;
            } else {
                EXPECT_EQ(fiber_yield(), 0);
            }
        }
        finished++;
    };
    fiber_t fibers[] = {spawn(ticker), spawn(reader), spawn(yielder)};
    std::thread other([&, woken = fibers[2]] {
        for (int i = 0; i < rounds; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            asked++;
            EXPECT_EQ(fiber_wakeup(woken), 0);
        }
        pipe.close_write();
    });
    int runs = run_loop(fd, [&] { return finished == 3; });
    other.join();
    EXPECT_EQ(ticks, rounds);
    EXPECT_EQ(bytes, rounds);
    EXPECT_EQ(wakes, rounds);
    for (fiber_t fiber : fibers) join(fiber);
    return runs;
}

TEST_P(EmbedLoopTest, WaitsOfAllKindsAndNoIdleTurns) {
    constexpr int rounds = 20;
    // One wakeup for each event and few more: the first, the end of the pipe, a check of idle memory.
    const int most = (only_readiness() ? 9 : 3) * rounds + 10;
    int runs = most + 1;
    // Under a busy host, the ringing thread's processor may stop between the moments when the kernel tells the cord's
    // epoll and libev's epoll of the doorbell. Until it continues, the loop turns in vain.
    for (int attempt = 0; attempt < 5 && runs > most; attempt++) {
        in_thread([&] { runs = run_rounds(rounds); });
        if (runs > most) std::cerr << runs << " turns of the loop, and " << most << " would do\n";
    }
    EXPECT_LE(runs, most) << "turns of the loop in vain";
}

TEST_P(EmbedLoopTest, WithNothingToDoTheLoopSleeps) {
    in_thread([this] {
        int fd = embedded();
        bool over = false;
        Pipe pipe;
        auto last = [&] {
            fiber_sleep(FIBER_MSEC(200));
            over = true;
        };
        auto reader = [&] {
            char text;
            EXPECT_EQ(fiber_read(pipe.read_end, &text, 1), -ECANCELED);
        };
        auto yielder = [] { EXPECT_EQ(fiber_yield(), -ECANCELED); };
        fiber_t fibers[] = {spawn(last), spawn(reader), spawn(yielder)};
        EXPECT_LE(run_loop(fd, [&] { return over; }), 4);
        for (fiber_t fiber : fibers) fiber_cancel(fiber, nullptr);
        for (fiber_t fiber : fibers) join(fiber);
    });
}

// Three other threads post, wake, and send bytes, without a pause; a fiber answers to the bytes; nothing is lost.
//
// For each fiber that is posted ThreadSanitizer maps, zeroes and unmaps 800 kB: 3,000 of them took it a second alone,
// and on a machine with thirty others to run half a minute.
TEST_P(EmbedLoopTest, UnderLoadFromOtherThreadsNoWakeIsLost) {
    in_thread([this] {
        int fd = embedded();
        constexpr int rounds = FIBERRT_TEST_TSAN || FIBERRT_TEST_ASAN ? 3000 : 20000;
        constexpr int posts = FIBERRT_TEST_TSAN ? 300 : rounds;
        fiber_cord_t cord = this_cord_handle();
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        using Count = std::atomic<int>; // the watch reads all of them
        Count posting{0}, posted{0}, asked{0}, asking{0}, answered{0}, sending{0}, echoed{0}, finished{0}, runs{0};
        auto post = [&] {
            if (++posted == posts) finished++;
        };
        auto answerer = [&] { // each question causes a wakeup; several may be one, those before the first run none
            for (;;) {
                answered = asked.load();
                if (answered >= rounds) break;
                EXPECT_EQ(fiber_yield(), 0);
            }
            finished++;
        };
        auto echo = [&] {
            char text[64];
            for (int64_t got; (got = fiber_read(sockets[0], text, sizeof text)) > 0; echoed += int(got))
                for (int64_t sent = 0; sent < got;) sent += fiber_write(sockets[0], text + sent, size_t(got - sent));
            finished++;
        };
        Watch watch([&] { return uint64_t(posting) + posted + asking + answered + sending + echoed + finished; },
                    [&] {
                        auto of = [](const char *what, const Count &count) {
                            return what + std::to_string(count) + " ";
                        };
                        return of("posting ", posting) + of("posted ", posted) + of("asked ", asked) +
                               of("asking ", asking) + of("answered ", answered) + of("sending ", sending) +
                               of("echoed ", echoed) + of("finished ", finished) + of("runs ", runs) + "descriptor " +
                               std::to_string(fd) + (readable(fd) ? ", readable" : ", not readable");
                    });
        fiber_t fibers[] = {spawn(answerer), spawn(echo)};
        std::thread threads[] = {
            std::thread([&] {
                for (int i = 0; i < posts; i++, posting++) {
                    EXPECT_EQ(fiber_post(cord, entry<decltype(post)>, &post), 0);
                    if (i % 64 == 0) sched_yield();
                }
            }),
            std::thread([&, woken = fibers[0]] {
                for (int i = 0; i < rounds; i++, asking++) {
                    asked++;
                    EXPECT_EQ(fiber_wakeup(woken), 0);
                    if (i % 16 == 0) sched_yield();
                }
            }),
            std::thread([&] {
                for (int i = 0; i < rounds / 20; i++, sending++) {
                    char text = 'x';
                    EXPECT_EQ(write(sockets[1], &text, 1), 1);
                    EXPECT_EQ(read(sockets[1], &text, 1), 1);
                }
                shutdown(sockets[1], SHUT_WR);
            }),
        };
        run_loop(fd, [&] { return runs++, finished == 3; });
        EXPECT_EQ(finished, 3);
        EXPECT_EQ(posted, posts);
        EXPECT_EQ(answered, rounds);
        for (std::thread &thread : threads) thread.join();
        for (fiber_t fiber : fibers) join(fiber);
        for (int socket : sockets) close(socket);
    });
}

// The thread's own calls between runs and those of other threads meet in the one word.
TEST_P(EmbedLoopTest, OwnCallsAndOthersAtOnceLoseNothing) {
    in_thread([this] {
        int fd = embedded();
        constexpr int rounds = FIBERRT_TEST_TSAN || FIBERRT_TEST_ASAN ? 2000 : 10000;
        fiber_cord_t cord = this_cord_handle();
        std::atomic<int> to_do{0};
        int posted = 0, own = 0, done = 0, ended = 0;
        auto post = [&] { posted++; };
        auto worker = [&] {
            while (done < 2 * rounds) {
                EXPECT_EQ(fiber_yield(), 0);
                done += to_do.exchange(0);
            }
            ended = 1;
        };
        auto spawned = [&] { own++; };
        fiber_t fiber = spawn(worker);
        std::thread other([&] {
            for (int i = 0; i < rounds; i++) {
                EXPECT_EQ(fiber_post(cord, entry<decltype(post)>, &post), 0);
                to_do++;
                EXPECT_EQ(fiber_wakeup(fiber), 0);
            }
        });
        int given = 0;
        run_loop(fd, [&] { // called between the runs
            if (given < rounds) {
                given++;
                to_do++;
                EXPECT_EQ(fiber_wakeup(fiber), 0);
                if (given % 3 == 0) fiber_post(cord, entry<decltype(spawned)>, &spawned);
                if (given % 3 == 1) fiber_spawn(nullptr, entry<decltype(spawned)>, &spawned);
            }
            return ended && posted == rounds;
        });
        EXPECT_EQ(posted, rounds);
        EXPECT_EQ(done, 2 * rounds);
        other.join();
        join(fiber);
        EXPECT_EQ(own, rounds / 3 + (rounds + 2) / 3);
    });
}

const ForeignLoop loops[] = {
    {"poll", run_poll_loop},
    {"epoll_edge", run_edge_loop},
#if FIBERRT_TEST_LIBEV
    {"libev", run_libev},
#else
    {"libev", nullptr},
#endif
#if FIBERRT_TEST_GLIB
    {"glib", run_glib},
#else
    {"glib", nullptr},
#endif
};
INSTANTIATE_TEST_SUITE_P(In, EmbedLoopTest, testing::ValuesIn(loops),
                         [](const auto &info) { return std::string(info.param.name); });

// --- The end of the thread
// --------------------------------------------------------------------------------------------

// With live fibers that sleep, read and yield, while other threads go on sending: their calls report that the cord is
// gone.
TEST_F(EmbedTest, AThreadEndsBetweenRunsOrTakenUpAndNothingIsLeft) {
    int descriptors = 0;
    in_thread([] { embedded(); });
    descriptors = entry_count("/proc/self/fd");
    for (int i = 0; i < (FIBERRT_TEST_TSAN || FIBERRT_TEST_ASAN ? 40 : 300); i++) {
        std::atomic<uint64_t> cord_id{0}, fiber_id{0};
        std::atomic<int> refused{0}, under_way{0};
        auto arrive = [&] { under_way--; };
        auto spam = [&] {
            while (!fiber_id) sched_yield();
            int posts = 0, wakeups = 0;
            while (posts == 0 || wakeups == 0) {
                if (!wakeups) wakeups = fiber_wakeup({fiber_id});
                if (posts) continue;
                if (under_way < 100 || wakeups) { // no more than the cord keeps up with
                    under_way++;
                    posts = fiber_post({cord_id}, entry<decltype(arrive)>, &arrive);
                } else {
                    sched_yield();
                }
            }
            EXPECT_EQ(posts, -ESRCH);
            EXPECT_EQ(wakeups, -ESRCH);
            refused++;
        };
        std::thread spammers[] = {std::thread(spam), std::thread(spam)};
        Pipe pipe;
        in_thread([&] {
            int fd = embedded();
            auto sleeper = [] { fiber_sleep(FIBER_SEC(1000)); };
            auto reader = [&] {
                char text;
                fiber_read(pipe.read_end, &text, 1);
            };
            auto yielder = [] {
                while (fiber_yield() == 0)
                    ;
            };
            spawn(sleeper);
            spawn(reader);
            fiber_t woken = spawn(yielder);
            cord_id = this_cord_handle().id;
            fiber_id = woken.id;
            for (int turn = 0; turn < i % 7; turn++) {
                readable(fd, 1);
                fiber_cord_run(0);
            }
            if (i % 3 == 1) fiber_spawn(nullptr, entry<decltype(sleeper)>, &sleeper); // taken up
            if (i % 3 == 2) usleep(i % 50);                                           // another thread rings meanwhile
        });
        for (std::thread &spammer : spammers) spammer.join();
        EXPECT_EQ(refused, 2);
    }
    EXPECT_EQ(entry_count("/proc/self/fd"), descriptors);
}

// As in a chroot without /proc: there is nothing that could be opened by name.
TEST_F(EmbedTest, NeedsNoFiles) {
    NOT_UNDER_QEMU("has no filters of system calls");
    in_thread([] { // the only thread that the filter concerns
        Pipe pipe;
        char byte = 0;
        auto reader = [&] { EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1); };
        fiberrt_test::RefuseSystemCall(SYS_openat, ENOENT);
        ASSERT_LT(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC), 0);
        int fd = embedded();
        ASSERT_GE(fd, 0);
        fiber_t fiber = spawn(reader);
        run_when_readable(fd);
        EXPECT_EQ(::write(pipe.write_end, "x", 1), 1);
        run_when_readable(fd);
        EXPECT_EQ(byte, 'x');
        join(fiber);
    });
}

// The main flow of a cord that was started may be a loop: when it returns, between two runs, its fibers run to their
// end.
TEST_F(EmbedTest, AStartedCordWhoseLoopEndsWaitsForItsFibers) {
    int ended = 0;
    bool returned = false;
    auto sleeper = [&] {
        do fiber_sleep(FIBER_MSEC(5));
        while (!returned);
        ended++;
    };
    auto main_flow = [&] {
        int fd = embedded();
        for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(sleeper)>, &sleeper), 0);
        run_when_readable(fd);
        returned = true;
        return pointer(9);
    };
    EXPECT_EQ(join_cord(start_cord(main_flow)), pointer(9));
    EXPECT_EQ(ended, 3);
}

TEST_F(EmbedTest, AnEmbeddedCordIsShutDownFromElsewhere) {
    std::atomic<uint64_t> id{0}, main_flow{0};
    std::atomic<bool> down{false};
    std::thread thread([&] {
        int fd = embedded();
        auto sleeper = [] { fiber_sleep(FIBER_SEC(1000)); };
        fiber_spawn(nullptr, entry<decltype(sleeper)>, &sleeper);
        run_when_readable(fd);
        main_flow = self().id;
        id = this_cord_handle().id;
        run_poll_loop(fd, [&] { return down.load(); });
    });
    while (!id) sched_yield();
    in_thread([&] {
        EXPECT_EQ(fiber_cord_shutdown({id}, 0, FIBER_SEC(30)), 0);
        auto nothing = [] {};
        EXPECT_EQ(fiber_post({id}, entry<decltype(nothing)>, &nothing), -EPIPE);
        down = true;
        int woken = fiber_wakeup({main_flow}); // one more turn of its loop, unless the main flow has ended meanwhile
        EXPECT_TRUE(woken == 0 || woken == -ESRCH) << woken;
    });
    thread.join();
}

[[gnu::noinline]] void stays_in_the_loop(std::atomic<bool> &stays, const std::atomic<bool> &over) {
    for (stays = true; !over;) poll(nullptr, 0, 1);
    asm volatile("" : : : "memory"); // no tail call
}

// The foreign loop has the thread, so the main flow runs: a dump asks the thread for its frames.
TEST_F(EmbedTest, ADumpTellsTheFramesOfTheLoop) {
    std::atomic<bool> stays{false}, over{false};
    std::string text;
    int signal = SIGRTMIN + 4;
    std::thread loop([&] {
        self();                                          // opens the cord
        EXPECT_EQ(fiber_dump_running_signal(signal), 0); // gives the thread a stack for the handler
        embedded();
        stays_in_the_loop(stays, over);
    });
    while (!stays) sched_yield();
    Descriptor file(memfd_create("dump", MFD_CLOEXEC));
    EXPECT_EQ(fiber_dump_as(file, FIBER_DUMP_FRAMES), 0);
    over = true;
    loop.join();
    EXPECT_EQ(fiber_dump_running_signal(0), 0);
    text.resize(size_t(lseek(file, 0, SEEK_END)));
    EXPECT_EQ(pread(file, text.data(), text.size(), 0), ssize_t(text.size()));
    EXPECT_NE(text.find("stays_in_the_loop"), std::string::npos) << text;
    EXPECT_EQ(text.find("its thread does not answer"), std::string::npos) << text;
}

} // namespace
