// SPDX-License-Identifier: MIT OR Apache-2.0
// Sweeps of all calls that may wait: a fiber, the victim, makes the call, and at each step of its wait in turn the
// sweep cancels it, interrupts it, cancels its scope, lets the scope's time run out, or lets the call's own time run
// out: from before the call until it would have completed undisturbed. Each time the result is one of those that the
// header names. If the call had completed, the victim's next call still sees the disturbance. Anything given meanwhile
// has been taken or is still there. No fiber, operation, descriptor or memory is left.
//
//     sim_sweep --header FIBERRT_H   whether all calls of that header that may wait are in the table
//     sim_sweep [NAME]...            these calls, or all; in the simulation (FIBERRT_BACKEND=sim)
#include <fiberrt.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <linux/openat2.h>
#include <malloc.h>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#define EXPECT(condition)                                   \
    do {                                                    \
        if (!(condition)) fail(__LINE__, #condition, 0, 0); \
    } while (0)
#define EXPECT_IS(value, expected)                                                                   \
    do {                                                                                             \
        const auto is = static_cast<long long>(value), should_be = static_cast<long long>(expected); \
        if (is != should_be) fail(__LINE__, #value " is " #expected, is, should_be);                 \
    } while (0)

namespace {

// ---- One run --------------------------------------------------------------------------------------------------------

enum class How { nothing, no_switch, cancel, interrupt, scope_cancel, scope_deadline, timeout };
constexpr const char *how_names[] = {"undisturbed",         "in a no-switch section", "cancelled",  "interrupted",
                                     "its scope cancelled", "its scope's deadline",   "its timeout"};
enum class Place { fiber, elsewhere, main_flow };
constexpr const char *place_names[] = {"a fiber", "a fiber of another cord", "another cord's main flow"};

struct Run {
    const char *name = "";
    Place place = Place::fiber;
    How how = How::nothing;
    bool rival = false;       // another fiber makes the same call, after the victim
    bool giver_first = false; // each turn is the giver's before it is the disturber's
    bool before = false;      // the victim disturbs itself before the call,
    int after = 0;            // or it is disturbed after so many turns, or units of time
    int64_t unit_ns = 500;
    int64_t turn_ns = 0; // how long the disturber sleeps in a turn; 0: as long as a look for I/O and timers takes
};
Run run;
long runs;

[[noreturn]] void fail(int line, const char *what, long long is, long long should_be) {
    const bool by_time = run.how >= How::scope_deadline;
    fprintf(stderr, "sim_sweep: %s of %s%s, %s %s%lld %s, the %s first: line %d: not so: %s (%lld, %lld)\n", run.name,
            place_names[int(run.place)], run.rival ? " with a rival" : "", how_names[int(run.how)],
            run.before ? "before the call, " : "after ", run.after * (by_time ? run.unit_ns : 1LL),
            by_time ? "ns" : "turns", run.giver_first ? "giver" : "disturber", line, what, is, should_be);
    exit(1);
}

bool by_time() { return run.how == How::scope_deadline || run.how == How::timeout; }
int64_t limit_ns() { return run.after * run.unit_ns; }

// A fiber of the first cord that runs a function to its end.
class Helper {
public:
    explicit Helper(std::function<void()> body) : body_(std::move(body)) {
        EXPECT_IS(fiber_new(
                      &fiber, nullptr,
                      [](void *helper) -> void * {
                          static_cast<Helper *>(helper)->body_();
                          return helper;
                      },
                      this),
                  0);
    }
    // Lets it run until it first gives way.
    Helper &start() {
        EXPECT_IS(fiber_start(fiber), 0);
        return *this;
    }
    Helper &wake() {
        EXPECT_IS(fiber_wakeup(fiber), 0);
        return *this;
    }
    void join() {
        if (!joined_) EXPECT_IS(fiber_join(fiber, nullptr), 0);
        joined_ = true;
    }
    ~Helper() { join(); }
    Helper(const Helper &) = delete;
    Helper &operator=(const Helper &) = delete;

    fiber_t fiber{};

private:
    std::function<void()> body_;
    bool joined_ = false;
};

// An event that many fibers may wait for, and that a fiber sets once.
struct Gate {
    fiber_event_t event{};
    Gate() { EXPECT_IS(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0); }
    ~Gate() { EXPECT_IS(fiber_event_destroy(&event), 0); }
    Gate(const Gate &) = delete;
    Gate &operator=(const Gate &) = delete;
    void open() { EXPECT_IS(fiber_event_set(&event), 0); }
    int wait() { return fiber_event_wait(&event); }
    // For every outcome.
    void await() {
        fiber_scope_t shield;
        EXPECT_IS(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_IS(wait(), 0);
        EXPECT_IS(fiber_scope_close(shield, nullptr), 0);
    }
};

struct Outcome {
    int allowed = 0;     // so often allow() was called
    int completed = 0;   // so many calls returned success
    bool permit = false; // the victim's, at its end
};

// A call, and the world around it: made for one run.
struct Subject {
    virtual ~Subject() = default;
    virtual void begin() {} // in the victim, before the call
    virtual int64_t call(int64_t timeout_ns) = 0;
    virtual void end(bool) {} // in the victim, after everything, when allow() has been called; whether it completed
    virtual void allow() {}   // the event that a call waits for happens; does not wait itself, or not for long
    virtual void check(const Outcome &) {} // when no fiber uses it any more
    virtual int64_t success() const { return 0; }

    int64_t made_good = 0; // the reason that ended a wait of a call early, although the call returned success
};

// The properties of a call.
constexpr unsigned TIMED = 1;       // it has a timeout
constexpr unsigned NOT_STOPPED = 2; // nothing ends it early
constexpr unsigned ALONE = 4;       // one fiber at a time makes it
constexpr unsigned FOR_ALL = 8;     // one allow() is enough for all, if it needs any
constexpr unsigned ENDS = 16;       // the fiber
constexpr unsigned NOT_ELSEWHERE = 32, NOT_MAIN = 64, ONLY_MAIN = 128;
constexpr unsigned LATE_START = 256; // it may find that its cord has ended: -ESRCH
unsigned flags;                      // of the present one

// The fiber of the call.
struct Victim {
    Subject *subject;
    fiber_t fiber{};
    fiber_cord_t cord{};
    bool begun = false, returned = false, disturbed = false, permit = false;
    int64_t result = -9999, from = 0, until = 0;
    Gate go; // on to its next call
    fiber_scope_t scope{};

    explicit Victim(Subject *subject) : subject(subject) {}

    bool in_scope() const { return run.how == How::scope_cancel || run.how == How::scope_deadline; }
    void disturb() {
        disturbed = true;
        if (run.how == How::cancel) EXPECT_IS(fiber_cancel(fiber, this), 0);
        if (run.how == How::interrupt) EXPECT_IS(fiber_interrupt(fiber, this), 0);
        if (run.how != How::scope_cancel) return;
        const int result = fiber_scope_cancel(scope, this);
        if (!(flags & ENDS) || result != -ESRCH) EXPECT_IS(result, 0); // its end has closed the scope
    }
    int64_t early() const {
        switch (run.how) {
        case How::cancel:
        case How::scope_cancel: return -ECANCELED;
        case How::interrupt: return -EINTR;
        case How::scope_deadline:
        case How::timeout: return -ETIMEDOUT;
        default: return -9999;
        }
    }
    void act();
    void check_next_calls();
};
Victim *victim;

// ---- The calls ------------------------------------------------------------------------------------------------------

void *pointer(intptr_t number) { return reinterpret_cast<void *>(number); }

struct Start : Subject {
    bool ran = false;
    Helper target{[this] {
        ran = true;
        EXPECT_IS(fiber_reschedule(), 0);
    }};
    int64_t call(int64_t) override { return fiber_start(target.fiber); }
    void check(const Outcome &outcome) override {
        if (outcome.completed) return;
        EXPECT(!ran && fiber_state(target.fiber) == FIBER_NEW);
        target.start();
    }
};

struct Join : Subject {
    bool timed;
    Gate gate;
    fiber_t target{};
    explicit Join(bool timed) : timed(timed) {
        EXPECT_IS(fiber_spawn(
                      &target,
                      [](void *join) -> void * {
                          EXPECT_IS(static_cast<Join *>(join)->gate.wait(), 0);
                          return pointer(5);
                      },
                      this),
                  0);
    }
    int64_t call(int64_t timeout_ns) override {
        void *value = nullptr;
        const int result = timed ? fiber_join_timeout(target, &value, timeout_ns) : fiber_join(target, &value);
        EXPECT((result == 0) == (value == pointer(5)));
        return result;
    }
    void allow() override { gate.open(); }
    void check(const Outcome &outcome) override {
        EXPECT_IS(fiber_join(target, nullptr), outcome.completed ? -ESRCH : 0);
    }
};

struct Await : Join {
    explicit Await(bool timed) : Join(timed) {}
    int64_t call(int64_t timeout_ns) override {
        return timed ? fiber_await_timeout(target, timeout_ns) : fiber_await(target);
    }
    void check(const Outcome &) override { EXPECT_IS(fiber_join(target, nullptr), 0); } // its end was not taken
};

struct Exit : Subject {
    Gate gate;
    void begin() override { // a scope that it leaves open, with a child that does not hurry
        fiber_scope_t scope;
        EXPECT_IS(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
        EXPECT_IS(fiber_scope_spawn(
                      scope, nullptr,
                      [](void *exits) -> int64_t {
                          static_cast<Exit *>(exits)->gate.await();
                          return 0;
                      },
                      this),
                  0);
        EXPECT_IS(fiber_reschedule(), 0); // a child that never ran would not be waited for
    }
    int64_t call(int64_t) override { return fiber_exit(pointer(7)); }
    void allow() override { gate.open(); }
};

enum class Yielding { plain, timed, value };
struct Yield : Subject {
    Yielding kind;
    explicit Yield(Yielding kind) : kind(kind) {}
    int64_t call(int64_t timeout_ns) override {
        if (kind == Yielding::timed) return fiber_yield_timeout(timeout_ns);
        if (kind == Yielding::plain) return fiber_yield();
        void *value = nullptr;
        const int result = fiber_yield_value(&value);
        if (run.place == Place::fiber) EXPECT((result == 0) == (value == pointer(9)));
        return result;
    }
    void allow() override {
        if (kind != Yielding::value || run.place != Place::fiber)
            EXPECT_IS(fiber_wakeup(victim->fiber), 0);
        else
            EXPECT_IS(fiber_wakeup_value(victim->fiber, pointer(9)), 0);
    }
    void check(const Outcome &outcome) override { EXPECT_IS(outcome.permit, outcome.allowed - outcome.completed); }
};

// A call that completes by itself, sooner or later.
struct Plain : Subject {
    std::function<int64_t()> function;
    explicit Plain(std::function<int64_t()> function) : function(std::move(function)) {}
    int64_t call(int64_t) override { return function(); }
};

sigset_t waited_for; // blocked

// A call that the simulation refuses; but a pending cancel, interrupt or timeout of the caller is reported first.
struct Refused : Plain {
    using Plain::Plain;
    int64_t success() const override { return -ENOTSUP; }
};

struct Every : Subject {
    int64_t tick_ns = 0;
    void begin() override { tick_ns = fiber_now(); }
    int64_t call(int64_t) override { return fiber_every(&tick_ns, FIBER_USEC(3)); }
};

struct Transfer : Subject {
    Gate gate;
    fiber_t target{};
    bool ran = false;
    Transfer() {
        EXPECT_IS(fiber_new(
                      &target, nullptr,
                      [](void *argument) -> void * {
                          auto *transfer = static_cast<Transfer *>(argument);
                          transfer->ran = true;
                          EXPECT_IS(transfer->gate.wait(), 0);
                          return pointer(5);
                      },
                      this),
                  0);
    }
    int64_t call(int64_t) override {
        void *out = nullptr;
        const int result = fiber_transfer(target, this, &out);
        EXPECT((result == 1) == (out == pointer(5)));
        return result;
    }
    int64_t success() const override { return 1; }
    void allow() override { gate.open(); }
    void check(const Outcome &outcome) override {
        if (outcome.completed) EXPECT(ran);
        if (!ran) EXPECT_IS(fiber_wakeup(target), 0);
        EXPECT_IS(fiber_join(target, nullptr), 0);
    }
};

enum class Closing { next, close, block };
struct Children : Subject {
    Closing kind;
    Gate gate;
    fiber_scope_t scope{};
    fiber_timeout_block_t block{};
    int verdict = 0;
    bool ended = false, open = false;
    explicit Children(Closing kind) : kind(kind) {}
    void begin() override {
        if (kind == Closing::block) {
            block = fiber_timeout_block_open(FIBER_FOREVER, &verdict);
            scope = block.scope;
        } else {
            EXPECT_IS(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
        }
        open = true;
        EXPECT_IS(fiber_scope_spawn(
                      scope, nullptr,
                      [](void *argument) -> int64_t {
                          auto *children = static_cast<Children *>(argument);
                          children->gate.await();
                          children->ended = true;
                          return 5;
                      },
                      this),
                  0);
        EXPECT_IS(fiber_reschedule(), 0); // a child that never ran would not be waited for
    }
    int64_t call(int64_t) override {
        int64_t result = 0;
        fiber_t child{};
        if (kind == Closing::next) {
            const int told = fiber_scope_next(scope, &child, &result);
            if (told == 1) EXPECT_IS(result, 5);
            return told;
        }
        int closed;
        if (kind == Closing::close) {
            closed = fiber_scope_close(scope, &result);
        } else {
            fiber_timeout_block_close(&block);
            closed = verdict;
        }
        if (closed == 0) {
            open = false;
            EXPECT(ended && result == 0);
        }
        return closed;
    }
    int64_t success() const override { return kind == Closing::next; }
    void allow() override { gate.open(); }
    void end(bool completed) override { // an end of a child that the call has not reported is taken now, in a shield
        if (!open) return;
        fiber_scope_t shield;
        int64_t result = 0;
        EXPECT_IS(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_IS(fiber_scope_next(scope, nullptr, &result), !completed);
        if (!completed) EXPECT_IS(result, 5);
        EXPECT_IS(fiber_scope_next(scope, nullptr, &result), 0);
        EXPECT_IS(fiber_scope_close(shield, nullptr), 0);
        EXPECT_IS(fiber_scope_close(scope, nullptr), 0);
    }
};

struct OtherCord : Subject {
    Gate gate;
    fiber_cord_t cord{};
    OtherCord() {
        EXPECT_IS(fiber_cord_start(
                      &cord, nullptr,
                      [](void *other) -> void * {
                          static_cast<OtherCord *>(other)->gate.await(); // a shutdown may cancel it
                          return pointer(5);
                      },
                      this),
                  0);
    }
    void allow() override { gate.open(); }
};
struct CordJoin : OtherCord {
    bool timed;
    explicit CordJoin(bool timed) : timed(timed) {}
    int64_t call(int64_t timeout_ns) override {
        void *value = nullptr;
        const int result = timed ? fiber_cord_join_timeout(cord, &value, timeout_ns) : fiber_cord_join(cord, &value);
        EXPECT((result == 0) == (value == pointer(5)));
        return result;
    }
    void check(const Outcome &outcome) override {
        EXPECT_IS(fiber_cord_join(cord, nullptr), outcome.completed ? -ESRCH : 0);
    }
};
struct CordShutdown : OtherCord {
    int64_t call(int64_t) override { return fiber_cord_shutdown(cord, FIBER_USEC(1), FIBER_FOREVER); }
    void check(const Outcome &) override { EXPECT_IS(fiber_cord_join(cord, nullptr), 0); }
};
// A pool with one task, which waits.
struct OfPool : Subject {
    fiber_pool_t pool{};
    Gate gate;
    explicit OfPool(int workers) {
        fiber_pool_attr_t *attr;
        EXPECT_IS(fiber_pool_attr_create(&attr), 0);
        EXPECT_IS(fiber_pool_attr_set_workers(attr, workers), 0);
        EXPECT_IS(fiber_pool_create(&pool, attr), 0);
        EXPECT_IS(fiber_pool_attr_destroy(attr), 0);
    }
    void submit() {
        EXPECT_IS(fiber_pool_submit(
                      pool,
                      [](void *of_pool) -> void * {
                          static_cast<OfPool *>(of_pool)->gate.await();
                          return nullptr;
                      },
                      this),
                  0);
    }
    void allow() override { gate.open(); }
};
struct PoolClose : OfPool {
    PoolClose() : OfPool(1) { submit(); }
    int64_t call(int64_t) override { return fiber_pool_close(pool); }
    void check(const Outcome &outcome) override { EXPECT_IS(fiber_pool_close(pool), outcome.completed ? -ESRCH : 0); }
};
struct PoolUnbind : OfPool {
    PoolUnbind() : OfPool(0) {}
    void begin() override {
        EXPECT_IS(fiber_pool_bind(pool), 0);
        submit();
    }
    int64_t call(int64_t) override { return fiber_pool_unbind(pool); }
    void end(bool completed) override {
        fiber_scope_t shield;
        EXPECT_IS(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        EXPECT_IS(fiber_pool_unbind(pool), completed ? -EPERM : 0);
        EXPECT_IS(fiber_scope_close(shield, nullptr), 0);
    }
    void check(const Outcome &) override { EXPECT_IS(fiber_pool_close(pool), 0); }
};
struct CordRun : Subject {
    int posted = 0, ran = 0;
    int64_t call(int64_t) override { return fiber_cord_run(FIBER_FOREVER); }
    void allow() override {
        posted++;
        EXPECT_IS(fiber_post(
                      victim->cord,
                      [](void *count) -> void * {
                          ++*static_cast<int *>(count);
                          return nullptr;
                      },
                      &ran),
                  0);
    }
    void check(const Outcome &) override { EXPECT_IS(ran, posted); } // by now the cord has ended
};

// With a hosted fiber, which allow() wakes.
struct Exchange : Subject {
    fiber_t hosted{};
    fiber_completion_t out{};
    void begin() override {
        fiber_attr_t *attr;
        EXPECT_IS(fiber_attr_create(&attr), 0);
        EXPECT_IS(fiber_attr_set_detached(attr, 1), 0);
        EXPECT_IS(fiber_attr_set_daemon(attr, 1), 0);
        EXPECT_IS(fiber_hosted_new(&hosted, attr, nullptr, this), 0);
        EXPECT_IS(fiber_attr_destroy(attr), 0);
    }
    int64_t call(int64_t timeout_ns) override {
        const int result = fiber_exchange(nullptr, 0, &out, 1, timeout_ns);
        EXPECT(result != 1 || (out.fiber.id == hosted.id && out.user == this && !out.op && !out.result));
        return result ? result : -ETIMEDOUT;
    }
    int64_t success() const override { return 1; }
    void allow() override { EXPECT_IS(fiber_wakeup(hosted), 0); }
    void end(bool completed) override {
        if (!completed) {
            fiber_scope_t shield;
            EXPECT_IS(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
            EXPECT_IS(fiber_exchange(nullptr, 0, &out, 1, FIBER_FOREVER), 1); // it was not lost
            EXPECT_IS(fiber_scope_close(shield, nullptr), 0);
        }
        EXPECT_IS(fiber_hosted_end(hosted, nullptr), 0);
    }
};

// A helper that holds something until allow().
struct Held : Subject {
    Gate gate;
    std::unique_ptr<Helper> keeper;
    void keep(std::function<void()> body) {
        keeper = std::make_unique<Helper>(std::move(body));
        keeper->start();
    }
    void allow() override { gate.open(); }
    int holders = 0; // for a lock: never more than 1
    int64_t held_for_a_moment(int result, int (*unlock)(Held &)) {
        if (result) return result;
        EXPECT_IS(holders++, 0);
        EXPECT_IS(--holders, 0);
        EXPECT_IS(unlock(*this), 0);
        return 0;
    }
};

struct Mutex : Held {
    bool timed;
    fiber_mutex_t mutex{};
    explicit Mutex(bool timed) : timed(timed) {
        keep([this] {
            EXPECT_IS(fiber_mutex_lock(&mutex), 0);
            EXPECT_IS(gate.wait(), 0);
            EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
        });
    }
    int64_t call(int64_t timeout_ns) override {
        const int result = timed ? fiber_mutex_lock_timeout(&mutex, timeout_ns) : fiber_mutex_lock(&mutex);
        return held_for_a_moment(result,
                                 [](Held &held) { return fiber_mutex_unlock(&static_cast<Mutex &>(held).mutex); });
    }
    void check(const Outcome &) override {
        keeper->join();
        EXPECT_IS(fiber_mutex_trylock(&mutex), 0);
        EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
        EXPECT_IS(fiber_mutex_destroy(&mutex), 0);
    }
};

struct RwLock : Held {
    bool write, timed;
    fiber_rwlock_t lock{};
    RwLock(bool write, bool timed) : write(write), timed(timed) {
        keep([this] {
            EXPECT_IS(this->write ? fiber_rwlock_rdlock(&lock) : fiber_rwlock_wrlock(&lock), 0);
            EXPECT_IS(gate.wait(), 0);
            EXPECT_IS(fiber_rwlock_unlock(&lock), 0);
        });
    }
    int lock_it(int64_t timeout_ns) {
        if (timed)
            return write ? fiber_rwlock_wrlock_timeout(&lock, timeout_ns)
                         : fiber_rwlock_rdlock_timeout(&lock, timeout_ns);
        return write ? fiber_rwlock_wrlock(&lock) : fiber_rwlock_rdlock(&lock);
    }
    int64_t call(int64_t timeout_ns) override {
        return held_for_a_moment(lock_it(timeout_ns),
                                 [](Held &held) { return fiber_rwlock_unlock(&static_cast<RwLock &>(held).lock); });
    }
    void check(const Outcome &) override {
        keeper->join();
        EXPECT_IS(fiber_rwlock_trywrlock(&lock), 0);
        EXPECT_IS(fiber_rwlock_unlock(&lock), 0);
        EXPECT_IS(fiber_rwlock_destroy(&lock), 0);
    }
};

// A queue of tokens, as conditions are used; or the signal alone.
struct Cond : Subject {
    bool timed, raw;
    fiber_mutex_t mutex{};
    fiber_cond_t cond{};
    int tokens = 0;
    bool entered = false;
    Cond(bool timed, bool raw) : timed(timed), raw(raw) {}
    int wait(int64_t timeout_ns) {
        return timed ? fiber_cond_wait_timeout(&cond, &mutex, timeout_ns) : fiber_cond_wait(&cond, &mutex);
    }
    int64_t call(int64_t timeout_ns) override {
        int result = fiber_mutex_lock(&mutex);
        if (result) return result; // in a no-switch section
        entered = true;
        if (raw) result = wait(timeout_ns);
        while (!raw && tokens == 0 && result == 0) result = wait(timeout_ns);
        if (tokens > 0) { // also if it has been ended early
            tokens--;
            if (result) made_good = result;
            result = 0;
        }
        EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
        return result;
    }
    void allow() override {
        for (;;) {
            EXPECT_IS(fiber_mutex_lock(&mutex), 0);
            if (entered) break;
            EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
            EXPECT_IS(fiber_sleep(FIBER_USEC(1)), 0);
        }
        tokens += !raw;
        EXPECT_IS(fiber_cond_signal(&cond), 0);
        EXPECT_IS(fiber_reschedule(), 0); // so that the waiter must wait for the mutex too
        EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
    }
    void check(const Outcome &outcome) override {
        EXPECT_IS(tokens, raw ? 0 : outcome.allowed - outcome.completed);
        EXPECT_IS(fiber_cond_destroy(&cond), 0);
        EXPECT_IS(fiber_mutex_trylock(&mutex), 0);
        EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
        EXPECT_IS(fiber_mutex_destroy(&mutex), 0);
    }
};
// The wait in a no-switch section, by a fiber that has locked the mutex already.
struct CondOfHolder : Subject {
    fiber_mutex_t mutex{};
    fiber_cond_t cond{};
    void begin() override { EXPECT_IS(fiber_mutex_lock(&mutex), 0); }
    int64_t call(int64_t) override {
        const int result = fiber_cond_wait(&cond, &mutex);
        EXPECT_IS(fiber_mutex_trylock(&mutex), -EBUSY); // whatever the result, it is locked
        return result;
    }
    void end(bool) override { EXPECT_IS(fiber_mutex_unlock(&mutex), 0); }
    void allow() override { // a signal that comes before the wait would not be kept; one whose wait has ended has it
        const int locked = fiber_mutex_lock_timeout(&mutex, FIBER_USEC(5));
        EXPECT_IS(fiber_cond_signal(&cond), 0);
        if (locked == 0) EXPECT_IS(fiber_mutex_unlock(&mutex), 0);
    }
    void check(const Outcome &) override {
        EXPECT_IS(fiber_cond_destroy(&cond), 0);
        EXPECT_IS(fiber_mutex_destroy(&mutex), 0);
    }
};

struct Sem : Subject {
    bool timed;
    fiber_sem_t sem{};
    explicit Sem(bool timed) : timed(timed) {}
    int64_t call(int64_t timeout_ns) override {
        return timed ? fiber_sem_wait_timeout(&sem, 2, timeout_ns) : fiber_sem_wait(&sem, 2);
    }
    void allow() override { // one after the other, so that it also waits for the second
        EXPECT_IS(fiber_sem_post(&sem, 1), 0);
        EXPECT_IS(fiber_reschedule(), 0);
        EXPECT_IS(fiber_sem_post(&sem, 1), 0);
    }
    void check(const Outcome &outcome) override {
        EXPECT_IS(fiber_sem_value(&sem), 2 * (outcome.allowed - outcome.completed));
        EXPECT_IS(fiber_sem_destroy(&sem), 0);
    }
};

struct Event : Subject {
    bool timed, manual;
    fiber_event_t event{};
    Event(bool timed, bool manual) : timed(timed), manual(manual) {
        if (manual) EXPECT_IS(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
    }
    int64_t call(int64_t timeout_ns) override {
        return timed ? fiber_event_wait_timeout(&event, timeout_ns) : fiber_event_wait(&event);
    }
    void allow() override { EXPECT_IS(fiber_event_set(&event), 0); }
    void check(const Outcome &outcome) override {
        EXPECT_IS(fiber_event_is_set(&event), manual ? 1 : outcome.allowed - outcome.completed);
        EXPECT_IS(fiber_event_destroy(&event), 0);
    }
};

struct WaitGroup : Subject {
    bool timed;
    fiber_wg_t group{};
    explicit WaitGroup(bool timed) : timed(timed) { EXPECT_IS(fiber_wg_add(&group, 2), 0); }
    int64_t call(int64_t timeout_ns) override {
        return timed ? fiber_wg_wait_timeout(&group, timeout_ns) : fiber_wg_wait(&group);
    }
    void allow() override {
        EXPECT_IS(fiber_wg_done(&group), 0);
        EXPECT_IS(fiber_reschedule(), 0);
        EXPECT_IS(fiber_wg_done(&group), 1);
    }
    void check(const Outcome &) override { EXPECT_IS(fiber_wg_destroy(&group), 0); }
};

struct Barrier : Subject {
    bool timed;
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    explicit Barrier(bool timed) : timed(timed) {}
    int64_t call(int64_t timeout_ns) override {
        const int result = timed ? fiber_barrier_wait_timeout(&barrier, timeout_ns) : fiber_barrier_wait(&barrier);
        if (result >= 0) lasts += result;
        return result > 0 ? 0 : result; // the last to arrive has succeeded as the others have
    }
    void allow() override {
        partners.push_back(std::make_unique<Helper>([this] {
            const int result = fiber_barrier_wait(&barrier);
            met += result >= 0;
            lasts += result > 0;
        }));
        partners.back()->wake();
    }
    void check(const Outcome &outcome) override {
        for (auto &partner : partners) fiber_cancel(partner->fiber, nullptr); // that has met no one
        partners.clear();
        EXPECT_IS(met, outcome.completed);
        EXPECT_IS(lasts, outcome.completed);
        EXPECT_IS(fiber_barrier_destroy(&barrier), 0);
    }
    int met = 0, lasts = 0;
    std::vector<std::unique_ptr<Helper>> partners;
};

// Another one is at it; or the victim itself is, and its function waits.
struct Once : Held {
    bool first;
    fiber_once_t once{};
    int done = 0;
    explicit Once(bool first) : first(first) {
        if (!first) keep([this] { EXPECT_IS(do_it(), 0); });
    }
    int do_it() {
        return fiber_once(
            &once,
            [](void *argument) -> int {
                auto *it = static_cast<Once *>(argument);
                const int result = it->gate.wait();
                it->done += result == 0;
                return result;
            },
            this);
    }
    int64_t call(int64_t) override { return do_it(); }
    void check(const Outcome &) override {
        if (keeper) keeper->join();
        EXPECT_IS(do_it(), 0);
        EXPECT_IS(done, 1);
    }
};

struct Channel : Subject {
    bool timed;
    size_t capacity;
    fiber_chan_t chan{};
    std::vector<std::unique_ptr<Helper>> partners; // of a rendezvous
    Channel(size_t capacity, bool timed) : timed(timed), capacity(capacity) {
        EXPECT_IS(fiber_chan_create(&chan, sizeof(int), capacity), 0);
    }
    void partner(std::function<void()> body) {
        partners.push_back(std::make_unique<Helper>(std::move(body)));
        partners.back()->wake();
    }
    void end_it() {
        partners.clear();
        EXPECT_IS(fiber_chan_destroy(chan), 0);
    }
    void send(int item) const { EXPECT_IS(fiber_chan_send(chan, &item), 0); }
};
struct Receive : Channel {
    using Channel::Channel;
    int64_t call(int64_t timeout_ns) override {
        int item = 0;
        const int result = timed ? fiber_chan_recv_timeout(chan, &item, timeout_ns) : fiber_chan_recv(chan, &item);
        EXPECT((result == 0) == (item == 8));
        return result;
    }
    void allow() override {
        if (capacity)
            send(8);
        else
            partner([this] { send(8); });
    }
    void check(const Outcome &outcome) override {
        int item, left = 0;
        while (fiber_chan_try_recv(chan, &item) == 0) left++;
        EXPECT_IS(left, outcome.allowed - outcome.completed);
        end_it();
    }
};
struct Send : Channel {
    Send(size_t capacity, bool timed) : Channel(capacity, timed) {
        if (capacity) send(8); // and it is full
    }
    int64_t call(int64_t timeout_ns) override {
        const int item = 8;
        return timed ? fiber_chan_send_timeout(chan, &item, timeout_ns) : fiber_chan_send(chan, &item);
    }
    void receive() const {
        int item = 0;
        EXPECT_IS(fiber_chan_recv(chan, &item), 0);
        EXPECT_IS(item, 8);
    }
    void allow() override {
        if (capacity)
            receive();
        else
            partner([this] { receive(); });
    }
    void check(const Outcome &outcome) override {
        const int item = 8;
        int room = 0;
        while (fiber_chan_try_send(chan, &item) == 0) room++;
        EXPECT_IS(room, outcome.allowed - outcome.completed);
        end_it();
    }
};

// Another subject's wait, as a case of a select whose other cases never become ready.
template <class Base>
struct Select : Base {
    fiber_event_t never{};
    int32_t kind;
    int cases;
    template <class... Arguments>
    Select(int32_t kind, int cases, Arguments... arguments) : Base(arguments...), kind(kind), cases(cases) {}
    int64_t call(int64_t timeout_ns) override {
        std::vector<fiber_case_t> all(size_t(cases), fiber_case_t{});
        int sent = 8, received = 0;
        for (auto &one : all) {
            one.kind = FIBER_CASE_EVENT;
            one.object = &never;
        }
        fiber_case_t &it = all[size_t(cases) / 2];
        it.kind = kind;
        it.item = kind == FIBER_CASE_SEND ? &sent : &received;
        set(it, *this);
        const int index = fiber_select(all.data(), cases, timeout_ns);
        if (index < 0) return index;
        EXPECT_IS(index, cases / 2);
        if (kind == FIBER_CASE_JOIN) EXPECT(it.value == pointer(5));
        if (kind == FIBER_CASE_RECV) EXPECT_IS(received, 8);
        if (kind == FIBER_CASE_SCOPE) EXPECT(it.result == 1 && it.number == 5);
        return it.result;
    }
    void check(const Outcome &outcome) override {
        EXPECT_IS(fiber_event_destroy(&never), 0); // no fiber waits in it any more
        Base::check(outcome);
    }
    static void set(fiber_case_t &it, const Channel &channel) { it.chan = channel.chan; }
    static void set(fiber_case_t &it, Event &event) { it.object = &event.event; }
    static void set(fiber_case_t &it, Join &join) { it.fiber = join.target; }
    static void set(fiber_case_t &it, Children &children) { it.scope = children.scope; }
    static void set(fiber_case_t &it, Sem &sem) {
        it.object = &sem.sem;
        it.number = 2;
    }
    static void set(fiber_case_t &it, Plain &) { it.number = FIBER_USEC(3); } // a timer
    template <class Other>
    static auto set(fiber_case_t &it, Other &other) -> decltype(other.fds, void()) {
        it.fd = other.fds[0];
        it.number = POLLIN;
    }
};

// ---- Input and output -----------------------------------------------------------------------------------------------

struct Descriptors : Subject {
    int fds[2] = {-1, -1};
    ~Descriptors() override {
        for (int fd : fds) {
            if (fd >= 0) close(fd);
        }
    }
    void make_pipe() { EXPECT_IS(pipe2(fds, O_CLOEXEC), 0); }
    void make_sockets() { EXPECT_IS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0); }
    static int available(int fd) {
        pollfd one = {fd, POLLIN, 0};
        return poll(&one, 1, 0) == 1 && (one.revents & POLLIN);
    }
    // All that can be read without waiting.
    static int64_t drain(int fd) {
        char chunk[4096];
        int64_t total = 0;
        while (available(fd)) {
            const ssize_t got = read(fd, chunk, sizeof chunk);
            EXPECT(got > 0);
            total += got;
        }
        return total;
    }
};

enum class Transferring {
    read,
    readv,
    recv,
    recvmsg,
    recvfrom,
    recv_fds,
    splice_in,
    copy_in,
    poll,
    write,
    writev,
    send,
    sendmsg,
    sendto,
    send_fds,
    splice_out,
    copy_out
};
struct Reading : Descriptors {
    Transferring kind;
    explicit Reading(Transferring kind) : kind(kind) {
        const bool sockets = kind == Transferring::recv || kind == Transferring::recvmsg ||
                             kind == Transferring::recvfrom || kind == Transferring::recv_fds;
        if (sockets)
            make_sockets();
        else
            make_pipe();
        if (kind == Transferring::splice_in || kind == Transferring::copy_in) EXPECT_IS(pipe2(other, O_CLOEXEC), 0);
    }
    ~Reading() override {
        for (int fd : other) {
            if (fd >= 0) close(fd);
        }
    }
    int other[2] = {-1, -1}; // that takes the bytes read
    // Bytes moved there count as read.
    int64_t moved(int64_t result, char *bytes) {
        if (result == 4) EXPECT_IS(read(other[0], bytes, 4), 4);
        return result;
    }
    int64_t transfer() {
        char bytes[4] = {};
        iovec part = {bytes, 4};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        int64_t result;
        size_t none = 0;
        switch (kind) {
        case Transferring::read: result = fiber_read(fds[0], bytes, 4); break;
        case Transferring::readv: result = fiber_readv(fds[0], &part, 1); break;
        case Transferring::recv: result = fiber_recv(fds[0], bytes, 4, 0); break;
        case Transferring::recvmsg: result = fiber_recvmsg(fds[0], &message, 0); break;
        case Transferring::recvfrom: {
            sockaddr_un sender = {};
            socklen_t length = sizeof sender;
            result = fiber_recvfrom(fds[0], bytes, 4, 0, reinterpret_cast<sockaddr *>(&sender), &length);
            EXPECT((result == 4) == (length == 0));
            break;
        }
        case Transferring::recv_fds: result = fiber_recv_fds(fds[0], bytes, 4, nullptr, &none, nullptr); break;
        case Transferring::splice_in:
            result = moved(fiber_splice(fds[0], nullptr, other[1], nullptr, 4, 0), bytes);
            break;
        case Transferring::copy_in: result = moved(fiber_copy(fds[0], other[1], 4, nullptr, nullptr), bytes); break;
        default: return fiber_poll_fd(fds[0], POLLIN);
        }
        EXPECT((result == 4) == (memcmp(bytes, "data", 4) == 0));
        return result;
    }
    int64_t call(int64_t) override { return transfer(); }
    int64_t success() const override { return kind == Transferring::poll ? POLLIN : 4; }
    void allow() override { EXPECT_IS(write(fds[1], "data", 4), 4); }
    void check(const Outcome &outcome) override {
        const int taken = kind == Transferring::poll ? 0 : outcome.completed;
        EXPECT_IS(drain(fds[0]), 4 * (outcome.allowed - taken));
        if (other[0] >= 0) EXPECT(!available(other[0]));
    }
};

struct Writing : Descriptors {
    Transferring kind;
    int64_t put = 0, got = 0;
    int source[2] = {-1, -1}; // of the bytes moved
    ~Writing() override {
        for (int fd : source) {
            if (fd >= 0) close(fd);
        }
    }
    explicit Writing(Transferring kind) : kind(kind) {
        if (kind == Transferring::splice_out || kind == Transferring::copy_out) {
            EXPECT_IS(pipe2(source, O_CLOEXEC), 0);
            EXPECT_IS(write(source[1], "datadata", 8), 8);
        }
        static const char chunk[4096] = {};
        const int room = 4096;
        if (kind == Transferring::send || kind == Transferring::sendmsg || kind == Transferring::sendto ||
            kind == Transferring::send_fds) {
            make_sockets();
            EXPECT_IS(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
            for (ssize_t one; (one = send(fds[1], chunk, sizeof chunk, MSG_DONTWAIT)) > 0;) put += one;
        } else {
            make_pipe();
            EXPECT(fcntl(fds[1], F_SETPIPE_SZ, room) >= room);
            fcntl(fds[1], F_SETFL, O_NONBLOCK);
            for (ssize_t one; (one = write(fds[1], chunk, sizeof chunk)) > 0;) put += one;
            fcntl(fds[1], F_SETFL, 0);
        }
    }
    int64_t call(int64_t) override {
        char bytes[4] = {'d', 'a', 't', 'a'};
        iovec part = {bytes, 4};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        switch (kind) {
        case Transferring::write: return fiber_write(fds[1], bytes, 4);
        case Transferring::writev: return fiber_writev(fds[1], &part, 1);
        case Transferring::send: return fiber_send(fds[1], bytes, 4, 0);
        case Transferring::sendto: return fiber_sendto(fds[1], bytes, 4, 0, nullptr, 0);
        case Transferring::send_fds: return fiber_send_fds(fds[1], bytes, 4, &fds[0], 1);
        case Transferring::splice_out: return fiber_splice(source[0], nullptr, fds[1], nullptr, 4, 0);
        case Transferring::copy_out: return fiber_copy(source[0], fds[1], 4, nullptr, nullptr);
        default: return fiber_sendmsg(fds[1], &message, 0);
        }
    }
    int64_t success() const override { return 4; }
    void allow() override { got += drain(fds[0]); }
    void check(const Outcome &outcome) override {
        got += drain(fds[0]);
        EXPECT_IS(got, put + 4 * outcome.completed);
        if (source[0] >= 0) EXPECT_IS(drain(source[0]), 8 - 4 * outcome.completed);
    }
};

// A listener of a name that the kernel picks.
struct Listening : Descriptors {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    std::vector<int> clients;
    explicit Listening(int backlog) {
        fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address.sun_family = AF_UNIX;
        EXPECT_IS(bind(fds[0], reinterpret_cast<sockaddr *>(&address), sizeof(sa_family_t)), 0);
        EXPECT_IS(listen(fds[0], backlog), 0);
        EXPECT_IS(getsockname(fds[0], reinterpret_cast<sockaddr *>(&address), &length), 0);
    }
    explicit Listening(const std::string &path) {
        fds[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        unlink(path.c_str());
        EXPECT_IS(bind(fds[0], reinterpret_cast<sockaddr *>(&address), length), 0);
        EXPECT_IS(listen(fds[0], 0), 0);
    }
    ~Listening() override {
        for (int fd : clients) close(fd);
    }
    bool connect_one() {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        clients.push_back(fd);
        return connect(fd, reinterpret_cast<sockaddr *>(&address), length) == 0;
    }
    bool accept_one() const {
        if (!available(fds[0])) return false;
        const int fd = accept4(fds[0], nullptr, nullptr, SOCK_CLOEXEC);
        EXPECT(fd >= 0);
        close(fd);
        return true;
    }
};
struct Accept : Listening {
    bool four;
    explicit Accept(bool four) : Listening(8), four(four) {}
    int64_t call(int64_t) override {
        const int fd =
            four ? fiber_accept4(fds[0], nullptr, nullptr, SOCK_CLOEXEC) : fiber_accept(fds[0], nullptr, nullptr);
        if (fd < 0) return fd;
        close(fd);
        return 0;
    }
    void allow() override { EXPECT(connect_one()); }
    void check(const Outcome &outcome) override {
        int left = 0;
        while (accept_one()) left++;
        EXPECT_IS(left, outcome.allowed - outcome.completed);
    }
};
struct Connect : Listening {
    Connect() : Listening(0) {
        while (connect_one()) {}
        fds[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    int64_t call(int64_t) override { return fiber_connect(fds[1], reinterpret_cast<sockaddr *>(&address), length); }
    void allow() override { EXPECT(accept_one()); }
};

// As before, by a path: fiber_dial opens the socket itself.
struct Dial : Listening {
    Dial() : Listening("/tmp/fiberrt-sim-sweep-" + std::to_string(getpid())) {
        while (connect_one()) {}
    }
    ~Dial() override { unlink(address.sun_path); }
    int64_t call(int64_t) override {
        const int fd = fiber_dial((std::string("unix:") + address.sun_path).c_str(), SOCK_CLOEXEC);
        if (fd < 0) return fd;
        close(fd);
        return 0;
    }
    void allow() override { EXPECT(accept_one()); }
};
// By numbers: a simulation resolves no names.
int64_t look_up() {
    addrinfo *list = nullptr;
    const int error = fiber_getaddrinfo("127.0.0.1", "80", nullptr, &list);
    EXPECT((error == 0) == (list != nullptr));
    if (list) freeaddrinfo(list);
    return error;
}

// Calls on files that may take a moment.
enum class Filing {
    pread,
    pwrite,
    open,
    statx,
    fsync,
    fdatasync,
    openat2,
    splice,
    copy,
    getdents64,
    unlink,
    unlinkat,
    rmdir,
    mkdir,
    mkdirat,
    rename,
    renameat2
};
struct File : Descriptors {
    Filing kind;
    explicit File(Filing kind) : kind(kind) {
        fds[0] = memfd_create("sim_sweep", MFD_CLOEXEC);
        EXPECT_IS(write(fds[0], "data", 4), 4);
    }
    int64_t call(int64_t) override {
        char bytes[4] = {'D', 'A', 'T', 'A'};
        struct statx known;
        switch (kind) {
        case Filing::pread: return fiber_pread(fds[0], bytes, 4, 0);
        case Filing::pwrite: return fiber_pwrite(fds[0], bytes, 4, 0);
        case Filing::statx: return fiber_statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &known);
        case Filing::fsync: return fiber_fsync(fds[0]);
        case Filing::fdatasync: return fiber_fdatasync(fds[0]);
        default: break;
        }
        if (kind >= Filing::splice) return on_names();
        open_how how{O_RDWR | O_CLOEXEC, 0, 0};
        const int fd = kind == Filing::openat2 ? fiber_openat2(AT_FDCWD, "/dev/null", &how, sizeof how)
                                               : fiber_open("/dev/null", O_RDWR | O_CLOEXEC, 0);
        if (fd < 0) return fd;
        close(fd);
        return 0;
    }
    // Calls that cannot be repeated get names that do not exist.
    int64_t on_names() {
        const int names = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        EXPECT(names >= 0);
        static const char no_file[] = "/dev/no-such-file", no_name[] = "no-such-file";
        alignas(8) char entries[4096];
        int64_t result = -9998;
        int64_t from = 0, to = 4;
        int pipe[2];
        switch (kind) {
        case Filing::splice:
            EXPECT_IS(pipe2(pipe, O_CLOEXEC), 0);
            result = fiber_splice(fds[0], &from, pipe[1], nullptr, 4, 0);
            EXPECT_IS(drain(pipe[0]), result < 0 ? 0 : 4);
            EXPECT_IS(from, result < 0 ? 0 : 4);
            close(pipe[0]);
            close(pipe[1]);
            break;
        case Filing::copy: {
            const int copy = memfd_create("copy", MFD_CLOEXEC), source = memfd_create("source", MFD_CLOEXEC);
            EXPECT_IS(pwrite(source, "data", 4, 0), 4);
            result = fiber_copy(source, copy, FIBER_COPY_ALL, nullptr, nullptr);
            EXPECT_IS(lseek(copy, 0, SEEK_CUR), lseek(source, 0, SEEK_CUR));
            to = lseek(copy, 0, SEEK_END);
            EXPECT(to == 0 || to == 4);
            if (result >= 0) EXPECT_IS(to, 4);
            close(copy);
            close(source);
            break;
        }
        case Filing::getdents64:
            result = fiber_getdents64(names, entries, sizeof entries);
            if (result > 0) result = 4;
            break;
        case Filing::unlink: result = fiber_unlink(no_file); break;
        case Filing::unlinkat: result = fiber_unlinkat(names, no_name, 0); break;
        case Filing::rmdir: result = fiber_rmdir(no_file); break;
        case Filing::mkdir: result = fiber_mkdir("/dev", 0700); break;
        case Filing::mkdirat: result = fiber_mkdirat(names, "/dev", 0700); break;
        case Filing::rename: result = fiber_rename(no_file, no_file); break;
        case Filing::renameat2: result = fiber_renameat2(names, no_name, names, no_name, 0); break;
        default: break;
        }
        close(names);
        return result == -ENOENT || result == -EEXIST ? 0 : result;
    }
    int64_t success() const override {
        const bool counts = kind == Filing::pread || kind == Filing::pwrite || kind == Filing::splice ||
                            kind == Filing::copy || kind == Filing::getdents64;
        return counts ? 4 : 0;
    }
    void check(const Outcome &outcome) override {
        char bytes[4] = {};
        EXPECT_IS(pread(fds[0], bytes, 4, 0), 4);
        EXPECT_IS(memcmp(bytes, kind == Filing::pwrite && outcome.completed ? "DATA" : "data", 4), 0);
        EXPECT_IS(lseek(fds[0], 0, SEEK_CUR), 4);
    }
};

// With a helper that reads from it.
struct Close : Descriptors {
    int64_t read_result = 0;
    std::unique_ptr<Helper> reader;
    Close() {
        make_pipe();
        reader = std::make_unique<Helper>([this] {
            char byte;
            read_result = fiber_read(fds[0], &byte, 1);
        });
        reader->start();
    }
    int64_t call(int64_t) override { return fiber_close(fds[0]); }
    void check(const Outcome &outcome) override {
        if (!outcome.completed) return;
        reader->join();
        EXPECT_IS(read_result, -EBADF);
        EXPECT_IS(fcntl(fds[0], F_GETFD), -1);
        fds[0] = -1;
    }
};

struct Offload : Subject {
    bool detached;
    int calls = 0, freed = 0, made = 0;
    explicit Offload(bool detached) : detached(detached) {}
    static int64_t function(void *offload) { return ++static_cast<Offload *>(offload)->calls; }
    int64_t call(int64_t) override {
        int64_t result = -1;
        made++;
        const int error =
            !detached ? fiber_offload(function, this, &result)
                      : fiber_offload_detached(
                            function, this, [](void *offload) { static_cast<Offload *>(offload)->freed++; }, &result);
        EXPECT((error == 0) == (result != -1));
        return error;
    }
    void check(const Outcome &outcome) override {
        EXPECT_IS(freed, detached ? made : 0);
        EXPECT(detached ? calls >= outcome.completed : calls == outcome.completed);
    }
};

// ---- The table ------------------------------------------------------------------------------------------------------

struct Entry {
    const char *name; // of the function; the text after a stroke tells its entries apart
    unsigned flags;
    std::function<std::unique_ptr<Subject>()> make;
};

template <class T, class... Arguments>
std::function<std::unique_ptr<Subject>()> of(Arguments... arguments) {
    return [=] { return std::make_unique<T>(arguments...); };
}

const Entry table[] = {
    {"fiber_start", ALONE | FOR_ALL, of<Start>()},
    {"fiber_join", FOR_ALL, of<Join>(false)},
    {"fiber_join_timeout", FOR_ALL | TIMED, of<Join>(true)},
    {"fiber_await", FOR_ALL, of<Await>(false)},
    {"fiber_await_timeout", FOR_ALL | TIMED, of<Await>(true)},
    {"fiber_exit", ALONE | ENDS | NOT_STOPPED | NOT_MAIN, of<Exit>()},
    {"fiber_yield", ALONE, of<Yield>(Yielding::plain)},
    {"fiber_yield_timeout", ALONE | TIMED, of<Yield>(Yielding::timed)},
    {"fiber_yield_value", ALONE, of<Yield>(Yielding::value)},
    {"fiber_reschedule", FOR_ALL, of<Plain>([] { return fiber_reschedule(); })},
    {"fiber_reschedule_if_due", FOR_ALL, of<Plain>([] { return fiber_reschedule_if_due(); })},
    {"fiber_transfer", ALONE | FOR_ALL | NOT_ELSEWHERE | NOT_MAIN, of<Transfer>()},
    {"fiber_sleep", FOR_ALL, of<Plain>([] { return fiber_sleep(FIBER_USEC(3)); })},
    {"fiber_every", FOR_ALL, of<Every>()},
    {"fiber_sleep/0", FOR_ALL, of<Plain>([] { return fiber_sleep(0); })},

    {"fiber_scope_next", ALONE, of<Children>(Closing::next)},
    {"fiber_scope_close", ALONE | NOT_STOPPED, of<Children>(Closing::close)},
    {"fiber_timeout_block_close", ALONE | NOT_STOPPED, of<Children>(Closing::block)},

    {"fiber_cord_join", FOR_ALL, of<CordJoin>(false)},
    {"fiber_cord_join_timeout", FOR_ALL | TIMED, of<CordJoin>(true)},
    {"fiber_cord_shutdown", FOR_ALL | ALONE | LATE_START, of<CordShutdown>()},
    {"fiber_cord_run", ALONE | ONLY_MAIN, of<CordRun>()},
    {"fiber_exchange", ALONE | TIMED, of<Exchange>()},
    {"fiber_pool_close", ALONE | FOR_ALL, of<PoolClose>()},
    {"fiber_pool_unbind", ALONE | FOR_ALL, of<PoolUnbind>()},

    {"fiber_mutex_lock", FOR_ALL | NOT_STOPPED, of<Mutex>(false)},
    {"fiber_mutex_lock_timeout", FOR_ALL | TIMED, of<Mutex>(true)},
    {"fiber_cond_wait", 0, of<Cond>(false, false)},
    {"fiber_cond_wait_timeout", TIMED, of<Cond>(true, false)},
    {"fiber_cond_wait/signal", 0, of<Cond>(false, true)},
    {"fiber_cond_wait_timeout/signal", TIMED, of<Cond>(true, true)},
    {"fiber_cond_wait/holder", ALONE, of<CondOfHolder>()},
    {"fiber_sem_wait", 0, of<Sem>(false)},
    {"fiber_sem_wait_timeout", TIMED, of<Sem>(true)},
    {"fiber_event_wait", 0, of<Event>(false, false)},
    {"fiber_event_wait_timeout", TIMED, of<Event>(true, false)},
    {"fiber_event_wait/manual", FOR_ALL, of<Event>(false, true)},
    {"fiber_event_wait_timeout/manual", FOR_ALL | TIMED, of<Event>(true, true)},
    {"fiber_wg_wait", FOR_ALL, of<WaitGroup>(false)},
    {"fiber_wg_wait_timeout", FOR_ALL | TIMED, of<WaitGroup>(true)},
    {"fiber_rwlock_rdlock", FOR_ALL, of<RwLock>(false, false)},
    {"fiber_rwlock_rdlock_timeout", FOR_ALL | TIMED, of<RwLock>(false, true)},
    {"fiber_rwlock_wrlock", FOR_ALL, of<RwLock>(true, false)},
    {"fiber_rwlock_wrlock_timeout", FOR_ALL | TIMED, of<RwLock>(true, true)},
    {"fiber_barrier_wait", ALONE, of<Barrier>(false)},
    {"fiber_barrier_wait_timeout", ALONE | TIMED, of<Barrier>(true)},
    {"fiber_once", FOR_ALL, of<Once>(false)},
    {"fiber_once/first", FOR_ALL, of<Once>(true)},

    {"fiber_chan_send", 0, of<Send>(1u, false)},
    {"fiber_chan_send_timeout", TIMED, of<Send>(1u, true)},
    {"fiber_chan_send/rendezvous", 0, of<Send>(0u, false)},
    {"fiber_chan_send_timeout/rendezvous", TIMED, of<Send>(0u, true)},
    {"fiber_chan_recv", 0, of<Receive>(1u, false)},
    {"fiber_chan_recv_timeout", TIMED, of<Receive>(1u, true)},
    {"fiber_chan_recv/rendezvous", 0, of<Receive>(0u, false)},
    {"fiber_chan_recv_timeout/rendezvous", TIMED, of<Receive>(0u, true)},

    {"fiber_select/SEND", TIMED, of<Select<Send>>(FIBER_CASE_SEND, 2, 1u, false)},
    {"fiber_select/SEND rendezvous", TIMED, of<Select<Send>>(FIBER_CASE_SEND, 2, 0u, false)},
    {"fiber_select/RECV", TIMED, of<Select<Receive>>(FIBER_CASE_RECV, 2, 1u, false)},
    {"fiber_select/RECV rendezvous", TIMED, of<Select<Receive>>(FIBER_CASE_RECV, 2, 0u, false)},
    {"fiber_select/RECV of nine", TIMED, of<Select<Receive>>(FIBER_CASE_RECV, 9, 1u, false)},
    {"fiber_select/EVENT", TIMED, of<Select<Event>>(FIBER_CASE_EVENT, 2, false, false)},
    {"fiber_select/SEM", TIMED, of<Select<Sem>>(FIBER_CASE_SEM, 2, false)},
    {"fiber_select/TIMER", FOR_ALL | TIMED, of<Select<Plain>>(FIBER_CASE_TIMER, 2, nullptr)},
    {"fiber_select/JOIN", FOR_ALL | TIMED, of<Select<Join>>(FIBER_CASE_JOIN, 2, false)},
    {"fiber_select/SCOPE", ALONE | TIMED, of<Select<Children>>(FIBER_CASE_SCOPE, 2, Closing::next)},
    {"fiber_select/FD", FOR_ALL | TIMED, of<Select<Reading>>(FIBER_CASE_FD, 2, Transferring::poll)},

    {"fiber_read", 0, of<Reading>(Transferring::read)},
    {"fiber_readv", 0, of<Reading>(Transferring::readv)},
    {"fiber_recv", 0, of<Reading>(Transferring::recv)},
    {"fiber_recvmsg", 0, of<Reading>(Transferring::recvmsg)},
    {"fiber_recvfrom", 0, of<Reading>(Transferring::recvfrom)},
    {"fiber_poll_fd", FOR_ALL, of<Reading>(Transferring::poll)},
    {"fiber_write", FOR_ALL, of<Writing>(Transferring::write)},
    {"fiber_writev", FOR_ALL, of<Writing>(Transferring::writev)},
    {"fiber_send", FOR_ALL, of<Writing>(Transferring::send)},
    {"fiber_sendmsg", FOR_ALL, of<Writing>(Transferring::sendmsg)},
    {"fiber_sendto", FOR_ALL, of<Writing>(Transferring::sendto)},
    {"fiber_accept", 0, of<Accept>(false)},
    {"fiber_accept4", 0, of<Accept>(true)},
    {"fiber_connect", ALONE, of<Connect>()},
    {"fiber_dial", ALONE, of<Dial>()},
    {"fiber_getaddrinfo", FOR_ALL, of<Plain>(look_up)},
    {"fiber_offload", FOR_ALL, of<Offload>(false)},
    {"fiber_offload_detached", FOR_ALL, of<Offload>(true)},
    {"fiber_pread", FOR_ALL, of<File>(Filing::pread)},
    {"fiber_pwrite", FOR_ALL, of<File>(Filing::pwrite)},
    {"fiber_open", FOR_ALL, of<File>(Filing::open)},
    {"fiber_statx", FOR_ALL, of<File>(Filing::statx)},
    {"fiber_fsync", FOR_ALL, of<File>(Filing::fsync)},
    {"fiber_fdatasync", FOR_ALL, of<File>(Filing::fdatasync)},
    {"fiber_recv_fds", 0, of<Reading>(Transferring::recv_fds)},
    {"fiber_send_fds", FOR_ALL, of<Writing>(Transferring::send_fds)},
    {"fiber_splice/in", 0, of<Reading>(Transferring::splice_in)},
    {"fiber_splice/out", 0, of<Writing>(Transferring::splice_out)},
    {"fiber_splice", FOR_ALL, of<File>(Filing::splice)},
    {"fiber_copy/in", 0, of<Reading>(Transferring::copy_in)},
    {"fiber_copy/out", 0, of<Writing>(Transferring::copy_out)},
    {"fiber_copy", FOR_ALL, of<File>(Filing::copy)},
    {"fiber_openat2", FOR_ALL, of<File>(Filing::openat2)},
    {"fiber_getdents64", FOR_ALL, of<File>(Filing::getdents64)},
    {"fiber_unlink", FOR_ALL, of<File>(Filing::unlink)},
    {"fiber_unlinkat", FOR_ALL, of<File>(Filing::unlinkat)},
    {"fiber_rmdir", FOR_ALL, of<File>(Filing::rmdir)},
    {"fiber_mkdir", FOR_ALL, of<File>(Filing::mkdir)},
    {"fiber_mkdirat", FOR_ALL, of<File>(Filing::mkdirat)},
    {"fiber_rename", FOR_ALL, of<File>(Filing::rename)},
    {"fiber_renameat2", FOR_ALL, of<File>(Filing::renameat2)},
    {"fiber_close", ALONE | FOR_ALL | NOT_STOPPED, of<Close>()},

    {"fiber_waitpid", FOR_ALL, of<Refused>([] { return fiber_waitpid(getppid(), nullptr, 0); })},
    {"fiber_process_wait", FOR_ALL | NOT_STOPPED,
     of<Refused>([] { return fiber_process_wait(getppid(), nullptr, 0); })},
    {"fiber_sigwait", FOR_ALL, of<Refused>([] { return fiber_sigwait(&waited_for, nullptr); })},
};

// Of the header's, without "Switches: no".
const char *const do_not_wait[] = {
    "FIBER_CASE_NONE", // never completes
};

// ---- The victim -----------------------------------------------------------------------------------------------------

void Victim::act() {
    EXPECT_IS(fiber_self(&fiber), 0);
    EXPECT_IS(fiber_cord_self(&cord), 0);
    if (in_scope()) EXPECT_IS(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    subject->begin();
    if (run.how == How::scope_deadline) EXPECT_IS(fiber_scope_set_timeout(scope, limit_ns()), 0);
    if (run.before) disturb();
    from = fiber_now();
    if (run.how == How::no_switch) {
        EXPECT_IS(fiber_noswitch_enter(), 0);
        result = subject->call(FIBER_FOREVER);
        EXPECT_IS(result, -EPERM);
        EXPECT_IS(fiber_noswitch_leave(), 0);
        EXPECT(!begun && !returned);
    }
    begun = true;
    result = subject->call(run.how == How::timeout ? limit_ns() : FIBER_FOREVER);
    until = fiber_now();
    returned = true;
    check_next_calls();
}

void Victim::check_next_calls() {
    // Later than the disturbance of the call: so this call sees it, unless that call did.
    const int next = go.wait();
    const bool seen = result == early() || subject->made_good == early();
    switch (run.how) {
    case How::cancel:
    case How::scope_cancel: EXPECT_IS(next, -ECANCELED); break;
    case How::scope_deadline: EXPECT_IS(next, -ETIMEDOUT); break;
    case How::interrupt: EXPECT_IS(next, seen ? 0 : -EINTR); break;
    default: EXPECT_IS(next, 0);
    }
    go.await();
    void *value = nullptr;
    EXPECT_IS(fiber_cancelled(&value), run.how == How::cancel);
    if (run.how == How::interrupt) EXPECT_IS(fiber_interrupted(&value), 1);
    if (run.how == How::cancel || run.how == How::interrupt) EXPECT(value == this);
    fiber_info_t info;
    EXPECT_IS(fiber_info(fiber, &info, sizeof info), 0);
    permit = info.permit;
    subject->end(result == subject->success());
    if (in_scope()) EXPECT_IS(fiber_scope_close(scope, nullptr), early());
    EXPECT_IS(fiber_reschedule(), run.how == How::cancel ? -ECANCELED : 0);
}

// ---- A run ----------------------------------------------------------------------------------------------------------

fiber_cord_t standing; // another cord

struct Counts {
    uint64_t fibers, ops, stacks;
    int descriptors;
    bool operator==(const Counts &) const = default;
};
Counts counts() {
    fiber_stats_t stats;
    EXPECT_IS(fiber_stats(&stats, sizeof stats), 0);
    Counts result = {stats.fibers, stats.ops_in_flight, stats.stacks, 0};
    for (int fd = 0; fd < 48; fd++) result.descriptors += fcntl(fd, F_GETFD) != -1;
    return result;
}

// Of another cord.
Counts counts_there() {
    Counts result{};
    fiber_attr_t *attr;
    fiber_t fiber;
    EXPECT_IS(fiber_attr_create(&attr), 0);
    EXPECT_IS(fiber_attr_set_cord(attr, standing), 0);
    EXPECT_IS(fiber_new(
                  &fiber, attr,
                  [](void *to) -> void * {
                      *static_cast<Counts *>(to) = counts();
                      return nullptr;
                  },
                  &result),
              0);
    EXPECT_IS(fiber_attr_destroy(attr), 0);
    EXPECT_IS(fiber_wakeup(fiber), 0);
    EXPECT_IS(fiber_join(fiber, nullptr), 0);
    return result;
}

void *act(void *argument) {
    static_cast<Victim *>(argument)->act();
    return pointer(3);
}

void begin(Victim &it) {
    if (run.place == Place::main_flow) {
        EXPECT_IS(fiber_cord_start(&it.cord, nullptr, act, &it), 0);
        return;
    }
    fiber_attr_t *attr;
    EXPECT_IS(fiber_attr_create(&attr), 0);
    if (run.place == Place::elsewhere) EXPECT_IS(fiber_attr_set_cord(attr, standing), 0);
    EXPECT_IS(fiber_new(&it.fiber, attr, act, &it), 0);
    EXPECT_IS(fiber_attr_destroy(attr), 0);
    EXPECT_IS(fiber_wakeup(it.fiber), 0);
}

void *join(Victim &it) {
    void *result = nullptr;
    if (run.place == Place::main_flow)
        EXPECT_IS(fiber_cord_join(it.cord, &result), 0);
    else
        EXPECT_IS(fiber_join(it.fiber, &result), 0);
    return result;
}

constexpr int most_turns = 60;

struct Measured {
    int turns = 0; // of the disturber, until the call has returned
    int64_t time = 0;
};

struct Scene {
    std::unique_ptr<Subject> subject;
    Victim it{subject.get()};
    Outcome outcome;
    Measured measured;
    bool rival_returned = false;

    explicit Scene(const Entry &entry) : subject(entry.make()) { victim = &it; }

    void allow() {
        outcome.allowed++;
        subject->allow();
    }
    void give() {
        while (!it.begun) EXPECT_IS(fiber_sleep(FIBER_USEC(1)), 0);
        for (int i = 0; i < 2; i++) EXPECT_IS(fiber_reschedule(), 0);
        EXPECT_IS(fiber_sleep(FIBER_USEC(3)), 0);
        allow();
    }
    bool returned() const { return it.returned || ((flags & ENDS) && fiber_state(it.fiber) == FIBER_DEAD); }
    void disturb() {
        while (!it.begun) EXPECT_IS(fiber_sleep(FIBER_USEC(1)), 0);
        const bool undisturbed = run.how == How::nothing || run.how == How::no_switch;
        if (by_time() || run.before) return;
        const int most = undisturbed ? most_turns : run.after;
        for (; measured.turns < most && !(undisturbed && returned()); measured.turns++)
            EXPECT_IS(fiber_sleep(run.turn_ns), 0);
        it.disturb();
    }
    void compete() {
        const int64_t result = subject->call(FIBER_FOREVER);
        EXPECT_IS(result, subject->success());
        outcome.completed++;
        rival_returned = true;
    }
    bool all_returned() const { return it.returned && (rival_returned || !run.rival); }
    int completed() const { return outcome.completed + (it.returned && it.result == subject->success()); }

    // Lets the fibers that still wait go on; but only if each allow() has been taken.
    void let_all_return() {
        EXPECT_IS(fiber_sleep(FIBER_MSEC(100)), 0);
        for (int i = 0; i < 2 && !all_returned(); i++) {
            EXPECT(!(flags & FOR_ALL));
            EXPECT_IS(outcome.allowed, completed());
            allow();
            EXPECT_IS(fiber_sleep(FIBER_MSEC(100)), 0);
        }
        EXPECT(all_returned());
    }
    void check_result() const {
        const bool completes = it.result == subject->success();
        const bool undisturbed = run.how == How::nothing || run.how == How::no_switch || (flags & NOT_STOPPED);
        if ((flags & LATE_START) && it.result == -ESRCH) return;
        if (undisturbed)
            EXPECT_IS(it.result, subject->success());
        else if (run.before)
            EXPECT_IS(it.result, it.early());
        else if (!completes)
            EXPECT_IS(it.result, it.early());
    }
    void play() {
        Helper giver([this] { give(); }), disturber([this] { disturb(); });
        begin(it);
        std::unique_ptr<Helper> rival;
        if (run.rival) {
            rival = std::make_unique<Helper>([this] { compete(); });
            rival->wake();
        }
        (run.giver_first ? giver : disturber).wake();
        (run.giver_first ? disturber : giver).wake();
        giver.join();
        disturber.join();
        void *value = nullptr;
        if (flags & ENDS) {
            value = join(it);
            EXPECT(value == pointer(7));
            EXPECT(!it.returned);
            outcome.completed++;
        } else {
            let_all_return();
            check_result();
            outcome.completed = completed();
            it.go.open();
            EXPECT(join(it) == pointer(3));
        }
        if (rival) rival->join();
        outcome.permit = it.permit;
        if (!dynamic_cast<Yield *>(subject.get())) EXPECT(!it.permit);
        subject->check(outcome);
        // The time is unknown for a call that ends its fiber. A long time means that the call waited, after a rival, for
        // the event that the main flow has allowed.
        const bool known = !(flags & ENDS) && it.until - it.from < FIBER_MSEC(50);
        measured.time = known ? it.until - it.from : FIBER_USEC(10);
    }
};

Measured play(const Entry &entry) {
    runs++;
    flags = entry.flags;
    const Counts before = counts();
    Measured measured;
    {
        Scene scene(entry);
        scene.play();
        measured = scene.measured;
    }
    const Counts after = counts();
    EXPECT_IS(after.fibers, before.fibers);
    EXPECT_IS(after.ops, before.ops);
    EXPECT_IS(after.stacks, before.stacks);
    EXPECT_IS(after.descriptors, before.descriptors);
    return measured;
}

// ---- The sweep ------------------------------------------------------------------------------------------------------

Measured play(const Entry &entry, How how, bool before, int after) {
    run.how = how;
    run.before = before;
    run.after = after;
    return play(entry);
}

void sweep_order(const Entry &entry) {
    run.turn_ns = 0;
    Measured whole = play(entry, How::nothing, false, 0);
    if (whole.turns >= most_turns) { // it looks by itself now and then: longer turns
        run.turn_ns = whole.time / 16;
        whole = play(entry, How::nothing, false, 0);
        EXPECT(whole.turns < most_turns || run.rival); // if that is first, the victim waits for more than the giver
    }
    play(entry, How::no_switch, false, 0);
    for (How how : {How::cancel, How::interrupt, How::scope_cancel}) {
        play(entry, how, true, 0);
        for (int after = 0; after <= whole.turns + 1; after++) play(entry, how, false, after);
    }
    run.unit_ns = std::max<int64_t>(500, whole.time / 64);
    for (int after = 0; after <= int(whole.time / run.unit_ns) + 2; after++) {
        play(entry, How::scope_deadline, false, after);
        if (entry.flags & TIMED) play(entry, How::timeout, false, after);
    }
}

void sweep_places(const Entry &entry) {
    for (Place place : {Place::fiber, Place::elsewhere, Place::main_flow}) {
        if (place != Place::main_flow && (entry.flags & ONLY_MAIN)) continue;
        if (place == Place::elsewhere && (entry.flags & NOT_ELSEWHERE)) continue;
        if (place == Place::main_flow && (entry.flags & NOT_MAIN)) continue;
        run.place = place;
        for (bool rival : {false, true}) {
            if (rival && ((entry.flags & ALONE) || place != Place::fiber)) continue;
            run.rival = rival;
            for (bool giver_first : {false, true}) {
                run.giver_first = giver_first;
                sweep_order(entry);
            }
        }
    }
}

// Again and again, until it needs no more memory than before, which must come to pass; nor is anything left on the
// other cord.
void sweep(const Entry &entry) {
    run.name = entry.name;
    sweep_places(entry);
    const Counts there = counts_there();
    size_t memory, more = mallinfo2().uordblks;
    int times = 0;
    do {
        EXPECT(times++ < 8);
        memory = more;
        sweep_places(entry);
        more = mallinfo2().uordblks;
    } while (more > memory);
    EXPECT(counts_there() == there);
}

// ---- Whether all are in the table -----------------------------------------------------------------------------------

bool is_in_table(const std::string &name) {
    const std::string of_case = name.rfind("FIBER_CASE_", 0) == 0 ? "fiber_select/" + name.substr(11) : "";
    for (const Entry &entry : table) {
        const std::string known = entry.name;
        if (of_case == known || (of_case.empty() && known.substr(0, known.find('/')) == name)) return true;
    }
    return std::find(std::begin(do_not_wait), std::end(do_not_wait), name) != std::end(do_not_wait);
}

std::string without_timeout(const std::string &name) {
    const size_t at = name.rfind("_timeout");
    return at == std::string::npos || at + 8 != name.size() ? "" : name.substr(0, at);
}

bool declares(const std::string &header, const std::string &name) {
    return !name.empty() && header.find(" " + name + "(") != std::string::npos;
}

// The names of the functions that may wait, according to the comments above them or the section's, and those of the cases
// of select. X_timeout waits if X does.
std::vector<std::string> names_of_header(const std::string &text) {
    std::vector<std::string> names;
    size_t from = 0;
    for (size_t at; (at = text.find("\nFIBERRT_API ", from)) != std::string::npos; from = at + 1) {
        const size_t open = text.find('(', at);
        size_t begin = open;
        while (isalnum(text[begin - 1]) || text[begin - 1] == '_') begin--;
        const std::string name = text.substr(begin, open - begin);
        const size_t comment = text.rfind("/**", at);
        std::string said = comment < from ? "" : text.substr(comment, at - comment);
        const std::string quoted = "\"Switches: yes\""; // a text about such calls
        for (size_t where; (where = said.find(quoted)) != std::string::npos;) said.erase(where, quoted.size());
        if (said.find("Switches:") == std::string::npos && declares(text, without_timeout(name))) {
            if (std::find(names.begin(), names.end(), without_timeout(name)) != names.end()) names.push_back(name);
            continue;
        }
        if (said.find("Switches:") == std::string::npos) {
            const size_t section = text.rfind("\n/* ---", at);
            said = text.substr(section, text.find("*/", section) - section);
        }
        if (said.find("Switches: no.") == std::string::npos) names.push_back(name);
    }
    for (size_t at = 0; (at = text.find("#define FIBER_CASE_", at)) != std::string::npos; at++)
        names.push_back(text.substr(at + 8, text.find(' ', at + 8) - at - 8));
    return names;
}

int check_header(const char *path) {
    std::ifstream file(path);
    std::stringstream stream;
    stream << file.rdbuf();
    const std::vector<std::string> names = names_of_header(stream.str());
    int missing = 0;
    for (const std::string &name : names) {
        if (is_in_table(name)) continue;
        missing++;
        fprintf(stderr, "sim_sweep: %s may wait, and is not in the table of tests/sim_sweep.cc\n", name.c_str());
    }
    auto declared = [&](const std::string &name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    for (const Entry &entry : table) {
        const std::string name = entry.name;
        if (declared(name.substr(0, name.find('/')))) continue;
        missing++;
        fprintf(stderr, "sim_sweep: of %s the header does not say that it may wait\n", entry.name);
    }
    for (const char *name : do_not_wait) {
        if (declared(name)) continue;
        missing++;
        fprintf(stderr, "sim_sweep: %s is not in the header\n", name);
    }
    printf("%zu calls and cases of the header may wait\n", names.size());
    return missing || names.size() < 60;
}

} // namespace

int main(int count, char **arguments) {
    sigaddset(&waited_for, SIGUSR1);
    sigprocmask(SIG_BLOCK, &waited_for, nullptr);
    if (count == 3 && strcmp(arguments[1], "--header") == 0) return check_header(arguments[2]);
    Gate gate;
    EXPECT_IS(fiber_cord_start(
                  &standing, nullptr,
                  [](void *argument) -> void * {
                      EXPECT_IS(static_cast<Gate *>(argument)->wait(), 0);
                      return nullptr;
                  },
                  &gate),
              0);
    int swept = 0;
    for (const Entry &entry : table) {
        auto named = [&](const char *argument) { return strcmp(argument, entry.name) == 0; };
        if (count > 1 && std::none_of(arguments + 1, arguments + count, named)) continue;
        sweep(entry);
        swept++;
    }
    gate.open();
    EXPECT_IS(fiber_cord_join(standing, nullptr), 0);
    printf("%d calls, %ld runs\n", swept, runs);
    return swept == 0;
}
