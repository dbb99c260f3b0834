// SPDX-License-Identifier: MIT OR Apache-2.0
// No-switch sections: every call that says "Switches: yes" returns -EPERM there and does nothing.
#include "conformance.h"
#include "family.h"
#include "support.h"

#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

using namespace support;

namespace {

struct NoSwitch {
    NoSwitch() { EXPECT_EQ(fiber_noswitch_enter(), 0); }
    NoSwitch(const NoSwitch &) = delete;
    ~NoSwitch() { EXPECT_EQ(fiber_noswitch_leave(), 0); }
};

// Everything that a switching call could change, checked before and after.
struct World {
    fiber_t fresh{}, yielder{}, ended{}, queued{};
    int fresh_runs = 0, queued_runs = 0;
    Pipe pipe;
    int listener = -1, client = -1;
    sockaddr_in address{};
    std::string path = testing::TempDir() + "fiberrt-noswitch-open-" + std::to_string(::getpid());
    std::function<void()> fresh_body = [this] { fresh_runs++; };
    std::function<void()> queued_body = [this] { queued_runs++; };
    std::function<void()> yielder_body = [] { EXPECT_EQ(fiber_yield(), 0); };
    std::function<void()> ended_body = [] {};

    World() {
        fresh = create(fresh_body);
        yielder = start(yielder_body);
        ended = start(ended_body);
        EXPECT_EQ(write(pipe.write_end, "abc", 3), 3);
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        EXPECT_EQ(bind_to_own_address(listener), 0);
        EXPECT_EQ(listen(listener, 4), 0);
        socklen_t length = sizeof address;
        EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
        client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        unlink(path.c_str());
    }
    World(const World &) = delete;
    ~World() {
        EXPECT_EQ(fiber_start(fresh), 0);
        EXPECT_EQ(fiber_wakeup(yielder), 0);
        for (fiber_t fiber : {fresh, yielder, ended, queued}) join(fiber);
        ::close(listener);
        ::close(client);
    }
    void put_one_into_the_queue() { queued = spawn(queued_body); } // last of all, as any preparation may give a turn
    void expect_untouched(const char *call) {
        EXPECT_EQ(fiber_state(fresh), FIBER_NEW) << call;
        EXPECT_EQ(fresh_runs, 0) << call;
        EXPECT_EQ(fiber_state(yielder), FIBER_WAITING) << call;
        EXPECT_EQ(fiber_state(ended), FIBER_DEAD) << call;
        EXPECT_EQ(fiber_state(queued), FIBER_RUNNABLE) << call;
        EXPECT_EQ(queued_runs, 0) << call;
        EXPECT_EQ(fiber_state(self()), FIBER_RUNNING) << call;
        EXPECT_EQ(info(self()).permit, 1) << call;
        for (int fd : {pipe.read_end, pipe.write_end, listener, client}) EXPECT_NE(fcntl(fd, F_GETFD), -1) << call;
        EXPECT_EQ(access(path.c_str(), F_OK), -1) << call;
        EXPECT_EQ(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), -1) << call; // no client has connected
    }
};

// A signal that may be waited for.
struct Blocked {
    sigset_t set, before;
    Blocked() {
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    }
    Blocked(const Blocked &) = delete;
    ~Blocked() { EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0); }
};

int64_t never_called(void *) {
    ADD_FAILURE() << "it was offloaded";
    return 0;
}

// Things to wait for, each such that the call would have nothing to wait for.
struct Things {
    fiber_mutex_t mutex{}, held{};
    fiber_cond_t cond{};
    fiber_sem_t sem{};
    fiber_event_t event{};
    fiber_wg_t group{};
    fiber_rwlock_t rwlock{};
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(1);
    fiber_once_t once{};
    fiber_chan_t chan{};
    int item = 7, got = 0, times = 0;
    fiber_case_t one{};
    fiber_pool_t pool{}; // the thread is bound to it
    Blocked blocked;
    int child_ran = 0;
    std::function<int64_t()> child_body = [this] { return int64_t(child_ran++); };
    Family family;
    struct addrinfo *addresses = nullptr;
    int verdict = 0;
    fiber_timeout_block_t block = fiber_timeout_block_open(FIBER_FOREVER, &verdict);

    Things() {
        EXPECT_EQ(fiber_mutex_lock(&held), 0);
        EXPECT_EQ(fiber_sem_init(&sem, 2), 0);
        EXPECT_EQ(fiber_event_init(&event, FIBER_EVENT_SET), 0);
        EXPECT_EQ(fiber_chan_create(&chan, sizeof item, 2), 0);
        EXPECT_EQ(fiber_chan_send(chan, &item), 0);
        EXPECT_EQ(fiber_scope_spawn(block.scope, nullptr, child_entry<decltype(child_body)>, &child_body), 0);
        family.spawn(child_body);
        fiber_pool_attr_t *attr = nullptr;
        EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
        EXPECT_EQ(fiber_pool_attr_set_workers(attr, 0), 0);
        EXPECT_EQ(fiber_pool_create(&pool, attr), 0);
        EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
        EXPECT_EQ(fiber_pool_bind(pool), 0);
    }
    Things(const Things &) = delete;
    ~Things() {
        EXPECT_EQ(fiber_pool_close(pool), 0);
        fiber_timeout_block_close(&block);
        EXPECT_EQ(verdict, 0);
        EXPECT_EQ(family.close(), 0);
        EXPECT_EQ(child_ran, 2);
        EXPECT_EQ(fiber_mutex_unlock(&held), 0);
        EXPECT_EQ(fiber_chan_destroy(chan), 0);
    }
    int call_once() {
        return fiber_once(
            &once, [](void *times) { return ++*static_cast<int *>(times) - 1; }, &times);
    }
    int select(int32_t kind) {
        one = {};
        one.kind = kind;
        one.chan = chan;
        one.item = kind == FIBER_CASE_SEND ? &item : &got;
        one.object = kind == FIBER_CASE_SEM ? static_cast<void *>(&sem) : &event;
        one.number = 1;
        return fiber_select(&one, 1, FIBER_FOREVER);
    }
    void expect_untouched(const char *call) {
        EXPECT_EQ(fiber_mutex_trylock(&mutex), 0) << call; // and no fiber waits
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0) << call;
        EXPECT_EQ(fiber_mutex_destroy(&mutex), 0) << call;
        EXPECT_EQ(fiber_mutex_trylock(&held), -EBUSY) << call;
        EXPECT_EQ(fiber_cond_destroy(&cond), 0) << call;
        EXPECT_EQ(fiber_sem_value(&sem), 2) << call;
        EXPECT_EQ(fiber_sem_destroy(&sem), 0) << call;
        EXPECT_EQ(fiber_event_is_set(&event), 1) << call;
        EXPECT_EQ(fiber_event_destroy(&event), 0) << call;
        EXPECT_EQ(fiber_wg_destroy(&group), 0) << call;
        EXPECT_EQ(fiber_rwlock_destroy(&rwlock), 0) << call;
        EXPECT_EQ(fiber_barrier_destroy(&barrier), 0) << call;
        EXPECT_EQ(times, 0) << call;
        EXPECT_EQ(fiber_chan_count(chan), 1) << call;
        EXPECT_EQ(got, 0) << call;
        EXPECT_EQ(child_ran, 0) << call;
    }
};

void every_switching_call_is_refused() {
    World world;
    Things things;
    fiber_event_t cord_may_end{};
    fiber_cord_t cord{};
    EXPECT_EQ(fiber_cord_start(
                  &cord, nullptr,
                  [](void *event) -> void * {
                      EXPECT_EQ(fiber_event_wait(static_cast<fiber_event_t *>(event)), 0);
                      return nullptr;
                  },
                  &cord_may_end),
              0);
    EXPECT_EQ(fiber_wakeup(self()), 0);
    char byte = 0;
    iovec iov{&byte, 1};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    struct statx file;
    open_how how{O_CREAT | O_RDWR, 0600, 0};
    size_t no_fds = 0;
    void *value = nullptr;
    int64_t tick = 0;
    fiber_completion_t completion;
    auto *address = reinterpret_cast<sockaddr *>(&world.address);
    const struct {
        const char *name;
        std::function<int64_t()> call;
    } calls[] = {
        {"start", [&] { return fiber_start(world.fresh); }},
        {"join of an ended fiber", [&] { return fiber_join(world.ended, nullptr); }},
        {"join of a live fiber", [&] { return fiber_join(world.yielder, nullptr); }},
        {"join_timeout", [&] { return fiber_join_timeout(world.ended, nullptr, FIBER_SEC(1)); }},
        {"join_timeout 0", [&] { return fiber_join_timeout(world.yielder, nullptr, 0); }},
        {"await of an ended fiber", [&] { return fiber_await(world.ended); }},
        {"await of a live fiber", [&] { return fiber_await(world.yielder); }},
        {"await_timeout", [&] { return fiber_await_timeout(world.ended, FIBER_SEC(1)); }},
        {"await_timeout 0", [&] { return fiber_await_timeout(world.yielder, 0); }},
        {"exit", [&] { return fiber_exit(nullptr); }},
        {"yield", [&] { return fiber_yield(); }},
        {"yield_timeout", [&] { return fiber_yield_timeout(FIBER_SEC(1)); }},
        {"yield_timeout 0", [&] { return fiber_yield_timeout(0); }},
        {"yield_value", [&] { return fiber_yield_value(&value); }},
        {"reschedule", [&] { return fiber_reschedule(); }},
        {"reschedule_if_due", [&] { return fiber_reschedule_if_due(); }},
        {"transfer to a new fiber", [&] { return fiber_transfer(world.fresh, nullptr, nullptr); }},
        {"transfer to a parked fiber", [&] { return fiber_transfer(world.yielder, nullptr, nullptr); }},
        {"sleep", [&] { return fiber_sleep(FIBER_SEC(1)); }},
        {"sleep 0", [&] { return fiber_sleep(0); }},
        {"every", [&] { return fiber_every(&tick, FIBER_SEC(1)); }},
        {"read", [&] { return fiber_read(world.pipe.read_end, &byte, 1); }},
        {"write", [&] { return fiber_write(world.pipe.write_end, "d", 1); }},
        {"readv", [&] { return fiber_readv(world.pipe.read_end, &iov, 1); }},
        {"writev", [&] { return fiber_writev(world.pipe.write_end, &iov, 1); }},
        {"pread", [&] { return fiber_pread(world.pipe.read_end, &byte, 1, 0); }},
        {"pwrite", [&] { return fiber_pwrite(world.pipe.write_end, &byte, 1, 0); }},
        {"recv", [&] { return fiber_recv(world.client, &byte, 1, 0); }},
        {"send", [&] { return fiber_send(world.client, &byte, 1, 0); }},
        {"recvfrom", [&] { return fiber_recvfrom(world.client, &byte, 1, 0, nullptr, nullptr); }},
        {"sendto", [&] { return fiber_sendto(world.client, &byte, 1, 0, address, sizeof world.address); }},
        {"recvmsg", [&] { return fiber_recvmsg(world.client, &message, 0); }},
        {"sendmsg", [&] { return fiber_sendmsg(world.client, &message, 0); }},
        {"accept", [&] { return fiber_accept(world.listener, nullptr, nullptr); }},
        {"accept4", [&] { return fiber_accept4(world.listener, nullptr, nullptr, SOCK_CLOEXEC); }},
        {"connect", [&] { return fiber_connect(world.client, address, sizeof world.address); }},
        {"open", [&] { return fiber_open(world.path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600); }},
        {"close", [&] { return fiber_close(world.pipe.read_end); }},
        {"statx", [&] { return fiber_statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &file); }},
        {"fsync", [&] { return fiber_fsync(world.pipe.read_end); }},
        {"fdatasync", [&] { return fiber_fdatasync(world.pipe.read_end); }},
        {"poll_fd", [&] { return fiber_poll_fd(world.pipe.read_end, POLLIN); }},
        {"waitpid", [&] { return fiber_waitpid(getppid(), nullptr, 0); }},
        {"waitpid WNOHANG", [&] { return fiber_waitpid(getppid(), nullptr, WNOHANG); }},
        {"process_wait", [&] { return fiber_process_wait(getppid(), nullptr, 0); }},
        {"sigwait", [&] { return fiber_sigwait(&things.blocked.set, nullptr); }},
        {"openat2", [&] { return fiber_openat2(AT_FDCWD, world.path.c_str(), &how, sizeof how); }},
        {"renameat2", [&] { return fiber_renameat2(AT_FDCWD, "/", AT_FDCWD, world.path.c_str(), 0); }},
        {"rename", [&] { return fiber_rename("/", world.path.c_str()); }},
        {"unlinkat", [&] { return fiber_unlinkat(AT_FDCWD, world.path.c_str(), 0); }},
        {"unlink", [&] { return fiber_unlink(world.path.c_str()); }},
        {"rmdir", [&] { return fiber_rmdir(world.path.c_str()); }},
        {"mkdirat", [&] { return fiber_mkdirat(AT_FDCWD, world.path.c_str(), 0700); }},
        {"mkdir", [&] { return fiber_mkdir(world.path.c_str(), 0700); }},
        {"getdents64", [&] { return fiber_getdents64(world.pipe.read_end, &byte, 1); }},
        {"splice", [&] { return fiber_splice(world.pipe.read_end, nullptr, world.client, nullptr, 1, 0); }},
        {"copy", [&] { return fiber_copy(world.pipe.read_end, world.client, 1, nullptr, nullptr); }},
        {"send_fds", [&] { return fiber_send_fds(world.client, &byte, 1, nullptr, 0); }},
        {"recv_fds", [&] { return fiber_recv_fds(world.client, &byte, 1, nullptr, &no_fds, nullptr); }},
        {"mutex_lock", [&] { return fiber_mutex_lock(&things.mutex); }},
        {"mutex_lock_timeout", [&] { return fiber_mutex_lock_timeout(&things.mutex, FIBER_SEC(1)); }},
        {"mutex_lock_timeout 0", [&] { return fiber_mutex_lock_timeout(&things.mutex, 0); }},
        {"cond_wait", [&] { return fiber_cond_wait(&things.cond, &things.held); }},
        {"cond_wait_timeout", [&] { return fiber_cond_wait_timeout(&things.cond, &things.held, FIBER_SEC(1)); }},
        {"cond_wait_timeout 0", [&] { return fiber_cond_wait_timeout(&things.cond, &things.held, 0); }},
        {"sem_wait", [&] { return fiber_sem_wait(&things.sem, 1); }},
        {"sem_wait_timeout", [&] { return fiber_sem_wait_timeout(&things.sem, 3, FIBER_SEC(1)); }},
        {"sem_wait_timeout 0", [&] { return fiber_sem_wait_timeout(&things.sem, 1, 0); }},
        {"event_wait", [&] { return fiber_event_wait(&things.event); }},
        {"event_wait_timeout", [&] { return fiber_event_wait_timeout(&things.event, FIBER_SEC(1)); }},
        {"wg_wait", [&] { return fiber_wg_wait(&things.group); }},
        {"wg_wait_timeout", [&] { return fiber_wg_wait_timeout(&things.group, FIBER_SEC(1)); }},
        {"rwlock_rdlock", [&] { return fiber_rwlock_rdlock(&things.rwlock); }},
        {"rwlock_wrlock", [&] { return fiber_rwlock_wrlock(&things.rwlock); }},
        {"rwlock_rdlock_timeout", [&] { return fiber_rwlock_rdlock_timeout(&things.rwlock, FIBER_SEC(1)); }},
        {"rwlock_wrlock_timeout", [&] { return fiber_rwlock_wrlock_timeout(&things.rwlock, 0); }},
        {"barrier_wait", [&] { return fiber_barrier_wait(&things.barrier); }},
        {"barrier_wait_timeout", [&] { return fiber_barrier_wait_timeout(&things.barrier, FIBER_SEC(1)); }},
        {"barrier_wait_timeout 0", [&] { return fiber_barrier_wait_timeout(&things.barrier, 0); }},
        {"once", [&] { return things.call_once(); }},
        {"chan_send", [&] { return fiber_chan_send(things.chan, &things.item); }},
        {"chan_send_timeout", [&] { return fiber_chan_send_timeout(things.chan, &things.item, 0); }},
        {"chan_recv", [&] { return fiber_chan_recv(things.chan, &things.got); }},
        {"chan_recv_timeout", [&] { return fiber_chan_recv_timeout(things.chan, &things.got, 0); }},
        {"select of none", [&] { return fiber_select(nullptr, 0, 0); }},
        {"select SEND", [&] { return things.select(FIBER_CASE_SEND); }},
        {"select RECV", [&] { return things.select(FIBER_CASE_RECV); }},
        {"select EVENT", [&] { return things.select(FIBER_CASE_EVENT); }},
        {"select SEM", [&] { return things.select(FIBER_CASE_SEM); }},
        {"select TIMER", [&] { return things.select(FIBER_CASE_TIMER); }},
        {"select JOIN",
         [&] {
             things.one = {};
             things.one.kind = FIBER_CASE_JOIN;
             things.one.fiber = world.ended;
             return fiber_select(&things.one, 1, 0);
         }},
        {"select FD",
         [&] {
             things.one = {};
             things.one.kind = FIBER_CASE_FD;
             things.one.fd = world.pipe.read_end;
             things.one.number = POLLIN;
             return fiber_select(&things.one, 1, 0);
         }},
        {"select SCOPE",
         [&] {
             things.one = {};
             things.one.kind = FIBER_CASE_SCOPE;
             things.one.scope = things.family.scope;
             return fiber_select(&things.one, 1, 0);
         }},
        {"scope_next", [&] { return fiber_scope_next(things.family.scope, nullptr, nullptr); }},
        {"scope_close", [&] { return fiber_scope_close(things.family.scope, nullptr); }},
        {"timeout_block_close",
         [&] {
             fiber_timeout_block_close(&things.block);
             return things.verdict;
         }},
        {"cord_join", [&] { return fiber_cord_join(cord, nullptr); }},
        {"cord_join_timeout", [&] { return fiber_cord_join_timeout(cord, nullptr, 0); }},
        {"cord_shutdown", [&] { return fiber_cord_shutdown(cord, 0, FIBER_SEC(1)); }},
        {"exchange", [&] { return fiber_exchange(nullptr, 0, &completion, 1, 0); }},
        {"cord_run", [&] { return fiber_cord_run(0); }},
        {"pool_unbind", [&] { return fiber_pool_unbind(things.pool); }},
        {"pool_close", [&] { return fiber_pool_close(things.pool); }},
        {"offload", [&] { return fiber_offload(never_called, nullptr, nullptr); }},
        {"offload_detached", [&] { return fiber_offload_detached(never_called, nullptr, nullptr, nullptr); }},
        {"getaddrinfo", [&] { return fiber_getaddrinfo("127.0.0.1", "80", nullptr, &things.addresses); }},
        {"dial", [&] { return fiber_dial("127.0.0.1:1", 0); }},
        {"dial unix", [&] { return fiber_dial("unix:/nowhere", 0); }},
    };
    world.put_one_into_the_queue();
    {
        NoSwitch section;
        for (const auto &c : calls) {
            uint64_t switches = stats().switches;
            EXPECT_EQ(c.call(), -EPERM) << c.name;
            EXPECT_EQ(stats().switches, switches) << c.name;
            world.expect_untouched(c.name);
            things.expect_untouched(c.name);
        }
    }
    char rest[8] = {};
    EXPECT_EQ(read(world.pipe.read_end, rest, sizeof rest), 3);
    EXPECT_STREQ(rest, "abc");
    EXPECT_EQ(take_permits(), 1); // the failed yields left it
    EXPECT_EQ(tick, 0);
    EXPECT_EQ(fiber_event_set(&cord_may_end), 0);
    expect_joined(fiber_cord_join(cord, nullptr));
}

} // namespace

TEST(NoSwitchSection, RefusesEverySwitchingCallOfAFiberAndNothingHappens) {
    run([] { every_switching_call_is_refused(); });
}

TEST(NoSwitchSection, RefusesEverySwitchingCallOfAMainFlowAndNothingHappens) { every_switching_call_is_refused(); }

// Of a refused call, by builds for debugging.
TEST(NoSwitchSection, TheReportNamesTheCallAndTheEntryOfTheSection) {
    std::string told;
    run([&] {
        testing::internal::CaptureStderr();
        {
            NoSwitch outer, inner;
            EXPECT_EQ(fiber_reschedule(), -EPERM);
        }
        told = testing::internal::GetCapturedStderr();
    });
#ifndef FIBERRT_DEBUG
    EXPECT_EQ(told, "");
#else
    const size_t made = told.find("It was made here:\n"), entered = told.find("the section was entered here:\n");
    ASSERT_TRUE(made != std::string::npos && entered != std::string::npos && made < entered) << told;
    EXPECT_NE(told.substr(made, entered - made).find("[0x"), std::string::npos) << told;
    EXPECT_NE(told.substr(entered).find("[0x"), std::string::npos) << told;
#endif
}

TEST(NoSwitchSection, CallsThatDoNotSwitchWork) {
    auto yielding = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto waiting = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(3600)), -ECANCELED); };
    auto interrupted = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(3600)), -EINTR); };
    auto plain = [] {};
    fiber_t yielder = start(yielding), sleeper = start(waiting), interruptee = start(interrupted);
    fiber_t spawned{}, fresh{};
    {
        NoSwitch section;
        EXPECT_EQ(fiber_wakeup_value(yielder, pointer(1)), 0);
        EXPECT_EQ(fiber_cancel(sleeper, nullptr), 0);
        EXPECT_EQ(fiber_interrupt(interruptee, nullptr), 0);
        spawned = spawn(plain);
        fresh = create(plain);
        EXPECT_EQ(fiber_wakeup(fresh), 0);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_SEC(1), 0), 0);
        EXPECT_EQ(fiber_scope_set_timeout(scope, FIBER_SEC(2)), 0);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
        fiber_key_t key{};
        EXPECT_EQ(fiber_key_create(&key, nullptr), 0);
        EXPECT_EQ(fiber_key_set(key, pointer(1)), 0);
        EXPECT_EQ(fiber_key_delete(key), 0);
        EXPECT_EQ(fiber_state(yielder), FIBER_RUNNABLE);
    }
    for (fiber_t fiber : {yielder, sleeper, interruptee, spawned, fresh}) join(fiber);
}

TEST(NoSwitchSection, SectionsNest) {
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_reschedule(), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_reschedule(), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
}

TEST(NoSwitchSection, LeaveWithoutEnterIsInvalid) {
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    run([] { EXPECT_EQ(fiber_noswitch_leave(), -EINVAL); });
    EXPECT_EQ(fiber_reschedule(), 0);
}

// Called in a section that is not its own.
int called;
void leaves_what_it_has_not_entered() {
    called++;
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    EXPECT_EQ(fiber_reschedule(), -EPERM);
}

TEST(NoSwitchSection, OfTheLibraryCannotBeLeftByAHook) {
    called = 0;
    fiber_hooks_t hooks{};
    hooks.before_switch = [](void *, fiber_tag_t, fiber_tag_t) { leaves_what_it_has_not_entered(); };
    hooks.after_switch = hooks.before_switch;
    hooks.start = hooks.exit = [](void *, fiber_tag_t) { leaves_what_it_has_not_entered(); };
    hooks.destroy = [](void *, fiber_t, fiber_tag_t) { leaves_what_it_has_not_entered(); };
    hooks.before_poll = [](void *) { leaves_what_it_has_not_entered(); };
    hooks.after_poll = [](void *) {
        leaves_what_it_has_not_entered();
        return 0;
    };
    ASSERT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
    auto body = [] {
        for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_sleep(1000), 0);
        EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_tag_set(fiber, {nullptr, 1}), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    join(fiber);
    EXPECT_EQ(fiber_noswitch_enter(), 0); // a hook in a section of the fiber's own leaves neither
    fiber_t unrun = create(body);
    EXPECT_EQ(fiber_tag_set(unrun, {nullptr, 1}), 0);
    EXPECT_EQ(fiber_detach(unrun), 0);
    const int before = called;
    EXPECT_EQ(fiber_cancel(unrun, nullptr), 0);
    EXPECT_GT(called, before);
    EXPECT_EQ(fiber_reschedule(), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
    EXPECT_GE(called, 8);
}

TEST(NoSwitchSection, OfTheLibraryCannotBeLeftByApplyOfAnAmbientKey) {
    called = 0;
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create_ambient(&key, nullptr, [](void *, void *) { leaves_what_it_has_not_entered(); }), 0);
    run([&] {
        EXPECT_EQ(fiber_key_set(key, &key), 0);
        for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    });
    EXPECT_GE(called, 2);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(NoSwitchSection, OfTheLibraryCannotBeLeftByFreeArg) {
    called = 0;
    fiber_attr_t *attr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    ASSERT_EQ(fiber_attr_set_free_arg(attr,
                                      [](void *) {
                                          leaves_what_it_has_not_entered();
                                          EXPECT_EQ(fiber_noswitch_enter(),
                                                    0); // and left open, it ends with the function
                                      }),
              0);
    auto body = [] {};
    fiber_t fiber = create(body, attr);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(called, 1);
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
    // Nor may it leave a hosted fiber that was entered before the call.
    fiber_t hosted{};
    auto leaves_it = [](void *) {
        called++;
        EXPECT_EQ(fiber_hosted_leave(), -EPERM);
    };
    ASSERT_EQ(fiber_attr_set_free_arg(attr, leaves_it), 0);
    fiber_t other = create(body, attr);
    ASSERT_EQ(fiber_attr_set_free_arg(attr, nullptr), 0);
    ASSERT_EQ(fiber_hosted_new(&hosted, attr, nullptr, nullptr), 0);
    EXPECT_EQ(fiber_wakeup(hosted), 0);
    fiber_completion_t done{};
    ASSERT_EQ(fiber_exchange(nullptr, 0, &done, 1, 0), 1);
    ASSERT_EQ(fiber_hosted_enter(hosted), 0);
    EXPECT_EQ(fiber_cancel(other, nullptr), 0);
    EXPECT_EQ(called, 2);
    EXPECT_EQ(self().id, hosted.id);
    EXPECT_EQ(fiber_hosted_leave(), 0);
    EXPECT_EQ(fiber_hosted_end(hosted, nullptr), 0);
    join(hosted);
    join(other);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
}

TEST(NoSwitchSection, OfTheLibraryCannotBeLeftByADestructorAtAThreadsExit) {
    called = 0;
    in_thread([] {
        fiber_key_t key{};
        ASSERT_EQ(fiber_key_create(&key, [](void *) { leaves_what_it_has_not_entered(); }), 0);
        EXPECT_EQ(fiber_key_set(key, &called), 0);
    });
    EXPECT_EQ(called, 1);
}

TEST(NoSwitchSection, AtMost65535AreOpen) {
    run([] {
        for (int i = 0; i < 65535; i++) ASSERT_EQ(fiber_noswitch_enter(), 0) << i;
        EXPECT_EQ(fiber_noswitch_enter(), -EAGAIN);
        EXPECT_EQ(fiber_reschedule(), -EPERM);
        for (int i = 0; i < 65535; i++) ASSERT_EQ(fiber_noswitch_leave(), 0) << i;
        EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
        EXPECT_EQ(fiber_reschedule(), 0);
    });
}

TEST(NoSwitchSection, AFiberLeftOpenAtItsEndDoesNotConcernTheNextFiber) {
    for (int i = 0; i < 10; i++) {
        run([] { EXPECT_EQ(fiber_noswitch_enter(), 0); });
        run([] {
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
        });
    }
    EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
}

TEST(NoSwitchSection, AnInterruptOrADeadlineWaitsForItsEnd) {
    run([] {
        EXPECT_EQ(fiber_interrupt(self(), nullptr), 0);
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, 0, 0), 0);
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        EXPECT_EQ(fiber_yield(), -EPERM); // and the interrupt is not used up
        EXPECT_EQ(fiber_noswitch_leave(), 0);
        EXPECT_EQ(fiber_yield(), -EINTR);
        EXPECT_EQ(fiber_yield(), -ETIMEDOUT);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
    });
}
