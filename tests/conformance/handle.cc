// SPDX-License-Identifier: MIT OR Apache-2.0
// Every call of the header with wrong handles and arguments: a clear error, no crash, and no other object is hit.
#include "conformance.h"
#include "support.h"

#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>

#include <climits>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <string>
#include <vector>

using namespace support;

namespace {

// Every call that takes the handle of a fiber, with arguments that are right otherwise.
struct FiberCall {
    const char *name;
    int (*call)(fiber_t);
};

const FiberCall FIBER_CALLS[] = {
    {"start", [](fiber_t f) { return fiber_start(f); }},
    {"join", [](fiber_t f) { return fiber_join(f, nullptr); }},
    {"join_timeout", [](fiber_t f) { return fiber_join_timeout(f, nullptr, FIBER_SEC(5)); }},
    {"join_timeout 0", [](fiber_t f) { return fiber_join_timeout(f, nullptr, 0); }},
    {"detach", [](fiber_t f) { return fiber_detach(f); }},
    {"state", [](fiber_t f) { return fiber_state(f); }},
    {"name",
     [](fiber_t f) {
         char buffer[8];
         return fiber_name(f, buffer, sizeof buffer);
     }},
    {"set_name", [](fiber_t f) { return fiber_set_name(f, "hit"); }},
    {"wakeup", [](fiber_t f) { return fiber_wakeup(f); }},
    {"wakeup_value", [](fiber_t f) { return fiber_wakeup_value(f, pointer(1)); }},
    {"transfer", [](fiber_t f) { return fiber_transfer(f, pointer(1), nullptr); }},
    {"cancel", [](fiber_t f) { return fiber_cancel(f, pointer(1)); }},
    {"interrupt", [](fiber_t f) { return fiber_interrupt(f, pointer(1)); }},
    {"info",
     [](fiber_t f) {
         fiber_info_t out;
         return fiber_info(f, &out, sizeof out);
     }},
};

struct ScopeCall {
    const char *name;
    int (*call)(fiber_scope_t);
};

const ScopeCall SCOPE_CALLS[] = {
    {"scope_set_timeout", [](fiber_scope_t s) { return fiber_scope_set_timeout(s, 0); }},
    {"scope_close", [](fiber_scope_t s) { return fiber_scope_close(s, nullptr); }},
};

struct KeyCall {
    const char *name;
    int (*call)(fiber_key_t);
};

const KeyCall KEY_CALLS[] = {
    {"key_set", [](fiber_key_t k) { return fiber_key_set(k, pointer(1)); }},
    {"key_delete", [](fiber_key_t k) { return fiber_key_delete(k); }},
};

bool malformed_or_gone(int error) { return error == -EINVAL || error == -ESRCH; }

// Numbers that were never handles. A test does not know which part of a handle means what: both errors are right.
std::vector<uint64_t> garbage() {
    std::vector<uint64_t> ids = {1,
                                 2,
                                 3,
                                 0xff,
                                 0xffff,
                                 0xffffffff,
                                 0xdeadbeef,
                                 0xdeadbeefdeadbeef,
                                 0x5555555555555555,
                                 0xaaaaaaaaaaaaaaaa,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xfffffffffffffffe,
                                 0xffffffffffffffff};
    for (int bit = 0; bit < 64; bit++) ids.push_back(uint64_t{1} << bit);
    auto local = reinterpret_cast<uintptr_t>(&ids);
    ids.push_back(local);
    return ids;
}

// A parked fiber that notices when anything was done to it.
struct Bystander {
    int result = 1;
    bool cancelled = true;
    int interrupted = 1;
    int permits = -1;
    std::function<void()> body = [this] {
        result = fiber_yield();
        void *value = nullptr;
        cancelled = fiber_cancelled(nullptr) != 0;
        interrupted = fiber_interrupted(&value);
        permits = take_permits();
    };
    fiber_t fiber{};

    Bystander() { fiber = start(body); }
    Bystander(const Bystander &) = delete;
    // Nothing has woken, named, ended or cancelled it.
    void expect_untouched(const char *call) const {
        fiber_info_t now = info(fiber);
        EXPECT_EQ(now.state, FIBER_WAITING) << call;
        EXPECT_EQ(now.permit, 0) << call;
        EXPECT_EQ(now.cancelled, 0) << call;
        EXPECT_EQ(now.detached, 0) << call;
        EXPECT_STREQ(now.name, "") << call;
    }
    ~Bystander() {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
        EXPECT_EQ(result, 0);
        EXPECT_FALSE(cancelled);
        EXPECT_EQ(interrupted, 0);
        EXPECT_EQ(permits, 0);
    }
};

fiber_t joined_fiber() {
    auto body = [] {};
    fiber_t fiber = start(body);
    join(fiber);
    return fiber;
}

} // namespace

// ---- handles of fibers ----------------------------------------------------------------------------------------------

TEST(FiberHandle, ZeroIsInvalidInEveryCall) {
    for (const FiberCall &c : FIBER_CALLS) EXPECT_EQ(c.call(fiber_t{0}), -EINVAL) << c.name;
    run([] {
        for (const FiberCall &c : FIBER_CALLS) EXPECT_EQ(c.call(fiber_t{0}), -EINVAL) << c.name;
    });
}

TEST(FiberHandle, ZeroIsInvalidOnAThreadWithoutACord) {
    NEEDS_THREADS();
    for (const FiberCall &c : FIBER_CALLS) in_thread([&] { EXPECT_EQ(c.call(fiber_t{0}), -EINVAL) << c.name; });
}

TEST(FiberHandle, GarbageIsRefusedInEveryCall) {
    Bystander bystander;
    for (uint64_t id : garbage()) {
        if (id == bystander.fiber.id || id == self().id) continue;
        for (const FiberCall &c : FIBER_CALLS) {
            int result = c.call(fiber_t{id});
            EXPECT_TRUE(malformed_or_gone(result)) << c.name << " of " << std::hex << id << ": " << std::dec << result;
        }
    }
    bystander.expect_untouched("garbage");
}

TEST(FiberHandle, ALiveHandleWithOneBitChangedIsRefusedInEveryCall) {
    Bystander a, b;
    int others = 0;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t id = a.fiber.id ^ (uint64_t{1} << bit);
        if (id == b.fiber.id || id == self().id) continue;
        // One bit away may be the handle of a fiber that an earlier scenario left on another cord.
        if (fiber_state(fiber_t{id}) >= 0) {
            others++;
            continue;
        }
        for (const FiberCall &c : FIBER_CALLS) {
            int result = c.call(fiber_t{id});
            EXPECT_TRUE(malformed_or_gone(result)) << c.name << ", bit " << bit << ": " << result;
        }
    }
    EXPECT_LE(others, 1);
    a.expect_untouched("one bit changed");
    b.expect_untouched("one bit changed");
}

TEST(FiberHandle, HandlesOfOtherTypesAreInvalidInEveryCall) {
    fiber_key_t key{};
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_key_create(&key, nullptr), 0);
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    for (const FiberCall &c : FIBER_CALLS) {
        EXPECT_EQ(c.call(fiber_t{key.id}), -EINVAL) << c.name << " of a key";
        EXPECT_EQ(c.call(fiber_t{scope.id}), -EINVAL) << c.name << " of a scope";
    }
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(FiberHandle, StaleAfterTheJoinIsGoneInEveryCall) {
    fiber_t fiber = joined_fiber();
    for (int round = 0; round < 2; round++)
        for (const FiberCall &c : FIBER_CALLS) EXPECT_EQ(c.call(fiber), -ESRCH) << c.name;
}

TEST(FiberHandle, StaleAfterADetachedEndIsGoneInEveryCall) {
    auto body = [] {};
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    for (const FiberCall &c : FIBER_CALLS) EXPECT_EQ(c.call(fiber), -ESRCH) << c.name;
}

TEST(FiberHandle, TRAP_UseAfterTheSlotWasRecycledNeverReachesAnotherFiber) {
    std::vector<fiber_t> stale;
    for (int i = 0; i < 100; i++) stale.push_back(joined_fiber());
    Bystander bystander; // it lives in the slot that they had, if slots are reused at all
    for (fiber_t fiber : stale) {
        EXPECT_NE(fiber.id, bystander.fiber.id);
        for (const FiberCall &c : FIBER_CALLS) {
            EXPECT_EQ(c.call(fiber), -ESRCH) << c.name;
            bystander.expect_untouched(c.name);
        }
    }
}

TEST(FiberHandle, TRAP_UseAfterRecyclingNeverReachesASleeperAReaderOrAJoiner) {
    NEEDS_IO();
    Pipe pipe;
    std::vector<fiber_t> stale;
    {
        auto body = [] { EXPECT_EQ(fiber_yield(), 0); };
        for (int i = 0; i < 3; i++) stale.push_back(start(body));
        for (fiber_t fiber : stale) EXPECT_EQ(fiber_wakeup(fiber), 0);
        for (fiber_t fiber : stale) join(fiber);
    }
    auto sleeping = [] {
        int64_t begin = fiber_now();
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(100)), 0); // longer than all the calls below take
        EXPECT_GE(fiber_now() - begin, FIBER_MSEC(100));
    };
    auto reading = [&] {
        char byte = 0;
        EXPECT_EQ(fiber_read(pipe.read_end, &byte, 1), 1);
    };
    fiber_t sleeper = start(sleeping), reader = start(reading);
    auto joining = [&] { join(sleeper); };
    fiber_t joiner = start(joining);
    EXPECT_EQ(fiber_sleep(0), 0); // the reader may have given the others a turn before it waits
    for (fiber_t fiber : stale)
        for (const FiberCall &c : FIBER_CALLS) EXPECT_EQ(c.call(fiber), -ESRCH) << c.name;
    for (fiber_t fiber : {sleeper, reader, joiner}) {
        EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
        EXPECT_EQ(info(fiber).permit, 0);
        EXPECT_EQ(info(fiber).cancelled, 0);
    }
    EXPECT_EQ(write(pipe.write_end, "x", 1), 1);
    join(reader);
    join(joiner);
}

TEST(FiberHandle, TenThousandHandlesStayStaleForEver) {
    std::vector<fiber_t> stale;
    for (int i = 0; i < often(10000, 100); i++) stale.push_back(joined_fiber());
    for (fiber_t fiber : stale) ASSERT_EQ(fiber_state(fiber), -ESRCH);
    for (fiber_t fiber : stale) ASSERT_EQ(fiber_cancel(fiber, nullptr), -ESRCH);
}

// ---- handles of scopes ----------------------------------------------------------------------------------------------

TEST(ScopeHandle, ZeroIsInvalidInEveryCall) {
    for (const ScopeCall &c : SCOPE_CALLS) EXPECT_EQ(c.call(fiber_scope_t{0}), -EINVAL) << c.name;
    for (const ScopeCall &c : SCOPE_CALLS) in_thread([&] { EXPECT_EQ(c.call(fiber_scope_t{0}), -EINVAL) << c.name; });
}

TEST(ScopeHandle, GarbageIsRefusedInEveryCall) {
    run([] {
        fiber_scope_t scope{};
        ASSERT_EQ(fiber_scope_open(&scope, FIBER_SEC(3600), 0), 0);
        std::vector<uint64_t> ids = garbage();
        for (int bit = 0; bit < 64; bit++) ids.push_back(scope.id ^ (uint64_t{1} << bit));
        for (uint64_t id : ids) {
            if (id == scope.id) continue;
            for (const ScopeCall &c : SCOPE_CALLS) {
                int result = c.call(fiber_scope_t{id});
                EXPECT_TRUE(malformed_or_gone(result)) << c.name << " of " << std::hex << id << std::dec << result;
            }
        }
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0); // its deadline was not moved
        EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    });
}

TEST(ScopeHandle, HandlesOfOtherTypesAreInvalidInEveryCall) {
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, nullptr), 0);
    for (const ScopeCall &c : SCOPE_CALLS) {
        EXPECT_EQ(c.call(fiber_scope_t{self().id}), -EINVAL) << c.name << " of a fiber";
        EXPECT_EQ(c.call(fiber_scope_t{key.id}), -EINVAL) << c.name << " of a key";
    }
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(ScopeHandle, TRAP_UseAfterRecyclingNeverReachesAnotherScope) {
    run([] {
        std::vector<fiber_scope_t> stale;
        for (int i = 0; i < 100; i++) {
            fiber_scope_t scope{};
            ASSERT_EQ(fiber_scope_open(&scope, FIBER_SEC(3600), 0), 0);
            ASSERT_EQ(fiber_scope_close(scope, nullptr), 0);
            stale.push_back(scope);
        }
        fiber_scope_t live{};
        ASSERT_EQ(fiber_scope_open(&live, FIBER_SEC(3600), 0), 0);
        for (fiber_scope_t scope : stale)
            for (const ScopeCall &c : SCOPE_CALLS) EXPECT_EQ(c.call(scope), -ESRCH) << c.name;
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        EXPECT_EQ(fiber_scope_close(live, nullptr), 0);
    });
}

TEST(ScopeHandle, OfAnotherThreadIsRefused) {
    run([] {
        fiber_scope_t scope{};
        ASSERT_EQ(fiber_scope_open(&scope, FIBER_SEC(3600), 0), 0);
        for (const ScopeCall &c : SCOPE_CALLS) in_thread([&] { EXPECT_EQ(c.call(scope), -EPERM) << c.name; });
        EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
    });
}

// ---- handles of keys ------------------------------------------------------------------------------------------------

TEST(KeyHandle, ZeroIsInvalidInEveryCall) {
    for (const KeyCall &c : KEY_CALLS) EXPECT_EQ(c.call(fiber_key_t{0}), -EINVAL) << c.name;
    EXPECT_EQ(fiber_key_get(fiber_key_t{0}), nullptr);
}

TEST(KeyHandle, GarbageIsRefusedInEveryCall) {
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, nullptr), 0);
    EXPECT_EQ(fiber_key_set(key, pointer(5)), 0);
    std::vector<uint64_t> ids = garbage();
    for (int bit = 0; bit < 64; bit++) ids.push_back(key.id ^ (uint64_t{1} << bit));
    for (uint64_t id : ids) {
        if (id == key.id) continue;
        EXPECT_EQ(fiber_key_get(fiber_key_t{id}), nullptr) << std::hex << id;
        for (const KeyCall &c : KEY_CALLS) {
            int result = c.call(fiber_key_t{id});
            EXPECT_TRUE(malformed_or_gone(result)) << c.name << " of " << std::hex << id << std::dec << result;
        }
    }
    EXPECT_EQ(fiber_key_get(key), pointer(5));
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(KeyHandle, HandlesOfOtherTypesAreInvalidInEveryCall) {
    fiber_scope_t scope{};
    ASSERT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    for (const KeyCall &c : KEY_CALLS) {
        EXPECT_EQ(c.call(fiber_key_t{self().id}), -EINVAL) << c.name << " of a fiber";
        EXPECT_EQ(c.call(fiber_key_t{scope.id}), -EINVAL) << c.name << " of a scope";
    }
    EXPECT_EQ(fiber_key_get(fiber_key_t{self().id}), nullptr);
    EXPECT_EQ(fiber_key_get(fiber_key_t{scope.id}), nullptr);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
}

TEST(KeyHandle, StaleIsGoneInEveryCall) {
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, nullptr), 0);
    EXPECT_EQ(fiber_key_delete(key), 0);
    for (const KeyCall &c : KEY_CALLS) EXPECT_EQ(c.call(key), -ESRCH) << c.name;
    EXPECT_EQ(fiber_key_get(key), nullptr);
}

// ---- other arguments ------------------------------------------------------------------------------------------------

TEST(Argument, NullWhereAPlaceIsNeededIsInvalid) {
    char byte = 0;
    fiber_info_t info_out{};
    fiber_stats_t stats_out{};
    auto plain = [](void *arg) -> void * { return arg; };
    fiber_t me = self(), out{};
    const struct {
        const char *name;
        int64_t result;
    } cases[] = {
        {"attr_create", fiber_attr_create(nullptr)},
        {"attr_set_stack_size", fiber_attr_set_stack_size(nullptr, FIBER_STACK_DEFAULT)},
        {"attr_set_name", fiber_attr_set_name(nullptr, "x")},
        {"attr_set_detached", fiber_attr_set_detached(nullptr, 0)},
        {"new without out", fiber_new(nullptr, nullptr, plain, nullptr)},
        {"new without fn", fiber_new(&out, nullptr, nullptr, nullptr)},
        {"spawn without fn", fiber_spawn(&out, nullptr, nullptr)},
        {"self", fiber_self(nullptr)},
        {"name without buffer", fiber_name(me, nullptr, 10)},
        {"name of size 0", fiber_name(me, &byte, 0)},
        {"set_name", fiber_set_name(me, nullptr)},
        {"yield_value", fiber_yield_value(nullptr)},
        {"interrupted", fiber_interrupted(nullptr)},
        {"scope_open", fiber_scope_open(nullptr, FIBER_SEC(1), 0)},
        {"key_create", fiber_key_create(nullptr, nullptr)},
        {"info without out", fiber_info(me, nullptr, sizeof info_out)},
        {"info of size 0", fiber_info(me, &info_out, 0)},
        {"stats without out", fiber_stats(nullptr, sizeof stats_out)},
        {"stats of size 0", fiber_stats(&stats_out, 0)},
    };
    for (const auto &c : cases) EXPECT_EQ(c.result, -EINVAL) << c.name;
    EXPECT_EQ(fiber_attr_destroy(nullptr), 0);
}

TEST(Argument, NegativeTimesAreInvalidAndNothingHappens) {
    auto body = [] { return pointer(1); };
    fiber_t ended = start(body);
    for (int64_t negative : {int64_t{-1}, -FIBER_SEC(1), std::numeric_limits<int64_t>::min()}) {
        fiber_scope_t scope{}, live{};
        ASSERT_EQ(fiber_scope_open(&live, FIBER_SEC(3600), 0), 0);
        EXPECT_EQ(fiber_sleep(negative), -EINVAL);
        EXPECT_EQ(fiber_yield_timeout(negative), -EINVAL);
        EXPECT_EQ(fiber_join_timeout(ended, nullptr, negative), -EINVAL);
        EXPECT_EQ(fiber_scope_open(&scope, negative, 0), -EINVAL);
        EXPECT_EQ(fiber_scope_set_timeout(live, negative), -EINVAL);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_scope_close(live, nullptr), 0);
    }
    EXPECT_EQ(join(ended), pointer(1));
}

TEST(Argument, HugeTimesDoNotOverflow) {
    auto yielding = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_t parked = start(yielding);
    for (int64_t huge : {FIBER_FOREVER, FIBER_FOREVER - 1, FIBER_FOREVER / 2}) {
        int results[3] = {1, 1, 1};
        auto sleeping = [&] { results[0] = fiber_sleep(huge); };
        auto waiting = [&] { results[1] = fiber_yield_timeout(huge); };
        auto joining = [&] { results[2] = fiber_join_timeout(parked, nullptr, huge); };
        fiber_t fibers[] = {start(sleeping), start(waiting), start(joining)};
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        for (fiber_t fiber : fibers) {
            EXPECT_EQ(fiber_state(fiber), FIBER_WAITING) << huge;
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            join(fiber);
        }
        for (int result : results) EXPECT_EQ(result, -ECANCELED) << huge;
    }
    EXPECT_EQ(fiber_wakeup(parked), 0);
    join(parked);
}

TEST(Argument, TinyTimesWork) {
    EXPECT_EQ(fiber_sleep(1), 0);
    EXPECT_EQ(fiber_yield_timeout(1), -ETIMEDOUT);
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, 1, 0), 0);
    EXPECT_EQ(fiber_sleep(FIBER_SEC(3600)), -ETIMEDOUT);
    EXPECT_EQ(fiber_scope_close(scope, nullptr), -ETIMEDOUT);
}

TEST(Argument, InfoAndStatsFillTheSizeThatTheCallerKnows) {
    struct {
        fiber_info_t info;
        unsigned char later[64];
    } known;
    std::memset(&known, 0xee, sizeof known);
    EXPECT_EQ(fiber_info(self(), &known.info, sizeof known), 0);
    EXPECT_EQ(known.info.id, self().id);
    for (unsigned char byte : known.later) EXPECT_EQ(byte, 0); // members that the library does not know

    std::memset(&known, 0xee, sizeof known);
    EXPECT_EQ(fiber_info(self(), &known.info, 8), 0);
    EXPECT_EQ(known.info.id, self().id);
    for (size_t i = 8; i < sizeof known; i++)
        EXPECT_EQ(reinterpret_cast<unsigned char *>(&known)[i], 0xee) << i; // not touched

    std::memset(&known, 0xee, sizeof known);
    EXPECT_EQ(fiber_info(self(), &known.info, 1), 0);
    EXPECT_EQ(reinterpret_cast<unsigned char *>(&known)[1], 0xee);

    struct {
        fiber_stats_t stats;
        unsigned char later[64];
    } counters;
    std::memset(&counters, 0xee, sizeof counters);
    EXPECT_EQ(fiber_stats(&counters.stats, sizeof counters), 0);
    EXPECT_GE(counters.stats.fibers, 1u);
    for (unsigned char byte : counters.later) EXPECT_EQ(byte, 0);
    std::memset(&counters, 0xee, sizeof counters);
    EXPECT_EQ(fiber_stats(&counters.stats, 8), 0);
    EXPECT_EQ(reinterpret_cast<unsigned char *>(&counters)[8], 0xee);
}

TEST(Argument, NullMemoryInInputAndOutputIsInvalid) {
    Pipe pipe;
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    std::string path = testing::TempDir() + "fiberrt-null-memory-" + std::to_string(::getpid());
    int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    unlink(path.c_str());
    sockaddr_storage address{};
    struct statx out;
    open_how how{};
    int received = -1;
    size_t room = 1, room_again = 1, room_too = 1;
    int64_t below = -1;
    const struct {
        const char *name;
        int64_t result;
    } cases[] = {
        {"read", fiber_read(pipe.read_end, nullptr, 1)},
        {"write", fiber_write(pipe.write_end, nullptr, 1)},
        {"readv", fiber_readv(pipe.read_end, nullptr, 1)},
        {"writev", fiber_writev(pipe.write_end, nullptr, 1)},
        {"pread", fiber_pread(file, nullptr, 1, 0)},
        {"pwrite", fiber_pwrite(file, nullptr, 1, 0)},
        {"recv", fiber_recv(sockets[0], nullptr, 1, MSG_DONTWAIT)},
        {"send", fiber_send(sockets[0], nullptr, 1, 0)},
        {"recvfrom", fiber_recvfrom(sockets[0], nullptr, 1, MSG_DONTWAIT, nullptr, nullptr)},
        {"recvfrom without length",
         fiber_recvfrom(sockets[0], &out, 1, MSG_DONTWAIT, reinterpret_cast<sockaddr *>(&address), nullptr)},
        {"sendto", fiber_sendto(sockets[0], nullptr, 1, 0, nullptr, 0)},
        {"recvmsg", fiber_recvmsg(sockets[0], nullptr, MSG_DONTWAIT)},
        {"sendmsg", fiber_sendmsg(sockets[0], nullptr, 0)},
        {"accept without length", fiber_accept(sockets[0], reinterpret_cast<sockaddr *>(&address), nullptr)},
        {"accept4 without length", fiber_accept4(sockets[0], reinterpret_cast<sockaddr *>(&address), nullptr, 0)},
        {"connect", fiber_connect(sockets[0], nullptr, sizeof address)},
        {"open", fiber_open(nullptr, O_RDONLY, 0)},
        {"statx without path", fiber_statx(AT_FDCWD, nullptr, 0, STATX_BASIC_STATS, &out)},
        {"statx without out", fiber_statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, nullptr)},
        {"openat2 without path", fiber_openat2(AT_FDCWD, nullptr, &how, sizeof how)},
        {"openat2 without how", fiber_openat2(AT_FDCWD, "/", nullptr, sizeof how)},
        {"openat2 with less than how", fiber_openat2(AT_FDCWD, "/", &how, sizeof how - 1)},
        {"renameat2 of nothing", fiber_renameat2(AT_FDCWD, nullptr, AT_FDCWD, "/", 0)},
        {"renameat2 to nothing", fiber_renameat2(AT_FDCWD, "/", AT_FDCWD, nullptr, 0)},
        {"rename of nothing", fiber_rename(nullptr, "/")},
        {"rename to nothing", fiber_rename("/", nullptr)},
        {"unlinkat", fiber_unlinkat(AT_FDCWD, nullptr, 0)},
        {"unlink", fiber_unlink(nullptr)},
        {"rmdir", fiber_rmdir(nullptr)},
        {"mkdirat", fiber_mkdirat(AT_FDCWD, nullptr, 0700)},
        {"mkdir", fiber_mkdir(nullptr, 0700)},
        {"getdents64", fiber_getdents64(file, nullptr, 1)},
        {"send_fds without bytes", fiber_send_fds(sockets[0], nullptr, 1, &file, 1)},
        {"send_fds without descriptors", fiber_send_fds(sockets[0], "b", 1, nullptr, 1)},
        {"send_fds of descriptors alone", fiber_send_fds(sockets[0], "b", 0, &file, 1)},
        {"send_fds of too many", fiber_send_fds(sockets[0], "b", 1, &file, FIBER_FDS_MAX + 1)},
        {"recv_fds without memory", fiber_recv_fds(sockets[0], nullptr, 1, &received, &room, nullptr)},
        {"recv_fds without descriptors", fiber_recv_fds(sockets[0], &received, 1, nullptr, &room_again, nullptr)},
        {"recv_fds without their count", fiber_recv_fds(sockets[0], &received, 1, &received, nullptr, nullptr)},
        {"recv_fds of no bytes", fiber_recv_fds(sockets[0], &received, 0, &received, &room_too, nullptr)},
        {"copy below zero", fiber_copy(pipe.read_end, file, -1, nullptr, nullptr)},
        {"splice below zero", fiber_splice(file, &below, pipe.write_end, nullptr, 1, 0)},
        {"splice to below zero", fiber_splice(pipe.read_end, nullptr, file, &below, 1, 0)},
        {"splice with unknown flags", fiber_splice(pipe.read_end, nullptr, file, nullptr, 1, 0x100)},
        {"splice of too much", fiber_splice(pipe.read_end, nullptr, file, nullptr, SIZE_MAX, 0)},
    };
    for (const auto &c : cases) EXPECT_EQ(c.result, -EINVAL) << c.name;
    ::close(file);
    ::close(sockets[0]);
    ::close(sockets[1]);
}

TEST(Argument, VectorCountsOffsetsFlagsAndEventsOutOfRangeAreInvalid) {
    Pipe pipe;
    EXPECT_EQ(write(pipe.write_end, "abc", 3), 3);
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    std::string path = testing::TempDir() + "fiberrt-out-of-range-" + std::to_string(::getpid());
    int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    unlink(path.c_str());
    char byte = 0;
    iovec iov{&byte, 1};
    constexpr int64_t LOWEST = std::numeric_limits<int64_t>::min();
    const struct {
        const char *name;
        int64_t result;
    } cases[] = {
        {"readv -1", fiber_readv(pipe.read_end, &iov, -1)},
        {"readv 1025", fiber_readv(pipe.read_end, &iov, 1025)},
        {"readv INT_MAX", fiber_readv(pipe.read_end, &iov, INT_MAX)},
        {"readv INT_MIN", fiber_readv(pipe.read_end, &iov, INT_MIN)},
        {"writev -1", fiber_writev(pipe.write_end, &iov, -1)},
        {"writev 1025", fiber_writev(pipe.write_end, &iov, 1025)},
        {"writev INT_MAX", fiber_writev(pipe.write_end, &iov, INT_MAX)},
        {"writev INT_MIN", fiber_writev(pipe.write_end, &iov, INT_MIN)},
        {"pread at -1", fiber_pread(file, &byte, 1, -1)},
        {"pread at the lowest", fiber_pread(file, &byte, 1, LOWEST)},
        {"pwrite at -1", fiber_pwrite(file, &byte, 1, -1)},
        {"pwrite at the lowest", fiber_pwrite(file, &byte, 1, LOWEST)},
        {"accept4 flags", fiber_accept4(sockets[0], nullptr, nullptr, 1)},
        {"accept4 flags -1", fiber_accept4(sockets[0], nullptr, nullptr, -1)},
        {"poll_fd 0", fiber_poll_fd(pipe.read_end, 0)},
        {"poll_fd -1", fiber_poll_fd(pipe.read_end, -1)},
        {"poll_fd 0x10000", fiber_poll_fd(pipe.read_end, 0x10000)},
        {"poll_fd INT_MAX", fiber_poll_fd(pipe.read_end, INT_MAX)},
    };
    for (const auto &c : cases) EXPECT_EQ(c.result, -EINVAL) << c.name;
    EXPECT_EQ(fiber_pread(pipe.read_end, &byte, 1, 0), -ESPIPE);
    EXPECT_EQ(fiber_pwrite(pipe.write_end, &byte, 1, 0), -ESPIPE);
    char rest[8] = {};
    EXPECT_EQ(read(pipe.read_end, rest, sizeof rest), 3); // nothing was read or written
    EXPECT_STREQ(rest, "abc");
    struct stat status {};
    EXPECT_EQ(fstat(file, &status), 0);
    EXPECT_EQ(status.st_size, 0);
    ::close(file);
    ::close(sockets[0]);
    ::close(sockets[1]);
}

// No object has more than SSIZE_MAX bytes: read(2) refuses such a count, and the header says so of all of them.
TEST(Argument, ByteCountsAboveSsizeMaxAreInvalidAndNothingIsReadOrWritten) {
    Pipe pipe;
    EXPECT_EQ(write(pipe.write_end, "abc", 3), 3);
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    std::string path = testing::TempDir() + "fiberrt-byte-counts-" + std::to_string(::getpid());
    int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    unlink(path.c_str());
    static char buffer[1 << 16]; // room for a call that does not refuse
    for (size_t count : {SIZE_MAX, static_cast<size_t>(SSIZE_MAX) + 1}) {
        fiber_scope_t patience{}; // and an end for one that waits
        ASSERT_EQ(fiber_scope_open(&patience, FIBER_SEC(60), 0), 0);
        const struct {
            const char *name;
            int64_t result;
        } cases[] = {
            {"read", fiber_read(pipe.read_end, buffer, count)},
            {"write", fiber_write(pipe.write_end, buffer, count)},
            {"pread", fiber_pread(file, buffer, count, 0)},
            {"pwrite", fiber_pwrite(file, buffer, count, 0)},
            {"recv", fiber_recv(sockets[0], buffer, count, MSG_DONTWAIT)},
            {"send", fiber_send(sockets[0], buffer, count, 0)},
        };
        for (const auto &c : cases) EXPECT_EQ(c.result, -EINVAL) << c.name << " of " << count;
        EXPECT_EQ(fiber_scope_close(patience, nullptr), 0);
    }
    char rest[8] = {};
    EXPECT_EQ(read(pipe.read_end, rest, sizeof rest), 3);
    EXPECT_STREQ(rest, "abc");
    struct stat status {};
    EXPECT_EQ(fstat(file, &status), 0);
    EXPECT_EQ(status.st_size, 0);
    ::close(file);
    ::close(sockets[0]);
    ::close(sockets[1]);
}

TEST(Argument, ClosedAndImpossibleDescriptorsAreBadInEveryCall) {
    NEEDS_IO();
    int closed;
    {
        Pipe pipe;
        // The first operation opens the backend, whose own descriptor must not get the number that is closed here.
        EXPECT_EQ(fiber_write(pipe.write_end, "x", 1), 1);
        closed = pipe.read_end;
    }
    for (int fd : {closed, -1, INT_MIN, INT_MAX, 1 << 20}) {
        char byte = 0;
        iovec iov{&byte, 1};
        msghdr message{};
        message.msg_iov = &iov;
        message.msg_iovlen = 1;
        sockaddr_in address{};
        address.sin_family = AF_INET;
        size_t none = 0;
        const struct {
            const char *name;
            int64_t result;
        } cases[] = {
            {"read", fiber_read(fd, &byte, 1)},
            {"write", fiber_write(fd, &byte, 1)},
            {"readv", fiber_readv(fd, &iov, 1)},
            {"writev", fiber_writev(fd, &iov, 1)},
            {"pread", fiber_pread(fd, &byte, 1, 0)},
            {"pwrite", fiber_pwrite(fd, &byte, 1, 0)},
            {"recv", fiber_recv(fd, &byte, 1, 0)},
            {"send", fiber_send(fd, &byte, 1, 0)},
            {"recvfrom", fiber_recvfrom(fd, &byte, 1, 0, nullptr, nullptr)},
            {"sendto", fiber_sendto(fd, &byte, 1, 0, reinterpret_cast<sockaddr *>(&address), sizeof address)},
            {"recvmsg", fiber_recvmsg(fd, &message, 0)},
            {"sendmsg", fiber_sendmsg(fd, &message, 0)},
            {"accept", fiber_accept(fd, nullptr, nullptr)},
            {"accept4", fiber_accept4(fd, nullptr, nullptr, SOCK_CLOEXEC)},
            {"connect", fiber_connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address)},
            {"close", fiber_close(fd)},
            {"fsync", fiber_fsync(fd)},
            {"fdatasync", fiber_fdatasync(fd)},
            {"poll_fd", fiber_poll_fd(fd, POLLIN)},
            {"getdents64", fiber_getdents64(fd, &byte, 1)},
            {"splice", fiber_splice(fd, nullptr, fd, nullptr, 1, 0)},
            {"copy", fiber_copy(fd, fd, 1, nullptr, nullptr)},
            {"send_fds", fiber_send_fds(fd, &byte, 1, nullptr, 0)},
            {"recv_fds", fiber_recv_fds(fd, &byte, 1, nullptr, &none, nullptr)},
        };
        for (const auto &c : cases) EXPECT_EQ(c.result, -EBADF) << c.name << " of " << fd;
    }
}
