// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fiberrt.hpp - fiberrt.h for C++: lambdas, values, exceptions and destructors in place of pointers, codes and calls.
//
//     auto sum = spawn([] { sleep_for(10ms); return 40 + 2; }); // a fiber; the caller goes on
//     int answer = sum.join();                                   // waits; throws what the lambda has thrown
//
// All of it is inline, on top of fiberrt.h, whose words and rules hold here too; that header says what a call does in
// detail, and where it may be made. Its handles and objects can be had of every class (handle(), native()), for what is
// not wrapped here; check() makes exceptions of its codes:
//
//     check(fiber_fsync(fd), "fiber_fsync");
//
// C++17, by gcc or clang, with exceptions; RTTI is not needed. Do not import the whole namespace where <unistd.h> or
// std are imported whole.
//
// Errors are exceptions of class error, a std::system_error whose code is the errno, generic_category: e.code() ==
// std::errc::broken_pipe. Three of them speak of the fiber that made the call, and of nothing else: canceled,
// interrupted, timed_out. A fiber that lets them pass unwinds and ends, as who has cancelled it wants. A wait with a
// time (wait_for, recv_for, try_lock_for) tells that the time has passed by its result; if it was the deadline of a
// scope instead, the next call that waits throws timed_out.
//
// Exceptions never pass through the library's own frames. What leaves the function of a fiber is kept for join(), of a
// scope's child for scope::close(), of a cord for cord::join(). Nobody can be told of what leaves a detached fiber, or
// a task submitted to a pool: as in a std::thread that terminates the program, after the fiber's name has been printed,
// but for canceled: who is cancelled may end so.
// pthread_exit and pthread_cancel are not for fibers and end the program, too. Never call fiber_exit: it destroys
// nothing.
//
// Functions are moved into memory of their own, the only one that is allocated, and destroyed once: on the fiber's
// stack when they have returned, or, if the fiber never runs, because it is cancelled before, say, by whoever finds
// that out, before its end is told, in a no-switch section: what they have captured must not wait in its destructor
// then, and none of this header's does. What a fiber holds that is in the middle of its function when its thread exits
// is lost, as fiberrt.h says.
//
// Destructors that end something (fiber, scope, cord) cancel it and wait, like that of std::jthread: what lives on the
// stack around them cannot be outlived by who uses it. They wait shielded: a cancel does not hasten them. To wait for
// the result, join or close before. Switching in a destructor during unwinding is fine: exceptions in flight are each
// fiber's own.
//
// With C++20, coroutines can be fibers that have no stack: see below at "Coroutines".
//
// Since: 0.1, like all that fiberrt.h has at that release.
#ifndef FIBERRT_HPP
#define FIBERRT_HPP

#include <fiberrt.h>

#if !defined(__cpp_exceptions)
#error "fiberrt.hpp tells of errors by exceptions: without them use fiberrt.h"
#endif
#if __cplusplus < 201703L
#error "fiberrt.hpp is C++17"
#endif

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <new>
#include <optional>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace fiberrt {

// ---- Errors ---------------------------------------------------------------------------------------------------------

/// What a call of the library returned, as an exception.
///
///     try {
///         numbers.send(1);
///     } catch (const error& e) {
///         if (e.code() != std::errc::broken_pipe) throw; // somebody has closed the channel
///     }
class error : public std::system_error {
public:
    /// result: the negative number; call: what the text begins with.
    error(std::int64_t result, const char* call)
        : std::system_error(std::error_code(static_cast<int>(-result), std::generic_category()), call) {}
};

/// The calling fiber is cancelled, or a scope of its was: let it pass.
struct canceled : error {
    using error::error;
};

/// The calling fiber was interrupted.
struct interrupted : error {
    using error::error;
};

/// The deadline of a scope of the calling fiber has fired; with_timeout() catches it.
struct timed_out : error {
    using error::error;
};

/// Throws the exception for a negative result.
[[noreturn]] inline void fail(std::int64_t result, const char* call) {
    switch (result) {
    case -ECANCELED: throw canceled(result, call);
    case -EINTR: throw interrupted(result, call);
    case -ETIMEDOUT: throw timed_out(result, call);
    default: throw error(result, call);
    }
}

/// The result of a call of fiberrt.h, if it is not negative; else throws.
///
///     int connection = check(fiber_accept(listener, nullptr, nullptr), "fiber_accept");
template <class Result>
Result check(Result result, const char* call = "fiberrt") {
    static_assert(std::is_same_v<Result, int> || std::is_same_v<Result, std::int64_t>, "of a call of fiberrt.h");
    if (result < 0) fail(result, call);
    return result;
}

// ---- Time -----------------------------------------------------------------------------------------------------------

/// A duration that never passes.
inline constexpr std::chrono::nanoseconds forever = std::chrono::nanoseconds::max();

/// The clock of all deadlines: CLOCK_MONOTONIC, or a simulation's. For durations of one's own.
///
///     auto begun = fiberrt::clock::now();
///     work();
///     std::chrono::nanoseconds taken = fiberrt::clock::now() - begun;
struct clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;
    static time_point now() noexcept { return time_point(duration(fiber_now())); }
};

namespace detail {

// Nanoseconds for fiberrt.h: rounded up, so that nothing ends early; a duration below zero has passed; a very long one
// is for ever.
template <class Rep, class Period>
constexpr std::int64_t timeout(std::chrono::duration<Rep, Period> time) {
    using wide = std::chrono::duration<double, std::nano>;
    if (!(time > time.zero())) return 0;
    if (wide(time) >= wide(forever)) return FIBER_FOREVER;
    return std::chrono::ceil<std::chrono::nanoseconds>(time).count();
}

template <class Clock, class Duration>
std::int64_t timeout_until(std::chrono::time_point<Clock, Duration> time) {
    using wide = std::chrono::duration<double, std::nano>;
    auto now = Clock::now();
    wide left = wide(time.time_since_epoch()) - wide(now.time_since_epoch()); // roughly: in integers it may overflow
    if (left >= wide(forever) / 2) return FIBER_FOREVER;                      // that is in more than a century
    if (left < std::chrono::seconds(-1)) return 0;
    return timeout(time - now);
}

// The result of a wait with a time: whether it has succeeded before that.
inline bool in_time(int result, const char* call) {
    if (result == -ETIMEDOUT) return false;
    check(result, call);
    return true;
}

// For a result that a destructor cannot report.
inline void drop(int) noexcept {}

// For destructors that wait: a shield, if there is memory for it.
struct waits_shielded {
    fiber_scope_t scope{0};
    waits_shielded() noexcept { fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_SHIELD); }
    ~waits_shielded() {
        if (scope.id) fiber_scope_close(scope, nullptr);
    }
    waits_shielded(const waits_shielded&) = delete;
    waits_shielded& operator=(const waits_shielded&) = delete;
};

} // namespace detail

// ---- The calling fiber ----------------------------------------------------------------------------------------------

/// fiber_sleep: parks the calling fiber for at least so long.
template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> time) {
    check(fiber_sleep(detail::timeout(time)), "fiber_sleep");
}

/// The same until a time of any clock.
///
///     sleep_until(fiberrt::clock::now() + 1ms);
template <class Clock, class Duration>
void sleep_until(std::chrono::time_point<Clock, Duration> time) {
    check(fiber_sleep(detail::timeout_until(time)), "fiber_sleep");
}

/// The words are those of fiberrt.h: what others call yield is reschedule().
///
///     fiber_t me = this_fiber::self();
///     auto waker = spawn([me] { check(fiber_wakeup(me)); });
///     this_fiber::yield();      // until the wakeup
///     this_fiber::reschedule(); // the others have their turn
namespace this_fiber {

/// fiber_yield: parks until a wakeup.
inline void yield() { check(fiber_yield(), "fiber_yield"); }

/// fiber_reschedule: gives every other runnable fiber its turn.
inline void reschedule() { check(fiber_reschedule(), "fiber_reschedule"); }

/// fiber_reschedule_if_due: the same now and then, for long computations.
inline void reschedule_if_due() { check(fiber_reschedule_if_due(), "fiber_reschedule_if_due"); }

inline fiber_t self() {
    fiber_t fiber;
    check(fiber_self(&fiber), "fiber_self");
    return fiber;
}

/// Whether it is cancelled; shields do not hide it.
inline bool cancelled() { return check(fiber_cancelled(nullptr), "fiber_cancelled") == 1; }

} // namespace this_fiber

/// While it lives, cancels, interrupts and deadlines from outside are held back: for what must be brought to its end.
/// It belongs on the stack.
///
///     shield from_cancels;
///     check(fiber_fsync(fd), "fiber_fsync");
class shield {
public:
    /// which: FIBER_SCOPE_SHIELD, or FIBER_SCOPE_SHIELD_CANCEL, which lets interrupts and deadlines through.
    explicit shield(unsigned which = FIBER_SCOPE_SHIELD) {
        check(fiber_scope_open(&scope_, FIBER_FOREVER, which), "fiber_scope_open");
    }
    ~shield() { fiber_scope_close(scope_, nullptr); }
    shield(const shield&) = delete;
    shield& operator=(const shield&) = delete;

private:
    fiber_scope_t scope_;
};

/// While it lives, calls that would wait are refused with EPERM.
///
///     noswitch section;
///     work(); // nobody else of this thread comes in between
class noswitch {
public:
    noswitch() { check(fiber_noswitch_enter(), "fiber_noswitch_enter"); }
    ~noswitch() { fiber_noswitch_leave(); }
    noswitch(const noswitch&) = delete;
    noswitch& operator=(const noswitch&) = delete;
};

// ---- What fibers run ------------------------------------------------------------------------------------------------

namespace detail {

struct nothing {};
template <class T>
struct identity {
    using type = T;
};
template <class T>
using same = typename identity<T>::type; // from which T is not deduced
template <class T>
using stored = std::conditional_t<std::is_void_v<T>, nothing, T>;

// What is forced upon the stack by the C library must not be caught.
#if defined(__GLIBCXX__)
#define FIBERRT_CATCH_FORCED_UNWIND_      \
    catch (const abi::__forced_unwind&) { \
        throw;                            \
    }
#else
#define FIBERRT_CATCH_FORCED_UNWIND_
#endif

// A function in memory of its own, and what it leaves behind. The fiber owns it, and perhaps a handle does too. It
// goes to C as the address of this base.
struct body {
    std::atomic<int> owners;

    explicit body(int count) : owners(count) {}
    body(const body&) = delete;
    body& operator=(const body&) = delete;
    virtual ~body() = default;
    virtual void drop_function() noexcept = 0;

    void release() noexcept {
        if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

    // What fiber_attr_set_free_arg takes.
    static void never_ran(void* arg) {
        auto* self = static_cast<body*>(arg);
        self->drop_function();
        self->release();
    }
};

// A share in a body.
struct release_body {
    void operator()(body* b) const noexcept { b->release(); }
};
template <class Body>
using share = std::unique_ptr<Body, release_body>;

template <class T>
struct outcome : body {
    std::atomic<bool> began{false};
    std::atomic<bool> finished{false}; // failure or value is there
    std::exception_ptr failure;
    std::optional<stored<T>> value;
    using body::body;
};

// Of a fiber with a handle.
template <class F, class T>
struct joinable final : outcome<T> {
    std::optional<F> function;
    bool dropped = false; // or in the midst of it: what it has captured may wait then, and the thread exit

    template <class G>
    explicit joinable(G&& f) : outcome<T>(2), function(std::in_place, std::forward<G>(f)) {}
    void drop_function() noexcept override {
        if (!std::exchange(dropped, true)) function.reset();
    }

    static void* run(void* arg) {
        share<joinable> self(static_cast<joinable*>(static_cast<body*>(arg)));
        self->began.store(true, std::memory_order_relaxed);
        try {
            if constexpr (std::is_void_v<T>) {
                std::move (*self->function)();
                self->value.emplace();
            } else {
                self->value.emplace(std::move(*self->function)());
            }
        }
        FIBERRT_CATCH_FORCED_UNWIND_
        catch (const canceled&) {
            self->failure = std::current_exception();
        }
        catch (...) {
            if (self->owners.load(std::memory_order_acquire) == 1) throw; // it is detached
            self->failure = std::current_exception();
        }
        self->drop_function();
        self->finished.store(true, std::memory_order_release);
        return nullptr;
    }
};

// Of a fiber without one.
template <class F>
struct unattended final : body {
    std::optional<F> function;

    template <class G>
    explicit unattended(G&& f) : body(1), function(std::in_place, std::forward<G>(f)) {}
    void drop_function() noexcept override { function.reset(); }

    static void* run(void* arg) {
        share<unattended> self(static_cast<unattended*>(static_cast<body*>(arg)));
        try {
            std::move (*self->function)();
        } catch (const canceled&) { // of all others the runtime terminates, with the stack as it was
        }
        return nullptr;
    }
};

template <class F>
using result_of = std::invoke_result_t<std::decay_t<F>>;

// Calls a function once, and keeps what it leaves for whoever waits for that elsewhere.
template <class T, class F>
void keep_outcome(F&& function, std::optional<stored<T>>& value, std::exception_ptr& failure) {
    try {
        if constexpr (std::is_void_v<T>) {
            std::forward<F>(function)();
            value.emplace();
        } else {
            value.emplace(std::forward<F>(function)());
        }
    }
    FIBERRT_CATCH_FORCED_UNWIND_
    catch (...) {
        failure = std::current_exception();
    }
}

} // namespace detail

template <class T = void>
class task; // a coroutine, below

template <class T = void>
class fiber;

class attributes;

namespace detail {

// What a fiber's function returns, or, if that is a coroutine, what this returns.
template <class T>
struct returned {
    using type = T;
    static constexpr bool by_coroutine = false;
};
template <class T>
struct returned<task<T>> {
    using type = T;
    static constexpr bool by_coroutine = true;
};
template <class F>
using spawned = fiber<typename returned<result_of<F>>::type>;

template <class T, class F>
task<T> call_coroutine(F function);
template <class T>
fiber<T> spawn_hosted(const attributes& attr, task<T> coroutine);
template <class T>
struct hosted_body;
struct fiber_access;

// Owns attributes of the C library's, which has called them in_c of their Owner.
template <class Owner, class Attr, int (*create)(Attr**), int (*destroy)(Attr*)>
class attribute_owner {
public:
    Attr* native() const noexcept { return attr_.get(); }

protected:
    attribute_owner() {
        Attr* made;
        check(create(&made), Owner::in_c);
        attr_.reset(made);
    }
    Owner& set(int result) {
        check(result, Owner::in_c);
        return static_cast<Owner&>(*this);
    }

private:
    struct destroyer {
        void operator()(Attr* attr) const noexcept { destroy(attr); }
    };
    std::unique_ptr<Attr, destroyer> attr_;
};

} // namespace detail

/// How a fiber is to be made; a thin owner of a fiber_attr_t, for any number of fibers.
///
///     auto named = spawn(attributes().name("reader").stack_size(64 * 1024), [] { work(); });
class attributes : public detail::attribute_owner<attributes, fiber_attr_t, fiber_attr_create, fiber_attr_destroy> {
public:
    attributes() { set(fiber_attr_set_free_arg(native(), &detail::body::never_ran)); }
    attributes& name(const char* text) { return set(fiber_attr_set_name(native(), text)); }
    attributes& stack_size(std::size_t bytes) { return set(fiber_attr_set_stack_size(native(), bytes)); }
    attributes& guard(int which) { return set(fiber_attr_set_guard(native(), which)); } ///< FIBER_GUARD_...
    attributes& guard_size(std::size_t bytes) { return set(fiber_attr_set_guard_size(native(), bytes)); }
    attributes& daemon(bool is = true) { return set(fiber_attr_set_daemon(native(), is)); }
    attributes& on(fiber_cord_t cord) { return set(fiber_attr_set_cord(native(), cord)); }

private:
    friend attribute_owner;
    static constexpr const char* in_c = "fiber_attr";
};

namespace detail {

// Never destroyed: threads may go on while the process ends.
inline const attributes& default_attributes() {
    static const attributes* const defaults = new attributes;
    return *defaults;
}

// Creates a fiber, detached or not, and schedules its first run. The body is its own from then on.
template <class Body>
fiber_t create(const attributes& attr, std::unique_ptr<Body> made, bool detached) {
    fiber_t fiber;
    check(fiber_new(&fiber, attr.native(), &Body::run, static_cast<body*>(made.get())), "fiber_new");
    made.release();
    if (detached) fiber_detach(fiber);
    fiber_wakeup(fiber); // if its cord has just ended it never runs, which its end tells
    return fiber;
}

} // namespace detail

// ---- Fibers ---------------------------------------------------------------------------------------------------------

/// The handle of a fiber whose function returns T: it is to be joined, once. Moved, not copied.
///
///     fiber<int> length = spawn([] { return 3; });
///     if (length.wait_for(1s)) work();
///     int three = length.join();
///
/// If it is destroyed before, the fiber is cancelled and joined, shielded, and what it returns or throws is dropped.
/// (In a no-switch section, where nothing can be waited for, it is cancelled and detached.)
template <class T>
class [[nodiscard]] fiber {
    static_assert(!std::is_reference_v<T>, "return a pointer, or std::ref");

public:
    fiber() noexcept = default;
    fiber(fiber&& other) noexcept
        : handle_(std::exchange(other.handle_, fiber_t{0})), end_(std::exchange(other.end_, 0)),
          outcome_(std::move(other.outcome_)) {}
    fiber& operator=(fiber&& other) noexcept {
        if (this == &other) return *this;
        finish();
        handle_ = std::exchange(other.handle_, fiber_t{0});
        end_ = std::exchange(other.end_, 0);
        outcome_ = std::move(other.outcome_);
        return *this;
    }
    ~fiber() { finish(); }

    /// It names a fiber that has not been joined or detached.
    bool joinable() const noexcept { return outcome_ != nullptr; }

    /// Of fiberrt.h. It may be copied, and outlive this.
    fiber_t handle() const noexcept { return handle_; }

    /// Waits for its end, and takes nothing: what this throws speaks of the caller, what join() then throws of the
    /// fiber.
    void wait() { wait_at_most(FIBER_FOREVER, true); }

    /// The same for so long. Whether it has ended.
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) {
        return wait_at_most(detail::timeout(time), false);
    }
    template <class Clock, class Duration>
    bool wait_until(std::chrono::time_point<Clock, Duration> time) {
        return wait_at_most(detail::timeout_until(time), false);
    }

    /// Waits for its end. Returns what its function has returned, throws what left it; or error, if it has not come to
    /// its end: ECANCELED it was cancelled before it ever ran, EAGAIN there was no stack for it, EOWNERDEAD its thread
    /// has exited. When this throws because the caller was cancelled, interrupted or timed out, it can be joined again.
    T join() {
        wait();
        auto outcome = std::move(outcome_);
        handle_ = {0};
        if (!outcome->finished.load(std::memory_order_acquire)) throw error(end_, "the fiber has not come to its end");
        if (outcome->failure) std::rethrow_exception(std::move(outcome->failure));
        if constexpr (!std::is_void_v<T>) return std::move(*outcome->value);
    }

    /// Nobody will join it. An exception that leaves it later terminates the program, unless it is canceled; one that
    /// has left it already is dropped.
    void detach() {
        need();
        if (!end_) fiber_detach(handle_);
        outcome_.reset();
        handle_ = {0};
    }

    /// fiber_cancel: its waits throw canceled from now on. Once it has ended this does nothing.
    void cancel(void* reason = nullptr) {
        need();
        fiber_cancel(handle_, reason);
    }

    /// fiber_wakeup: ends its this_fiber::yield().
    void wakeup() {
        need();
        fiber_wakeup(handle_);
    }

    /// fiber_interrupt: its present wait, or its next one, throws interrupted.
    void interrupt(void* value = nullptr) {
        need();
        int result = fiber_interrupt(handle_, value);
        if (result != -ESRCH) check(result, "fiber_interrupt");
    }

private:
    template <class F>
    friend detail::spawned<F> spawn(const attributes& attr, F&& function);
    friend struct detail::fiber_access;

    fiber(fiber_t handle, detail::share<detail::outcome<T>> outcome) noexcept
        : handle_(handle), outcome_(std::move(outcome)) {}

    void need() const {
        if (!joinable()) throw error(-EINVAL, "the handle names no fiber");
    }

    bool wait_at_most(std::int64_t time, bool late_is_an_error) {
        need();
        if (end_) return true;
        int result = fiber_join_timeout(handle_, nullptr, time);
        if (ends(result)) return true;
        if (result == -ETIMEDOUT && !late_is_an_error) return false;
        fail(result, "fiber_join");
    }

    // Whether a join has told that it has ended. Who has begun and not finished never will: its share is left to us.
    bool ends(int result) noexcept {
        if (result != 0 && result != -EAGAIN && result != -EOWNERDEAD && result != -ESRCH) return false;
        end_ = result ? result : -ECANCELED;
        if (outcome_->began.load(std::memory_order_relaxed) && !outcome_->finished.load(std::memory_order_acquire)) {
            detail::body::never_ran(outcome_.get());
        }
        return true;
    }

    void finish() noexcept {
        if (!outcome_) return;
        if (!end_) {
            detail::waits_shielded here;
            fiber_cancel(handle_, nullptr);
            if (!ends(fiber_join(handle_, nullptr))) fiber_detach(handle_);
        }
        outcome_.reset();
        handle_ = {0};
    }

    fiber_t handle_{0};
    int end_ = 0; // once it has ended: why, if its function has not
    detail::share<detail::outcome<T>> outcome_;
};

/// Starts a fiber that runs a function, which may be one that can only be moved; it runs when its turn comes.
///
///     auto words = std::make_unique<int>(3);
///     auto counted = spawn([words = std::move(words)] { return *words; });
///     int three = counted.join();
template <class F>
detail::spawned<F> spawn(const attributes& attr, F&& function) {
    using Returned = detail::returned<detail::result_of<F>>;
    using T = typename Returned::type;
    if constexpr (Returned::by_coroutine) {
        return detail::spawn_hosted(attr, detail::call_coroutine<T>(std::decay_t<F>(std::forward<F>(function))));
    } else {
        using Body = detail::joinable<std::decay_t<F>, T>;
        auto made = std::make_unique<Body>(std::forward<F>(function));
        Body* outcome = made.get();
        fiber_t handle = detail::create(attr, std::move(made), false);
        return fiber<T>(handle, detail::share<detail::outcome<T>>(outcome));
    }
}
template <class F>
detail::spawned<F> spawn(F&& function) {
    return spawn(detail::default_attributes(), std::forward<F>(function));
}

/// Starts a fiber that nobody joins. An exception but canceled that leaves it terminates the program.
///
///     spawn_detached([] { work(); });
template <class F>
void spawn_detached(const attributes& attr, F&& function) {
    detail::create(attr, std::make_unique<detail::unattended<std::decay_t<F>>>(std::forward<F>(function)), true);
}
template <class F>
void spawn_detached(F&& function) {
    spawn_detached(detail::default_attributes(), std::forward<F>(function));
}

// ---- Cords ----------------------------------------------------------------------------------------------------------

/// A thread with fibers of its own: its main flow runs a function, and it ends when that and its fibers have ended.
///
///     cord worker([] { work(); });
///     auto there = spawn(attributes().on(worker.handle()), [] { return 7; });
///     int seven = there.join();
///     worker.join();
///
/// If it is destroyed before it is joined, it is shut down, its fibers and its main flow being cancelled, and joined.
/// (Not in a no-switch section.)
class [[nodiscard]] cord {
public:
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, cord>>>
    explicit cord(F&& function) {
        using Body = detail::joinable<std::decay_t<F>, void>;
        auto made = std::make_unique<Body>(std::forward<F>(function));
        check(fiber_cord_start(&handle_, nullptr, &Body::run, static_cast<detail::body*>(made.get())),
              "fiber_cord_start");
        outcome_.reset(made.release());
    }
    cord(cord&& other) noexcept
        : handle_(std::exchange(other.handle_, fiber_cord_t{0})), outcome_(std::move(other.outcome_)) {}
    cord& operator=(cord&& other) noexcept {
        if (this == &other) return *this;
        finish();
        handle_ = std::exchange(other.handle_, fiber_cord_t{0});
        outcome_ = std::move(other.outcome_);
        return *this;
    }
    ~cord() { finish(); }

    bool joinable() const noexcept { return outcome_ != nullptr; }
    fiber_cord_t handle() const noexcept { return handle_; }

    /// Waits for its end; throws what left its function.
    void join() {
        if (!joinable()) throw error(-EINVAL, "the handle names no cord");
        check(fiber_cord_join(handle_, nullptr), "fiber_cord_join");
        handle_ = {0};
        auto outcome = std::move(outcome_);
        if (outcome->failure) std::rethrow_exception(std::move(outcome->failure));
    }

    /// Starts a detached fiber there.
    template <class F>
    void post(F&& function) {
        spawn_detached(attributes().on(handle_), std::forward<F>(function));
    }

private:
    void finish() noexcept {
        if (!outcome_) return;
        detail::waits_shielded here;
        fiber_cord_shutdown(handle_, 0, FIBER_FOREVER);
        detail::drop(fiber_cord_join(handle_, nullptr));
        outcome_.reset();
        handle_ = {0};
    }

    fiber_cord_t handle_{0};
    detail::share<detail::outcome<void>> outcome_;
};

// ---- Pools ----------------------------------------------------------------------------------------------------------

/// How a pool is to be made; a thin owner of a fiber_pool_attr_t.
///
///     pool two(pool_attributes().workers(2).name("crunch"));
class pool_attributes : public detail::attribute_owner<pool_attributes, fiber_pool_attr_t, fiber_pool_attr_create,
                                                       fiber_pool_attr_destroy> {
public:
    pool_attributes& workers(int count) { return set(fiber_pool_attr_set_workers(native(), count)); }
    pool_attributes& stack_size(std::size_t bytes) { return set(fiber_pool_attr_set_stack_size(native(), bytes)); }
    pool_attributes& guard_size(std::size_t bytes) { return set(fiber_pool_attr_set_guard_size(native(), bytes)); }
    pool_attributes& name(const char* text) { return set(fiber_pool_attr_set_name(native(), text)); }
    /// The processors that the workers may run on; policy: FIBER_POOL_ANY_OF, FIBER_POOL_ONE_OF. None: any.
    pool_attributes& affinity(std::initializer_list<int> cpus, int policy = FIBER_POOL_ANY_OF) {
        return set(fiber_pool_attr_set_affinity(native(), cpus.begin(), cpus.size(), policy));
    }
    /// What each worker calls first: init(arg, its number). No exception may leave it.
    pool_attributes& init(void (*function)(void* arg, int worker), void* arg = nullptr) {
        return set(fiber_pool_attr_set_init(native(), function, arg));
    }
    /// How many tasks may have begun and not ended on each thread; 0: any number.
    pool_attributes& task_limit(int count) { return set(fiber_pool_attr_set_task_limit(native(), count)); }
    /// Whether threads that are bound take tasks that the workers could take.
    pool_attributes& bound_help(bool help) { return set(fiber_pool_attr_set_bound_help(native(), help)); }
    template <class Rep, class Period>
    pool_attributes& spin(std::chrono::duration<Rep, Period> time) {
        return set(fiber_pool_attr_set_spin(native(), detail::timeout(time)));
    }

private:
    friend attribute_owner;
    static constexpr const char* in_c = "fiber_pool_attr";
};

/// Threads that work off tasks. To wait for tasks, and to hear of their exceptions, make them children of a scope
/// (scope::spawn), or use a wait_group.
///
///     pool workers;
///     wait_group both(2);
///     workers.submit([both] { work(); both.done(); });
///     workers.submit([both] { work(); both.done(); });
///     both.wait();
///
/// The destructor closes it: it waits until all tasks have ended, shielded. What a bound thread loses by exiting
/// (fiber_pool_bind) is not destroyed.
class pool {
public:
    pool() : pool(nullptr) {}
    explicit pool(const pool_attributes& attr) : pool(attr.native()) {}
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;
    ~pool() {
        if (!handle_.id) return;
        detail::waits_shielded here;
        detail::drop(fiber_pool_close(handle_));
    }

    fiber_pool_t handle() const noexcept { return handle_; }

    /// One of its threads will run the function, once. An exception but canceled that leaves it terminates the program.
    template <class F>
    void submit(F&& function, unsigned flags = 0) {
        using Body = detail::unattended<std::decay_t<F>>;
        auto made = std::make_unique<Body>(std::forward<F>(function));
        check(fiber_pool_submit_flags(handle_, &Body::run, static_cast<detail::body*>(made.get()), flags),
              "fiber_pool_submit");
        made.release();
    }

    /// Waits until all tasks have ended, then ends the pool.
    void close() {
        int result = fiber_pool_close(handle_);
        if (result == 0 || result == -EOWNERDEAD) handle_ = {0};
        check(result, "fiber_pool_close");
    }

private:
    friend class scope;

    explicit pool(const fiber_pool_attr_t* attr) {
        check(fiber_pool_create(&handle_, attr), "fiber_pool_create");
        int error = fiber_attr_set_pool(children_.native(), handle_);
        if (error) detail::drop(fiber_pool_close(handle_));
        check(error, "fiber_attr_set_pool");
    }

    attributes children_;
    fiber_pool_t handle_{0};
};

/// Binds the calling thread to a pool while it lives (fiber_pool_bind): it runs tasks when it would wait.
///
///     pool nobody(pool_attributes().workers(0));
///     bound_to_pool us(nobody);
///     nobody.submit([] { work(); }); // by this thread, when it waits, at the latest at the end of the block
class bound_to_pool {
public:
    explicit bound_to_pool(const pool& to) : pool_(to.handle()) { check(fiber_pool_bind(pool_), "fiber_pool_bind"); }
    ~bound_to_pool() {
        detail::waits_shielded here;
        fiber_pool_unbind(pool_);
    }
    bound_to_pool(const bound_to_pool&) = delete;
    bound_to_pool& operator=(const bound_to_pool&) = delete;

private:
    fiber_pool_t pool_;
};

// ---- Scopes ---------------------------------------------------------------------------------------------------------

namespace detail {

// What the children of a scope tell it, beside their results.
struct family {
    std::atomic<std::uint32_t> failed{0}; // not a bool: RISC-V exchanges no single bytes without libatomic
    std::atomic<std::int64_t> successes{0};
    std::exception_ptr failure; // of whoever has set `failed`; read when all have ended

    void note(std::exception_ptr exception) noexcept {
        if (!failed.exchange(1, std::memory_order_acq_rel)) failure = std::move(exception);
    }
};

inline std::int64_t result_for(const std::system_error& e) noexcept {
    bool is_errno = e.code().category() == std::generic_category() || e.code().category() == std::system_category();
    return is_errno && e.code().value() > 0 ? -e.code().value() : -ENOTRECOVERABLE;
}

template <class F>
struct child final : body {
    std::shared_ptr<family> kin;
    std::optional<F> function;

    template <class G>
    child(std::shared_ptr<family> whose, G&& f)
        : body(1), kin(std::move(whose)), function(std::in_place, std::forward<G>(f)) {}
    void drop_function() noexcept override { function.reset(); }

    static std::int64_t run(void* arg) {
        share<child> self(static_cast<child*>(static_cast<body*>(arg)));
        std::int64_t result = 0;
        try {
            std::move (*self->function)();
            self->kin->successes.fetch_add(1, std::memory_order_relaxed);
        }
        FIBERRT_CATCH_FORCED_UNWIND_
        catch (const canceled&) { // mostly by the scope, to which that is no failure
            result = -ECANCELED;
        }
        catch (const std::system_error& e) {
            result = result_for(e);
            self->kin->note(std::current_exception());
        }
        catch (...) {
            result = -ENOTRECOVERABLE;
            self->kin->note(std::current_exception());
        }
        self->drop_function();
        return result;
    }
};

} // namespace detail

/// A deadline around what the calling fiber does, and children that end before it does. It belongs on the stack.
///
///     scope both(2s);
///     both.spawn([] { work(); });
///     both.spawn([] { work(); });
///     both.close(); // waits; throws timed_out, or the first exception that left a child
///
/// flags: FIBER_SCOPE_SHIELD, FIBER_SCOPE_SHIELD_CANCEL, FIBER_SCOPE_COLLECT, FIBER_SCOPE_FIRST. Without the last two,
/// the first child that throws cancels the others. If the scope is left without close(), for instance by an exception,
/// it cancels the children and waits for them. To limit the time of a few calls, with_timeout() is handier.
class scope {
public:
    explicit scope(unsigned flags = 0) : scope(forever, flags) {}
    template <class Rep, class Period>
    explicit scope(std::chrono::duration<Rep, Period> time, unsigned flags = 0) : flags_(flags) {
        check(fiber_scope_open(&handle_, detail::timeout(time), flags), "fiber_scope_open");
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
        if (!handle_.id) return;
        if (kin_) fiber_scope_cancel(handle_, nullptr);
        fiber_scope_close(handle_, nullptr);
    }

    fiber_scope_t handle() const noexcept { return handle_; }

    /// Starts a child, whose handle is returned. Once there has been one, the children may start others, of any cord.
    template <class F>
    fiber_t spawn(F&& function) {
        return spawn(detail::default_attributes(), std::forward<F>(function));
    }
    template <class F>
    fiber_t spawn(const attributes& attr, F&& function) {
        fiber_t made;
        start(&made, attr, std::forward<F>(function));
        return made;
    }

    /// Starts a child that any thread of the pool may run. It does not run if the scope has been stopped by then.
    template <class F>
    void spawn(const pool& on, F&& function) {
        start(nullptr, on.children_, std::forward<F>(function));
    }

    /// Cancels it: what the fiber does in it, and its children. close() does not throw for that.
    void cancel(void* reason = nullptr) noexcept { fiber_scope_cancel(handle_, reason); }

    /// Moves its deadline.
    template <class Rep, class Period>
    void set_timeout(std::chrono::duration<Rep, Period> time) {
        check(fiber_scope_set_timeout(handle_, detail::timeout(time)), "fiber_scope_set_timeout");
    }

    /// Waits until all children have ended. Then throws the exception of the first that has failed (with
    /// FIBER_SCOPE_FIRST: if none has succeeded), or error, if it could not run; else timed_out, if the deadline has
    /// fired.
    void close() {
        if (!handle_.id) return;
        std::int64_t failure = 0;
        int verdict = fiber_scope_close(handle_, &failure);
        if (verdict != 0 && verdict != -ECANCELED && verdict != -ETIMEDOUT) fail(verdict, "fiber_scope_close");
        handle_ = {0};
        auto kin = std::move(kin_);
        bool won = (flags_ & FIBER_SCOPE_FIRST) && kin && kin->successes.load(std::memory_order_relaxed) > 0;
        if (failure && !won) {
            if (kin->failure) std::rethrow_exception(std::move(kin->failure));
            throw error(failure, "a child of the scope");
        }
        if (verdict == -ETIMEDOUT) fail(verdict, "fiber_scope_close");
    }

private:
    template <class F>
    void start(fiber_t* out, const attributes& attr, F&& function) {
        using Body = detail::child<std::decay_t<F>>;
        if (!kin_) kin_ = std::make_shared<detail::family>();
        auto made = std::make_unique<Body>(kin_, std::forward<F>(function));
        check(fiber_scope_spawn_attr(handle_, out, attr.native(), &Body::run, static_cast<detail::body*>(made.get())),
              "fiber_scope_spawn");
        made.release();
    }

    fiber_scope_t handle_{0};
    unsigned flags_;
    std::shared_ptr<detail::family> kin_;
};

/// Calls a function, whose waits throw timed_out when the time has passed. Returns what it returns, in an optional that
/// is empty if the time has ended it; of void, whether it has come to its end. Other exceptions pass.
///
///     std::optional<int> answer = with_timeout(1s, [] { return spawn([] { return 42; }).join(); });
///     bool done = with_timeout(1s, [] { work(); });
template <class Rep, class Period, class F>
auto with_timeout(std::chrono::duration<Rep, Period> time, F&& function) {
    using T = std::invoke_result_t<F>;
    std::optional<detail::stored<T>> result;
    fiber_scope_t limit;
    check(fiber_scope_open(&limit, detail::timeout(time), 0), "fiber_scope_open");
    try {
        if constexpr (std::is_void_v<T>) {
            std::forward<F>(function)();
            result.emplace();
        } else {
            result.emplace(std::forward<F>(function)());
        }
        fiber_scope_close(limit, nullptr);
    } catch (const timed_out&) {
        if (fiber_scope_close(limit, nullptr) != -ETIMEDOUT) throw; // a scope around this one
    }
    FIBERRT_CATCH_FORCED_UNWIND_
    catch (...) {
        fiber_scope_close(limit, nullptr);
        throw;
    }
    if constexpr (std::is_void_v<T>) {
        return result.has_value();
    } else {
        return result;
    }
}

// ---- Locks ----------------------------------------------------------------------------------------------------------

/// fiber_mutex_t, for std::lock_guard, std::unique_lock, std::scoped_lock; for fibers of any cord, and threads without.
/// Static ones need no constructor. Cancels and deadlines do not end lock(), they do end try_lock_for().
///
///     static fiberrt::mutex lock;
///     std::lock_guard<fiberrt::mutex> hold(lock);
///
/// EOWNERDEAD is thrown when the fiber that held it has ended without unlocking, as no guard does; it is unlocked again
/// then. Who wants to repair what it protects calls fiber_mutex_lock(m.native()).
class mutex {
public:
    constexpr mutex() noexcept = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;

    void lock() { locked(fiber_mutex_lock(&mutex_)); }
    bool try_lock() {
        int result = fiber_mutex_trylock(&mutex_);
        return result != -EBUSY && locked(result);
    }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> time) {
        int result = fiber_mutex_lock_timeout(&mutex_, detail::timeout(time));
        return result != -ETIMEDOUT && locked(result);
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::chrono::time_point<Clock, Duration> time) {
        int result = fiber_mutex_lock_timeout(&mutex_, detail::timeout_until(time));
        return result != -ETIMEDOUT && locked(result);
    }
    void unlock() noexcept { fiber_mutex_unlock(&mutex_); }

    fiber_mutex_t* native() noexcept { return &mutex_; }

private:
    bool locked(int result) {
        if (result == -EOWNERDEAD) fiber_mutex_unlock(&mutex_);
        check(result, "fiber_mutex_lock");
        return true;
    }
    fiber_mutex_t mutex_{};
};

/// fiber_cond_t, for std::unique_lock<fiberrt::mutex>. Whatever a wait throws, the mutex is locked, but perhaps for
/// EDEADLK: see fiber_cond_wait.
///
///     static fiberrt::mutex lock;
///     static condition_variable changed;
///     static bool ready = false;
///     std::unique_lock<fiberrt::mutex> hold(lock);
///     changed.wait(hold, [] { return ready; });
class condition_variable {
public:
    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable&) = delete;
    condition_variable& operator=(const condition_variable&) = delete;

    void notify_one() noexcept { fiber_cond_signal(&cond_); }
    void notify_all() noexcept { fiber_cond_broadcast(&cond_); }

    void wait(std::unique_lock<mutex>& lock) {
        check(fiber_cond_wait(&cond_, lock.mutex()->native()), "fiber_cond_wait");
    }
    template <class Predicate>
    void wait(std::unique_lock<mutex>& lock, Predicate holds) {
        while (!holds()) wait(lock);
    }

    /// Whether it was notified before the time had passed.
    template <class Rep, class Period>
    bool wait_for(std::unique_lock<mutex>& lock, std::chrono::duration<Rep, Period> time) {
        return wait_at_most(lock, detail::timeout(time));
    }
    template <class Clock, class Duration>
    bool wait_until(std::unique_lock<mutex>& lock, std::chrono::time_point<Clock, Duration> time) {
        return wait_at_most(lock, detail::timeout_until(time));
    }
    /// Whether the predicate holds.
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex>& lock, std::chrono::duration<Rep, Period> time, Predicate holds) {
        auto now = clock::now();
        std::chrono::nanoseconds left(detail::timeout(time));
        if (left <= clock::time_point::max() - now) return wait_until(lock, now + left, holds);
        wait(lock, holds); // it would end after the last time that there is
        return true;
    }
    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<mutex>& lock, std::chrono::time_point<Clock, Duration> time, Predicate holds) {
        while (!holds()) {
            if (!wait_until(lock, time)) return holds();
        }
        return true;
    }

    fiber_cond_t* native() noexcept { return &cond_; }

private:
    bool wait_at_most(std::unique_lock<mutex>& lock, std::int64_t time) {
        return detail::in_time(fiber_cond_wait_timeout(&cond_, lock.mutex()->native(), time), "fiber_cond_wait");
    }
    fiber_cond_t cond_{};
};

/// fiber_rwlock_t, for std::shared_lock and std::unique_lock.
///
///     static fiberrt::shared_mutex lock;
///     std::unique_lock<fiberrt::shared_mutex> writing(lock);
class shared_mutex {
public:
    constexpr shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;

    void lock() { check(fiber_rwlock_wrlock(&lock_), "fiber_rwlock_wrlock"); }
    bool try_lock() noexcept { return fiber_rwlock_trywrlock(&lock_) == 0; }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> time) {
        return detail::in_time(fiber_rwlock_wrlock_timeout(&lock_, detail::timeout(time)), "fiber_rwlock_wrlock");
    }
    void unlock() noexcept { fiber_rwlock_unlock(&lock_); }

    void lock_shared() { check(fiber_rwlock_rdlock(&lock_), "fiber_rwlock_rdlock"); }
    bool try_lock_shared() noexcept { return fiber_rwlock_tryrdlock(&lock_) == 0; }
    template <class Rep, class Period>
    bool try_lock_shared_for(std::chrono::duration<Rep, Period> time) {
        return detail::in_time(fiber_rwlock_rdlock_timeout(&lock_, detail::timeout(time)), "fiber_rwlock_rdlock");
    }
    void unlock_shared() noexcept { fiber_rwlock_unlock(&lock_); }

    fiber_rwlock_t* native() noexcept { return &lock_; }

private:
    fiber_rwlock_t lock_{};
};

/// fiber_sem_t.
///
///     static semaphore places(10);
///     places.acquire();
///     work();
///     places.release();
class semaphore {
public:
    explicit semaphore(std::int64_t permits = 0) { check(fiber_sem_init(&sem_, permits), "fiber_sem_init"); }
    semaphore(const semaphore&) = delete;
    semaphore& operator=(const semaphore&) = delete;

    void acquire(std::int64_t n = 1) { check(fiber_sem_wait(&sem_, n), "fiber_sem_wait"); }
    bool try_acquire(std::int64_t n = 1) {
        int result = fiber_sem_trywait(&sem_, n);
        if (result == -EAGAIN) return false;
        check(result, "fiber_sem_trywait");
        return true;
    }
    template <class Rep, class Period>
    bool try_acquire_for(std::chrono::duration<Rep, Period> time, std::int64_t n = 1) {
        return detail::in_time(fiber_sem_wait_timeout(&sem_, n, detail::timeout(time)), "fiber_sem_wait");
    }
    void release(std::int64_t n = 1) { check(fiber_sem_post(&sem_, n), "fiber_sem_post"); }

    fiber_sem_t* native() noexcept { return &sem_; }

private:
    fiber_sem_t sem_{};
};

/// fiber_once_t, for call_once.
class once_flag {
public:
    constexpr once_flag() noexcept = default;
    once_flag(const once_flag&) = delete;
    once_flag& operator=(const once_flag&) = delete;

private:
    template <class F>
    friend void call_once(once_flag& flag, F&& function);
    fiber_once_t once_{};
};

/// Calls a function if no call with this flag has returned from its own; waits while another runs. If it throws, that
/// passes, and the next caller's is called. Unlike that of std, and of static variables, the function may switch.
///
///     static once_flag made;
///     call_once(made, [] { work(); });
template <class F>
void call_once(once_flag& flag, F&& function) {
    struct call {
        F& function;
        std::exception_ptr failure;
        static int make(void* arg) {
            auto* self = static_cast<call*>(arg);
            try {
                std::forward<F>(self->function)();
                return 0;
            }
            FIBERRT_CATCH_FORCED_UNWIND_
            catch (...) {
                self->failure = std::current_exception();
                return -ENOTRECOVERABLE;
            }
        }
    } made{function, nullptr};
    int result = fiber_once(&flag.once_, &call::make, &made);
    if (made.failure) std::rethrow_exception(std::move(made.failure));
    check(result, "fiber_once");
}

// ---- To capture by value --------------------------------------------------------------------------------------------
//
// Copies of an event, a wait_group or a channel are the same one, which lives as long as any of them does: capture them
// by value. One allocation each. Events and wait groups in memory of one's own are those of fiberrt.h.

/// fiber_event_t, shared. flags: FIBER_EVENT_MANUAL, FIBER_EVENT_SET.
///
///     event ready;
///     auto waiting = spawn([ready] { ready.wait(); });
///     ready.set();
///     waiting.join();
class event {
public:
    explicit event(unsigned flags = 0) : event_(std::make_shared<fiber_event_t>()) {
        check(fiber_event_init(event_.get(), flags), "fiber_event_init");
    }

    void set() const noexcept { fiber_event_set(event_.get()); }
    bool reset() const noexcept { return fiber_event_reset(event_.get()) == 1; } ///< whether it was set
    bool is_set() const noexcept { return fiber_event_is_set(event_.get()) == 1; }

    void wait() const { check(fiber_event_wait(event_.get()), "fiber_event_wait"); }
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) const {
        return detail::in_time(fiber_event_wait_timeout(event_.get(), detail::timeout(time)), "fiber_event_wait");
    }
    template <class Clock, class Duration>
    bool wait_until(std::chrono::time_point<Clock, Duration> time) const {
        return detail::in_time(fiber_event_wait_timeout(event_.get(), detail::timeout_until(time)), "fiber_event_wait");
    }

    fiber_event_t* native() const noexcept { return event_.get(); }

private:
    std::shared_ptr<fiber_event_t> event_;
};

/// fiber_wg_t, shared.
///
///     wait_group all(2);
///     spawn_detached([all] { all.done(); });
///     spawn_detached([all] { all.done(); });
///     all.wait();
class wait_group {
public:
    explicit wait_group(std::int64_t n = 0) : group_(std::make_shared<fiber_wg_t>()) {
        if (n) add(n);
    }

    void add(std::int64_t n = 1) const { check(fiber_wg_add(group_.get(), n), "fiber_wg_add"); }
    /// Whether it was the last one.
    bool done() const { return check(fiber_wg_done(group_.get()), "fiber_wg_done") == 1; }

    void wait() const { check(fiber_wg_wait(group_.get()), "fiber_wg_wait"); }
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) const {
        return detail::in_time(fiber_wg_wait_timeout(group_.get(), detail::timeout(time)), "fiber_wg_wait");
    }
    template <class Clock, class Duration>
    bool wait_until(std::chrono::time_point<Clock, Duration> time) const {
        return detail::in_time(fiber_wg_wait_timeout(group_.get(), detail::timeout_until(time)), "fiber_wg_wait");
    }

    fiber_wg_t* native() const noexcept { return group_.get(); }

private:
    std::shared_ptr<fiber_wg_t> group_;
};

/// fiber_barrier_t, shared: rounds of a number of callers, who go on together.
///
///     barrier both(2);
///     spawn_detached([both] { both.wait(); });
///     both.wait();
class barrier {
public:
    explicit barrier(std::int64_t count) : barrier_(std::make_shared<fiber_barrier_t>()) {
        check(fiber_barrier_init(barrier_.get(), count), "fiber_barrier_init");
    }

    /// Whether the caller was the last to arrive.
    bool wait() const { return check(fiber_barrier_wait(barrier_.get()), "fiber_barrier_wait") == 1; }
    /// Whether the round was complete in time.
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) const {
        return in_time(fiber_barrier_wait_timeout(barrier_.get(), detail::timeout(time)));
    }
    template <class Clock, class Duration>
    bool wait_until(std::chrono::time_point<Clock, Duration> time) const {
        return in_time(fiber_barrier_wait_timeout(barrier_.get(), detail::timeout_until(time)));
    }

    fiber_barrier_t* native() const noexcept { return barrier_.get(); }

private:
    static bool in_time(int result) { return detail::in_time(result > 0 ? 0 : result, "fiber_barrier_wait"); }

    std::shared_ptr<fiber_barrier_t> barrier_;
};

namespace detail {

// How a T travels in a channel of bytes: as it is, if its bytes are all there is to it, else in a box.
template <class T, bool plain = std::is_trivially_copyable_v<T> && sizeof(T) <= FIBER_CHAN_ITEM_MAX>
struct parcel { // to send; what was not sent is destroyed with it
    std::remove_const_t<T> item;
    static constexpr std::size_t size = sizeof(T);
    explicit parcel(T value) : item(std::move(value)) {}
    void* address() noexcept { return std::addressof(item); }
    void sent() noexcept {}
};
template <class T>
struct parcel<T, false> {
    std::unique_ptr<T> item;
    T* raw;
    static constexpr std::size_t size = sizeof(T*);
    explicit parcel(T value) : item(std::make_unique<T>(std::move(value))), raw(item.get()) {}
    void* address() noexcept { return &raw; }
    void sent() noexcept { item.release(); } // NOLINT: it is the receiver's
};

template <class T, bool plain = std::is_trivially_copyable_v<T> && sizeof(T) <= FIBER_CHAN_ITEM_MAX>
struct landing { // to receive into
    alignas(T) unsigned char bytes[sizeof(T)];
    void* address() noexcept { return bytes; }
    T take() noexcept { return std::move(*std::launder(reinterpret_cast<T*>(bytes))); }
};
template <class T>
struct landing<T, false> {
    T* raw = nullptr;
    void* address() noexcept { return &raw; }
    T take() {
        std::unique_ptr<T> item(raw);
        return std::move(*item);
    }
};

} // namespace detail

/// A channel of items of one type, shared. Items whose bytes can be copied travel as they are, others (a std::string, a
/// std::unique_ptr) are moved into memory of their own, and out again; none is lost, or destroyed twice, if a wait ends
/// early or the channel does.
///
///     channel<std::string> lines(10); // 10 fit in; 0, or nothing: a send waits for its receiver
///     spawn_detached([lines] { lines.send("hello"); lines.close(); });
///     for (std::string& line : lines) greet(line); // until it is closed and empty
template <class T>
class channel {
    static_assert(std::is_nothrow_move_constructible_v<T>, "an item that is received must arrive");

public:
    explicit channel(std::size_t capacity = 0) : queue_(std::make_shared<queue>(capacity)) {}

    /// Waits for room. Throws EPIPE if it is closed.
    void send(T item) const {
        detail::parcel<T> parcel(std::move(item));
        check(fiber_chan_send(handle(), parcel.address()), "fiber_chan_send");
        parcel.sent();
    }
    /// Whether it was sent in time.
    template <class Rep, class Period>
    bool send_for(T item, std::chrono::duration<Rep, Period> time) const {
        detail::parcel<T> parcel(std::move(item));
        int result = fiber_chan_send_timeout(handle(), parcel.address(), detail::timeout(time));
        if (!detail::in_time(result, "fiber_chan_send")) return false;
        parcel.sent();
        return true;
    }
    /// Whether it could be sent at once.
    bool try_send(T item) const {
        detail::parcel<T> parcel(std::move(item));
        int result = fiber_chan_try_send(handle(), parcel.address());
        if (result == -EAGAIN) return false;
        check(result, "fiber_chan_send");
        parcel.sent();
        return true;
    }

    /// Waits for an item. Empty: it is closed, and nothing is left in it.
    std::optional<T> recv() const {
        detail::landing<T> landing;
        return taken(fiber_chan_recv(handle(), landing.address()), landing);
    }
    /// The same for so long; then throws timed_out.
    template <class Rep, class Period>
    std::optional<T> recv_for(std::chrono::duration<Rep, Period> time) const {
        detail::landing<T> landing;
        return taken(fiber_chan_recv_timeout(handle(), landing.address(), detail::timeout(time)), landing);
    }
    /// Empty: there is nothing to be had at once.
    std::optional<T> try_recv() const {
        detail::landing<T> landing;
        int result = fiber_chan_try_recv(handle(), landing.address());
        return taken(result == -EAGAIN ? -EPIPE : result, landing);
    }

    /// Nothing is sent from now on; what is in it can still be received. To close it twice does nothing.
    void close() const noexcept { fiber_chan_close(handle()); }

    std::int64_t count() const noexcept { return fiber_chan_count(handle()); }
    std::int64_t capacity() const noexcept { return fiber_chan_capacity(handle()); }
    bool closed() const noexcept { return fiber_chan_is_closed(handle()) == 1; }

    fiber_chan_t handle() const noexcept { return queue_->chan; }

    /// Receives until it is closed and empty.
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = T*;
        using reference = T&;
        iterator() = default;
        explicit iterator(const channel& from) : from_(&from) { ++*this; }
        T& operator*() { return *item_; }
        T* operator->() { return &*item_; }
        iterator& operator++() {
            std::optional<T> next = from_->recv();
            item_.reset();
            if (next) item_.emplace(std::move(*next));
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const iterator& other) const noexcept { return item_.has_value() == other.item_.has_value(); }
        bool operator!=(const iterator& other) const noexcept { return !(*this == other); }

    private:
        const channel* from_ = nullptr;
        std::optional<T> item_;
    };
    iterator begin() const { return iterator(*this); }
    iterator end() const noexcept { return iterator(); }

private:
    struct queue {
        fiber_chan_t chan;
        explicit queue(std::size_t capacity) {
            check(fiber_chan_create(&chan, detail::parcel<T>::size, capacity), "fiber_chan_create");
        }
        queue(const queue&) = delete;
        queue& operator=(const queue&) = delete;
        ~queue() {
            detail::landing<T> left; // nobody else has it any more
            while (fiber_chan_try_recv(chan, left.address()) == 0) left.take();
            fiber_chan_destroy(chan);
        }
    };

    static std::optional<T> taken(int result, detail::landing<T>& landing) {
        if (result == -EPIPE) return std::nullopt;
        check(result, "fiber_chan_recv");
        return std::optional<T>(landing.take());
    }

    std::shared_ptr<queue> queue_;
};

// ---- Select ---------------------------------------------------------------------------------------------------------

namespace detail {

struct plain_case {
    fiber_case_t base;
    fiber_case_t prepare() noexcept { return base; }
    void made(const fiber_case_t& done) { check(done.result, "fiber_select"); }
};

template <class T>
struct recv_case {
    fiber_chan_t chan;
    std::optional<T>& out;
    landing<T> place{};
    fiber_case_t prepare() noexcept {
        fiber_case_t c = {};
        c.kind = FIBER_CASE_RECV;
        c.chan = chan;
        c.item = place.address();
        return c;
    }
    void made(const fiber_case_t& done) {
        out.reset();
        if (done.result == -EPIPE) return;
        check(done.result, "fiber_chan_recv");
        out.emplace(place.take());
    }
};

template <class T>
struct send_case {
    fiber_chan_t chan;
    parcel<T> item;
    fiber_case_t prepare() noexcept {
        fiber_case_t c = {};
        c.kind = FIBER_CASE_SEND;
        c.chan = chan;
        c.item = item.address();
        return c;
    }
    void made(const fiber_case_t& done) {
        check(done.result, "fiber_chan_send");
        item.sent();
    }
};

} // namespace detail

/// An item has been received: it is in `out`, which is empty if the channel is closed.
template <class T>
detail::recv_case<T> on_recv(const channel<T>& from, std::optional<T>& out) {
    return {from.handle(), out};
}

/// The item has been sent.
template <class T>
detail::send_case<T> on_send(const channel<T>& to, detail::same<T> item) {
    return {to.handle(), detail::parcel<T>(std::move(item))};
}

inline detail::plain_case on_event(const event& which) {
    detail::plain_case c{};
    c.base.kind = FIBER_CASE_EVENT;
    c.base.object = which.native();
    return c;
}

/// The semaphore has given n permits.
inline detail::plain_case on_semaphore(semaphore& which, std::int64_t n = 1) {
    detail::plain_case c{};
    c.base.kind = FIBER_CASE_SEM;
    c.base.object = which.native();
    c.base.number = n;
    return c;
}

template <class Rep, class Period>
detail::plain_case on_timer(std::chrono::duration<Rep, Period> time) {
    detail::plain_case c{};
    c.base.kind = FIBER_CASE_TIMER;
    c.base.number = detail::timeout(time);
    return c;
}

/// The descriptor is ready for one of these events of poll(2).
inline detail::plain_case on_ready(int fd, int events) {
    detail::plain_case c{};
    c.base.kind = FIBER_CASE_FD;
    c.base.fd = fd;
    c.base.number = events;
    return c;
}

/// fiber_select: waits until one of the cases can be done, does it, and returns its index, counted from 0. The others
/// have not been done.
///
///     channel<int> jobs;
///     event stop;
///     std::optional<int> job;
///     switch (select(on_recv(jobs, job), on_event(stop), on_timer(1s))) {
///     case 0: work(); break;
///     case 1: return;
///     case 2: break; // nothing has come
///     }
template <class... Cases>
int select(Cases&&... cases) {
    std::array<fiber_case_t, sizeof...(Cases)> all{cases.prepare()...};
    int which = check(fiber_select(all.data(), static_cast<int>(all.size()), FIBER_FOREVER), "fiber_select");
    int at = 0;
    ((at++ == which ? cases.made(all[static_cast<std::size_t>(which)]) : void()), ...);
    return which;
}

// ---- Fiber-local values ---------------------------------------------------------------------------------------------

/// A value per fiber, made at its first use there and destroyed when the fiber ends. There can be 128 of these.
///
///     static fiber_local<int> depth;
///     ++*depth;
template <class T>
class fiber_local {
public:
    fiber_local() {
        check(fiber_key_create(&key_, [](void* value) { delete static_cast<T*>(value); }), "fiber_key_create");
    }
    fiber_local(const fiber_local&) = delete;
    fiber_local& operator=(const fiber_local&) = delete;
    ~fiber_local() { fiber_key_delete(key_); }

    T& operator*() const { return *get(); }
    T* operator->() const { return get(); }

private:
    T* get() const {
        if (void* there = fiber_key_get(key_)) return static_cast<T*>(there);
        auto made = std::make_unique<T>();
        check(fiber_key_set(key_, made.get()), "fiber_key_set");
        return made.release();
    }
    fiber_key_t key_;
};

/// An ambient key: something of the thread's that is each fiber's own, an object that is in force while its fiber runs.
/// Apply()(before, now) puts one in the place of another when fibers with different ones take turns, nullptr being what
/// the thread had; it neither waits nor throws.
///
///     struct put_on {
///         void operator()(int* before, int* now) const noexcept { if (before != now) work(); }
///     };
///     static ambient<int, put_on> hat;
///     static int red;
///     decltype(hat)::scoped here(hat, red); // on this fiber, while `here` lives
template <class T, class Apply>
class ambient {
public:
    ambient() {
        check(fiber_key_create_ambient(
                  &key_, nullptr,
                  [](void* before, void* now) noexcept { Apply()(static_cast<T*>(before), static_cast<T*>(now)); }),
              "fiber_key_create_ambient");
    }
    ambient(const ambient&) = delete;
    ambient& operator=(const ambient&) = delete;
    ~ambient() { fiber_key_delete(key_); }

    /// The calling fiber's, or nullptr.
    T* get() const noexcept { return static_cast<T*>(fiber_key_get(key_)); }
    /// Which must live for as long as it is in force.
    void set(T* value) { check(put(key_, value), "fiber_key_set"); }

    /// Sets one, and at its end the one before it again. It belongs on the stack.
    class scoped {
    public:
        scoped(ambient& of, T& value) : key_(of.key_), before_(of.get()) { of.set(&value); }
        ~scoped() { put(key_, before_); }
        scoped(const scoped&) = delete;
        scoped& operator=(const scoped&) = delete;

    private:
        fiber_key_t key_;
        T* before_;
    };

private:
    static int put(fiber_key_t key, const volatile void* value) { return fiber_key_set(key, const_cast<void*>(value)); }
    fiber_key_t key_;
};

// ---- Input and output -----------------------------------------------------------------------------------------------

/// A descriptor that is closed once (fiber_close): operations of other fibers on it end first. The calls that are not
/// here take get(): check(fiber_fsync(file.get())).
///
///     descriptor file(check(fiber_open("/etc/hostname", O_RDONLY | O_CLOEXEC, 0), "fiber_open"));
///     char text[100];
///     std::size_t length = file.read(text, sizeof text);
class descriptor {
public:
    descriptor() noexcept = default;
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(other.release()) {}
    descriptor& operator=(descriptor&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    ~descriptor() { reset(); }

    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }
    int release() noexcept { return std::exchange(fd_, -1); }
    void reset(int fd = -1) noexcept {
        int old = std::exchange(fd_, fd);
        // In a no-switch section it cannot wait: nobody may be using it then.
        if (old >= 0 && fiber_close(old) == -EPERM) ::close(old);
    }
    /// Throws if closing tells of an error, as that of a file that could not be written does.
    void close() {
        int result = fiber_close(fd_);
        if (result != -EPERM) fd_ = -1;
        check(result, "fiber_close");
    }

    /// What was read or received; 0 at the end.
    std::size_t read(void* buffer, std::size_t count) const {
        return done(fiber_read(fd_, buffer, count), "fiber_read");
    }
    std::size_t recv(void* buffer, std::size_t count, int flags = 0) const {
        return done(fiber_recv(fd_, buffer, count, flags), "fiber_recv");
    }
    /// What was written or sent, which may be less.
    std::size_t write(const void* buffer, std::size_t count) const {
        return done(fiber_write(fd_, buffer, count), "fiber_write");
    }
    std::size_t send(const void* buffer, std::size_t count, int flags = 0) const {
        return done(fiber_send(fd_, buffer, count, flags), "fiber_send");
    }
    /// Writes all of it.
    void write_all(const void* buffer, std::size_t count) const {
        for (auto* at = static_cast<const char*>(buffer); count;) {
            std::size_t n = write(at, count);
            at += n;
            count -= n;
        }
    }
    descriptor accept(int flags = 0) const {
        return descriptor(check(fiber_accept4(fd_, nullptr, nullptr, flags), "fiber_accept4"));
    }
    void connect(const sockaddr* address, socklen_t length) const {
        check(fiber_connect(fd_, address, length), "fiber_connect");
    }
    /// The events of poll(2) that hold.
    int poll(int events) const { return check(fiber_poll_fd(fd_, events), "fiber_poll_fd"); }

private:
    static std::size_t done(std::int64_t result, const char* call) {
        return static_cast<std::size_t>(check(result, call));
    }
    int fd_ = -1;
};

/// Copies from one to another, up to the end or a limit, in the kernel where that can be. Gives the bytes that it has
/// written, as *written does also where it throws; *lost: those that were taken then, and are in neither.
///
///     std::int64_t bytes = copy(descriptor(fd), dial("example.org:discard"));
inline std::int64_t copy(const descriptor& from, const descriptor& to, std::int64_t limit = FIBER_COPY_ALL,
                         std::int64_t* written = nullptr, std::int64_t* lost = nullptr) {
    return check(fiber_copy(from.get(), to.get(), limit, written, lost), "fiber_copy");
}

/// Moves up to count bytes from a pipe or into one, at the descriptors' own positions; gives how many, 0 at the end.
inline std::size_t splice(const descriptor& from, const descriptor& to, std::size_t count, unsigned flags = 0) {
    return static_cast<std::size_t>(
        check(fiber_splice(from.get(), nullptr, to.get(), nullptr, count, flags), "fiber_splice"));
}

/// Connects to an address that is given as text - "host:port", "[host]:port", "unix:path" - by whichever of its
/// addresses answers first.
///
///     descriptor server = dial("example.org:http");
///     server.write_all("HEAD / HTTP/1.0\r\n\r\n", 19);
inline descriptor dial(const char* address, int flags = SOCK_CLOEXEC) {
    return descriptor(check(fiber_dial(address, flags), "fiber_dial"));
}

/// The addresses of a name, to be gone through.
///
///     for (const addrinfo& one : addresses("example.org", "http")) {
///         if (one.ai_family == AF_INET6) work();
///     }
///
/// hints are those of getaddrinfo(3). There is at least one.
class addresses {
public:
    addresses(const char* node, const char* service, const addrinfo* hints = nullptr) {
        addrinfo* found;
        check(fiber_getaddrinfo(node, service, hints, &found), "fiber_getaddrinfo");
        list_.reset(found);
    }

    class iterator {
    public:
        using iterator_category = std::forward_iterator_tag;
        using value_type = addrinfo;
        using difference_type = std::ptrdiff_t;
        using pointer = const addrinfo*;
        using reference = const addrinfo&;

        explicit iterator(pointer at = nullptr) noexcept : at_(at) {}
        reference operator*() const noexcept { return *at_; }
        pointer operator->() const noexcept { return at_; }
        iterator& operator++() noexcept {
            at_ = at_->ai_next;
            return *this;
        }
        iterator operator++(int) noexcept {
            iterator before = *this;
            ++*this;
            return before;
        }
        friend bool operator==(iterator a, iterator b) noexcept { return a.at_ == b.at_; }
        friend bool operator!=(iterator a, iterator b) noexcept { return a.at_ != b.at_; }

    private:
        pointer at_;
    };
    iterator begin() const noexcept { return iterator(list_.get()); }
    iterator end() const noexcept { return iterator(); }

private:
    struct destroy {
        void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
    };
    std::unique_ptr<addrinfo, destroy> list_;
};

// ---- Blocking code --------------------------------------------------------------------------------------------------

namespace detail {

// On the stack of the fiber that waits for it.
template <class F, class T>
struct offloaded {
    F&& function;
    std::optional<stored<T>> value{};
    std::exception_ptr failure{};

    static std::int64_t run(void* arg) {
        auto* self = static_cast<offloaded*>(arg);
        keep_outcome<T>(std::forward<F>(self->function), self->value, self->failure);
        return 0;
    }
};

// In memory of its own, as whoever called it may leave before it ends.
template <class F, class T>
struct abandonable final : outcome<T> {
    std::optional<F> function;

    template <class G>
    explicit abandonable(G&& f) : outcome<T>(2), function(std::in_place, std::forward<G>(f)) {}
    void drop_function() noexcept override { function.reset(); }

    static std::int64_t run(void* arg) {
        auto* self = static_cast<abandonable*>(static_cast<body*>(arg));
        keep_outcome<T>(std::move(*self->function), self->value, self->failure);
        self->drop_function();
        return 0;
    }
};

} // namespace detail

/// Calls a function that can only block - a database, a compressor - on a thread that is there for that, and waits for
/// it; gives what it returns, throws what it throws. A wait that would end early does so only before the function has
/// begun, which then never runs. So it may use what is on the caller's stack.
///
///     std::string text;
///     int rows = offload([&] { return static_cast<int>(text.size()); });
template <class F>
auto offload(F&& function) {
    using T = std::invoke_result_t<F>;
    static_assert(!std::is_reference_v<T>, "return a pointer, or std::ref");
    detail::offloaded<F, T> call{std::forward<F>(function)};
    check(fiber_offload(&decltype(call)::run, &call, nullptr), "fiber_offload");
    if (call.failure) std::rethrow_exception(std::move(call.failure));
    if constexpr (!std::is_void_v<T>) return std::move(*call.value);
}

/// The same of a function that may take longer than anybody wants to wait: it is moved into memory of its own, a wait
/// that ends early does so at once, and the function goes on without the caller. What it has captured it must own; it
/// is destroyed on that thread then, and what it returns or throws is lost.
///
///     auto patient = with_timeout(1s, [] { return offload_detached([] { return 42; }); });
template <class F>
auto offload_detached(F&& function) {
    using T = detail::result_of<F>;
    using Call = detail::abandonable<std::decay_t<F>, T>;
    detail::share<Call> call(new Call(std::forward<F>(function)));
    check(fiber_offload_detached(&Call::run, static_cast<detail::body*>(call.get()), &detail::body::never_ran, nullptr),
          "fiber_offload_detached");
    if (call->failure) std::rethrow_exception(std::move(call->failure));
    if constexpr (!std::is_void_v<T>) return std::move(*call->value);
}

// ---- Signals --------------------------------------------------------------------------------------------------------

/// Signals that are blocked, and waited for by fibers, which are their handlers.
///
///     signal_set ends{SIGINT, SIGTERM};
///     ends.block(); // at the beginning of main, before there are other threads
///     auto handler = spawn([ends] { return ends.wait(); });
class signal_set {
public:
    signal_set(std::initializer_list<int> signals) {
        sigemptyset(&set_);
        for (int signal : signals) {
            if (sigaddset(&set_, signal) < 0) throw error(-EINVAL, "no signal");
        }
    }
    const sigset_t* native() const noexcept { return &set_; }

    /// On the calling thread, and those that it starts from now on.
    void block() const { pthread_sigmask(SIG_BLOCK, &set_, nullptr); }
    void unblock() const { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

    /// Waits for one of them, takes it, and gives its number. Throws EINVAL if one of them is not blocked.
    int wait(signalfd_siginfo* info = nullptr) const { return check(fiber_sigwait(&set_, info), "fiber_sigwait"); }

private:
    sigset_t set_;
};

// ---- Child processes ------------------------------------------------------------------------------------------------

/// How a child process is to be; a thin owner of a fiber_process_attr_t, for any number of them.
///
///     process list({"ls"}, process_attributes().directory("/").stream(1, FIBER_PROCESS_NULL));
class process_attributes : public detail::attribute_owner<process_attributes, fiber_process_attr_t,
                                                          fiber_process_attr_create, fiber_process_attr_destroy> {
public:
    /// 0, 1 or 2: a descriptor, which stays the caller's, or FIBER_PROCESS_...
    process_attributes& stream(int which, int source) {
        return set(fiber_process_attr_set_stream(native(), which, source));
    }
    process_attributes& environment(char* const strings[]) {
        return set(fiber_process_attr_set_environment(native(), strings));
    }
    process_attributes& directory(const char* path) { return set(fiber_process_attr_set_directory(native(), path)); }
    /// One more descriptor: the child has a copy of source as fd.
    process_attributes& descriptor(int fd, int source) { return set(fiber_process_attr_add_fd(native(), fd, source)); }
    /// A new session that the child leads, and a new process group with it.
    process_attributes& session(bool own = true) { return set(fiber_process_attr_set_session(native(), own)); }
    process_attributes& group(pid_t id = 0) { return set(fiber_process_attr_set_group(native(), id)); }
    process_attributes& blocked(const signal_set& signals) {
        return set(fiber_process_attr_set_mask(native(), signals.native()));
    }
    process_attributes& default_signals(const signal_set& signals) {
        return set(fiber_process_attr_set_default_signals(native(), signals.native()));
    }

private:
    friend attribute_owner;
    static constexpr const char* in_c = "fiber_process_attr";
};

/// How a child process has ended.
class process_status {
public:
    explicit process_status(int status) noexcept : status_(status) {}
    /// By exit(0).
    bool success() const noexcept { return status_ == 0; }
    /// What it has passed to exit(), or -1: a signal has ended it,
    int exit_code() const noexcept { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
    /// this one; or 0.
    int signal() const noexcept { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }
    int native() const noexcept { return status_; } ///< as waitpid(2) has it

private:
    int status_;
};

/// A child process, whose end is to be waited for, once. Moved, not copied. The words are its program, by its path or
/// as the PATH has it, and the arguments.
///
///     process sort({"sort"}, process_attributes().stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE));
///     sort.pipe(0).write_all("b\na\n", 4);
///     sort.pipe(0).close();
///     char text[5];
///     std::size_t length = sort.pipe(1).read(text, sizeof text);
///     bool sorted = sort.wait().success() && length == 4;
///
/// If it is destroyed before, its pipes are closed, the child is sent SIGTERM, and SIGKILL if it has not ended within
/// grace(), and waited for. (In a no-switch section, SIGKILL at once, and the thread waits.) So is it, but for the
/// pipes, if a cancel or a deadline ends wait(). One that may not be sent signals, as it has changed its user, lives
/// on; and so does one of the process that the calling one was forked from.
/// A write to a child that does not read any more raises SIGPIPE, which programs with pipes ignore.
class [[nodiscard]] process {
public:
    explicit process(std::initializer_list<const char*> words) : process(words, process_attributes()) {}
    process(std::initializer_list<const char*> words, const process_attributes& attr) {
        auto all = std::make_unique<const char*[]>(words.size() + 1);
        for (std::size_t i = 0; i < words.size(); i++) all[i] = words.begin()[i];
        spawn(const_cast<char* const*>(all.get()), attr);
    }
    /// The words with nullptr behind the last.
    explicit process(char* const words[]) : process(words, process_attributes()) {}
    process(char* const words[], const process_attributes& attr) { spawn(words, attr); }

    process(process&& other) noexcept
        : pid_(other.release()), grace_ns_(other.grace_ns_), pipes_(std::move(other.pipes_)) {}
    process& operator=(process&& other) noexcept {
        if (this == &other) return *this;
        end();
        pid_ = other.release();
        grace_ns_ = other.grace_ns_;
        pipes_ = std::move(other.pipes_);
        return *this;
    }
    ~process() { end(); }

    /// Its number, as long as its end has not been taken; then 0.
    pid_t id() const noexcept { return pid_; }
    explicit operator bool() const noexcept { return pid_ > 0; }

    /// The other end of the pipe that one of its streams is.
    descriptor& pipe(int stream) { return pipes_.at(static_cast<std::size_t>(stream)); }

    /// How long it has between SIGTERM and SIGKILL; 5 s without this. 0: SIGKILL alone; forever: no SIGKILL.
    template <class Rep, class Period>
    process& grace(std::chrono::duration<Rep, Period> time) noexcept {
        grace_ns_ = detail::timeout(time);
        return *this;
    }

    /// Sends it a signal.
    void send(int signal) const {
        if (!*this || ::kill(pid_, signal) < 0) throw error(*this ? -errno : -ESRCH, "kill");
    }

    /// Waits for its end. What it throws for a cancel or a deadline of the caller it throws when the child has ended;
    /// after interrupted the child lives on.
    process_status wait() {
        int status = 0;
        int result = fiber_process_wait(pid_, &status, grace_ns_);
        if (ended(result)) pid_ = 0;
        check(result, "fiber_process_wait");
        return process_status(status);
    }

    /// Whether it has ended, and how.
    std::optional<process_status> try_wait() {
        int status = 0;
        if (!check(fiber_waitpid(pid_, &status, WNOHANG), "fiber_waitpid")) return std::nullopt;
        pid_ = 0;
        return process_status(status);
    }

    /// Leaves it to the caller, who is to take its end: its number.
    pid_t release() noexcept { return std::exchange(pid_, 0); }

private:
    void spawn(char* const words[], const process_attributes& attr) {
        int ends[3];
        check(fiber_process_spawn(&pid_, ends, attr.native(), words[0], words), "fiber_process_spawn");
        for (std::size_t i = 0; i < pipes_.size(); i++) pipes_[i].reset(ends[i]);
    }

    // Or there is nothing to be waited for.
    static bool ended(int result) noexcept {
        return result == 0 || result == -ECANCELED || result == -ETIMEDOUT || result == -ECHILD;
    }

    // Not in a process that was forked, nor if the system has taken its end, and may have given the number to another.
    bool kill_if_ours() const noexcept {
        siginfo_t info;
        return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               ::kill(pid_, SIGKILL) == 0;
    }

    void end() noexcept {
        if (!*this) return;
        detail::waits_shielded here;
        for (descriptor& pipe : pipes_) pipe.reset(); // it may wait for the end of its input
        fiber_scope_t over{0};                        // without memory for it SIGKILL goes out at once
        if (fiber_scope_open(&over, 0, 0) != 0) kill_if_ours();
        int result;
        do {
            result = fiber_process_wait(pid_, nullptr, grace_ns_);
        } while (result == -EINTR);
        if (over.id) fiber_scope_close(over, nullptr);
        // Whom the system does not let us send any signal lives on.
        if (!ended(result) && result != -EACCES && kill_if_ours()) {
            while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
        }
        pid_ = 0;
    }

    pid_t pid_ = 0;
    std::int64_t grace_ns_ = FIBER_SEC(5);
    std::array<descriptor, 3> pipes_;
};

} // namespace fiberrt

#if defined(__cpp_impl_coroutine)
#include <coroutine>

namespace fiberrt {

// ---- Coroutines -----------------------------------------------------------------------------------------------------
//
// A coroutine that returns task<T> can run as a HOSTED fiber, which has no stack: its frame, some hundred bytes, is all
// that it needs. It is a fiber like the others, in the same run queue, with a fiber<T> for its handle, and talks to
// them through the same channels and locks. What would wait is awaited instead, by the functions of the namespace co,
// which are named as those that wait; whatever waits without co_await is refused in a coroutine, with EPERM. Some of
// that may be wanted all the same: co::call runs it on a stack.
//
//     channel<int> counted;
//     auto sender = spawn([counted]() -> task<> {
//         for (int i = 0; i < 3; i++) {
//             co_await co::sleep_for(1ms);
//             co_await co::send(counted, i);
//         }
//         counted.close();
//     });
//     int sum = 0;
//     for (int number : counted) sum += number; // on a stack
//     sender.join();
//
// A cancel is an exception at the co_await, as it is at a call. Destructors cannot wait in a coroutine: a fiber<T> that
// is left there is cancelled and detached, and scopes are for deadlines alone (co::with_timeout); join what you have
// spawned. A lambda that is spawned lives as long as its coroutine, so that it may capture.

/// A coroutine that has not begun. It runs when it is awaited by another, or spawned; its frame is destroyed with it.
/// One goes on with another by symmetric transfer, which is a tail call in optimised builds only: at -O0 GCC nests them,
/// and a loop that awaits many that never wait uses up the stack of the steps.
///
///     struct twice {
///         static task<int> of(int n) {
///             co_await co::reschedule();
///             co_return 2 * n;
///         }
///         static task<int> of_sum(int a, int b) { co_return co_await of(a) + co_await of(b); }
///     };
///     int fourteen = spawn(twice::of_sum(3, 4)).join();
template <class T>
class [[nodiscard]] task;

namespace detail {

// A hosted fiber that runs a coroutine, as those who await something in it know it.
struct host {
    static constexpr std::int64_t not_begun = INT64_MIN;

    std::coroutine_handle<> leaf;    // which is to go on
    std::int64_t result = not_begun; // of what it has awaited
    std::coroutine_handle<> same;    // the leaf, while `how` is FIBER_STEP_AGAIN; else null
    int how = FIBER_STEP_END;        // how the leaf has left this turn
    fiber_op_t op{};

    void left(std::coroutine_handle<> by, int as) noexcept {
        leaf = by;
        same = as == FIBER_STEP_AGAIN ? by : nullptr;
        how = as;
    }
    void ends() noexcept { left(leaf, FIBER_STEP_END); }
};

// To leave a turn as a step does that returns `how`.
template <int how>
struct leave {};
template <int how>
struct leaves;

struct promise_base {
    host* hosted = nullptr;
    std::coroutine_handle<> awaiter; // null: of the outermost one
    std::exception_ptr failure;

    // An awaitable of this header that leaves a turn sets `how` in left(). A foreign awaitable does not. So the third
    // overload notes, before one is awaited, that suspending in it ends the fiber.
    template <int how>
    leaves<how> await_transform(leave<how>) const noexcept {
        return {hosted};
    }
    template <class T>
    task<T>&& await_transform(task<T>&& ours) const noexcept {
        return std::move(ours);
    }
    template <class Other>
    Other&& await_transform(Other&& other) const noexcept {
        hosted->ends();
        return std::forward<Other>(other);
    }

    std::suspend_always initial_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { failure = std::current_exception(); }

    struct to_awaiter {
        bool await_ready() const noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
            promise_base& promise = ended.promise();
            if (promise.awaiter) return promise.awaiter;
            promise.hosted->ends();
            return std::noop_coroutine();
        }
        void await_resume() const noexcept {}
    };
    to_awaiter final_suspend() const noexcept { return {}; }
};

template <class T>
struct promise : promise_base {
    std::optional<T> value;
    task<T> get_return_object() noexcept;
    template <class U>
    void return_value(U&& result) {
        value.emplace(std::forward<U>(result));
    }
    T take() {
        if (failure) std::rethrow_exception(std::move(failure));
        return std::move(*value);
    }
};
template <>
struct promise<void> : promise_base {
    task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() {
        if (failure) std::rethrow_exception(std::move(failure));
    }
};

} // namespace detail

template <class T>
class task {
    static_assert(!std::is_reference_v<T>, "return a pointer, or std::ref");

public:
    using promise_type = detail::promise<T>;

    task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    task& operator=(task&& other) noexcept {
        if (this != &other) {
            if (frame_) frame_.destroy();
            frame_ = std::exchange(other.frame_, nullptr);
        }
        return *this;
    }
    ~task() {
        if (frame_) frame_.destroy();
    }

    /// Awaited once: `co_await of(3)`, or `co_await std::move(t)`. Throws error (EINVAL) if it has been moved away, or
    /// awaited before.
    auto operator co_await() && { return awaiter{held()}; }

private:
    std::coroutine_handle<promise_type> held() const {
        if (!frame_) throw error(-EINVAL, "the task has been moved away");
        if (frame_.promise().hosted) throw error(-EINVAL, "the task has been awaited before");
        return frame_;
    }

    struct awaiter {
        std::coroutine_handle<promise_type> frame;
        bool await_ready() const noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> outer) const noexcept {
            static_assert(std::is_base_of_v<detail::promise_base, Promise>, "only a task can await a task");
            frame.promise().hosted = outer.promise().hosted;
            frame.promise().awaiter = outer;
            return frame;
        }
        T await_resume() const { return frame.promise().take(); }
    };
    friend promise_type;
    template <class>
    friend struct detail::hosted_body;

    explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

    std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class T>
task<T> promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<promise>::from_promise(*this));
}
inline task<void> promise<void>::get_return_object() noexcept {
    return task<void>(std::coroutine_handle<promise>::from_promise(*this));
}

struct fiber_access {
    template <class T>
    static fiber<T> make(fiber_t handle, share<outcome<T>> of) noexcept {
        return fiber<T>(handle, std::move(of));
    }
    template <class T>
    static bool ends(fiber<T>& which, int result) noexcept {
        return which.ends(result);
    }
    template <class T>
    static bool ended(const fiber<T>& which) noexcept {
        return which.end_ != 0;
    }
};

// Of a hosted fiber: the coroutine, and what it leaves behind. Where there is a handle it has a share, too.
template <class T>
struct hosted_body final : outcome<T> {
    host hosted;
    std::optional<task<T>> coroutine;

    hosted_body(int count, task<T> of) : outcome<T>(count), coroutine(std::move(of)) {
        hosted.leaf = coroutine->held();
        coroutine->frame_.promise().hosted = &hosted;
    }
    void drop_function() noexcept override { coroutine.reset(); }

    // A turn of the fiber.
    static int step(void* arg, std::int64_t result) {
        auto* self = static_cast<hosted_body*>(static_cast<body*>(arg));
        host& hosted = self->hosted;
        if (result != hosted.result) [[unlikely]] {
            // It was cancelled before.
            if (result < 0 && hosted.result == host::not_begun) [[unlikely]]
                return self->never();
            hosted.result = result;
        }
        hosted.leaf.resume();
        if (hosted.how == FIBER_STEP_END) [[unlikely]]
            return self->ended();
        return hosted.how;
    }

    // Not inlined: each turn would save the registers that these need.
    [[gnu::noinline]] int never() {
        body::never_ran(this);
        fiber_hosted_end(this_fiber::self(), FIBER_CANCELED);
        return FIBER_STEP_END;
    }

    [[gnu::noinline]] int ended() {
        auto& promise = coroutine->frame_.promise();
        try { // to move the value may throw
            if (!coroutine->frame_.done()) throw error(-EINVAL, "a task awaited what does not let its fiber go on");
            if (promise.failure) {
                this->failure = std::move(promise.failure);
            } else if constexpr (std::is_void_v<T>) {
                this->value.emplace();
            } else {
                this->value.emplace(std::move(*promise.value));
            }
        } catch (...) {
            this->failure = std::current_exception();
        }
        drop_function();
        if (this->failure && this->owners.load(std::memory_order_acquire) == 1) unless_cancelled();
        this->finished.store(true, std::memory_order_release);
        this->release();
        return FIBER_STEP_END;
    }

    // It is detached: nobody can be told, and the runtime terminates.
    void unless_cancelled() {
        try {
            std::rethrow_exception(this->failure);
        } catch (const canceled&) {}
    }
};

template <class T>
fiber_t create_hosted(const attributes& attr, std::unique_ptr<hosted_body<T>> made, bool detached) {
    fiber_t fiber;
    check(fiber_hosted_new(&fiber, attr.native(), &hosted_body<T>::step, static_cast<body*>(made.get())),
          "fiber_hosted_new");
    made.release();
    if (detached) fiber_detach(fiber);
    fiber_wakeup(fiber);
    return fiber;
}

template <class T>
fiber<T> spawn_hosted(const attributes& attr, task<T> coroutine) {
    auto made = std::make_unique<hosted_body<T>>(2, std::move(coroutine));
    outcome<T>* left = made.get();
    fiber_t handle = create_hosted(attr, std::move(made), false);
    return fiber_access::make(handle, share<outcome<T>>(left));
}

// Keeps a lambda for as long as the coroutine that it is.
template <class T, class F>
task<T> call_coroutine(F function) {
    co_return co_await std::move(function)();
}

// What is awaited by an operation of fiberrt.h. Waiting is prepare(op), that sets it; then the result is in `from`.
template <class Wait>
struct awaits : Wait {
    host* from = nullptr;

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> leaf) {
        static_assert(std::is_base_of_v<promise_base, Promise>, "only a task can await this");
        from = leaf.promise().hosted;
        fiber_op_t& op = from->op;
        op.flags = 0;
        Wait::prepare(op);
        from->left(leaf, FIBER_STEP_WAIT);
        int started = fiber_op_start(&op);
        if (started == 0) return true;
        from->result = started < 0 ? started : op.result;
        return false;
    }
    decltype(auto) await_resume() { return Wait::done(from->op, from->result); }
};

// Awaited to leave a turn with the value that a step would return. A turn that only gives way is so short that each
// comparison in it shows in the benchmark `hosted`. So a coroutine that gives way repeatedly stores neither where it
// continues nor how it leaves: the one comparison with `same` shows that both are unchanged. The result is compared,
// too.
template <int how>
struct leaves {
    host* from;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> leaf) const noexcept {
        if (how != FIBER_STEP_AGAIN || from->same != leaf) [[unlikely]]
            from->left(leaf, how);
    }
    void await_resume() const {
        if (from->result < 0) [[unlikely]]
            fail(from->result, "co_await");
    }
};

struct wait_plain {
    std::uint32_t code;
    const char* call;
    void* address = nullptr;
    std::int64_t number = 0;
    void prepare(fiber_op_t& op) const noexcept {
        op.code = code;
        op.address = address;
        op.number = number;
    }
    void done(const fiber_op_t&, std::int64_t result) const { check(result, call); }
};

// Keeps alive what it waits for.
template <class Object>
struct wait_shared {
    std::uint32_t code;
    const char* call;
    Object object;
    void prepare(fiber_op_t& op) const noexcept {
        op.code = code;
        op.address = object.native();
    }
    void done(const fiber_op_t&, std::int64_t result) const { check(result, call); }
};

struct wait_io {
    std::uint32_t code;
    const char* call;
    int fd;
    void* address = nullptr;
    std::size_t length = 0;
    int mode = 0;
    void prepare(fiber_op_t& op) const noexcept {
        op.code = code;
        op.fd = fd;
        op.address = address;
        op.address2 = nullptr;
        op.length = length;
        op.mode = mode;
    }
};
struct wait_transfer : wait_io {
    std::size_t done(const fiber_op_t&, std::int64_t result) const {
        return static_cast<std::size_t>(check(result, call));
    }
};
struct wait_accept : wait_io {
    descriptor done(const fiber_op_t&, std::int64_t result) const {
        return descriptor(static_cast<int>(check(result, call)));
    }
};
struct wait_int : wait_io {
    int done(const fiber_op_t&, std::int64_t result) const { return static_cast<int>(check(result, call)); }
};

template <class T>
struct wait_send {
    channel<T> to;
    parcel<T> item;
    void prepare(fiber_op_t& op) noexcept {
        op.code = FIBER_OP_CHAN_SEND;
        op.target = to.handle().id;
        op.address = item.address();
    }
    void done(const fiber_op_t&, std::int64_t result) {
        check(result, "fiber_chan_send");
        item.sent();
    }
};

template <class T>
struct wait_recv {
    channel<T> of;
    landing<T> place{};
    void prepare(fiber_op_t& op) noexcept {
        op.code = FIBER_OP_CHAN_RECV;
        op.target = of.handle().id;
        op.address = place.address();
    }
    std::optional<T> done(const fiber_op_t&, std::int64_t result) {
        if (result == -EPIPE) return std::nullopt;
        check(result, "fiber_chan_recv");
        return std::optional<T>(place.take());
    }
};

template <class T>
struct wait_join {
    fiber<T>& which;
    void prepare(fiber_op_t& op) const noexcept {
        op.code = fiber_access::ended(which) ? FIBER_OP_NONE : FIBER_OP_JOIN;
        op.target = which.handle().id;
    }
    T done(const fiber_op_t&, std::int64_t result) const {
        bool ended = fiber_access::ended(which) || fiber_access::ends(which, static_cast<int>(result));
        if (!ended) check(result, "fiber_join");
        return which.join();
    }
};

struct wait_lock {
    mutex& which;
    void prepare(fiber_op_t& op) const noexcept {
        op.code = FIBER_OP_MUTEX_LOCK;
        op.address = which.native();
    }
    std::unique_lock<mutex> done(const fiber_op_t&, std::int64_t result) const {
        if (result == -EOWNERDEAD) which.unlock();
        check(result, "fiber_mutex_lock");
        return std::unique_lock<mutex>(which, std::adopt_lock);
    }
};

template <class F, class T>
struct wait_call {
    F function;
    std::optional<stored<T>> value{};
    std::exception_ptr failure{};

    static std::int64_t run(void* arg) {
        auto* self = static_cast<wait_call*>(arg);
        keep_outcome<T>(std::move(self->function), self->value, self->failure);
        return 0;
    }
    void prepare(fiber_op_t& op) noexcept {
        op.code = FIBER_OP_CALL;
        op.function = &wait_call::run;
        op.address = this;
    }
    T done(const fiber_op_t&, std::int64_t result) {
        if (failure) std::rethrow_exception(std::move(failure));
        if (!value) fail(result < 0 ? result : -ECANCELED, "co::call");
        if constexpr (!std::is_void_v<T>) return std::move(*value);
    }
};

} // namespace detail

/// Starts a coroutine as a hosted fiber of the calling thread's cord. Of the attributes its name and daemon count.
///
///     auto later = spawn([]() -> task<int> { co_return 42; });
///     int answer = later.join();
template <class T>
fiber<T> spawn(const attributes& attr, task<T> coroutine) {
    return detail::spawn_hosted(attr, std::move(coroutine));
}
template <class T>
fiber<T> spawn(task<T> coroutine) {
    return detail::spawn_hosted(detail::default_attributes(), std::move(coroutine));
}

/// The same of one that nobody joins. An exception but canceled that leaves it terminates the program.
template <class T>
void spawn_detached(task<T> coroutine) {
    detail::create_hosted(detail::default_attributes(),
                          std::make_unique<detail::hosted_body<T>>(1, std::move(coroutine)), true);
}

/// What a coroutine awaits, in the place of what waits on a stack.
///
///     descriptor connection;
///     auto echo = spawn([&]() -> task<> {
///         char bytes[100];
///         while (std::size_t n = co_await co::recv(connection, bytes, sizeof bytes)) {
///             co_await co::send(connection, bytes, n);
///         }
///     });
///     echo.cancel(); // throws canceled from the co_await
namespace co {

template <class Rep, class Period>
auto sleep_for(std::chrono::duration<Rep, Period> time) {
    return detail::awaits<detail::wait_plain>{{FIBER_OP_SLEEP, "fiber_sleep", nullptr, detail::timeout(time)}};
}
template <class Clock, class Duration>
auto sleep_until(std::chrono::time_point<Clock, Duration> time) {
    return detail::awaits<detail::wait_plain>{{FIBER_OP_SLEEP, "fiber_sleep", nullptr, detail::timeout_until(time)}};
}

/// Every other runnable fiber has its turn.
inline auto reschedule() { return detail::leave<FIBER_STEP_AGAIN>{}; }

/// Until somebody wakes the fiber.
inline auto yield() { return detail::leave<FIBER_STEP_YIELD>{}; }

/// As fiber<T>::join. The handle must live until then: `co_await co::join(spawn(...))` sees to that.
template <class T>
auto join(fiber<T>& which) {
    return detail::awaits<detail::wait_join<T>>{{which}};
}
template <class T>
auto join(fiber<T>&& which) {
    return detail::awaits<detail::wait_join<T>>{{which}};
}

template <class T>
auto send(const channel<T>& to, detail::same<T> item) {
    return detail::awaits<detail::wait_send<T>>{{to, detail::parcel<T>(std::move(item))}};
}
/// Empty: the channel is closed, and nothing is left in it.
template <class T>
auto recv(const channel<T>& of) {
    return detail::awaits<detail::wait_recv<T>>{{of}};
}

inline auto wait(const event& for_it) {
    return detail::awaits<detail::wait_shared<event>>{{FIBER_OP_EVENT_WAIT, "fiber_event_wait", for_it}};
}
inline auto wait(const wait_group& for_all) {
    return detail::awaits<detail::wait_shared<wait_group>>{{FIBER_OP_WG_WAIT, "fiber_wg_wait", for_all}};
}
inline auto acquire(semaphore& of, std::int64_t n = 1) {
    return detail::awaits<detail::wait_plain>{{FIBER_OP_SEM_WAIT, "fiber_sem_wait", of.native(), n}};
}
/// Gives a std::unique_lock. Unlike mutex::lock it is ended by a cancel.
inline auto lock(mutex& which) { return detail::awaits<detail::wait_lock>{{which}}; }

inline auto read(const descriptor& from, void* buffer, std::size_t count) {
    return detail::awaits<detail::wait_transfer>{{{FIBER_OP_READ, "fiber_read", from.get(), buffer, count}}};
}
inline auto write(const descriptor& to, const void* buffer, std::size_t count) {
    return detail::awaits<detail::wait_transfer>{
        {{FIBER_OP_WRITE, "fiber_write", to.get(), const_cast<void*>(buffer), count}}};
}
inline auto recv(const descriptor& from, void* buffer, std::size_t count, int flags = 0) {
    return detail::awaits<detail::wait_transfer>{{{FIBER_OP_RECV, "fiber_recv", from.get(), buffer, count, flags}}};
}
inline auto send(const descriptor& to, const void* buffer, std::size_t count, int flags = 0) {
    return detail::awaits<detail::wait_transfer>{
        {{FIBER_OP_SEND, "fiber_send", to.get(), const_cast<void*>(buffer), count, flags}}};
}
/// Gives a descriptor.
inline auto accept(const descriptor& listener, int flags = 0) {
    return detail::awaits<detail::wait_accept>{{{FIBER_OP_ACCEPT, "fiber_accept4", listener.get(), nullptr, 0, flags}}};
}
inline auto connect(const descriptor& socket, const sockaddr* address, socklen_t length) {
    return detail::awaits<detail::wait_int>{
        {{FIBER_OP_CONNECT, "fiber_connect", socket.get(), const_cast<sockaddr*>(address), length}}};
}
/// Gives the events of poll(2) that hold.
inline auto poll(const descriptor& of, int events) {
    return detail::awaits<detail::wait_int>{{{FIBER_OP_POLL, "fiber_poll_fd", of.get(), nullptr, 0, events}}};
}

/// Calls a function on a fiber with a stack of its own, in which it may wait; gives what it returns, throws what it
/// throws. A cancel of the coroutine cancels that fiber, and is seen here when it has ended.
///
/// (gcc 12 destroys a lambda that has captured an object twice if it is written inside an expression that is awaited,
/// here as anywhere. Name it before.)
template <class F>
auto call(F function) {
    return detail::awaits<detail::wait_call<F, std::invoke_result_t<F>>>{{std::move(function)}};
}

/// As fiberrt::with_timeout, around a coroutine.
///
///     auto patient = spawn([]() -> task<bool> { co_return co_await co::with_timeout(1s, []() -> task<> {
///         co_await co::sleep_for(10s);
///     }()); });
template <class Rep, class Period, class T>
auto with_timeout(std::chrono::duration<Rep, Period> time, task<T> coroutine)
    -> task<std::conditional_t<std::is_void_v<T>, bool, std::optional<detail::stored<T>>>> {
    std::optional<detail::stored<T>> result;
    fiber_scope_t limit;
    check(fiber_scope_open(&limit, detail::timeout(time), 0), "fiber_scope_open");
    try {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(coroutine);
            result.emplace();
        } else {
            result.emplace(co_await std::move(coroutine));
        }
        fiber_scope_close(limit, nullptr);
    } catch (const timed_out&) {
        if (fiber_scope_close(limit, nullptr) != -ETIMEDOUT) throw; // a scope around this one
    } catch (...) {
        fiber_scope_close(limit, nullptr);
        throw;
    }
    if constexpr (std::is_void_v<T>) {
        co_return result.has_value();
    } else {
        co_return result;
    }
}

} // namespace co

} // namespace fiberrt

#endif

#undef FIBERRT_CATCH_FORCED_UNWIND_

#endif
