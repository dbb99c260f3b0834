// SPDX-License-Identifier: MIT OR Apache-2.0
// fork: the child goes on with the fiber that forked, alone, and can do all that a new process can; the parent does not
// notice. A check that fails in a child fails the scenario by the child's exit status.
#include "conformance.h"
#include "cord_support.h"

#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

using namespace support;

namespace {

void expect_passed(pid_t child) {
    int status = 0;
    ASSERT_GT(child, 0);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child's status is " << status;
}

// Runs a lambda in a child, which ends with it, and waits for the child.
template <class Body>
void in_child(Body body) {
    std::fflush(stdout);
    std::fflush(stderr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60); // a child that hangs is found dead
        body();
        std::fflush(stdout);
        std::fflush(stderr);
        ::_exit(testing::Test::HasFailure());
    }
    expect_passed(child);
}

// qemu's user mode ends a forked process that creates a thread, by its own assertion.
bool no_threads_here() {
    if (support::under_qemu()) printf("left out: threads in the child of a fork, which qemu ends\n");
    return support::under_qemu();
}

// Fibers, time, I/O, a file by a thread of the pool where there is no ring.
void use_fibers() {
    auto body = [] {
        EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
        return pointer(5);
    };
    EXPECT_EQ(run(body), pointer(5));
    if (!FIBERRT_TEST_IO) return;
    Pipe pipe;
    auto writer = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
        EXPECT_EQ(fiber_write(pipe.write_end, "abc", 3), 3);
    };
    const fiber_t fiber = spawn(writer);
    char buffer[4];
    EXPECT_EQ(fiber_read(pipe.read_end, buffer, sizeof buffer), 3);
    join(fiber);
    if (no_threads_here()) return;
    const int file = fiber_open("/dev/null", O_RDWR | O_CLOEXEC, 0);
    EXPECT_GE(file, 0);
    EXPECT_EQ(fiber_fsync(file), -EINVAL);
    EXPECT_EQ(fiber_close(file), 0);
}

// And threads.
void use_all() {
    use_fibers();
    if (no_threads_here()) return;
    auto on_cord = [] { use_fibers(); };
    join_cord(start_cord(on_cord));
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 2), 0);
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_create(&pool, attr), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    std::atomic<int> ran{0};
    auto task = [&] { ran++; };
    for (int i = 0; i < 10; i++) EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), 0);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    EXPECT_EQ(ran, 10);
}

const int one = 1, two = 2, three = 3, four = 4; // items

// ---- From wherever --------------------------------------------------------------------------------------------------

struct Place {
    const char *name;
    void (*run)(std::function<void()> body);
};

void on_main_flow(std::function<void()> body) { body(); }
void on_fiber(std::function<void()> body) { run(body); }
void on_small_stack(std::function<void()> body) {
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_daemon(attr, 1), 0);
    const fiber_t fiber = create(body, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
}
void on_cord(std::function<void()> body) { join_cord(start_cord(body)); }
void on_fiber_of_cord(std::function<void()> body) {
    auto main = [&] { run(body); };
    join_cord(start_cord(main));
}
void on_pool(int workers, std::function<void()> body) {
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, workers), 0);
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_create(&pool, attr), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    if (!workers) {
        EXPECT_EQ(fiber_pool_bind(pool), 0);
        in_child([&] {
            EXPECT_EQ(fiber_pool_unbind(pool), -ESRCH);
            use_fibers();
        });
    }
    auto task = [&] {
        body();
        fiber_pool_t gone = pool;
        in_child([&] { EXPECT_EQ(fiber_pool_close(gone), -ESRCH); });
    };
    EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(task)>, &task), 0);
    EXPECT_EQ(fiber_pool_close(pool), 0);
}
void in_task(std::function<void()> body) { on_pool(2, body); }
void in_task_of_bound_thread(std::function<void()> body) { on_pool(0, body); }
void on_thread_without_cord(std::function<void()> body) { Thread(body).join(); }

class ForkFrom : public testing::TestWithParam<Place> {
protected:
    void SetUp() override {
        if (GetParam().run == in_task) NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS(); // the pool's other worker is starting
    }
};
INSTANTIATE_TEST_SUITE_P(Places, ForkFrom,
                         testing::Values(Place{"MainFlow", on_main_flow}, Place{"Fiber", on_fiber},
                                         Place{"Daemon", on_small_stack}, Place{"Cord", on_cord},
                                         Place{"FiberOfCord", on_fiber_of_cord}, Place{"Task", in_task},
                                         Place{"TaskOfBoundThread", in_task_of_bound_thread},
                                         Place{"ThreadWithoutCord", on_thread_without_cord}),
                         [](const auto &place) { return std::string(place.param.name); });

TEST_P(ForkFrom, LeavesAChildThatCanDoAll) {
    use_fibers();
    GetParam().run([] {
        in_child(use_all);
        use_fibers();
    });
    use_fibers();
}

TEST_P(ForkFrom, LeavesAChildThatMayForkAgain) {
    GetParam().run([] {
        in_child([] {
            use_fibers();
            in_child([] {
                auto fiber = [] { in_child(use_all); };
                run(fiber);
            });
            use_fibers();
        });
    });
}

TEST_P(ForkFrom, IsDoneManyTimes) {
    const bool hundred = std::string(GetParam().name) == "Fiber";
    GetParam().run([&] {
        for (int i = 0; i < often(hundred ? 100 : 5, 2); i++) {
            in_child([&] {
                auto body = [] { EXPECT_EQ(fiber_reschedule(), 0); };
                run(body);
            });
        }
    });
}

TEST_P(ForkFrom, IsRefusedToFibersByPolicy) {
    GetParam().run([] {
        use_fibers();
        EXPECT_EQ(fiber_set_fork_policy(2), -EINVAL);
        EXPECT_EQ(fiber_set_fork_policy(FIBER_FORK_REFUSE), 0);
        in_child([] {
            auto body = [] {};
            fiber_t fiber{};
            fiber_cord_t cord{};
            fiber_pool_t pool{};
            EXPECT_EQ(fiber_sleep(1), -EPERM);
            EXPECT_EQ(fiber_reschedule(), -EPERM);
            EXPECT_EQ(fiber_yield(), -EPERM);
            EXPECT_EQ(fiber_spawn(&fiber, entry<decltype(body)>, &body), -EPERM);
            EXPECT_EQ(fiber_new(&fiber, nullptr, entry<decltype(body)>, &body), -EPERM);
            EXPECT_EQ(fiber_cord_start(&cord, nullptr, entry<decltype(body)>, &body), -EPERM);
            EXPECT_EQ(fiber_pool_create(&pool, nullptr), -EPERM);
            if (FIBERRT_TEST_IO) {
                EXPECT_EQ(fiber_read(0, &fiber, 1), -EPERM);
            }
            EXPECT_EQ(fiber_noswitch_leave(), 0);
            EXPECT_EQ(fiber_sleep(1), -EPERM);
        });
        EXPECT_EQ(fiber_set_fork_policy(FIBER_FORK_CONTINUE), 0);
        in_child(use_fibers);
    });
}

// For each kind of fiber, with and without other threads.
TEST_P(ForkFrom, LeavesTheCallerItsLocks) {
    GetParam().run([] {
        fiber_mutex_t mutex{}, free{};
        fiber_rwlock_t rwlock{};
        EXPECT_EQ(fiber_mutex_lock(&free), 0);
        EXPECT_EQ(fiber_mutex_unlock(&free), 0);
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_rwlock_wrlock(&rwlock), 0);
        auto use = [&] {
            EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
            EXPECT_EQ(fiber_mutex_destroy(&mutex), -EBUSY);
            auto other = [&] {
                EXPECT_EQ(fiber_mutex_unlock(&mutex), -EPERM);
                EXPECT_EQ(fiber_rwlock_unlock(&rwlock), -EPERM);
                EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
            };
            run(other); // from here on a thread without a cord has one
            use_fibers();
            EXPECT_EQ(fiber_mutex_lock(&mutex), -EDEADLK);
            EXPECT_EQ(fiber_rwlock_wrlock(&rwlock), -EDEADLK);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
            EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
            for (fiber_mutex_t *each : {&mutex, &free}) {
                EXPECT_EQ(fiber_mutex_lock(each), 0);
                EXPECT_EQ(fiber_mutex_unlock(each), 0);
                EXPECT_EQ(fiber_mutex_destroy(each), 0);
            }
        };
        in_child([&] {
            in_child(use);
            use();
        });
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
    });
}

// ---- The state of the child -----------------------------------------------------------------------------------------

TEST(Fork, KeepsTheStateOfTheFiber) {
    fiber_key_t key{};
    EXPECT_EQ(fiber_key_create(&key, nullptr), 0);
    const fiber_t main = self();
    auto body = [&] {
        const fiber_t me = self();
        EXPECT_EQ(fiber_set_name(me, "forks"), 0);
        EXPECT_EQ(fiber_key_set(key, pointer(7)), 0);
        EXPECT_EQ(fiber_wakeup(me), 0);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_MSEC(20), 0), 0);
        in_child([&] {
            EXPECT_EQ(self().id, me.id);
            EXPECT_EQ(fiber_wakeup(main), -ESRCH);
            EXPECT_EQ(fiber_cord_join(this_cord_handle(), nullptr), -EINVAL) << "it is the thread's own";
            EXPECT_STREQ(info(me).name, "forks");
            EXPECT_EQ(fiber_key_get(key), pointer(7));
            EXPECT_EQ(fiber_yield(), 0); // the permit
            EXPECT_EQ(fiber_sleep(FIBER_SEC(60)), -ETIMEDOUT);
            EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        });
        EXPECT_EQ(fiber_sleep(FIBER_SEC(60)), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
        EXPECT_EQ(take_permits(), 1);
    };
    run(body);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

// One fiber waits in each way that there is.
void fork_among_waiters() {
    fiber_mutex_t mutex{};
    fiber_mutex_t of_waiter{};
    fiber_cond_t cond{};
    fiber_sem_t sem{};
    fiber_event_t event{};
    fiber_wg_t group{};
    fiber_rwlock_t rwlock{};
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    fiber_chan_t empty{}, full{};
    EXPECT_EQ(fiber_chan_create(&empty, sizeof(int), 0), 0);
    EXPECT_EQ(fiber_chan_create(&full, sizeof(int), 1), 0);
    EXPECT_EQ(fiber_chan_send(full, &one), 0);
    EXPECT_EQ(fiber_wg_add(&group, 1), 0);
    EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
    EXPECT_EQ(fiber_rwlock_wrlock(&rwlock), 0);
    Pipe pipe;
    const fiber_t main = self();
    int received = 0, selected = 0;
    bool over = false;
    auto waits_for_group = [&] { EXPECT_EQ(fiber_wg_wait(&group), 0); };
    auto yields = [&] { EXPECT_EQ(fiber_yield(), 0); };
    std::vector<std::function<void()>> bodies = {
        [&] {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        },
        [&] {
            EXPECT_EQ(fiber_mutex_lock(&of_waiter), 0);
            EXPECT_EQ(fiber_sem_wait(&sem, 2), 0);
            EXPECT_EQ(fiber_mutex_unlock(&of_waiter), 0);
        },
        [&] {
            fiber_mutex_t own{};
            EXPECT_EQ(fiber_mutex_lock(&own), 0);
            EXPECT_EQ(fiber_cond_wait(&cond, &own), 0);
            EXPECT_EQ(fiber_mutex_unlock(&own), 0);
        },
        [&] { EXPECT_EQ(fiber_event_wait(&event), 0); },
        [&] { EXPECT_EQ(fiber_barrier_wait(&barrier), 0); },
        [&] {
            EXPECT_EQ(fiber_rwlock_rdlock(&rwlock), 0);
            EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
        },
        [&] { EXPECT_EQ(fiber_chan_recv(empty, &received), 0); },
        [&] { EXPECT_EQ(fiber_chan_send(full, &two), 0); },
        [&] {
            char byte;
            EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        },
        [&] {
            while (!over) EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        },
        [&] {
            fiber_case_t cases[2] = {};
            cases[0].kind = FIBER_CASE_RECV;
            cases[0].chan = empty;
            cases[0].item = &selected;
            cases[1].kind = FIBER_CASE_EVENT;
            cases[1].object = &event;
            EXPECT_EQ(fiber_select(cases, 2, FIBER_FOREVER), 0);
        },
    };
    std::vector<fiber_t> fibers;
    for (auto &body : bodies) fibers.push_back(start(body));
    const fiber_t joined = start(waits_for_group), yielder = start(yields);
    auto joiner = [&] { join(joined); };
    const fiber_t joining = start(joiner);
    fibers.insert(fibers.end(), {joined, yielder, joining});
    in_child([&] {
        for (fiber_t fiber : fibers) {
            EXPECT_EQ(fiber_wakeup(fiber), -ESRCH);
            EXPECT_EQ(fiber_join_timeout(fiber, nullptr, 0), -ESRCH);
        }
        EXPECT_EQ(self().id, main.id);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
        EXPECT_EQ(fiber_mutex_trylock(&of_waiter), -EOWNERDEAD);
        EXPECT_EQ(fiber_mutex_unlock(&of_waiter), 0);
        EXPECT_EQ(fiber_mutex_lock(&of_waiter), 0);
        EXPECT_EQ(fiber_mutex_unlock(&of_waiter), 0);
        EXPECT_EQ(fiber_cond_signal(&cond), 0);
        EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
        EXPECT_EQ(fiber_sem_wait_timeout(&sem, 2, 0), 0);
        EXPECT_EQ(fiber_event_set(&event), 0);
        EXPECT_EQ(fiber_event_is_set(&event), 1) << "no thread took it";
        EXPECT_GE(fiber_wg_done(&group), 0);
        EXPECT_EQ(fiber_barrier_wait_timeout(&barrier, 0), -ETIMEDOUT) << "the waiter is in the parent";
        EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
        EXPECT_EQ(fiber_rwlock_trywrlock(&rwlock), 0);
        EXPECT_EQ(fiber_chan_send_timeout(empty, &three, FIBER_USEC(1)), -ETIMEDOUT);
        int item = 0;
        EXPECT_EQ(fiber_chan_recv_timeout(full, &item, 0), 0);
        EXPECT_EQ(item, 1);
        EXPECT_EQ(fiber_chan_recv_timeout(full, &item, 0), -ETIMEDOUT) << "the fiber that sent 2 is in the parent";
        EXPECT_EQ(fiber_chan_destroy(empty), 0);
        EXPECT_EQ(fiber_chan_destroy(full), 0);
        EXPECT_EQ(fiber_cond_destroy(&cond), 0);
        EXPECT_EQ(fiber_sem_destroy(&sem), 0);
        EXPECT_EQ(fiber_event_destroy(&event), 0);
        EXPECT_EQ(fiber_wg_destroy(&group), 0);
        EXPECT_EQ(fiber_barrier_destroy(&barrier), 0);
        use_fibers();
    });
    // And the parent's wait on.
    over = true;
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    EXPECT_EQ(fiber_sem_post(&sem, 2), 0);
    EXPECT_EQ(fiber_cond_signal(&cond), 0);
    EXPECT_EQ(fiber_event_set(&event), 0);
    EXPECT_GE(fiber_wg_done(&group), 0);
    EXPECT_EQ(fiber_barrier_wait(&barrier), 1);
    EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
    EXPECT_EQ(fiber_chan_send(empty, &three), 0);
    int item = 0;
    EXPECT_EQ(fiber_chan_recv(full, &item), 0);
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    EXPECT_EQ(fiber_wakeup(yielder), 0);
    EXPECT_EQ(fiber_chan_send(empty, &four), 0);
    for (fiber_t fiber : fibers) {
        if (fiber.id != joined.id) join(fiber);
    }
    EXPECT_EQ(received, 3);
    EXPECT_EQ(selected, 4);
    EXPECT_EQ(fiber_chan_destroy(empty), 0);
    EXPECT_EQ(fiber_chan_destroy(full), 0);
}

// Run by itself, in a process that has never had a second thread: then the locks of lists are not taken.
TEST(Fork, FindsNoWaiters) {
    NEEDS_IO();
    fork_among_waiters();
}

TEST(Fork, FindsNoWaitersWhereAThreadHasLived) {
    NEEDS_IO();
    NEEDS_THREADS();
    Thread([] {}).join();
    fork_among_waiters();
    in_child([] { fork_among_waiters(); });
}

TEST(Fork, LosesChildrenOfTheScopeThatItIsIn) {
    fiber_event_t go{};
    EXPECT_EQ(fiber_event_init(&go, FIBER_EVENT_MANUAL), 0);
    struct Children {
        static int64_t waits(void *event) { return fiber_event_wait(static_cast<fiber_event_t *>(event)); }
        static int64_t ends(void *) { return 9; }
    };
    fiber_scope_t outer{}, scope{};
    EXPECT_EQ(fiber_scope_open(&outer, FIBER_FOREVER, 0), 0);
    EXPECT_EQ(fiber_scope_spawn(outer, nullptr, Children::waits, &go), 0);
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    fiber_t ended{}, waiting[3];
    EXPECT_EQ(fiber_scope_spawn(scope, &ended, Children::ends, nullptr), 0);
    for (fiber_t &fiber : waiting) EXPECT_EQ(fiber_scope_spawn(scope, &fiber, Children::waits, &go), 0);
    EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
    in_child([&] {
        fiber_t told{};
        int64_t result = 0;
        EXPECT_EQ(fiber_scope_next(scope, &told, &result), 1);
        EXPECT_EQ(told.id, ended.id);
        EXPECT_EQ(result, 9);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(fiber_scope_next(scope, &told, &result), 1);
            EXPECT_EQ(result, -EOWNERDEAD);
            EXPECT_EQ(fiber_wakeup(told), -ESRCH);
        }
        EXPECT_EQ(fiber_scope_next(scope, &told, &result), 0);
        EXPECT_EQ(fiber_scope_spawn(scope, nullptr, Children::ends, nullptr), 0);
        EXPECT_EQ(fiber_scope_spawn(scope, &told, Children::ends, nullptr), 0);
        EXPECT_EQ(fiber_scope_next(scope, &told, &result), 1);
        EXPECT_EQ(result, 9) << "it is not cancelled";
        int64_t failure = 0;
        EXPECT_EQ(fiber_scope_close(scope, &failure), 0);
        EXPECT_EQ(failure, -EOWNERDEAD);
        EXPECT_EQ(fiber_scope_close(outer, &failure), 0);
        EXPECT_EQ(failure, -EOWNERDEAD);
    });
    EXPECT_EQ(fiber_event_set(&go), 0);
    int64_t failure = 1;
    EXPECT_EQ(fiber_scope_close(scope, &failure), 0);
    EXPECT_EQ(failure, 0);
    EXPECT_EQ(fiber_scope_close(outer, &failure), 0);
    EXPECT_EQ(failure, 0);
}

// A fiber that is itself a child of a scope, and holds a lock that the scope's owner waits for.
TEST(Fork, ByAChildOfAScopeLosesTheScope) {
    fiber_mutex_t mutex{};
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        in_child([&] {
            use_fibers();
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        });
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        return int64_t(4);
    };
    struct Child {
        static int64_t run(void *argument) { return (*static_cast<decltype(body) *>(argument))(); }
    };
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    fiber_t child{};
    int64_t result = 0;
    EXPECT_EQ(fiber_scope_spawn(scope, &child, Child::run, &body), 0);
    EXPECT_EQ(fiber_scope_next(scope, &child, &result), 1);
    EXPECT_EQ(result, 4);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
}

// ---- Descriptors ------------------------------------------------------------------------------------------------------

std::vector<std::string> own_descriptors() {
    std::vector<std::string> found;
    DIR *dir = ::opendir("/proc/self/fd");
    while (const dirent *entry = ::readdir(dir)) {
        char target[256] = {};
        const std::string path = std::string("/proc/self/fd/") + entry->d_name;
        if (::readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
        for (const char *kind : {"[io_uring]", "[eventpoll]", "[eventfd]", "[timerfd]"}) {
            if (std::strstr(target, kind)) found.push_back(target);
        }
    }
    ::closedir(dir);
    return found;
}

TEST(Fork, LeavesNoDescriptorOfTheLibrary) {
    NEEDS_IO();
    Pipe pipe;
    auto reads = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    auto polls = [&] { EXPECT_GT(fiber_poll_fd(pipe.read_end, POLLIN), 0); };
    auto odd = [&] { EXPECT_GT(fiber_poll_fd(pipe.read_end, POLLPRI | POLLRDNORM), 0); };
    const bool with_odd = !simulated();
    const fiber_t reader = start(reads), poller = start(polls);
    const fiber_t odd_one = with_odd ? start(odd) : fiber_t{};
    if (!simulated()) {
        EXPECT_GE(fiber_cord_fd(), 0);
    }
    in_child([&] {
        EXPECT_EQ(own_descriptors(), std::vector<std::string>());
        use_fibers();
    });
    EXPECT_EQ(fiber_write(pipe.write_end, "xyz", 3), 3);
    if (with_odd) join(odd_one);
    join(poller);
    join(reader);
}

// The thread is the loop's when it forks.
TEST(Fork, InAForeignLoopLeavesTheLoop) {
    NEEDS_IO();
    NOT_ON_SIM("has no descriptor for foreign loops");
    Pipe pipe;
    auto reads = [&] {
        char byte;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    const fiber_t reader = spawn(reads);
    const int fd = fiber_cord_fd();
    EXPECT_GE(fd, 0);
    while (fiber_cord_run(0) != 0) continue;
    in_child([&] {
        EXPECT_EQ(own_descriptors(), std::vector<std::string>());
        EXPECT_EQ(fiber_wakeup(reader), -ESRCH);
        use_fibers();
        const int own = fiber_cord_fd();
        EXPECT_GE(own, 0);
        auto body = [] {};
        const fiber_t fiber = spawn(body);
        pollfd look = {own, POLLIN, 0};
        EXPECT_EQ(::poll(&look, 1, 60'000), 1);
        while (fiber_cord_run(0) != 0) continue;
        EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        use_all();
    });
    EXPECT_EQ(::write(pipe.write_end, "x", 1), 1);
    pollfd look = {fd, POLLIN, 0};
    while (fiber_state(reader) != FIBER_DEAD) {
        ASSERT_EQ(::poll(&look, 1, 60'000), 1);
        EXPECT_GE(fiber_cord_run(0), 0);
    }
    join(reader);
}

// Another thread is the loop's, and stays so in the parent.
TEST(Fork, WhileAnotherCordIsInAForeignLoopLeavesTheLoop) {
    NEEDS_IO();
    NEEDS_THREADS();
    Pipe pipe;
    std::atomic<bool> in_loop{false};
    Thread thread([&] {
        auto reads = [&] {
            char byte;
            EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        };
        const fiber_t reader = spawn(reads);
        pollfd look = {fiber_cord_fd(), POLLIN, 0};
        EXPECT_GE(look.fd, 0);
        while (fiber_cord_run(0) != 0) continue;
        in_loop = true;
        while (fiber_state(reader) != FIBER_DEAD) {
            ASSERT_EQ(::poll(&look, 1, 60'000), 1);
            EXPECT_GE(fiber_cord_run(0), 0);
        }
        join(reader);
    });
    await([&] { return in_loop.load(); });
    in_child([&] {
        EXPECT_EQ(own_descriptors(), std::vector<std::string>());
        use_all();
    });
    EXPECT_EQ(::write(pipe.write_end, "x", 1), 1);
    thread.join();
}

// In the midst of their opening and closing.
TEST(Fork, WhileOtherCordsComeAndGoLeavesNoDescriptorOfTheirs) {
    NEEDS_IO();
    NEEDS_THREADS();
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    std::atomic<bool> end{false};
    std::atomic<int> rounds{0};
    auto comes_and_goes = [&] {
        const auto round = [&] {
            EXPECT_GE(fiber_cord_fd(), 0);
            while (fiber_cord_run(0) != 0) continue;
            rounds++;
        };
        while (!end) Thread(round).join();
    };
    Thread first(comes_and_goes), second(comes_and_goes);
    for (int i = 0; i < 20; i++) {
        const int before = rounds;
        await([&] { return rounds != before; });
        in_child([&] {
            EXPECT_EQ(own_descriptors(), std::vector<std::string>());
            for (int fd : {0, 1, 2}) EXPECT_GE(::fcntl(fd, F_GETFD), 0) << fd;
        });
    }
    end = true;
    first.join();
    second.join();
}

TEST(Fork, LeavesNoDescriptorOfOtherCords) {
    NEEDS_IO();
    NEEDS_THREADS();
    Pipe pipe;
    std::atomic<bool> waits{false};
    auto body = [&] {
        char byte;
        auto says = [&] { waits = true; };
        const fiber_t second = spawn(says);
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
        join(second);
    };
    const fiber_cord_t cord = start_cord(body);
    await([&] { return waits.load(); });
    in_child([&] {
        EXPECT_EQ(own_descriptors(), std::vector<std::string>());
        EXPECT_EQ(fiber_cord_join_timeout(cord, nullptr, 0), -ESRCH);
        use_all();
    });
    EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
    join_cord(cord);
}

// ---- Other threads ----------------------------------------------------------------------------------------------------

TEST(Fork, LeavesLocksOfOtherThreadsToTheNext) {
    NEEDS_THREADS();
    struct Locks {
        fiber_mutex_t of_cord{}, of_thread{}, own{}, of_main_flow{};
        fiber_once_t once{};
        std::atomic<int> held{0}, done{0};
        std::atomic<bool> end{false};

        static int do_once(void *it) {
            auto &locks = *static_cast<Locks *>(it);
            locks.held++;
            await_holding_the_thread([&] { return locks.end.load(); });
            locks.done++;
            return 0;
        }
    };
    Locks locks;
    auto &held = locks.held;
    auto &end = locks.end;
    auto holds = [&](fiber_mutex_t *mutex) {
        EXPECT_EQ(fiber_mutex_lock(mutex), 0);
        held++;
        await_holding_the_thread([&] { return end.load(); });
        EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
    };
    auto on_cord = [&] { holds(&locks.of_cord); };
    const fiber_cord_t cord = start_cord(on_cord);
    Thread thread([&] { holds(&locks.of_thread); });
    Thread doer([&] { EXPECT_EQ(fiber_once(&locks.once, Locks::do_once, &locks), 0); });
    await_holding_the_thread([&] { return held == 3; });
    EXPECT_EQ(fiber_mutex_lock(&locks.of_main_flow), 0);
    auto body = [&] {
        EXPECT_EQ(fiber_mutex_lock(&locks.own), 0);
        in_child([&] {
            for (fiber_mutex_t *mutex : {&locks.of_cord, &locks.of_thread}) {
                EXPECT_EQ(fiber_mutex_unlock(mutex), -EPERM);
            }
            EXPECT_EQ(fiber_mutex_lock(&locks.own), -EDEADLK);
            EXPECT_EQ(fiber_mutex_trylock(&locks.of_cord), -EOWNERDEAD);
            EXPECT_EQ(fiber_mutex_lock_timeout(&locks.of_thread, FIBER_SEC(60)), -EOWNERDEAD);
            EXPECT_EQ(fiber_mutex_lock(&locks.of_main_flow), -EOWNERDEAD);
            end = true;
            EXPECT_EQ(fiber_once(&locks.once, Locks::do_once, &locks), 0) << "the fiber that did it has not";
            EXPECT_EQ(locks.done, 1);
            EXPECT_EQ(fiber_once(&locks.once, Locks::do_once, &locks), 0);
            EXPECT_EQ(locks.done, 1);
            for (fiber_mutex_t *mutex : {&locks.of_cord, &locks.of_thread, &locks.own, &locks.of_main_flow}) {
                auto waiter = [&] {
                    EXPECT_EQ(fiber_mutex_lock(mutex), 0);
                    EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
                };
                const fiber_t fiber = start(waiter);
                EXPECT_EQ(fiber_mutex_trylock(mutex), -EBUSY);
                EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
                join(fiber);
            }
        });
        EXPECT_EQ(fiber_mutex_unlock(&locks.own), 0);
    };
    run(body);
    EXPECT_EQ(fiber_mutex_unlock(&locks.of_main_flow), 0);
    end = true;
    thread.join();
    doer.join();
    join_cord(cord);
    EXPECT_EQ(locks.done, 1);
    for (fiber_mutex_t *mutex : {&locks.of_cord, &locks.of_thread}) {
        EXPECT_EQ(fiber_mutex_lock(mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(mutex), 0);
    }
}

// In a simulation too, where all cords share one thread.
TEST(Fork, LosesWaitersAndHoldersOfOtherCords) {
    struct Shared {
        fiber_mutex_t held{};
        fiber_sem_t ready{}, sem{};
        fiber_event_t event{}, end{};
        fiber_chan_t chan{};
    } shared;
    EXPECT_EQ(fiber_event_init(&shared.event, 0), 0);
    EXPECT_EQ(fiber_event_init(&shared.end, FIBER_EVENT_MANUAL), 0);
    EXPECT_EQ(fiber_chan_create(&shared.chan, sizeof(int), 0), 0);
    auto on_cord = [&] {
        int item = 0;
        auto waits_for_sem = [&] { EXPECT_EQ(fiber_sem_wait(&shared.sem, 1), 0); };
        auto waits_for_event = [&] { EXPECT_EQ(fiber_event_wait(&shared.event), 0); };
        auto receives = [&] { EXPECT_EQ(fiber_chan_recv(shared.chan, &item), 0); };
        const fiber_t fibers[] = {start(waits_for_sem), start(waits_for_event), start(receives)};
        EXPECT_EQ(fiber_mutex_lock(&shared.held), 0);
        EXPECT_EQ(fiber_sem_post(&shared.ready, 1), 0);
        EXPECT_EQ(fiber_event_wait(&shared.end), 0);
        EXPECT_EQ(fiber_mutex_unlock(&shared.held), 0);
        for (const fiber_t fiber : fibers) join(fiber);
    };
    const fiber_cord_t cord = start_cord(on_cord);
    EXPECT_EQ(fiber_sem_wait(&shared.ready, 1), 0);
    in_child([&] {
        EXPECT_EQ(fiber_mutex_lock_timeout(&shared.held, FIBER_SEC(60)), -EOWNERDEAD);
        EXPECT_EQ(fiber_mutex_unlock(&shared.held), 0);
        EXPECT_EQ(fiber_sem_post(&shared.sem, 1), 0);
        EXPECT_EQ(fiber_sem_wait_timeout(&shared.sem, 1, 0), 0) << "no thread took it";
        EXPECT_EQ(fiber_event_set(&shared.event), 0);
        EXPECT_EQ(fiber_event_is_set(&shared.event), 1);
        EXPECT_EQ(fiber_chan_send_timeout(shared.chan, &one, 0), -ETIMEDOUT);
        EXPECT_EQ(fiber_sem_destroy(&shared.sem), 0);
    });
    EXPECT_EQ(fiber_sem_post(&shared.sem, 1), 0);
    EXPECT_EQ(fiber_event_set(&shared.event), 0);
    EXPECT_EQ(fiber_chan_send(shared.chan, &one), 0);
    EXPECT_EQ(fiber_event_set(&shared.end), 0);
    join_cord(cord);
    EXPECT_EQ(fiber_chan_destroy(shared.chan), 0);
}

// The child's new fibers get the records of the lost fibers, but not their locks.
TEST(Fork, MakesNoFiberTheHolderOfLocksOfLostFibers) {
    NEEDS_THREADS();
    constexpr int many = 100;
    struct Locks {
        fiber_mutex_t mutexes[many]{};
        fiber_mutex_t orphaned[many]{};
    };
    Locks locks;
    std::atomic<bool> held{false}, end{false};
    auto on_cord = [&] {
        int number = 0;
        auto holds = [&] {
            const int i = number++;
            EXPECT_EQ(fiber_mutex_lock(&locks.mutexes[i]), 0);
            EXPECT_EQ(fiber_mutex_lock(&locks.orphaned[i]), 0);
            await([&] { return end.load(); });
            EXPECT_EQ(fiber_mutex_unlock(&locks.mutexes[i]), 0);
            EXPECT_EQ(fiber_mutex_unlock(&locks.orphaned[i]), 0);
        };
        std::vector<fiber_t> fibers;
        for (int i = 0; i < many; i++) fibers.push_back(start(holds));
        held = true;
        for (fiber_t fiber : fibers) join(fiber);
    };
    const fiber_cord_t cord = start_cord(on_cord);
    await([&] { return held.load(); });
    in_child([&] {
        for (fiber_mutex_t &mutex : locks.orphaned) EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
        auto tries = [&] {
            for (fiber_mutex_t &mutex : locks.mutexes) EXPECT_EQ(fiber_mutex_unlock(&mutex), -EPERM);
        };
        std::vector<fiber_t> fibers;
        for (int i = 0; i < 3 * many; i++) fibers.push_back(spawn(tries));
        for (fiber_t fiber : fibers) join(fiber);
        for (fiber_mutex_t &mutex : locks.mutexes) EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD);
    });
    end = true;
    join_cord(cord);
}

// The child's threads want the same locks all at once, in the state in which the parent left them: the first thread
// that finds a lock held must not take it from a thread that has just got it.
TEST(Fork, LeavesEachLockToOneOfTheChildsThreads) {
    NEEDS_THREADS();
    NOT_UNDER_QEMU("ends a forked process that makes a thread");
    constexpr int many = 200;
    struct Lock {
        fiber_mutex_t mutex{};
        int inside = 0, entered = 0;
        std::atomic<int> inherited{0};
    };
    enum How { of_thread, of_cord, used_before, fresh, how_many };
    static Lock locks[how_many][many];
    std::atomic<int> held{0};
    std::atomic<bool> end{false};
    auto holds = [&](Lock(&row)[many]) {
        for (Lock &lock : row) EXPECT_EQ(fiber_mutex_lock(&lock.mutex), 0);
        held++;
        await_holding_the_thread([&] { return end.load(); });
        for (Lock &lock : row) EXPECT_EQ(fiber_mutex_unlock(&lock.mutex), 0);
    };
    auto on_cord = [&] { holds(locks[of_cord]); };
    const fiber_cord_t cord = start_cord(on_cord);
    Thread thread([&] { holds(locks[of_thread]); });
    for (Lock &lock : locks[used_before]) {
        EXPECT_EQ(fiber_mutex_lock(&lock.mutex), 0);
        EXPECT_EQ(fiber_mutex_unlock(&lock.mutex), 0);
    }
    await([&] { return held == 2; });
    in_child([&] {
        constexpr int threads = 4;
        std::atomic<int> there{0};
        auto contend = [&] {
            there++;
            await_holding_the_thread([&] { return there == threads; });
            for (auto &row : locks) {
                for (Lock &lock : row) {
                    const int result = fiber_mutex_lock(&lock.mutex);
                    EXPECT_TRUE(result == 0 || result == -EOWNERDEAD) << result;
                    if (result) lock.inherited++;
                    EXPECT_EQ(++lock.inside, 1);
                    lock.entered++;
                    EXPECT_EQ(--lock.inside, 0);
                    EXPECT_EQ(fiber_mutex_unlock(&lock.mutex), 0);
                }
            }
        };
        std::vector<fiber_cord_t> cords;
        std::vector<Thread> plain;
        for (int i = 0; i < threads / 2; i++) {
            cords.push_back(start_cord(contend));
            plain.emplace_back(contend);
        }
        for (fiber_cord_t each : cords) join_cord(each);
        for (Thread &each : plain) each.join();
        for (int how = 0; how < how_many; how++) {
            for (Lock &lock : locks[how]) {
                EXPECT_EQ(lock.entered, threads);
                EXPECT_EQ(lock.inherited, how == of_thread || how == of_cord ? 1 : 0) << how;
            }
        }
    });
    end = true;
    thread.join();
    join_cord(cord);
}

// Others are in the midst of everything when it happens.
TEST(Fork, AmongBusyThreadsDoesNoHarm) {
    NEEDS_IO();
    NEEDS_THREADS();
    NEEDS_AN_ALLOCATOR_THAT_KNOWS_FORKS();
    struct Shared {
        fiber_mutex_t mutex{};
        fiber_sem_t sem{};
        fiber_chan_t chan{};
        std::atomic<bool> end{false};
    };
    Shared shared;
    EXPECT_EQ(fiber_chan_create(&shared.chan, sizeof(int), 4), 0);
    EXPECT_EQ(fiber_sem_post(&shared.sem, 1), 0);
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 2), 0);
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_create(&pool, attr), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    auto busy = [&] {
        Pipe pipe;
        while (!shared.end) {
            auto body = [&] {
                EXPECT_EQ(fiber_mutex_lock(&shared.mutex), 0);
                EXPECT_EQ(fiber_reschedule(), 0);
                EXPECT_EQ(fiber_mutex_unlock(&shared.mutex), 0);
                EXPECT_EQ(fiber_sem_wait(&shared.sem, 1), 0);
                EXPECT_EQ(fiber_sem_post(&shared.sem, 1), 0);
                int item = 5;
                const int sent = fiber_chan_send_timeout(shared.chan, &item, FIBER_USEC(10));
                EXPECT_TRUE(sent == 0 || sent == -ETIMEDOUT);
                const int got = fiber_chan_recv_timeout(shared.chan, &item, FIBER_USEC(10));
                EXPECT_TRUE(got == 0 || got == -ETIMEDOUT);
                char byte;
                EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
                EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
                const int file = fiber_open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
                EXPECT_EQ(fiber_close(file), 0);
                auto task = [](void *) -> void * { return nullptr; };
                EXPECT_EQ(fiber_pool_submit(pool, task, nullptr), 0);
            };
            run(body);
        }
    };
    const fiber_cord_t cord = start_cord(busy);
    const fiber_t own = spawn(busy);
    auto forks = [&] {
        for (int i = 0; i < 10; i++) {
            EXPECT_EQ(fiber_reschedule(), 0);
            in_child([&] {
                const int locked = fiber_mutex_lock_timeout(&shared.mutex, FIBER_SEC(60));
                EXPECT_TRUE(locked == 0 || locked == -EOWNERDEAD) << locked;
                EXPECT_EQ(fiber_mutex_unlock(&shared.mutex), 0);
                int item;
                while (fiber_chan_recv_timeout(shared.chan, &item, 0) == 0) continue;
                EXPECT_EQ(fiber_chan_send_timeout(shared.chan, &item, 0), 0);
                EXPECT_EQ(fiber_sem_post(&shared.sem, 1), 0);
                EXPECT_EQ(fiber_sem_wait_timeout(&shared.sem, 1, 0), 0);
                EXPECT_EQ(fiber_pool_submit(pool, entry<decltype(busy)>, &busy), -ESRCH);
                EXPECT_EQ(own_descriptors(), std::vector<std::string>());
                i % 5 ? use_fibers() : use_all();
            });
        }
    };
    run(forks);
    shared.end = true;
    join(own);
    join_cord(cord);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    EXPECT_EQ(fiber_chan_destroy(shared.chan), 0);
}

// Where there is no ring that is mostly under a lock of the process.
TEST(Fork, WhileAnotherThreadConnectsDoesNoHarm) {
    NEEDS_IO();
    NEEDS_THREADS();
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::atomic<bool> end{false};
    std::atomic<int> connected{0};
    auto connect = [&] {
        const int udp = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); // without O_NONBLOCK
        EXPECT_GE(udp, 0);
        do {
            EXPECT_EQ(fiber_connect(udp, reinterpret_cast<sockaddr *>(&to), sizeof to), 0);
            connected++;
        } while (!end);
        ::close(udp);
    };
    const fiber_cord_t cord = start_cord(connect);
    for (int i = 0; i < often(10, 2); i++) {
        const int before = connected;
        await_holding_the_thread([&] { return connected != before; });
        in_child([&] {
            end = true;
            connect();
        });
    }
    end = true;
    join_cord(cord);
}

// ---- The parent, and the child's end ------------------------------------------------------------------------------------

TEST(Fork, StealsNoCompletionOfTheParent) {
    NEEDS_IO();
    Pipe pipes[8];
    int bytes = 0;
    auto reads = [&](Pipe &pipe) {
        char byte;
        for (int i = 0; i < 20; i++) bytes += fiber_read(pipe.read_end, &byte, 1) == 1;
    };
    std::vector<std::function<void()>> bodies;
    for (Pipe &pipe : pipes) bodies.push_back([&] { reads(pipe); });
    std::vector<fiber_t> fibers;
    for (auto &body : bodies) fibers.push_back(start(body));
    for (int i = 0; i < 20; i++) {
        if (i % 5 == 0) {
            const pid_t child = ::fork(); // that runs on in parallel with the parent
            if (child == 0) {
                ::alarm(60);
                for (int n = 0; n < 5; n++) use_fibers();
                ::_exit(testing::Test::HasFailure());
            }
            for (Pipe &pipe : pipes) EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
            EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
            expect_passed(child);
        } else {
            for (Pipe &pipe : pipes) EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    }
    for (fiber_t fiber : fibers) join(fiber);
    EXPECT_EQ(bytes, 8 * 20);
}

// Of a fiber that was just about to go on.
TEST(Fork, LeavesAFunctionThatWasOffloadedToTheParent) {
    NEEDS_THREADS();
    std::atomic<int> freed{0};
    auto free_it = [](void *freed) { ++*static_cast<std::atomic<int> *>(freed); };
    auto body = [&] {
        EXPECT_EQ(fiber_offload_detached([](void *) -> int64_t { return 1; }, &freed, free_it, nullptr), 0);
    };
    int rounds = 0, met = 0;
    for (; rounds < 100 && met < 2; rounds++) {
        const fiber_t fiber = start(body);
        while (fiber_state(fiber) == FIBER_WAITING) ASSERT_EQ(fiber_reschedule(), 0);
        if (fiber_state(fiber) == FIBER_RUNNABLE) {
            met++;
            in_child([&] {
                use_fibers();
                EXPECT_EQ(freed, rounds);
            });
        }
        join(fiber);
    }
    EXPECT_EQ(met, 2);
    EXPECT_EQ(freed, rounds);
}

// The child does not call _exit, but returns from the function that forked.
TEST(Fork, ByAFiberEndsTheProcessWhenTheLastFiberHasEnded) {
    Pipe pipe;
    pid_t child = -1;
    auto later = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        if (::write(pipe.write_end, "x", 1) != 1 || testing::Test::HasFailure()) ::_exit(1);
    };
    auto never = [] { EXPECT_EQ(fiber_sleep(FIBER_FOREVER), 0); };
    auto body = [&] {
        std::fflush(stdout);
        child = ::fork();
        if (child != 0) return;
        ::alarm(60);
        EXPECT_EQ(fiber_spawn(nullptr, entry<decltype(later)>, &later), 0);
        fiber_attr_t *attr = nullptr;
        EXPECT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_daemon(attr, 1), 0);
        EXPECT_EQ(fiber_start(create(never, attr)), 0);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
        // This tests only that exit() is called, not the exit() handlers of leak checkers and the like.
        std::atexit([] { ::_exit(testing::Test::HasFailure()); });
    };
    run(body);
    pipe.close_write();
    expect_passed(child);
    char byte = 0;
    EXPECT_EQ(::read(pipe.read_end, &byte, 1), 1) << "it ended before its fibers";
}

TEST(Fork, TwiceMakesADaemon) {
    Pipe pipe;
    auto body = [&] {
        in_child([&] {
            const pid_t daemon = ::fork();
            if (daemon != 0) ::_exit(daemon < 0);
            ::alarm(60);
            EXPECT_GT(::setsid(), 0);
            use_all();
            const char result = testing::Test::HasFailure() ? 'n' : 'y';
            ::_exit(::write(pipe.write_end, &result, 1) != 1);
        });
    };
    run(body);
    pipe.close_write();
    char result = 0;
    EXPECT_EQ(::read(pipe.read_end, &result, 1), 1);
    EXPECT_EQ(result, 'y');
}

TEST(Fork, InANoSwitchSectionStaysInIt) {
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    in_child([] {
        EXPECT_EQ(fiber_sleep(1), -EPERM);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        use_all();
    });
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    use_fibers();
}

// Hosted fibers are lost like all others; the next ones have an executor of their own.
TEST(Fork, LosesHostedFibers) {
    int turns = 0;
    const auto step = [](void *user, int64_t result) {
        ++*static_cast<int *>(user);
        return result < 0 ? FIBER_STEP_END : FIBER_STEP_YIELD;
    };
    fiber_t stepped{}, offered{};
    ASSERT_EQ(fiber_hosted_new(&stepped, nullptr, step, &turns), 0);
    ASSERT_EQ(fiber_hosted_new(&offered, nullptr, nullptr, &turns), 0);
    const auto use = [&](fiber_t fiber) {
        const int before = turns;
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        while (turns == before) ASSERT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
        join(fiber);
    };
    EXPECT_EQ(fiber_wakeup(stepped), 0);
    EXPECT_EQ(fiber_wakeup(offered), 0);
    while (turns == 0) ASSERT_EQ(fiber_reschedule(), 0);
    in_child([&] {
        for (fiber_t gone : {stepped, offered}) EXPECT_EQ(fiber_wakeup(gone), -ESRCH);
        fiber_t fresh{};
        EXPECT_EQ(fiber_hosted_new(&fresh, nullptr, step, &turns), 0);
        use(fresh);
        fiber_completion_t taken[2];
        EXPECT_EQ(fiber_exchange(nullptr, 0, taken, 2, 0), 0);
        use_all();
    });
    fiber_completion_t taken[2];
    EXPECT_EQ(fiber_exchange(nullptr, 0, taken, 2, 0), 1);
    EXPECT_EQ(fiber_hosted_end(offered, nullptr), 0);
    join(offered);
    use(stepped);
}

// On a stack that is not its own.
TEST(Fork, InATurnOfAHostedFiberLeavesTheChildNoFibers) {
    pid_t child = -1;
    const auto step = [](void *user, int64_t) {
        std::fflush(stdout);
        std::fflush(stderr);
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(fiber_sleep(1) == -EPERM && fiber_spawn(nullptr, nullptr, nullptr) < 0 ? 0 : 1);
        *static_cast<pid_t *>(user) = pid;
        return FIBER_STEP_END;
    };
    fiber_t fiber{};
    ASSERT_EQ(fiber_hosted_new(&fiber, nullptr, step, &child), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    expect_passed(child);
    use_fibers();
}

// During an after_switch hook the calling fiber is the next one, while the stack is still that of the previous one.
TEST(Fork, InAHookLeavesTheChildNoFibers) {
    static pid_t child;
    child = -1;
    fiber_hooks_t hooks{};
    hooks.after_switch = [](void *, fiber_tag_t, fiber_tag_t to) {
        if (!to.kind || child >= 0) return;
        std::fflush(stdout);
        std::fflush(stderr);
        child = ::fork();
        if (child) return;
        fiber_cord_t cord{};
        ::_exit(fiber_cord_start(
                    &cord, nullptr, [](void *) { return pointer(0); }, nullptr) == -EPERM
                    ? 0
                    : 1);
    };
    EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
    auto body = [] {};
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_tag_set(fiber, {nullptr, 1}), 0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
    expect_passed(child);
    use_fibers();
}

// In an offloaded function that returns in the child: the fiber that waits for it is in the parent, as is the memory of
// the call.
TEST(Fork, InAnOffloadedFunctionEndsWithItsThread) {
    NEEDS_THREADS();
    NEEDS_IO();
    struct Forks {
        pid_t child = -1;
        static int64_t once(void *it) {
            std::fflush(stdout);
            std::fflush(stderr);
            const pid_t child = ::fork();
            if (child == 0) {
                ::alarm(60);
                auto body = [] { EXPECT_EQ(fiber_sleep(1), 0); };
                run(body);
                std::atexit([] { ::_exit(testing::Test::HasFailure() ? 1 : 7); });
                return 5;
            }
            static_cast<Forks *>(it)->child = child;
            return 4;
        }
    };
    const auto expect_ended = [](const Forks &forks) {
        int status = 0;
        ASSERT_EQ(::waitpid(forks.child, &status, 0), forks.child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "the child's status is " << status;
    };
    Forks forks;
    int64_t result = 0;
    EXPECT_EQ(fiber_offload(Forks::once, &forks, &result), 0);
    EXPECT_EQ(result, 4);
    expect_ended(forks);
    int freed = 0;
    static int *count;
    count = &freed;
    Forks detached;
    EXPECT_EQ(fiber_offload_detached(
                  Forks::once, &detached, [](void *) { ++*count; }, &result),
              0);
    EXPECT_EQ(result, 4);
    expect_ended(detached);
}

TEST(Fork, ByAPoolsInitialiserLeavesThatThreadAlone) {
    NEEDS_THREADS();
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 1), 0);
    auto forks = [](void *, int) {
        in_child(use_fibers);
        // This one returns from the function: the process ends with its last thread.
        std::fflush(stdout);
        const pid_t child = ::fork();
        if (child == 0) {
            std::atexit([] { ::_exit(testing::Test::HasFailure()); });
            return;
        }
        expect_passed(child);
    };
    EXPECT_EQ(fiber_pool_attr_set_init(attr, forks, nullptr), 0);
    fiber_pool_t pool{};
    EXPECT_EQ(fiber_pool_create(&pool, attr), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    EXPECT_EQ(fiber_pool_close(pool), 0);
}

} // namespace
