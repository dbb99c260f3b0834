// SPDX-License-Identifier: MIT OR Apache-2.0
// Looking at fibers of any cord from any thread: fiber_info, fiber_each, and the counters of cords and pools.
#include "conformance.h"
#include "cord_support.h"
#include "dumps.h"

#include <array>
#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>

using namespace support;

namespace {

// A cord whose fibers wait for different things, and which sleeps then.
struct Waiting {
    fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    fiber_rwlock_t rwlock = FIBER_RWLOCK_INITIALIZER;
    fiber_sem_t semaphore = FIBER_SEM_INITIALIZER(0);
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    fiber_t holder{}, locker{}, writer{}, sleeper{}, joiner{}, parker{}, poster{}, child{}, parent{};
    fiber_scope_t scope{};
    std::atomic<bool> ready{false};

    void run() {
        auto holds = [&] {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            EXPECT_EQ(fiber_rwlock_wrlock(&rwlock), 0);
            EXPECT_EQ(fiber_event_wait(&over), 0);
            EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        };
        auto locks = [&] {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        };
        auto writes = [&] {
            EXPECT_EQ(fiber_rwlock_wrlock(&rwlock), 0);
            EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
        };
        auto sleeps = [&] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
        auto joins = [&] { EXPECT_EQ(fiber_join(sleeper, nullptr), 0); };
        auto parks = [&] {
            fiber_scope_t limit;
            EXPECT_EQ(fiber_scope_open(&limit, FIBER_SEC(500), 0), 0);
            EXPECT_EQ(fiber_yield(), 0);
        };
        auto takes = [&] { EXPECT_EQ(fiber_sem_wait(&semaphore, 1), 0); };
        auto opens = [&] {
            EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
            auto waits = [](void *event) -> int64_t { return fiber_event_wait(static_cast<fiber_event_t *>(event)); };
            EXPECT_EQ(fiber_scope_spawn(scope, &child, waits, &over), 0);
            EXPECT_EQ(fiber_scope_close(scope, nullptr), 0);
        };
        holder = start(holds);
        locker = start(locks);
        writer = start(writes);
        sleeper = start(sleeps);
        joiner = start(joins);
        parker = start(parks);
        poster = start(takes);
        parent = start(opens);
        EXPECT_EQ(fiber_sleep(0), 0);
        ready = true;
        EXPECT_EQ(fiber_event_wait(&over), 0);
        EXPECT_EQ(fiber_cancel(sleeper, nullptr), 0);
        EXPECT_EQ(fiber_wakeup(parker), 0);
        EXPECT_EQ(fiber_sem_post(&semaphore, 1), 0);
        for (fiber_t fiber : {holder, locker, writer, joiner, parker, poster, parent}) join(fiber);
    }
    void end() { EXPECT_EQ(fiber_event_set(&over), 0); }
};

// The cord that a fiber waits on has come to rest.
fiber_info_t at_rest(fiber_t fiber) {
    fiber_info_t seen{};
    await([&] {
        seen = info(fiber);
        return seen.still && seen.state == FIBER_WAITING;
    });
    return seen;
}

} // namespace

TEST(Look, TellsTheWaitsOfAnotherCord) {
    Waiting there;
    auto body = [&] { there.run(); };
    fiber_cord_t cord = start_cord(body);
    await([&] { return there.ready.load(); });
    fiber_info_t seen = at_rest(there.locker);
    EXPECT_EQ(seen.cord, cord.id);
    EXPECT_STREQ(seen.wait, "waits for a lock");
    EXPECT_EQ(seen.wait_object, reinterpret_cast<uintptr_t>(&there.mutex));
    EXPECT_EQ(seen.wait_fiber, there.holder.id);
    EXPECT_EQ(seen.wait_fd, -1);
    EXPECT_EQ(seen.wait_deadline_ns, FIBER_FOREVER);
    seen = at_rest(there.writer);
    EXPECT_STREQ(seen.wait, "waits for a lock");
    EXPECT_EQ(seen.wait_object, reinterpret_cast<uintptr_t>(&there.rwlock));
    EXPECT_EQ(seen.wait_fiber, there.holder.id);
    seen = at_rest(there.sleeper);
    EXPECT_STREQ(seen.wait, "sleeps");
    EXPECT_EQ(seen.wait_object, 0u);
    EXPECT_EQ(seen.wait_fiber, 0u);
    EXPECT_GT(seen.wait_deadline_ns, fiber_now() + FIBER_SEC(800));
    EXPECT_LT(seen.wait_deadline_ns, fiber_now() + FIBER_SEC(1000));
    seen = at_rest(there.joiner);
    EXPECT_EQ(seen.wait, "joins fiber " + hex(there.sleeper.id));
    EXPECT_EQ(seen.wait_object, there.sleeper.id);
    EXPECT_EQ(seen.wait_fiber, there.sleeper.id);
    seen = at_rest(there.parker);
    EXPECT_STREQ(seen.wait, "waits for a wakeup");
    EXPECT_GT(seen.wait_deadline_ns, fiber_now() + FIBER_SEC(300)); // its scope's
    EXPECT_LT(seen.wait_deadline_ns, fiber_now() + FIBER_SEC(500));
    seen = at_rest(there.poster);
    EXPECT_STREQ(seen.wait, "waits for a semaphore");
    EXPECT_EQ(seen.wait_object, reinterpret_cast<uintptr_t>(&there.semaphore));
    EXPECT_EQ(seen.wait_fiber, 0u);
    seen = at_rest(there.parent);
    EXPECT_STREQ(seen.wait, "waits for the children of a scope");
    EXPECT_EQ(seen.wait_object, there.scope.id);
    seen = at_rest(there.child);
    EXPECT_EQ(seen.parent_scope, there.scope.id);
    EXPECT_EQ(seen.parent, there.parent.id);
    there.end();
    join_cord(cord);
}

namespace {

// A cord that hosts two fibers. Each waits for a wakeup; the first tells why.
struct Hosting {
    std::array<fiber_op_t, 2> records{};
    std::array<fiber_t, 2> hosted{};
    std::array<char, 100> reason{};
    uint64_t target = 0;
    std::atomic<bool> hands_out{false}, may_give_back{false};

    explicit Hosting(const char *why) { std::strncpy(reason.data(), why, reason.size() - 1); }

    void run() {
        std::array<fiber_op_t *, 2> ops{};
        std::array<fiber_completion_t, 2> out{};
        for (size_t i = 0; i < 2; i++) {
            EXPECT_EQ(expect_memory(fiber_hosted_new(&hosted.at(i), nullptr, nullptr, nullptr)), 0);
            EXPECT_EQ(fiber_wakeup(hosted.at(i)), 0);
        }
        for (int taken = 0; taken < 2;) taken += fiber_exchange(nullptr, 0, out.data(), 2, FIBER_FOREVER);
        hands_out = true;
        while (!may_give_back) EXPECT_EQ(fiber_sleep(FIBER_USEC(100)), 0);
        for (size_t i = 0; i < 2; i++) {
            fiber_op_t &op = records.at(i);
            op.code = FIBER_OP_YIELD;
            op.fiber = hosted.at(i);
            if (i == 0) {
                op.flags = FIBER_OP_REASON;
                op.address = reason.data();
                op.target = target;
            }
            ops.at(i) = &op;
        }
        int ended = 0;
        int started = 2;
        while (ended < 2) {
            const int count = fiber_exchange(ops.data(), started, out.data(), 2, FIBER_FOREVER);
            started = 0;
            for (int i = 0; i < count; i++) {
                EXPECT_EQ(out.at(size_t(i)).result, 0);
                EXPECT_EQ(fiber_hosted_end(out.at(size_t(i)).fiber, nullptr), 0);
                ended++;
            }
        }
        for (fiber_t fiber : hosted) join(fiber);
    }
    void end() {
        for (fiber_t fiber : hosted) EXPECT_EQ(fiber_wakeup(fiber), 0);
    }
};

} // namespace

TEST(Look, TellsTheWaitsOfHostedFibersOfAnotherCord) {
    Hosting there("waits in Recv");
    there.target = 4711;
    auto body = [&] { there.run(); };
    fiber_cord_t cord = start_cord(body);
    await([&] { return there.hands_out.load(); });
    fiber_info_t seen = info(there.hosted[0]);
    EXPECT_EQ(seen.state, FIBER_RUNNING); // its host may run it
    EXPECT_EQ(seen.still, 0);
    EXPECT_STREQ(seen.wait, "");
    there.may_give_back = true;
    seen = at_rest(there.hosted[0]);
    EXPECT_STREQ(seen.wait, "waits in Recv");
    EXPECT_EQ(seen.wait_object, 4711u);
    EXPECT_EQ(seen.wait_fiber, 0u);
    EXPECT_EQ(seen.cord, cord.id);
    seen = at_rest(there.hosted[1]);
    EXPECT_STREQ(seen.wait, "waits for a wakeup");
    EXPECT_EQ(seen.wait_object, 0u);
    const std::string dump = dumped(0);
    EXPECT_NE(dump.find("fiber " + hex(there.hosted[0].id) + " of cord " + hex(cord.id) + ": waits in Recv"),
              std::string::npos)
        << dump;
    EXPECT_NE(dumped(FIBER_DUMP_GROUPED).find("1 fiber: waits in Recv\n    fiber " + hex(there.hosted[0].id)),
              std::string::npos);
    there.end();
    join_cord(cord);
}

// The text is the host's: the library reads as much as it needs, and control characters do no harm.
TEST(Look, KeepsTheBeginningOfAHostsReason) {
    const std::string longer = "waits\x1b" + std::string(80, 'x');
    Hosting there(longer.c_str());
    fiber_t sleeper{};
    auto sleeps = [] { EXPECT_EQ(fiber_sleep(FIBER_SEC(1000)), -ECANCELED); };
    sleeper = start(sleeps);
    there.target = sleeper.id;
    there.may_give_back = true;
    auto body = [&] { there.run(); };
    fiber_cord_t cord = start_cord(body);
    await([&] { return there.hands_out.load(); });
    fiber_info_t seen = at_rest(there.hosted[0]);
    EXPECT_EQ(std::string(seen.wait), "waits?" + std::string(57, 'x') + " " + hex(sleeper.id));
    EXPECT_EQ(seen.wait_object, sleeper.id);
    EXPECT_EQ(seen.wait_fiber, sleeper.id);
    there.end();
    join_cord(cord);
    EXPECT_EQ(fiber_cancel(sleeper, nullptr), 0);
    join(sleeper);
}

// A hosted fiber waits now for a wakeup, with a reason, now for a semaphore, while another thread looks. Each snapshot is
// of one moment: no yield is without its reason.
TEST(Look, SnapshotsOfHostedFibersAreOfOneMoment) {
    std::atomic<bool> over{false};
    std::atomic<uint64_t> id{0};
    std::array<char, 16> reason{"waits in a test"};
    fiber_sem_t semaphore = FIBER_SEM_INITIALIZER(0);
    auto body = [&] {
        fiber_t hosted{};
        EXPECT_EQ(expect_memory(fiber_hosted_new(&hosted, nullptr, nullptr, nullptr)), 0);
        EXPECT_EQ(fiber_wakeup(hosted), 0);
        fiber_completion_t out{};
        EXPECT_EQ(fiber_exchange(nullptr, 0, &out, 1, FIBER_FOREVER), 1);
        id = hosted.id;
        fiber_op_t record{};
        fiber_op_t *op = &record;
        record.fiber = hosted;
        for (bool yields = true; !over; yields = !yields) {
            record.code = yields ? FIBER_OP_YIELD : FIBER_OP_SEM_WAIT;
            record.flags = yields ? FIBER_OP_REASON : 0;
            record.address = yields ? static_cast<void *>(reason.data()) : &semaphore;
            record.target = 4711;
            record.number = 1;
            EXPECT_EQ(fiber_exchange(&op, 1, &out, 1, 0), 0);
            EXPECT_EQ(yields ? fiber_wakeup(hosted) : fiber_sem_post(&semaphore, 1), 0);
            EXPECT_EQ(fiber_exchange(nullptr, 0, &out, 1, FIBER_FOREVER), 1);
        }
        EXPECT_EQ(fiber_hosted_end(hosted, nullptr), 0);
        join(hosted);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return id.load() != 0; });
    int waits = 0;
    auto looked = [&] {
        for (int i = 0; i < often(20000, 5); i++) {
            const fiber_info_t seen = info({id});
            if (!seen.still || seen.state != FIBER_WAITING) continue;
            waits++;
            if (seen.wait_object == 4711) {
                EXPECT_STREQ(seen.wait, reason.data());
            } else {
                EXPECT_STREQ(seen.wait, "waits for a semaphore");
                EXPECT_EQ(seen.wait_object, reinterpret_cast<uintptr_t>(&semaphore));
            }
        }
        return waits > 0 || simulated(); // there the other cord stops only where the fiber does not wait
    };
    await(looked);
    over = true;
    join_cord(cord);
}

TEST(Look, TellsTheSameOfItsOwnCord) {
    Waiting here;
    auto body = [&] {
        auto looks = [&] {
            await([&] { return here.ready.load(); });
            fiber_info_t seen = at_rest(here.locker);
            EXPECT_STREQ(seen.wait, "waits for a lock");
            EXPECT_EQ(seen.wait_fiber, here.holder.id);
            seen = at_rest(here.child);
            EXPECT_STREQ(seen.wait, "waits for an event");
            EXPECT_EQ(seen.parent, here.parent.id);
            here.end();
        };
        fiber_t looker = spawn(looks);
        here.run();
        join(looker);
    };
    join_cord(start_cord(body));
}

TEST(Look, TellsNoWaitOfAFiberThatRunsIsNewOrHasEnded) {
    auto nothing = [] {};
    fiber_t fresh = create(nothing), ended = start(nothing);
    fiber_info_t seen = info(self());
    EXPECT_EQ(seen.state, FIBER_RUNNING);
    EXPECT_EQ(seen.still, 0);
    EXPECT_STREQ(seen.wait, "");
    for (fiber_t fiber : {fresh, ended}) {
        seen = info(fiber);
        EXPECT_EQ(seen.still, 1);
        EXPECT_STREQ(seen.wait, "");
        EXPECT_EQ(seen.wait_deadline_ns, FIBER_FOREVER);
        EXPECT_EQ(seen.stack_used, 0u);
    }
    EXPECT_EQ(fiber_wakeup(fresh), 0);
    join(fresh);
    join(ended);
    EXPECT_EQ(fiber_info(ended, &seen, sizeof seen), -ESRCH);
}

TEST(Look, FillsNoMoreBytesThanTheCallerHas) {
    const size_t small = offsetof(fiber_info_t, parent_scope);
    std::array<unsigned char, sizeof(fiber_info_t) + 8> bytes{};
    bytes.fill(0xab);
    EXPECT_EQ(fiber_info(self(), reinterpret_cast<fiber_info_t *>(bytes.data()), small), 0);
    EXPECT_EQ(bytes[small], 0xab);
    EXPECT_EQ(fiber_info(self(), reinterpret_cast<fiber_info_t *>(bytes.data()), bytes.size()), 0);
    EXPECT_EQ(bytes.back(), 0);
}

// A fiber of another cord waits now for the one, now for the other, while it is looked at. Each snapshot is of one
// moment: its text and its object belong together.
TEST(Look, EachSnapshotIsOfOneMoment) {
    fiber_sem_t semaphore = FIBER_SEM_INITIALIZER(0);
    fiber_event_t event = FIBER_EVENT_INITIALIZER(0);
    std::atomic<bool> done{false};
    fiber_t restless{};
    std::atomic<bool> ready{false};
    auto body = [&] {
        auto alternates = [&] {
            while (!done) {
                EXPECT_EQ(fiber_sem_wait_timeout(&semaphore, 1, FIBER_SEC(1000)), 0);
                EXPECT_EQ(fiber_event_wait_timeout(&event, FIBER_SEC(10)), 0);
            }
        };
        restless = start(alternates);
        ready = true;
        while (!done) {
            EXPECT_EQ(fiber_sem_post(&semaphore, 1), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(fiber_event_set(&event), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        EXPECT_EQ(fiber_sem_post(&semaphore, 1), 0);
        EXPECT_EQ(fiber_event_set(&event), 0);
        join(restless);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return ready.load(); });
    int waits = 0;
    auto looked = [&] {
        for (int i = 0; i < often(2000, 5); i++) {
            const fiber_info_t seen = info(restless);
            if (!seen.still || seen.state != FIBER_WAITING) continue;
            waits++;
            const int64_t left = seen.wait_deadline_ns - fiber_now();
            if (std::strcmp(seen.wait, "waits for a semaphore") == 0) {
                EXPECT_EQ(seen.wait_object, reinterpret_cast<uintptr_t>(&semaphore));
                EXPECT_GT(left, FIBER_SEC(500));
                EXPECT_LT(left, FIBER_SEC(1100));
            } else {
                EXPECT_STREQ(seen.wait, "waits for an event");
                EXPECT_EQ(seen.wait_object, reinterpret_cast<uintptr_t>(&event));
                EXPECT_LT(left, FIBER_SEC(20));
            }
        }
        return waits > 0 || simulated(); // there the other cord stops only where the fiber is not in a wait
    };
    await(looked);
    done = true;
    join_cord(cord);
}

TEST(Look, TellsTheDescriptorOfAnOperation) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    auto reads = [&] {
        char byte;
        EXPECT_EQ(fiber_read(ends[0], &byte, 1), -ECANCELED);
    };
    const fiber_t fiber = start(reads);
    EXPECT_EQ(info(self()).wait_fd, -1);
    EXPECT_EQ(info(self()).stack_used, 0u);
    EXPECT_EQ(info(fiber).wait_fd, ends[0]);
    EXPECT_EQ(info(fiber).wait_object, 0u);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(::close(ends[0]), 0);
    EXPECT_EQ(::close(ends[1]), 0);
}

TEST(Look, TellsHowMuchOfAStackIsUsed) {
    constexpr size_t bytes = 100 << 10;
    auto uses_little = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto uses_much = [] {
        std::array<volatile char, bytes> room;
        for (auto &byte : room) byte = 1;
        EXPECT_EQ(fiber_yield(), 0);
    };
    fiber_t little = start(uses_little), much = start(uses_much);
    fiber_info_t of_little = info(little), of_much = info(much);
    EXPECT_GT(of_little.stack_used, 0u);
    EXPECT_LT(of_little.stack_used, 32u << 10);
    EXPECT_GE(of_much.stack_used, bytes);
    EXPECT_LT(of_much.stack_used, of_much.stack_size);
    EXPECT_GE(of_much.stack_touched, of_much.stack_used);
    EXPECT_LE(of_much.stack_touched, of_much.stack_size);
    for (fiber_t fiber : {little, much}) {
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        join(fiber);
    }
}

namespace {

int note_fiber(fiber_t fiber, void *ids) {
    EXPECT_TRUE(static_cast<std::set<uint64_t> *>(ids)->insert(fiber.id).second);
    return 0;
}

int stop_at_the_third(fiber_t, void *count) { return ++*static_cast<int *>(count) == 3 ? 4711 : 0; }

int start_a_fiber(fiber_t fiber, void *count) {
    if (fiber.id == self().id) {
        auto nothing = [] {};
        join(spawn(nothing));
        ++*static_cast<int *>(count);
    }
    return 0;
}

} // namespace

TEST(Look, EachVisitsAllFibers) {
    Waiting there;
    auto body = [&] { there.run(); };
    fiber_cord_t cord = start_cord(body);
    await([&] { return there.ready.load(); });
    std::set<uint64_t> ids;
    EXPECT_EQ(fiber_each(note_fiber, &ids), 0);
    for (fiber_t fiber : {self(), there.holder, there.locker, there.sleeper, there.child}) {
        EXPECT_EQ(ids.count(fiber.id), 1u);
    }
    int count = 0;
    EXPECT_EQ(fiber_each(stop_at_the_third, &count), 4711);
    EXPECT_EQ(count, 3);
    count = 0;
    EXPECT_EQ(fiber_each(start_a_fiber, &count), 0);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(fiber_each(nullptr, nullptr), -EINVAL);
    there.end();
    join_cord(cord);
}

TEST(Look, ReadsTheCountersOfAnotherCord) {
    Waiting there;
    auto body = [&] { there.run(); };
    fiber_cord_t cord = start_cord(body);
    await([&] { return there.ready.load(); });
    fiber_stats_t seen{};
    await([&] {
        EXPECT_EQ(fiber_cord_stats(cord, &seen, sizeof seen), 0);
        return seen.switches >= 9;
    });
    EXPECT_EQ(seen.fibers, 10u);
    EXPECT_EQ(seen.stacks, 9u);
    EXPECT_EQ(fiber_cord_stats(cord, nullptr, sizeof seen), -EINVAL);
    EXPECT_EQ(fiber_cord_stats(cord, &seen, 0), -EINVAL);
    EXPECT_EQ(fiber_cord_stats({self().id}, &seen, sizeof seen), -EINVAL);
    there.end();
    join_cord(cord);
    EXPECT_EQ(fiber_cord_stats(cord, &seen, sizeof seen), -ESRCH);
    EXPECT_EQ(fiber_cord_stats(this_cord_handle(), &seen, sizeof seen), 0);
    EXPECT_EQ(seen.switches, stats().switches);
}

TEST(Look, ReadsTheCountersOfAPool) {
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 2), 0);
    EXPECT_EQ(fiber_pool_attr_set_task_limit(attr, 1), 0);
    fiber_pool_t pool{};
    ASSERT_EQ(expect_memory(fiber_pool_create(&pool, attr)), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    auto waits = [](void *event) -> void * {
        EXPECT_EQ(fiber_event_wait(static_cast<fiber_event_t *>(event)), 0);
        return nullptr;
    };
    for (int i = 0; i < 5; i++) EXPECT_EQ(fiber_pool_submit(pool, waits, &over), 0);
    fiber_pool_stats_t seen{};
    await([&] {
        EXPECT_EQ(fiber_pool_stats(pool, &seen, sizeof seen), 0);
        return seen.tasks_begun == 2 && seen.tasks_waiting == 3;
    });
    EXPECT_EQ(seen.threads, 2u);
    EXPECT_EQ(seen.workers, 2u);
    EXPECT_EQ(seen.closing, 0u);
    EXPECT_EQ(fiber_event_set(&over), 0);
    await([&] {
        EXPECT_EQ(fiber_pool_stats(pool, &seen, sizeof seen), 0);
        return seen.tasks_begun == 0 && seen.tasks_waiting == 0 && seen.idle == 2;
    });
    EXPECT_EQ(fiber_pool_stats(pool, nullptr, sizeof seen), -EINVAL);
    EXPECT_EQ(fiber_pool_stats(pool, &seen, 0), -EINVAL);
    EXPECT_EQ(fiber_pool_close(pool), 0);
    EXPECT_EQ(fiber_pool_stats(pool, &seen, sizeof seen), -ESRCH);
}

namespace {

// The return addresses of nested calls, innermost first, and the call that parks the innermost.
struct Nest {
    std::vector<void *> expected;
    std::function<void()> parks;
};

[[gnu::noinline]] void nested(Nest &nest, int depth) {
    nest.expected.insert(nest.expected.begin(), __builtin_return_address(0));
    if (depth) {
        nested(nest, depth - 1);
    } else {
        nest.parks();
    }
    asm volatile("" : : "r"(&nest) : "memory"); // no tail call
}

std::vector<void *> frames_of(fiber_t fiber) {
    std::vector<void *> frames(64);
    int count = 0;
    await([&] {
        count = fiber_backtrace(fiber, frames.data(), int(frames.size()));
        return count != -EBUSY;
    });
    EXPECT_GT(count, 0);
    frames.resize(size_t(std::max(count, 0)));
    return frames;
}

// Whether the frames of the nest are among these frames, one after the other.
void expect_nest(const std::vector<void *> &frames, const Nest &nest) {
    const auto found = std::search(frames.begin(), frames.end(), nest.expected.begin(), nest.expected.end());
    EXPECT_NE(found, frames.end());
    EXPECT_NE(frames.back(), nullptr); // it was followed to its end
}

} // namespace

TEST(Look, FollowsTheStackOfAParkedFiber) {
    fiber_event_t over = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);
    Nest of_parked, of_main;
    std::atomic<int> parking{0};
    of_parked.parks = of_main.parks = [&] {
        parking++;
        EXPECT_EQ(fiber_event_wait(&over), 0);
    };
    fiber_t parked{}, main_flow{};
    auto parks = [&] { nested(of_parked, 5); };
    auto body = [&] {
        main_flow = self();
        parked = start(parks);
        nested(of_main, 3);
        join(parked);
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return parking == 2 && info(main_flow).still; });
    expect_nest(frames_of(parked), of_parked);
    EXPECT_EQ(info(parked).function, reinterpret_cast<uintptr_t>(&entry<decltype(parks)>));
    expect_nest(frames_of(main_flow), of_main); // its thread sleeps on its stack
    EXPECT_EQ(fiber_event_set(&over), 0);
    join_cord(cord);
}

TEST(Look, FollowsTheStacksOfItsOwnCord) {
    Nest own, other;
    std::vector<void *> frames(64);
    own.parks = [&] { frames.resize(size_t(fiber_backtrace(self(), frames.data(), int(frames.size())))); };
    nested(own, 4);
    expect_nest(frames, own);
    other.parks = [] { EXPECT_EQ(fiber_yield(), 0); };
    auto parks = [&] { nested(other, 4); };
    fiber_t fiber = start(parks);
    expect_nest(frames_of(fiber), other);
    void *first = nullptr;
    EXPECT_EQ(fiber_backtrace(fiber, &first, 1), 1);
    EXPECT_EQ(first, frames_of(fiber).front());
    EXPECT_EQ(fiber_backtrace(fiber, &first, 0), -EINVAL);
    EXPECT_EQ(fiber_backtrace(fiber, nullptr, 1), -EINVAL);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(fiber_backtrace(fiber, &first, 1), -ESRCH);
    auto nothing = [] {};
    fiber_t fresh = create(nothing);
    EXPECT_EQ(fiber_backtrace(fresh, &first, 1), 0);
    EXPECT_EQ(info(fresh).function, reinterpret_cast<uintptr_t>(&entry<decltype(nothing)>));
    EXPECT_EQ(fiber_wakeup(fresh), 0);
    join(fresh);
}

TEST(Look, SaysThatAFiberRuns) {
    NEEDS_THREADS();
    std::atomic<bool> runs{false}, done{false};
    fiber_t hog{};
    auto body = [&] {
        hog = self();
        runs = true;
        while (!done) continue;
    };
    fiber_cord_t cord = start_cord(body);
    await([&] { return runs.load(); });
    void *frame = nullptr;
    EXPECT_EQ(fiber_backtrace(hog, &frame, 1), -EBUSY);
    EXPECT_EQ(info(hog).still, 0);
    done = true;
    join_cord(cord);
}

// A fiber's stack is overwritten, and repaired after each look: nothing crashes, and the end of the frames says that
// they are not all.
// AddressSanitizer takes the stack of a parked fiber for a stack that is not in use.
__attribute__((no_sanitize("address"))) void copy_words(uintptr_t to, uintptr_t from, size_t bytes) {
    auto *target = reinterpret_cast<volatile uint64_t *>(to);
    const auto *source = reinterpret_cast<const volatile uint64_t *>(from);
    for (size_t i = 0; i < bytes / sizeof *target; i++) target[i] = source[i];
}
__attribute__((no_sanitize("address"))) uintptr_t find_word(uintptr_t from, uintptr_t to, uintptr_t word) {
    for (uintptr_t at = from; at < to; at += sizeof word) {
        if (*reinterpret_cast<volatile uintptr_t *>(at) == word) return at;
    }
    return 0;
}

TEST(Look, SurvivesAStackThatIsOverwritten) {
    auto parks = [] {
        std::array<volatile char, 4096> room;
        room[0] = 1;
        EXPECT_EQ(fiber_yield(), 0);
        EXPECT_EQ(room[0], 1);
    };
    fiber_t fiber = start(parks);
    const fiber_info_t about = info(fiber);
    const size_t used = about.stack_used;
    // The top of the stack is up to 960 bytes below the end of the memory.
    const uintptr_t end = about.stack_low + about.stack_size;
    std::vector<void *> frames(64);
    const int whole = fiber_backtrace(fiber, frames.data(), int(frames.size()));
    ASSERT_GT(whole, 2);
    // Where the saved frame has the innermost address.
    const uintptr_t low = find_word(end - used - 1024, end, reinterpret_cast<uintptr_t>(frames[0]));
    ASSERT_NE(low, 0u);
    std::vector<uint64_t> saved((end - low) / sizeof(uint64_t));
    const auto saved_at = reinterpret_cast<uintptr_t>(saved.data());
    copy_words(saved_at, low, end - low);
    uint64_t random = 4711;
    for (int round = 0; round < often(300, 10); round++) {
        for (uintptr_t at = low + 8; at + 8 <= end; at += 8) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const uint64_t value = round % 3 == 0   ? random
                                   : round % 3 == 1 ? about.stack_low + random % about.stack_size
                                                    : uint64_t(-8);
            copy_words(at, reinterpret_cast<uintptr_t>(&value), sizeof value);
        }
        const int count = fiber_backtrace(fiber, frames.data(), int(frames.size()));
        copy_words(low, saved_at, end - low);
        ASSERT_GT(count, 0);
        ASSERT_LE(count, int(frames.size()));
        ASSERT_TRUE(count == int(frames.size()) || frames[size_t(count) - 1] == nullptr);
    }
    EXPECT_EQ(fiber_backtrace(fiber, frames.data(), int(frames.size())), whole);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
}
