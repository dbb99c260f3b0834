// SPDX-License-Identifier: MIT OR Apache-2.0
// Hooks of a cord, tags of fibers, ambient values.
#include "conformance.h"
#include "cord_support.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>

using namespace support;

namespace {

// The calls of one cord's hooks, as text: a tag's pointer is the letter of its fiber, '-' is none.
struct Told {
    Trace log;
    bool polls = false;
    int poll_result = 0;
    int refusals = 0; // of a hook that tried to switch
    fiber_t seen{};   // the calling fiber of the last switch hook

    static char letter(fiber_tag_t tag) { return tag.kind ? char(reinterpret_cast<intptr_t>(tag.pointer)) : '-'; }
    static Told &of(void *data) {
        Told &told = *static_cast<Told *>(data);
        told.refusals += fiber_reschedule() == -EPERM;
        EXPECT_EQ(fiber_self(&told.seen), 0);
        errno = EDOM; // which the switch must hide
        return told;
    }
    void add(char what, fiber_tag_t a) {
        log += what;
        log += letter(a);
        log += ' ';
    }
    void set() {
        fiber_hooks_t hooks{};
        hooks.data = this;
        hooks.before_switch = [](void *data, fiber_tag_t from, fiber_tag_t to) {
            Told &told = of(data);
            told.add('b', from);
            told.log.back() = letter(to);
            told.log += ' ';
        };
        hooks.after_switch = [](void *data, fiber_tag_t from, fiber_tag_t to) {
            Told &told = of(data);
            told.add('a', from);
            told.log.back() = letter(to);
            told.log += ' ';
        };
        hooks.start = [](void *data, fiber_tag_t tag) { of(data).add('s', tag); };
        hooks.exit = [](void *data, fiber_tag_t tag) { of(data).add('e', tag); };
        hooks.destroy = [](void *data, fiber_t fiber, fiber_tag_t tag) {
            EXPECT_GE(fiber_state(fiber), 0);
            of(data).add('d', tag);
        };
        if (polls) {
            hooks.before_poll = [](void *data) { of(data).log += "( "; };
            hooks.after_poll = [](void *data) {
                Told &told = of(data);
                told.log += ") ";
                const int result = told.poll_result;
                told.poll_result = 0;
                return result;
            };
        }
        EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
    }
    ~Told() { EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0); }
};

void tag(fiber_t fiber, char letter) { EXPECT_EQ(fiber_tag_set(fiber, {pointer(letter), 1}), 0); }

TEST(Hooks, AreCalledThroughTheLifeOfAFiber) {
    Told told;
    told.set();
    errno = ERANGE;
    auto body = [] {
        errno = EILSEQ;
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(errno, EILSEQ);
        return pointer(1);
    };
    fiber_t fiber = create(body);
    tag(fiber, 'x');
    EXPECT_EQ(told.log, "");
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(told.log, "b-x a-x sx bx- ax- ");
    EXPECT_EQ(join(fiber), pointer(1));
    EXPECT_EQ(told.log, "b-x a-x sx bx- ax- b-x a-x ex dx ");
    EXPECT_EQ(errno, ERANGE);
    EXPECT_EQ(told.refusals, 9);
}

TEST(Hooks, AreNotCalledForFibersWithoutATag) {
    Told told;
    told.set();
    auto body = [] { EXPECT_EQ(fiber_reschedule(), 0); };
    join(spawn(body));
    EXPECT_EQ(told.log, "");
    EXPECT_EQ(told.refusals, 0);
}

TEST(Hooks, CallingFiberInASwitchBetweenTwoFibers) {
    Told told;
    auto body = [] {
        EXPECT_EQ(fiber_yield(), 0);
        EXPECT_EQ(fiber_yield(), 0);
    };
    fiber_t x = start(body), y = start(body); // both parked before there are hooks
    tag(x, 'x');
    tag(y, 'y');
    told.set();
    EXPECT_EQ(fiber_wakeup(x), 0);
    EXPECT_EQ(fiber_wakeup(y), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(told.log, "b-x a-x bxy axy by- ay- ");
    EXPECT_EQ(told.seen.id, self().id);
    told.log = "";
    void *out;
    EXPECT_EQ(fiber_transfer(x, nullptr, &out), 1);
    EXPECT_EQ(fiber_wakeup(y), 0);
    join(x);
    join(y);
    EXPECT_EQ(told.log, "b-x a-x ex dx b-y a-y ey dy ");
}

TEST(Hooks, DestroyIsCalledOnceHoweverAFiberEnds) {
    Told told;
    told.set();
    auto body = [] {};
    fiber_t never = create(body), cancelled = create(body), detached = create(body), taken = create(body);
    tag(never, 'n');
    tag(cancelled, 'c');
    tag(detached, 't');
    tag(taken, 'u');
    EXPECT_EQ(fiber_tag_set(taken, {nullptr, 0}), 0);
    EXPECT_EQ(fiber_cancel(cancelled, nullptr), 0);
    EXPECT_EQ(told.log, "");
    EXPECT_EQ(join(cancelled), FIBER_CANCELLED);
    EXPECT_EQ(told.log, "dc ");
    EXPECT_EQ(fiber_detach(detached), 0);
    EXPECT_EQ(fiber_start(detached), 0);
    EXPECT_EQ(told.log, "dc b-t a-t st et dt ");
    EXPECT_EQ(fiber_start(taken), 0);
    join(taken);
    EXPECT_EQ(told.log, "dc b-t a-t st et dt ");
    EXPECT_EQ(fiber_cancel(never, nullptr), 0);
    EXPECT_EQ(fiber_detach(never), 0);
    EXPECT_EQ(told.log, "dc b-t a-t st et dt dn ");
}

TEST(Hooks, ADestroyedFiberCannotBeDetachedOrJoined) {
    int told = 0;
    fiber_hooks_t hooks{};
    hooks.data = &told;
    hooks.destroy = [](void *data, fiber_t fiber, fiber_tag_t) {
        ++*static_cast<int *>(data);
        EXPECT_EQ(fiber_detach(fiber), -EINVAL);
        EXPECT_LT(fiber_join(fiber, nullptr), 0);
        EXPECT_EQ(fiber_tag_set(fiber, {nullptr, 1}), -ESRCH);
    };
    EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
    auto body = [] {};
    fiber_t joined = create(body), waited_for = create(body), detached = create(body), hosted{};
    for (const fiber_t fiber : {joined, waited_for, detached}) tag(fiber, 'x');
    EXPECT_EQ(fiber_start(joined), 0);
    join(joined);
    EXPECT_EQ(fiber_wakeup(waited_for), 0);
    join(waited_for);
    EXPECT_EQ(fiber_start(detached), 0);
    EXPECT_EQ(fiber_detach(detached), 0);
    ASSERT_EQ(fiber_hosted_new(
                  &hosted, nullptr, [](void *, int64_t) { return FIBER_STEP_END; }, nullptr),
              0);
    tag(hosted, 'h');
    EXPECT_EQ(fiber_wakeup(hosted), 0);
    join(hosted);
    EXPECT_EQ(told, 4);
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
}

TEST(Hooks, AThreadThatExitsCallsTheHooksOfItsFibers) {
    std::string log;
    auto in_it = [&] {
        fiber_hooks_t hooks{};
        hooks.data = &log;
        hooks.destroy = [](void *data, fiber_t, fiber_tag_t it) {
            *static_cast<std::string *>(data) += Told::letter(it);
            EXPECT_EQ(fiber_yield(), -EPERM);
        };
        EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
        static auto body = [] { fiber_yield(); };
        fiber_attr_t *attr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_daemon(attr, 1), 0);
        fiber_t fiber = create(body, attr);
        tag(fiber, 'x');
        EXPECT_EQ(fiber_start(fiber), 0);
        tag(self(), 'm');
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    };
    in_thread(in_it);
    std::sort(log.begin(), log.end());
    EXPECT_EQ(log, "mx");
}

// Its main flow is still there, and no fiber is made any more.
TEST(Hooks, AnExitingThreadsDestroyHookMayCallSomeFunctions) {
    int told = 0, refused = 0;
    auto in_it = [&] {
        static int *refusals;
        static fiber_t main_flow;
        refusals = &refused;
        main_flow = self();
        fiber_hooks_t hooks{};
        hooks.data = &told;
        hooks.destroy = [](void *data, fiber_t, fiber_tag_t) {
            ++*static_cast<int *>(data);
            EXPECT_EQ(self().id, main_flow.id);
            EXPECT_EQ(fiber_state(main_flow), FIBER_RUNNING);
            static auto body = [] {};
            fiber_t fiber{};
            *refusals += fiber_spawn(&fiber, entry<decltype(body)>, &body) == -EPIPE;
            *refusals += fiber_hosted_new(&fiber, nullptr, nullptr, nullptr) == -EPIPE;
        };
        EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
        static auto body = [] { fiber_yield(); };
        fiber_attr_t *attr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_daemon(attr, 1), 0);
        for (int i = 0; i < 3; i++) {
            fiber_t fiber = create(body, attr);
            tag(fiber, 'x');
            EXPECT_EQ(fiber_start(fiber), 0);
        }
        tag(self(), 'm');
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    };
    in_thread(in_it);
    EXPECT_EQ(told, 4);
    EXPECT_EQ(refused, 8);
}

// The fiber neither runs, nor ends a second time, nor frees its argument.
TEST(Hooks, AnExitingThreadsDestroyHookSeesADeadFiber) {
    static int told, freed;
    told = freed = 0;
    auto in_it = [] {
        fiber_hooks_t hooks{};
        hooks.destroy = [](void *, fiber_t fiber, fiber_tag_t) {
            told++;
            EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
            EXPECT_EQ(fiber_wakeup(fiber), 0);
            EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0);
            EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
            EXPECT_LT(fiber_hosted_end(fiber, nullptr), 0);
            EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        };
        EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
        static auto body = [] { fiber_sleep(FIBER_FOREVER); };
        fiber_attr_t *attr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_daemon(attr, 1), 0);
        ASSERT_EQ(fiber_attr_set_free_arg(attr, [](void *) { freed++; }), 0);
        auto step = [](void *, int64_t) { return FIBER_STEP_YIELD; };
        fiber_t unrun = create(body, attr), woken = create(body, attr), waiting = create(body, attr), detached{},
                hosted{}, hosted_waiting{};
        for (const fiber_t fiber : {waiting, woken}) tag(fiber, 'x');
        EXPECT_EQ(fiber_start(waiting), 0);
        EXPECT_EQ(fiber_wakeup(woken), 0);
        ASSERT_EQ(fiber_attr_set_detached(attr, 1), 0);
        detached = create(body, attr);
        ASSERT_EQ(fiber_hosted_new(&hosted, attr, step, nullptr), 0);
        ASSERT_EQ(fiber_hosted_new(&hosted_waiting, attr, step, nullptr), 0);
        EXPECT_EQ(fiber_wakeup(hosted_waiting), 0);
        for (const fiber_t fiber : {unrun, detached, hosted, hosted_waiting}) tag(fiber, 'y');
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    };
    in_thread(in_it);
    EXPECT_EQ(told, 6);
    EXPECT_EQ(freed, 5); // of the one that ran it was used
}

TEST(Hooks, AHostedFibersTurnIsASwitch) {
    Told told;
    told.set();
    fiber_t fiber{};
    int turns = 0;
    ASSERT_EQ(
        fiber_hosted_new(
            &fiber, nullptr,
            [](void *user, int64_t) { return ++*static_cast<int *>(user) < 2 ? FIBER_STEP_AGAIN : FIBER_STEP_END; },
            &turns),
        0);
    tag(fiber, 'h');
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_EQ(told.log, "b-h a-h bh- ah- b-h a-h bh- ah- b-h a-h eh dh ");
    fiber_completion_t out[1];
    told.log = "";
    ASSERT_EQ(fiber_hosted_new(&fiber, nullptr, nullptr, nullptr), 0);
    tag(fiber, 'h');
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(told.log, "");
    EXPECT_EQ(fiber_hosted_enter(fiber), 0);
    EXPECT_EQ(fiber_hosted_leave(), 0);
    EXPECT_EQ(told.log, "b-h a-h bh- ah- ");
    EXPECT_EQ(fiber_hosted_end(fiber, nullptr), 0);
    join(fiber);
}

TEST(Hooks, MayWakeAFiberBeforeItsFirstRun) {
    static fiber_t woken;
    static int runs, permits;
    using Hook = void (*)(void *, fiber_tag_t, fiber_tag_t);
    static auto wake = [] {
        const int error = fiber_wakeup_value(woken, pointer(7));
        EXPECT_TRUE(error == 0 || error == -EBUSY) << error; // one is on its way
    };
    const Hook wakes = [](void *, fiber_tag_t, fiber_tag_t) { wake(); };
    fiber_hooks_t all[3] = {};
    all[0].before_switch = wakes;
    all[1].after_switch = wakes;
    all[2].start = [](void *, fiber_tag_t) { wake(); };
    for (const fiber_hooks_t &hooks : all) {
        for (const bool started : {false, true}) {
            runs = permits = 0;
            auto body = [&] {
                runs++;
                permits += fiber_yield_timeout(0) == 0;
            };
            woken = create(body);
            EXPECT_EQ(fiber_tag_set(woken, {nullptr, 1}), 0);
            EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
            EXPECT_EQ(started ? fiber_start(woken) : fiber_wakeup(woken), 0);
            expect_joined(fiber_join(woken, nullptr));
            EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
            EXPECT_EQ(runs, 1);
            EXPECT_LE(permits, 1);
        }
    }
}

TEST(Hooks, PollHooksLearnWhetherThePollBlocks) {
    Told told;
    told.polls = true;
    told.set();
    auto other = [] { EXPECT_EQ(fiber_reschedule(), 0); };
    join(spawn(other));
    EXPECT_EQ(fiber_sleep(0), 0);
    EXPECT_EQ(told.log, "");
    // On a busy machine the time may have passed before the poll, which then does not block.
    for (int64_t ns = FIBER_MSEC(2); told.log.empty() && ns < FIBER_SEC(60); ns *= 2) EXPECT_EQ(fiber_sleep(ns), 0);
    std::string log = told.log;
    ASSERT_NE(log, "");
    while (!log.empty()) { // one sleep may be several of the thread's
        EXPECT_EQ(log.substr(0, 4), "( ) ");
        log.erase(0, 4);
    }
    // The wait of the main flow, wherever the poll was.
    auto waits = [] { EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0); };
    fiber_t fiber = spawn(waits);
    told.poll_result = -EINTR;
    EXPECT_EQ(fiber_sleep(FIBER_SEC(60)), -EINTR);
    void *value = pointer(1);
    EXPECT_EQ(fiber_interrupted(&value), 1);
    EXPECT_EQ(value, nullptr);
    join(fiber);
    told.log.clear(); // how often the thread has slept is no trace of what happened
}

TEST(Hooks, AFiberThatAPollHookMakesRunnableRuns) {
    fiber_t waiting{};
    fiber_hooks_t hooks{};
    hooks.data = &waiting;
    hooks.before_poll = [](void *data) { fiber_wakeup(*static_cast<fiber_t *>(data)); };
    auto body = [] { EXPECT_EQ(fiber_yield_timeout(FIBER_SEC(600)), 0); };
    waiting = start(body);
    EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
    join(waiting);
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
}

TEST(Hooks, MisuseIsAnError) {
    fiber_hooks_t hooks{};
    EXPECT_EQ(fiber_hooks_set(&hooks, 0), -EINVAL);
    hooks.before_poll = [](void *) { ADD_FAILURE() << "half of a pointer was taken for one"; };
    for (size_t size : {size_t{1}, sizeof hooks - 1, sizeof hooks - 4, sizeof hooks - 12, sizeof hooks + 4})
        EXPECT_EQ(fiber_hooks_set(&hooks, size), -EINVAL) << size;
    hooks.before_poll = nullptr;
    EXPECT_EQ(fiber_hooks_set(&hooks, 8), 0); // of an older header
    struct {
        fiber_hooks_t known;
        void *later;
    } newer{};
    EXPECT_EQ(fiber_hooks_set(&newer.known, sizeof newer), 0);
    newer.later = &newer;
    EXPECT_EQ(fiber_hooks_set(&newer.known, sizeof newer), -ENOTSUP);
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
    EXPECT_EQ(fiber_tag_set(self(), {nullptr, FIBER_TAG_KIND_MAX + 1}), -EINVAL);
    EXPECT_EQ(fiber_tag_set(self(), {&hooks, 0}), -EINVAL);
    EXPECT_EQ(fiber_tag_set({}, {nullptr, 1}), -EINVAL);
    EXPECT_EQ(fiber_tag_get(self(), nullptr), -EINVAL);
    fiber_tag_t got{&hooks, 5};
    EXPECT_EQ(fiber_tag_get(self(), &got), 0);
    EXPECT_EQ(got.kind, 0u);
    EXPECT_EQ(got.pointer, nullptr);
    EXPECT_EQ(fiber_tag_set(self(), {&hooks, FIBER_TAG_KIND_MAX}), 0);
    EXPECT_EQ(fiber_tag_get(self(), &got), 0);
    EXPECT_EQ(got.kind, FIBER_TAG_KIND_MAX);
    EXPECT_EQ(got.pointer, &hooks);
    const fiber_t me = self();
    in_thread([&] {
        EXPECT_EQ(fiber_tag_set(me, {nullptr, 1}), -EPERM);
        EXPECT_EQ(fiber_tag_get(me, &got), -EPERM);
    });
    EXPECT_EQ(fiber_tag_set(self(), {nullptr, 0}), 0);
    auto body = [] {};
    fiber_t ended = start(body);
    EXPECT_EQ(fiber_tag_set(ended, {nullptr, 1}), -ESRCH);
    join(ended);
}

// ---- Ambient values -------------------------------------------------------------------------------------------------

std::string *applied; // the calls of apply: "old>now", and of the destructors, "~"
void *in_force;

char digit(void *value) { return value ? char('0' + reinterpret_cast<intptr_t>(value)) : '-'; }

void apply_it(void *old, void *now) {
    EXPECT_EQ(old, in_force);
    EXPECT_EQ(fiber_reschedule(), -EPERM);
    errno = EDOM;
    in_force = now;
    *applied += digit(old);
    *applied += '>';
    *applied += digit(now);
    *applied += ' ';
}

struct AmbientKey {
    fiber_key_t key{};
    Trace log;
    AmbientKey() {
        applied = &log;
        in_force = nullptr;
        EXPECT_EQ(fiber_key_create_ambient(
                      &key,
                      [](void *value) {
                          *applied += '~';
                          *applied += digit(value);
                          *applied += ' ';
                      },
                      apply_it),
                  0);
    }
    ~AmbientKey() { EXPECT_EQ(fiber_key_delete(key), 0); }
};

TEST(Ambient, IsInForceWhileItsFiberRuns) {
    AmbientKey ambient;
    auto body_of = [&](int number) {
        return [&ambient, number] {
            EXPECT_EQ(in_force, nullptr);
            EXPECT_EQ(fiber_key_set(ambient.key, pointer(number)), 0);
            for (int i = 0; i < 3; i++) {
                EXPECT_EQ(in_force, pointer(number));
                EXPECT_EQ(fiber_reschedule(), 0);
            }
            EXPECT_EQ(fiber_key_get(ambient.key), pointer(number));
        };
    };
    auto one = body_of(1), two = body_of(2);
    fiber_t a = spawn(one), b = spawn(two);
    join(a);
    join(b);
    EXPECT_EQ(in_force, nullptr);
    EXPECT_EQ(ambient.log, "->1 1>- ->2 2>1 1>2 2>1 1>2 2>1 1>- ~1 ->2 2>- ~2 ");
}

TEST(Ambient, EqualValuesAreNotAppliedAgain) {
    AmbientKey ambient;
    auto body = [&] {
        EXPECT_EQ(fiber_key_set(ambient.key, pointer(4)), 0);
        EXPECT_EQ(fiber_key_set(ambient.key, pointer(4)), 0);
        for (int i = 0; i < 3; i++) EXPECT_EQ(fiber_reschedule(), 0);
    };
    EXPECT_EQ(fiber_key_set(ambient.key, pointer(4)), 0);
    EXPECT_EQ(ambient.log, "->4 ");
    fiber_t a = spawn(body), b = spawn(body);
    join(a);
    join(b);
    EXPECT_EQ(fiber_key_set(ambient.key, nullptr), 0);
    EXPECT_EQ(in_force, nullptr);
    EXPECT_EQ(std::count(ambient.log.begin(), ambient.log.end(), '~'), 2);
}

TEST(Ambient, OfAHostedFiber) {
    AmbientKey ambient;
    static fiber_key_t key;
    key = ambient.key;
    fiber_t fiber{};
    int turns = 0;
    ASSERT_EQ(fiber_hosted_new(
                  &fiber, nullptr,
                  [](void *user, int64_t) {
                      int &turn = *static_cast<int *>(user);
                      EXPECT_EQ(in_force, turn ? pointer(7) : nullptr);
                      EXPECT_EQ(fiber_key_set(key, pointer(7)), 0);
                      return ++turn < 3 ? FIBER_STEP_AGAIN : FIBER_STEP_END;
                  },
                  &turns),
              0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    while (turns < 3) {
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(in_force, nullptr);
    }
    join(fiber);
    EXPECT_EQ(ambient.log, "->7 7>- ->7 7>- ->7 7>- ->7 7>- ~7 ");
}

// Neither the hosted fiber nor its host had a value when the step was called, so the switch back would not have called
// apply.
TEST(Ambient, TheFirstOfAStepIsNotInForceAfterIt) {
    AmbientKey ambient;
    static fiber_key_t key;
    static int polls;
    key = ambient.key;
    polls = 0;
    fiber_t fiber{};
    fiber_op_t op{};
    ASSERT_EQ(fiber_hosted_new(
                  &fiber, nullptr,
                  [](void *user, int64_t) {
                      if (fiber_key_get(key)) return FIBER_STEP_END;
                      EXPECT_EQ(fiber_key_set(key, pointer(6)), 0);
                      fiber_hooks_t hooks{};
                      hooks.before_poll = [](void *) {
                          polls++;
                          EXPECT_EQ(in_force, nullptr);
                      };
                      EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
                      fiber_op_t &sleep = *static_cast<fiber_op_t *>(user);
                      sleep.code = FIBER_OP_SLEEP;
                      sleep.number = FIBER_MSEC(100); // not over before the poll
                      EXPECT_EQ(fiber_op_start(&sleep), 0);
                      return FIBER_STEP_WAIT;
                  },
                  &op),
              0);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_GT(polls, 0);
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
    std::string log = ambient.log;
    const std::string a_turn = "->6 6>- ";
    while (log.compare(0, a_turn.size(), a_turn) == 0) log.erase(0, a_turn.size());
    EXPECT_EQ(log, "~6 ") << ambient.log;
}

TEST(Ambient, ADeletedKeyIsNotApplied) {
    fiber_key_t key{};
    Trace log;
    applied = &log;
    in_force = nullptr;
    ASSERT_EQ(fiber_key_create_ambient(&key, nullptr, apply_it), 0);
    EXPECT_EQ(fiber_key_set(key, pointer(3)), 0);
    EXPECT_EQ(fiber_key_delete(key), 0);
    auto body = [] {};
    join(spawn(body));
    EXPECT_EQ(log, "->3 ");
    EXPECT_EQ(fiber_key_create_ambient(nullptr, nullptr, apply_it), -EINVAL);
    EXPECT_EQ(fiber_key_create_ambient(&key, nullptr, nullptr), -EINVAL);
    // Its place is another key's.
    AmbientKey again;
    EXPECT_EQ(fiber_key_set(again.key, pointer(5)), 0);
    EXPECT_EQ(again.log, "->5 ");
    EXPECT_EQ(fiber_key_set(again.key, nullptr), 0);
}

TEST(Ambient, ManyKeysEachItsOwn) {
    static std::array<void *, 20> now;
    now = {};
    fiber_key_t keys[3];
    auto check = [&](intptr_t a, intptr_t b, intptr_t c) {
        EXPECT_EQ(now[0], pointer(a));
        EXPECT_EQ(now[1], pointer(b));
        EXPECT_EQ(now[2], pointer(c));
    };
    ASSERT_EQ(fiber_key_create_ambient(&keys[0], nullptr, [](void *, void *value) { now[0] = value; }), 0);
    ASSERT_EQ(fiber_key_create_ambient(&keys[1], nullptr, [](void *, void *value) { now[1] = value; }), 0);
    ASSERT_EQ(fiber_key_create_ambient(&keys[2], nullptr, [](void *, void *value) { now[2] = value; }), 0);
    auto body = [&] {
        EXPECT_EQ(fiber_key_set(keys[2], pointer(9)), 0);
        EXPECT_EQ(fiber_key_set(keys[0], pointer(8)), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        check(8, 0, 9);
    };
    EXPECT_EQ(fiber_key_set(keys[1], pointer(1)), 0);
    fiber_t fiber = spawn(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    check(0, 1, 0);
    join(fiber);
    check(0, 1, 0);
    EXPECT_EQ(fiber_key_set(keys[1], nullptr), 0);
    check(0, 0, 0);
    for (const fiber_key_t key : keys) EXPECT_EQ(fiber_key_delete(key), 0);
}

// Else it would be called within itself, and so on.
TEST(Ambient, ItsApplySetsOtherKeysButNotItsOwn) {
    static fiber_key_t one, two;
    static std::string calls; // the value set, and by which key; "?": refused
    calls.clear();
    auto sets = [](char who, fiber_key_t key, int number) {
        if (calls.size() > 100) return;
        const int error = fiber_key_set(key, pointer(number));
        EXPECT_TRUE(error == 0 || error == -EBUSY) << error;
        calls += who;
        calls += error ? '?' : char('0' + number);
        calls += ' ';
    };
    static auto set_by = sets;
    ASSERT_EQ(fiber_key_create_ambient(&one, nullptr,
                                       [](void *, void *) {
                                           set_by('a', one, 0);
                                           set_by('a', one, 5);
                                           set_by('a', two, 6);
                                       }),
              0);
    ASSERT_EQ(fiber_key_create_ambient(&two, nullptr, [](void *, void *) { set_by('b', one, 7); }), 0);
    EXPECT_EQ(fiber_key_set(one, pointer(1)), 0);
    EXPECT_EQ(calls, "a? a? b? a6 ");
    EXPECT_EQ(fiber_key_get(one), pointer(1));
    EXPECT_EQ(fiber_key_get(two), pointer(6));
    calls.clear();
    EXPECT_EQ(fiber_key_set(two, pointer(2)), 0);
    EXPECT_EQ(calls, "a? a? a? b7 ");
    EXPECT_EQ(fiber_key_get(one), pointer(7));
    EXPECT_EQ(fiber_key_get(two), pointer(2));
    EXPECT_EQ(fiber_key_delete(two), 0);
    EXPECT_EQ(fiber_key_delete(one), 0);
}

} // namespace
