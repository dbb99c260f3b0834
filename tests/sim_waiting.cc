// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs so small that all their orders of events can be tried (fiberrt-sim --exhaustive): two or three fibers of one
// cord meet at one primitive, and one of them is cancelled, interrupted or timed out meanwhile. With a cord for each
// fiber there are many more orders. Each program ends with 1 if something is lost, doubled or left behind, or if a
// fiber hangs.
//
//     sim_waiting mutex|death|cond|sem|event|rwlock|channel|rendezvous|select|join|scope
//                 cancel|interrupt|timeout [cords]
#include <fiberrt.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPECT(condition)                                                                \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "sim_waiting: line %d: not so: %s\n", __LINE__, #condition); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

namespace {

const char *disturbance = "cancel";
bool cords = false;

bool is(const char *what) { return strcmp(disturbance, what) == 0; }

// The timeout of a call that must time out: as long as the event takes that may end it.
int64_t patience() { return is("timeout") ? FIBER_USEC(10) : FIBER_FOREVER; }

bool early(int result) { return result == (is("cancel") ? -ECANCELED : is("interrupt") ? -EINTR : -ETIMEDOUT); }

// A fiber that runs a function.
struct Actor {
    int (*act)();
    int result = -9999;
    fiber_t fiber{};
    fiber_cord_t cord{};
    std::atomic<bool> begun{false};

    explicit Actor(int (*act)()) : act(act) {}

    static void *run(void *argument) {
        auto *actor = static_cast<Actor *>(argument);
        EXPECT(fiber_self(&actor->fiber) == 0);
        actor->begun = true;
        actor->result = actor->act();
        return nullptr;
    }
    // run() on a fiber of the cord's, as its main flow cannot be joined.
    static void *run_cord(void *argument) {
        fiber_t fiber;
        EXPECT(fiber_spawn(&fiber, run, argument) == 0);
        EXPECT(fiber_join(fiber, nullptr) == 0);
        return nullptr;
    }
    void begin() {
        if (cords)
            EXPECT(fiber_cord_start(&cord, nullptr, run_cord, this) == 0);
        else
            EXPECT(fiber_spawn(&fiber, run, this) == 0);
    }
    void end() {
        if (cord.id) {
            EXPECT(fiber_cord_join(cord, nullptr) == 0);
        } else
            EXPECT(fiber_join(fiber, nullptr) == 0);
    }
    void disturb() const {
        if (is("timeout")) return;
        while (!begun) EXPECT(fiber_sleep(FIBER_USEC(1)) == 0);
        const int result = is("cancel") ? fiber_cancel(fiber, nullptr) : fiber_interrupt(fiber, nullptr);
        EXPECT(result == 0 || result == -ESRCH); // it may have ended
    }
};

fiber_mutex_t mutex;
fiber_cond_t cond;
fiber_sem_t sem;
fiber_event_t event;
fiber_rwlock_t rwlock;
fiber_chan_t chan, other_chan;
int inside, tokens, sent, received;

// The victim may be ended early; the other fiber must not be, and gets the items that the victim did not take.
int run_both(Actor &victim, Actor &other, void (*give)()) {
    victim.begin();
    other.begin();
    EXPECT(fiber_sleep(FIBER_USEC(10)) == 0);
    victim.disturb();
    if (give) give();
    victim.end();
    return victim.result;
}

int lock_victim() {
    const int result = fiber_mutex_lock_timeout(&mutex, patience());
    if (result) return result;
    EXPECT(inside++ == 0);
    fiber_reschedule();
    inside--;
    EXPECT(fiber_mutex_unlock(&mutex) == 0);
    return 0;
}
int lock_other() {
    EXPECT(fiber_mutex_lock(&mutex) == 0);
    EXPECT(inside++ == 0);
    EXPECT(fiber_reschedule() == 0);
    inside--;
    EXPECT(fiber_mutex_unlock(&mutex) == 0);
    return 0;
}
void test_mutex() {
    Actor victim(lock_victim), other(lock_other);
    EXPECT(fiber_mutex_lock(&mutex) == 0);
    const int result = run_both(victim, other, [] { EXPECT(fiber_mutex_unlock(&mutex) == 0); });
    EXPECT(result == 0 || early(result));
    other.end();
    EXPECT(fiber_mutex_destroy(&mutex) == 0);
}

int die_holding() {
    EXPECT(fiber_mutex_lock(&mutex) == 0);
    EXPECT(fiber_sleep(FIBER_USEC(10)) == 0); // the others come, and one is disturbed, before or after the death
    return 0;
}
int lock_after_death(int64_t timeout_ns) {
    const int result = fiber_mutex_lock_timeout(&mutex, timeout_ns);
    if (result == 0 || result == -EOWNERDEAD) EXPECT(fiber_mutex_unlock(&mutex) == 0);
    return result;
}
// Whether a lock was obtained; counts those that reported the holder's death.
bool locked(int result, int *told) {
    *told += result == -EOWNERDEAD;
    return result == 0 || result == -EOWNERDEAD;
}
void test_death() {
    Actor dies(die_holding), victim([] { return lock_after_death(patience()); });
    Actor other([] { return lock_after_death(FIBER_FOREVER); });
    dies.begin();
    const int result = run_both(victim, other, nullptr);
    dies.end();
    other.end();
    int told = 0;
    EXPECT(locked(result, &told) || early(result));
    EXPECT(locked(other.result, &told));
    EXPECT(locked(fiber_mutex_lock(&mutex), &told));
    EXPECT(told > 0);
    EXPECT(fiber_mutex_unlock(&mutex) == 0);
    EXPECT(fiber_mutex_destroy(&mutex) == 0);
}

int cond_wait(int64_t timeout_ns) {
    EXPECT(fiber_mutex_lock(&mutex) == 0);
    int result = 0;
    while (tokens == 0 && result == 0) result = fiber_cond_wait_timeout(&cond, &mutex, timeout_ns);
    if (tokens > 0) { // also if it has been ended early
        tokens--;
        result = 0;
    }
    EXPECT(fiber_mutex_unlock(&mutex) == 0);
    return result;
}
void give_token() {
    EXPECT(fiber_mutex_lock(&mutex) == 0);
    tokens++;
    EXPECT(fiber_cond_signal(&cond) == 0);
    EXPECT(fiber_mutex_unlock(&mutex) == 0);
}
void test_cond() {
    Actor victim([] { return cond_wait(patience()); }), other([] { return cond_wait(FIBER_FOREVER); });
    const int result = run_both(victim, other, give_token);
    EXPECT(result == 0 || early(result));
    if (result == 0) give_token(); // it was the victim's
    other.end();
    EXPECT(other.result == 0 && tokens == 0);
    EXPECT(fiber_cond_destroy(&cond) == 0 && fiber_mutex_destroy(&mutex) == 0);
}

void test_sem() {
    Actor victim([] { return fiber_sem_wait_timeout(&sem, 2, patience()); });
    Actor other([] { return fiber_sem_wait(&sem, 1); });
    const int result = run_both(victim, other, [] { EXPECT(fiber_sem_post(&sem, 2) == 0); });
    EXPECT(result == 0 || early(result));
    if (result == 0) EXPECT(fiber_sem_post(&sem, 1) == 0);
    other.end();
    EXPECT(other.result == 0);
    EXPECT(fiber_sem_value(&sem) == (result == 0 ? 0 : 1));
    EXPECT(fiber_sem_destroy(&sem) == 0);
}

void test_event() {
    Actor victim([] { return fiber_event_wait_timeout(&event, patience()); });
    Actor other([] { return fiber_event_wait(&event); });
    const int result = run_both(victim, other, [] { EXPECT(fiber_event_set(&event) == 0); });
    EXPECT(result == 0 || early(result));
    if (result == 0) EXPECT(fiber_event_set(&event) == 0);
    other.end();
    EXPECT(other.result == 0 && fiber_event_is_set(&event) == 0);
    EXPECT(fiber_event_destroy(&event) == 0);
}

int write_locked() {
    const int result = fiber_rwlock_wrlock_timeout(&rwlock, patience());
    if (result) return result;
    EXPECT(inside == 0); // readers are counted, the writer is a hundred less than none
    inside -= 100;
    fiber_reschedule(); // it may be cancelled
    EXPECT(inside == -100);
    inside += 100;
    EXPECT(fiber_rwlock_unlock(&rwlock) == 0);
    return 0;
}
void begin_reading() {
    EXPECT(fiber_rwlock_rdlock(&rwlock) == 0);
    EXPECT(inside++ >= 0);
}
void end_reading() {
    EXPECT(inside-- > 0);
    EXPECT(fiber_rwlock_unlock(&rwlock) == 0);
}
int read_locked() {
    begin_reading();
    EXPECT(fiber_reschedule() == 0);
    end_reading();
    return 0;
}
void test_rwlock() {
    Actor victim(write_locked), other(read_locked);
    begin_reading();
    const int result = run_both(victim, other, end_reading);
    EXPECT(result == 0 || early(result));
    other.end();
    EXPECT(fiber_rwlock_destroy(&rwlock) == 0);
}

int receive(int64_t timeout_ns) {
    int item = 0;
    const int result = fiber_chan_recv_timeout(chan, &item, timeout_ns);
    received += item;
    return result;
}
void give_item() {
    const int item = 5;
    EXPECT(fiber_chan_send(chan, &item) == 0);
    sent += item;
}
void test_channel(size_t capacity) {
    EXPECT(fiber_chan_create(&chan, sizeof(int), capacity) == 0);
    Actor victim([] { return receive(patience()); }), other([] { return receive(FIBER_FOREVER); });
    const int result = run_both(victim, other, give_item);
    EXPECT(result == 0 || early(result));
    if (result == 0) give_item();
    other.end();
    EXPECT(other.result == 0 && sent == received);
    EXPECT(fiber_chan_destroy(chan) == 0);
}

// Sends on one, receives on the other: against its mirror image exactly one pair of cases fits.
int select_pair(fiber_chan_t to, fiber_chan_t from, int64_t timeout_ns) {
    int item = 7, got = 0;
    fiber_case_t cases[2] = {};
    cases[0].kind = FIBER_CASE_SEND;
    cases[0].chan = to;
    cases[0].item = &item;
    cases[1].kind = FIBER_CASE_RECV;
    cases[1].chan = from;
    cases[1].item = &got;
    const int index = fiber_select(cases, 2, timeout_ns);
    if (index < 0) return index;
    EXPECT(cases[index].result == 0);
    if (index == 0) sent += item;
    received += got;
    return 0;
}
void test_select() {
    EXPECT(fiber_chan_create(&chan, sizeof(int), 0) == 0);
    EXPECT(fiber_chan_create(&other_chan, sizeof(int), 0) == 0);
    Actor victim([] { return select_pair(chan, other_chan, patience()); });
    Actor other([] { return select_pair(other_chan, chan, FIBER_FOREVER); });
    const int result = run_both(victim, other, nullptr);
    EXPECT(result == 0 || early(result));
    if (result != 0) EXPECT(select_pair(chan, other_chan, FIBER_FOREVER) == 0);
    other.end();
    EXPECT(other.result == 0 && sent == received && sent == 7); // both or neither
    EXPECT(fiber_chan_destroy(chan) == 0 && fiber_chan_destroy(other_chan) == 0);
}

Actor *joined;
int select_join() {
    fiber_case_t cases[2] = {};
    cases[0].kind = FIBER_CASE_JOIN;
    cases[0].fiber = joined->fiber;
    cases[1].kind = FIBER_CASE_EVENT;
    cases[1].object = &event;
    const int index = fiber_select(cases, 2, patience());
    if (index == 0) EXPECT(cases[0].result == 0 || cases[0].result == -ESRCH);
    return index;
}
// A fiber for which only the select waits, on the cord of main.
void test_join() {
    Actor target([] { return fiber_sleep(FIBER_USEC(10)); });
    joined = &target;
    EXPECT(fiber_spawn(&target.fiber, Actor::run, &target) == 0);
    Actor victim(select_join);
    victim.begin();
    EXPECT(fiber_sleep(FIBER_USEC(10)) == 0);
    victim.disturb();
    victim.end();
    EXPECT(victim.result == 0 || early(victim.result));
    EXPECT(fiber_join(target.fiber, nullptr) == (victim.result == 0 ? -ESRCH : 0));
    EXPECT(fiber_event_destroy(&event) == 0);
}

// Of a child and an item, whichever comes first; the other is there afterwards.
fiber_cord_t main_cord;
int64_t child_of_scope(void *) {
    fiber_sleep(FIBER_USEC(10));
    return 9;
}
void spawn_child(fiber_scope_t scope) {
    fiber_attr_t *attr = nullptr;
    EXPECT(fiber_attr_create(&attr) == 0);
    if (cords) EXPECT(fiber_attr_set_cord(attr, main_cord) == 0);
    EXPECT(fiber_scope_spawn_attr(scope, nullptr, attr, child_of_scope, nullptr) == 0);
    fiber_attr_destroy(attr);
}
int select_scope() {
    fiber_scope_t scope, shield;
    EXPECT(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_COLLECT) == 0);
    spawn_child(scope);
    int got = 0;
    fiber_case_t cases[2] = {};
    cases[0].kind = FIBER_CASE_SCOPE;
    cases[0].scope = scope;
    cases[1].kind = FIBER_CASE_RECV;
    cases[1].chan = chan;
    cases[1].item = &got;
    const int index = fiber_select(cases, 2, patience());
    received += got;
    if (index >= 0) EXPECT(cases[index].result == (index == 0));
    if (index == 0) EXPECT(cases[0].fiber.id && cases[0].number == 9);
    EXPECT(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD) == 0);
    if (index != 0) EXPECT(fiber_scope_next(scope, nullptr, nullptr) == 1);
    EXPECT(fiber_scope_next(scope, nullptr, nullptr) == 0);
    EXPECT(fiber_scope_close(scope, nullptr) == 0);
    return index;
}
void test_scope() {
    EXPECT(fiber_cord_self(&main_cord) == 0);
    EXPECT(fiber_chan_create(&chan, sizeof(int), 1) == 0);
    Actor victim(select_scope);
    victim.begin();
    EXPECT(fiber_sleep(FIBER_USEC(10)) == 0);
    victim.disturb();
    give_item();
    victim.end();
    EXPECT(victim.result >= 0 || early(victim.result));
    int rest = 0;
    EXPECT(fiber_chan_try_recv(chan, &rest) == (victim.result == 1 ? -EAGAIN : 0));
    EXPECT(sent == received + rest);
    EXPECT(fiber_chan_destroy(chan) == 0);
}

} // namespace

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (count > 2) disturbance = arguments[2];
    cords = count > 3;
    auto named = [&](const char *name) { return strcmp(what, name) == 0; };
    if (named("mutex"))
        test_mutex();
    else if (named("death"))
        test_death();
    else if (named("cond"))
        test_cond();
    else if (named("sem"))
        test_sem();
    else if (named("event"))
        test_event();
    else if (named("rwlock"))
        test_rwlock();
    else if (named("channel"))
        test_channel(1);
    else if (named("rendezvous"))
        test_channel(0);
    else if (named("select"))
        test_select();
    else if (named("join"))
        test_join();
    else if (named("scope"))
        test_scope();
    else
        return 2; // no such test
    return 0;
}
