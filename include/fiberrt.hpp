// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fiberrt.hpp - fiberrt.h for C++: lambdas, values, exceptions and destructors in place of pointers, codes and calls.
//
//     auto sum = spawn([] { sleep_for(10ms); return 40 + 2; }); // a fiber; the caller goes on
//     int answer = sum.join();                                   // waits; throws what the lambda has thrown
//
// Everything here is inline, on top of fiberrt.h, whose terms and rules hold here too. That header says in detail what
// a call does, and where it may be called. Each class gives its C handle or object (handle(), native()) for the C
// functions that have no wrapper here; check() turns their error codes into exceptions:
//
//     check(fiber_fsync(fd), "fiber_fsync");
//
// Needs C++17, gcc or clang, and exceptions; not RTTI. Do not write `using namespace fiberrt` in a scope that also has
// the names of <unistd.h> or `using namespace std`.
//
// Errors are exceptions of class error, a std::system_error whose code is the errno in generic_category: e.code() ==
// std::errc::broken_pipe. Three of them concern only the fiber that made the call: cancelled, interrupted, timed_out. A
// fiber that does not catch them unwinds and ends, which is the purpose of a cancel. A wait with a time (wait_for,
// send_for, try_lock_for) reports by its result that the time has passed; only recv_for throws timed_out. If the
// deadline of a scope has passed instead, the next call that waits throws timed_out.
//
// Exceptions never pass through the library's own frames. An exception that leaves the function of a fiber is kept for
// join(), of a scope's child for scope::close(), of a cord for cord::join(). An exception that leaves a detached fiber
// or a task submitted to a pool terminates the program, as in a std::thread, after the fiber's name has been printed.
// cancelled does not: a cancelled fiber may end by it. pthread_exit and pthread_cancel in a fiber end the program, too.
// Never call fiber_exit: it runs no destructors.
//
// A function is moved into memory allocated for it (the only allocation), and destroyed once: on the fiber's stack when
// it has returned. If the fiber never runs, for instance because it is cancelled before, the thread that finds this out
// destroys the function, in a no-switch section and before any joiner is woken. So the destructors of captured objects
// must not wait then; none of this header's does. If a thread exits while a fiber is in the middle of a function, the
// fiber's objects are not destroyed, as fiberrt.h says.
//
// Destructors of fiber, scope and cord cancel what they own and wait for its end, like that of std::jthread. So a fiber
// cannot outlive the variables on the stack that it uses. These destructors wait shielded: a cancel does not end the
// wait. To wait for the result, call join() or close() before. A destructor may switch fibers during unwinding, because
// each fiber has its own exceptions in flight.
//
// With C++20, coroutines can be fibers that have no stack: see "Coroutines" below.
//
// Since: 0.1, like everything that fiberrt.h has in that release.
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

/// An error code that a call of the library returned, as an exception.
///
///     try {
///         numbers.send(1);
///     } catch (const error& e) {
///         if (e.code() != std::errc::broken_pipe) throw; // the channel is closed
///     }
class error : public std::system_error {
public:
    /// result: the negative error code; call: the beginning of the message.
    error(std::int64_t result, const char* call)
        : std::system_error(std::error_code(static_cast<int>(-result), std::generic_category()), call) {}
};

/// The calling fiber is cancelled, or one of the scopes around its current code was. Do not swallow it.
struct cancelled : error {
    using error::error;
};

/// The calling fiber was interrupted.
struct interrupted : error {
    using error::error;
};

/// The deadline of a scope of the calling fiber has passed, which with_timeout() catches, or the time of a recv_for().
struct timed_out : error {
    using error::error;
};

/// Throws the exception for a negative result.
[[noreturn]] inline void fail(std::int64_t result, const char* call) {
    switch (result) {
    case -ECANCELED: throw cancelled(result, call);
    case -EINTR: throw interrupted(result, call);
    case -ETIMEDOUT: throw timed_out(result, call);
    default: throw error(result, call);
    }
}

/// Returns the result of a call of fiberrt.h if it is not negative, else throws.
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

/// The clock of all deadlines: CLOCK_MONOTONIC, or a simulation's. Use it to measure durations.
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

// Converts a duration to nanoseconds for fiberrt.h: rounded up, so that no wait ends early. A negative duration is 0,
// and a very long one FIBER_FOREVER.
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

// Converts the result of a wait with a time: whether it succeeded in time.
inline bool in_time(int result, const char* call) {
    if (result == -ETIMEDOUT) return false;
    check(result, call);
    return true;
}

// Ignores a result that a destructor cannot report.
inline void drop(int) noexcept {}

// A shield for destructors that wait; none if there is no memory for it.
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

/// fiber_sleep: parks the calling fiber until a time of any clock.
///
///     sleep_until(fiberrt::clock::now() + 1ms);
template <class Clock, class Duration>
void sleep_until(std::chrono::time_point<Clock, Duration> time) {
    check(fiber_sleep(detail::timeout_until(time)), "fiber_sleep");
}

/// Functions for the calling fiber. The counterpart of std::this_thread::yield() is reschedule().
///
///     fiber_t me = this_fiber::self();
///     auto waker = spawn([me] { check(fiber_wakeup(me)); });
///     this_fiber::park();       // until the wakeup
///     this_fiber::reschedule(); // the other runnable fibers run
namespace this_fiber {

/// fiber_yield: parks until a wakeup.
inline void park() { check(fiber_yield(), "fiber_yield"); }

/// fiber_reschedule: gives every other runnable fiber its turn.
inline void reschedule() { check(fiber_reschedule(), "fiber_reschedule"); }

/// fiber_reschedule_if_due: like reschedule(), but only when it is due; cheap enough for each step of a long
/// computation.
inline void reschedule_if_due() { check(fiber_reschedule_if_due(), "fiber_reschedule_if_due"); }

inline fiber_t self() {
    fiber_t fiber;
    check(fiber_self(&fiber), "fiber_self");
    return fiber;
}

/// Whether the calling fiber is cancelled, even if a shield keeps its calls from failing.
inline bool cancelled() { return check(fiber_cancelled(nullptr), "fiber_cancelled") == 1; }

} // namespace this_fiber

/// Holds back cancels, interrupts and deadlines from outside while it lives, for operations that must be completed.
/// Only for the stack.
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

/// A section without switches: while it lives, calls that would wait fail with EPERM.
///
///     noswitch section;
///     work(); // no other fiber of this thread runs in between
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
using same = typename identity<T>::type; // T is not deduced from such a parameter
template <class T>
using stored = std::conditional_t<std::is_void_v<T>, nothing, T>;

// Passes on the C library's forced unwinding (pthread_exit, pthread_cancel), which must not be caught.
#if defined(__GLIBCXX__)
#define FIBERRT_CATCH_FORCED_UNWIND_      \
    catch (const abi::__forced_unwind&) { \
        throw;                            \
    }
#else
#define FIBERRT_CATCH_FORCED_UNWIND_
#endif

// The base of a function in allocated memory, with its result. The fiber owns a share, and so does the handle if there
// is one. The C API gets the address of this base.
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

    // For fiber_attr_set_free_arg.
    static void never_ran(void* arg) {
        auto* self = static_cast<body*>(arg);
        self->drop_function();
        self->release();
    }
};

// Gives up a share in a body.
struct release_body {
    void operator()(body* b) const noexcept { b->release(); }
};
template <class Body>
using share = std::unique_ptr<Body, release_body>;

template <class T>
struct outcome : body {
    std::atomic<bool> began{false};
    std::atomic<bool> finished{false}; // failure or value is set
    std::exception_ptr failure;
    std::optional<stored<T>> value;
    using body::body;
};

// The body of a fiber with a handle.
template <class F, class T>
struct joinable final : outcome<T> {
    std::optional<F> function;
    // Set before the destructor runs: captured objects may wait in theirs, and the thread may exit meanwhile.
    bool dropped = false;

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
        catch (const cancelled&) {
            self->failure = std::current_exception();
        }
        catch (...) {
            if (self->owners.load(std::memory_order_acquire) == 1) throw; // the fiber is detached
            self->failure = std::current_exception();
        }
        self->drop_function();
        self->finished.store(true, std::memory_order_release);
        return nullptr;
    }
};

// The body of a fiber without a handle.
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
        } catch (const cancelled&) { // any other exception terminates the program, with the stack as it was
        }
        return nullptr;
    }
};

template <class F>
using result_of = std::invoke_result_t<std::decay_t<F>>;

// Calls a function, and stores its result or exception for the fiber that waits for it.
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

// The result type of a fiber's function; of a coroutine, the type that it returns by co_return.
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

// Owns an attribute object of the C API. Owner::in_c is the beginning of the C functions' names, for error messages.
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

/// The attributes of new fibers: an owner of a fiber_attr_t, which can be used for any number of fibers.
///
///     auto named = spawn(attributes().name("reader").stack_size(64 * 1024), [] { work(); });
class attributes : public detail::attribute_owner<attributes, fiber_attr_t, fiber_attr_create, fiber_attr_destroy> {
public:
    attributes() { set(fiber_attr_set_free_arg(native(), &detail::body::never_ran)); }
    attributes& name(const char* text) { return set(fiber_attr_set_name(native(), text)); }
    attributes& stack_size(std::size_t bytes) { return set(fiber_attr_set_stack_size(native(), bytes)); }
    attributes& stack_reserve(std::size_t bytes) { return set(fiber_attr_set_stack_reserve(native(), bytes)); }
    attributes& guard(int which) { return set(fiber_attr_set_guard(native(), which)); } ///< FIBER_GUARD_...
    attributes& guard_size(std::size_t bytes) { return set(fiber_attr_set_guard_size(native(), bytes)); }
    attributes& daemon(bool is = true) { return set(fiber_attr_set_daemon(native(), is)); }
    attributes& on(fiber_cord_t cord) { return set(fiber_attr_set_cord(native(), cord)); }

private:
    friend attribute_owner;
    static constexpr const char* in_c = "fiber_attr";
};

namespace detail {

// Never destroyed: threads may still use it while the process exits.
inline const attributes& default_attributes() {
    static const attributes* const defaults = new attributes;
    return *defaults;
}

// Creates a fiber, detached or not, and schedules its first run. From then on the fiber owns the body.
template <class Body>
fiber_t create(const attributes& attr, std::unique_ptr<Body> made, bool detached) {
    fiber_t fiber;
    check(fiber_new(&fiber, attr.native(), &Body::run, static_cast<body*>(made.get())), "fiber_new");
    made.release();
    if (detached) fiber_detach(fiber);
    fiber_wakeup(fiber); // if its cord has just ended, the fiber never runs, and a join reports that
    return fiber;
}

} // namespace detail

// ---- Fibers ---------------------------------------------------------------------------------------------------------

/// The handle of a fiber whose function returns T. Join it once. It can be moved, not copied.
///
///     fiber<int> length = spawn([] { return 3; });
///     if (length.wait_for(1s)) work();
///     int three = length.join();
///
/// If it is destroyed before, it cancels the fiber and joins it, shielded; the result or exception is dropped. (In a
/// no-switch section, where no call can wait, it cancels and detaches the fiber.)
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

    /// Whether it names a fiber that has not been joined or detached.
    bool joinable() const noexcept { return outcome_ != nullptr; }

    /// The handle for fiberrt.h. It may be copied, and outlive this object.
    fiber_t handle() const noexcept { return handle_; }

    /// Waits for the fiber's end, without taking the result. An exception from wait() concerns the caller; one that
    /// join() throws after it comes from the fiber.
    void wait() { wait_at_most(FIBER_FOREVER, true); }

    /// Waits at most so long. Returns whether the fiber has ended.
    template <class Rep, class Period>
    bool wait_for(std::chrono::duration<Rep, Period> time) {
        return wait_at_most(detail::timeout(time), false);
    }
    template <class Clock, class Duration>
    bool wait_until(std::chrono::time_point<Clock, Duration> time) {
        return wait_at_most(detail::timeout_until(time), false);
    }

    /// Waits for the fiber's end. Returns the result of its function, or throws the exception that left it. Throws
    /// error if the function has not run to its end: ECANCELED: the fiber was cancelled before it ran; EAGAIN: there
    /// was no stack for it; EOWNERDEAD: its thread has exited. If join() throws because the caller was cancelled,
    /// interrupted or timed out, call it again.
    T join() {
        wait();
        auto outcome = std::move(outcome_);
        handle_ = {0};
        if (!outcome->finished.load(std::memory_order_acquire)) throw error(end_, "the fiber has not ended");
        if (outcome->failure) std::rethrow_exception(std::move(outcome->failure));
        if constexpr (!std::is_void_v<T>) return std::move(*outcome->value);
    }

    /// Detaches the fiber, so it cannot be joined. An exception that leaves it later terminates the program, unless it
    /// is cancelled; an exception that has left it already is dropped.
    void detach() {
        need();
        if (!end_) fiber_detach(handle_);
        outcome_.reset();
        handle_ = {0};
    }

    /// fiber_cancel: the fiber's waits throw cancelled from now on. Does nothing if the fiber has ended.
    void cancel(void* reason = nullptr) {
        need();
        fiber_cancel(handle_, reason);
    }

    /// fiber_wakeup: ends the fiber's this_fiber::park().
    void wakeup() {
        need();
        fiber_wakeup(handle_);
    }

    /// fiber_interrupt: the fiber's current wait, or its next one, throws interrupted.
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

    // Whether the result of a join says that the fiber has ended. If its function has begun and not finished, it never
    // will, because the thread has exited: then this also gives up the fiber's share of the body.
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
    int end_ = 0; // not 0: the fiber has ended; the reason, if its function did not finish
    detail::share<detail::outcome<T>> outcome_;
};

/// Starts a fiber that runs a function, and returns its handle; the caller goes on. The function may be move-only.
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

/// Starts a detached fiber, which cannot be joined. An exception that leaves it terminates the program, unless it is
/// cancelled.
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

/// A thread with its own fibers. Its main flow runs a function; it ends when that function and all its fibers have
/// ended.
///
///     cord worker([] { work(); });
///     auto there = spawn(attributes().on(worker.handle()), [] { return 7; });
///     int seven = there.join();
///     worker.join();
///
/// If it is destroyed before it is joined, it cancels its fibers and its main flow (fiber_cord_shutdown), and joins the
/// thread. (Do not destroy it in a no-switch section.)
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

    /// Waits for the thread's end. Throws the exception that left its function.
    void join() {
        if (!joinable()) throw error(-EINVAL, "the handle names no cord");
        check(fiber_cord_join(handle_, nullptr), "fiber_cord_join");
        handle_ = {0};
        auto outcome = std::move(outcome_);
        if (outcome->failure) std::rethrow_exception(std::move(outcome->failure));
    }

    /// Starts a detached fiber on that thread.
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

/// The attributes of a new pool: an owner of a fiber_pool_attr_t.
///
///     pool two(pool_attributes().workers(2).name("crunch"));
class pool_attributes : public detail::attribute_owner<pool_attributes, fiber_pool_attr_t, fiber_pool_attr_create,
                                                       fiber_pool_attr_destroy> {
public:
    pool_attributes& workers(int count) { return set(fiber_pool_attr_set_workers(native(), count)); }
    pool_attributes& stack_size(std::size_t bytes) { return set(fiber_pool_attr_set_stack_size(native(), bytes)); }
    pool_attributes& guard_size(std::size_t bytes) { return set(fiber_pool_attr_set_guard_size(native(), bytes)); }
    pool_attributes& name(const char* text) { return set(fiber_pool_attr_set_name(native(), text)); }
    /// The processors that the workers may run on; an empty list: any. policy: FIBER_POOL_ANY_OF, FIBER_POOL_ONE_OF.
    pool_attributes& affinity(std::initializer_list<int> cpus, int policy = FIBER_POOL_ANY_OF) {
        return set(fiber_pool_attr_set_affinity(native(), cpus.begin(), cpus.size(), policy));
    }
    /// A function that each worker calls first, with arg and the worker's number. No exception may leave it.
    pool_attributes& init(void (*function)(void* arg, int worker), void* arg = nullptr) {
        return set(fiber_pool_attr_set_init(native(), function, arg));
    }
    /// The most tasks that may have begun and not ended on one thread; 0: any number.
    pool_attributes& task_limit(int count) { return set(fiber_pool_attr_set_task_limit(native(), count)); }
    /// Whether bound threads also take tasks that the workers could take.
    pool_attributes& bound_help(bool help) { return set(fiber_pool_attr_set_bound_help(native(), help)); }
    template <class Rep, class Period>
    pool_attributes& spin(std::chrono::duration<Rep, Period> time) {
        return set(fiber_pool_attr_set_spin(native(), detail::timeout(time)));
    }

private:
    friend attribute_owner;
    static constexpr const char* in_c = "fiber_pool_attr";
};

/// Threads that run submitted tasks. To wait for tasks, make them children of a scope (scope::spawn), which also passes
/// on their exceptions, or use a wait_group.
///
///     pool workers;
///     wait_group both(2);
///     workers.submit([both] { work(); both.done(); });
///     workers.submit([both] { work(); both.done(); });
///     both.wait();
///
/// The destructor closes the pool: it waits until all tasks have ended, shielded. If a bound thread exits (see
/// fiber_pool_bind), the functions of the tasks that are lost are not destroyed.
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

    /// Submits a function, which one of the pool's threads will call once. An exception that leaves it terminates the
    /// program, unless it is cancelled.
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

/// Binds the calling thread to a pool while it lives (fiber_pool_bind): the thread runs tasks when it would wait.
///
///     pool tasks(pool_attributes().workers(0));
///     bound_to_pool here(tasks);
///     tasks.submit([] { work(); }); // this thread runs it when it waits, at the latest at the end of the block
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

// The exceptions and successes of a scope's children. The C API has only their results.
struct family {
    std::atomic<std::uint32_t> failed{0}; // not a bool: RISC-V exchanges no single bytes without libatomic
    std::atomic<std::int64_t> successes{0};
    std::exception_ptr failure; // stored by the child that set `failed`; read when all children have ended

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
        catch (const cancelled&) { // mostly by the scope, which does not count it as a failure
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

/// A deadline for a part of the calling fiber, and a group of children that end before that part does. Only for the
/// stack.
///
///     scope both(2s);
///     both.spawn([] { work(); });
///     both.spawn([] { work(); });
///     both.close(); // waits; throws timed_out, or the first exception that left a child
///
/// flags: FIBER_SCOPE_SHIELD, FIBER_SCOPE_SHIELD_CANCEL, FIBER_SCOPE_COLLECT, FIBER_SCOPE_FIRST. Without the last two,
/// the first child that throws cancels the others. If the scope is left without close(), for instance by an exception,
/// it cancels the children and waits for them. To limit the time of a few calls, use with_timeout().
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

    /// Starts a child and returns its handle. The fiber of the scope starts the first child; then children may start
    /// more, from any cord.
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

    /// Starts a child that any thread of the pool may run. It does not run if the scope is stopped before it begins.
    template <class F>
    void spawn(const pool& on, F&& function) {
        start(nullptr, on.children_, std::forward<F>(function));
    }

    /// Cancels the scope: the waits that its fiber makes in it, and its children. close() does not throw for that.
    void cancel(void* reason = nullptr) noexcept { fiber_scope_cancel(handle_, reason); }

    /// Sets a new deadline.
    template <class Rep, class Period>
    void set_timeout(std::chrono::duration<Rep, Period> time) {
        check(fiber_scope_set_timeout(handle_, detail::timeout(time)), "fiber_scope_set_timeout");
    }

    /// Waits until all children have ended. Then throws the exception of the first child that failed (with
    /// FIBER_SCOPE_FIRST: only if no child succeeded), or error if that child could not run. Else throws timed_out if
    /// the deadline has passed.
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

/// Calls a function whose waits throw timed_out when the time has passed. Returns an optional with the function's
/// result, which is empty if the time has passed. If the function returns void, returns whether it has come to its end.
/// Does not catch other exceptions.
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

/// fiber_mutex_t, for std::lock_guard, std::unique_lock and std::scoped_lock. Fibers of any cord can use it, and
/// threads without a cord. A static one needs no constructor. Cancels and deadlines do not end lock(); they end
/// try_lock_for().
///
///     static fiberrt::mutex lock;
///     std::lock_guard<fiberrt::mutex> hold(lock);
///
/// lock() throws EOWNERDEAD if the fiber that held the mutex has ended without unlocking it, which cannot happen with a
/// guard. The mutex is unlocked then. To repair the data that it protects, call fiber_mutex_lock(m.native()) instead.
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

/// fiber_cond_t, for std::unique_lock<fiberrt::mutex>. After a wait has thrown, the mutex is locked, except perhaps
/// after EDEADLK: see fiber_cond_wait.
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

    /// Returns whether it was notified before the time had passed.
    template <class Rep, class Period>
    bool wait_for(std::unique_lock<mutex>& lock, std::chrono::duration<Rep, Period> time) {
        return wait_at_most(lock, detail::timeout(time));
    }
    template <class Clock, class Duration>
    bool wait_until(std::unique_lock<mutex>& lock, std::chrono::time_point<Clock, Duration> time) {
        return wait_at_most(lock, detail::timeout_until(time));
    }
    /// Returns whether the predicate holds.
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex>& lock, std::chrono::duration<Rep, Period> time, Predicate holds) {
        auto now = clock::now();
        std::chrono::nanoseconds left(detail::timeout(time));
        if (left <= clock::time_point::max() - now) return wait_until(lock, now + left, holds);
        wait(lock, holds); // the end of the wait is beyond the range of time_point
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

/// Calls a function unless a function has already returned for this flag; waits while another caller's function runs.
/// If the function throws, call_once() throws that, and the next caller's function is called. Unlike in std::call_once
/// and in initialisers of static variables, the function may switch fibers.
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
// Copies of an event, a wait_group, a barrier or a channel share one object, which lives as long as any copy. So
// capture them by value. Each object is allocated. To place an event or a wait group in other memory, use fiberrt.h.

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
    /// Returns whether the count has become 0.
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

/// fiber_barrier_t, shared: a number of callers wait until all of them have arrived, again and again.
///
///     barrier both(2);
///     spawn_detached([both] { both.wait(); });
///     both.wait();
class barrier {
public:
    explicit barrier(std::int64_t count) : barrier_(std::make_shared<fiber_barrier_t>()) {
        check(fiber_barrier_init(barrier_.get(), count), "fiber_barrier_init");
    }

    /// Returns whether the caller was the last to arrive.
    bool wait() const { return check(fiber_barrier_wait(barrier_.get()), "fiber_barrier_wait") == 1; }
    /// Returns whether the round was complete in time.
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

// A T in a channel of bytes: the item itself if it is trivially copyable and small enough, else a pointer to it in
// allocated memory. A parcel holds the item for a send, and destroys it if it was not sent.
template <class T, bool plain = std::is_trivially_copyable_v<T> && sizeof(T) <= FIBER_CHAN_ITEM_MAX>
struct parcel {
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
    void sent() noexcept { item.release(); } // NOLINT: the receiver owns the item
};

// The memory that a receive writes to.
template <class T, bool plain = std::is_trivially_copyable_v<T> && sizeof(T) <= FIBER_CHAN_ITEM_MAX>
struct landing {
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

/// A channel of items of one type, shared. Items that are trivially copyable are copied. Others (a std::string, a
/// std::unique_ptr) are moved into allocated memory, and out of it. If a wait ends early or the channel is destroyed,
/// no item is lost or destroyed twice.
///
///     channel<std::string> lines(10); // room for 10; with 0, or without a number, a send waits for its receiver
///     spawn_detached([lines] { lines.send("hello"); lines.close(); });
///     for (std::string& line : lines) greet(line); // until it is closed and empty
template <class T>
class channel {
    static_assert(std::is_nothrow_move_constructible_v<T>, "an item that is received must arrive");

public:
    explicit channel(std::size_t capacity = 0) : queue_(std::make_shared<queue>(capacity)) {}

    /// Waits for room, and sends the item. Throws EPIPE if the channel is closed.
    void send(T item) const {
        detail::parcel<T> parcel(std::move(item));
        check(fiber_chan_send(handle(), parcel.address()), "fiber_chan_send");
        parcel.sent();
    }
    /// Returns whether the item was sent in time.
    template <class Rep, class Period>
    bool send_for(T item, std::chrono::duration<Rep, Period> time) const {
        detail::parcel<T> parcel(std::move(item));
        int result = fiber_chan_send_timeout(handle(), parcel.address(), detail::timeout(time));
        if (!detail::in_time(result, "fiber_chan_send")) return false;
        parcel.sent();
        return true;
    }
    /// Sends the item if it need not wait. Returns whether it was sent.
    bool try_send(T item) const {
        detail::parcel<T> parcel(std::move(item));
        int result = fiber_chan_try_send(handle(), parcel.address());
        if (result == -EAGAIN) return false;
        check(result, "fiber_chan_send");
        parcel.sent();
        return true;
    }

    /// Waits for an item. An empty result: the channel is closed, and no item is left in it.
    std::optional<T> recv() const {
        detail::landing<T> landing;
        return taken(fiber_chan_recv(handle(), landing.address()), landing);
    }
    /// Waits for an item, at most so long; then throws timed_out.
    template <class Rep, class Period>
    std::optional<T> recv_for(std::chrono::duration<Rep, Period> time) const {
        detail::landing<T> landing;
        return taken(fiber_chan_recv_timeout(handle(), landing.address(), detail::timeout(time)), landing);
    }
    /// Receives an item if there is one. An empty result: there is none now.
    std::optional<T> try_recv() const {
        detail::landing<T> landing;
        int result = fiber_chan_try_recv(handle(), landing.address());
        return taken(result == -EAGAIN ? -EPIPE : result, landing);
    }

    /// Closes the channel: sends fail from now on, and the items in it can still be received. Closing it again does
    /// nothing.
    void close() const noexcept { fiber_chan_close(handle()); }

    std::int64_t count() const noexcept { return fiber_chan_count(handle()); }
    std::int64_t capacity() const noexcept { return fiber_chan_capacity(handle()); }
    bool closed() const noexcept { return fiber_chan_is_closed(handle()) == 1; }

    fiber_chan_t handle() const noexcept { return queue_->chan; }

    /// Receives items until the channel is closed and empty.
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
            detail::landing<T> left; // no other copy of the channel is left
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

/// A case of select(): receives an item into `out`, which is empty if the channel is closed.
template <class T>
detail::recv_case<T> on_recv(const channel<T>& from, std::optional<T>& out) {
    return {from.handle(), out};
}

/// A case of select(): sends the item.
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

/// A case of select(): takes n permits from the semaphore.
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

/// A case of select(): the descriptor is ready for one of these events of poll(2).
inline detail::plain_case on_ready(int fd, int events) {
    detail::plain_case c{};
    c.base.kind = FIBER_CASE_FD;
    c.base.fd = fd;
    c.base.number = events;
    return c;
}

/// fiber_select: waits until one of the cases is possible, performs it, and returns its index, counted from 0. It does
/// not perform the other cases.
///
///     channel<int> jobs;
///     event stop;
///     std::optional<int> job;
///     switch (select(on_recv(jobs, job), on_event(stop), on_timer(1s))) {
///     case 0: work(); break;
///     case 1: return;
///     case 2: break; // the timer has fired
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

/// A value per fiber, made at the fiber's first use and destroyed when the fiber ends. A program can have 128 of these.
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

/// An ambient key: a state of the thread that each fiber sets for itself, by an object that is in force while the fiber
/// runs. When fibers with different objects take turns, the library calls Apply()(before, now) to replace the first by
/// the second. nullptr stands for the thread's own state. Apply must neither wait nor throw.
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

    /// The calling fiber's object, or nullptr.
    T* get() const noexcept { return static_cast<T*>(fiber_key_get(key_)); }
    /// Sets the calling fiber's object, which must live for as long as it is in force.
    void set(T* value) { check(put(key_, value), "fiber_key_set"); }

    /// Sets an object while it lives, then restores the previous one. Only for the stack.
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

/// Owns a file descriptor, and closes it once (fiber_close): operations of other fibers on it end first. For calls that
/// have no wrapper here, use get(): check(fiber_fsync(file.get())).
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
        // In a no-switch section it cannot wait; then no other fiber may be using the descriptor.
        if (old >= 0 && fiber_close(old) == -EPERM) ::close(old);
    }
    /// Closes the descriptor. Throws the error of close(2), for instance for a file that could not be written.
    void close() {
        int result = fiber_close(fd_);
        if (result != -EPERM) fd_ = -1;
        check(result, "fiber_close");
    }

    /// Returns the number of bytes read or received; 0 at the end.
    std::size_t read(void* buffer, std::size_t count) const {
        return done(fiber_read(fd_, buffer, count), "fiber_read");
    }
    std::size_t recv(void* buffer, std::size_t count, int flags = 0) const {
        return done(fiber_recv(fd_, buffer, count, flags), "fiber_recv");
    }
    /// Returns the number of bytes written or sent, which may be less than count.
    std::size_t write(const void* buffer, std::size_t count) const {
        return done(fiber_write(fd_, buffer, count), "fiber_write");
    }
    std::size_t send(const void* buffer, std::size_t count, int flags = 0) const {
        return done(fiber_send(fd_, buffer, count, flags), "fiber_send");
    }
    /// Writes all count bytes.
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
    /// Waits for events of poll(2), and returns those that have occurred.
    int poll(int events) const { return check(fiber_poll_fd(fd_, events), "fiber_poll_fd"); }

private:
    static std::size_t done(std::int64_t result, const char* call) {
        return static_cast<std::size_t>(check(result, call));
    }
    int fd_ = -1;
};

/// Copies from one descriptor to another, up to the end or a limit, inside the kernel where possible. Returns the
/// number of bytes written. *written gets that number also if copy() throws, and *lost the number of bytes that were
/// read then but not written.
///
///     std::int64_t bytes = copy(descriptor(fd), dial("example.org:discard"));
inline std::int64_t copy(const descriptor& from, const descriptor& to, std::int64_t limit = FIBER_COPY_ALL,
                         std::int64_t* written = nullptr, std::int64_t* lost = nullptr) {
    return check(fiber_copy(from.get(), to.get(), limit, written, lost), "fiber_copy");
}

/// Moves up to count bytes from a pipe or into one, at the descriptors' own positions. Returns how many; 0 at the end.
inline std::size_t splice(const descriptor& from, const descriptor& to, std::size_t count, unsigned flags = 0) {
    return static_cast<std::size_t>(
        check(fiber_splice(from.get(), nullptr, to.get(), nullptr, count, flags), "fiber_splice"));
}

/// Connects to an address given as text: "host:port", "[host]:port" or "unix:path". If the host has several addresses,
/// the first that answers is used.
///
///     descriptor server = dial("example.org:http");
///     server.write_all("HEAD / HTTP/1.0\r\n\r\n", 19);
inline descriptor dial(const char* address, int flags = SOCK_CLOEXEC) {
    return descriptor(check(fiber_dial(address, flags), "fiber_dial"));
}

/// Looks up the addresses of a name; iterate over them.
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

// The call of offload(), on the stack of the fiber that waits for it.
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

// The call of offload_detached(), in allocated memory, because the caller may stop waiting before it ends.
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

/// Calls a blocking function - a database, a compressor - on a helper thread, and waits for it. Returns its result, or
/// throws its exception. A cancel, interrupt or deadline ends the wait only before the function has begun, and then it
/// never runs. So the function may use variables on the caller's stack.
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

/// Calls a function like offload(), but a cancel, interrupt or deadline ends the wait at once, and the function goes on
/// without the caller. So the function must own everything that it uses; it is moved into allocated memory. If the
/// caller has stopped waiting, the function is destroyed on the helper thread, and its result or exception is lost.
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

/// A set of signals for fibers to handle: block them in all threads, and let a fiber wait for them.
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

    /// Blocks them on the calling thread, and on the threads that it starts from now on.
    void block() const { pthread_sigmask(SIG_BLOCK, &set_, nullptr); }
    void unblock() const { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

    /// Waits for one of the signals, takes it, and returns its number. Throws EINVAL if one of them is not blocked.
    int wait(signalfd_siginfo* info = nullptr) const { return check(fiber_sigwait(&set_, info), "fiber_sigwait"); }

private:
    sigset_t set_;
};

// ---- Child processes ------------------------------------------------------------------------------------------------

/// The attributes of a new child process: an owner of a fiber_process_attr_t, which can be used for any number of them.
///
///     process list({"ls"}, process_attributes().directory("/").stream(1, FIBER_PROCESS_NULL));
class process_attributes : public detail::attribute_owner<process_attributes, fiber_process_attr_t,
                                                          fiber_process_attr_create, fiber_process_attr_destroy> {
public:
    /// Sets the child's stream 0, 1 or 2. source: a descriptor, which the caller keeps, or FIBER_PROCESS_...
    process_attributes& stream(int which, int source) {
        return set(fiber_process_attr_set_stream(native(), which, source));
    }
    process_attributes& environment(char* const strings[]) {
        return set(fiber_process_attr_set_environment(native(), strings));
    }
    process_attributes& directory(const char* path) { return set(fiber_process_attr_set_directory(native(), path)); }
    /// Gives the child one more descriptor: its fd is a copy of source.
    process_attributes& descriptor(int fd, int source) { return set(fiber_process_attr_add_fd(native(), fd, source)); }
    /// Makes the child the leader of a new session, and so of a new process group.
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
    /// Whether it ended by exit(0).
    bool success() const noexcept { return status_ == 0; }
    /// The number that it passed to exit(); -1: a signal ended it.
    int exit_code() const noexcept { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
    /// The signal that ended it; 0: none.
    int signal() const noexcept { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }
    int native() const noexcept { return status_; } ///< as waitpid(2) gives it

private:
    int status_;
};

/// A child process. Wait for its end once. It can be moved, not copied. The words are its program, as a path or a name
/// looked up in PATH, and the arguments.
///
///     process sort({"sort"}, process_attributes().stream(0, FIBER_PROCESS_PIPE).stream(1, FIBER_PROCESS_PIPE));
///     sort.pipe(0).write_all("b\na\n", 4);
///     sort.pipe(0).close();
///     char text[5];
///     std::size_t length = sort.pipe(1).read(text, sizeof text);
///     bool sorted = sort.wait().success() && length == 4;
///
/// If it is destroyed before, it closes its pipes, sends the child SIGTERM, and SIGKILL if the child has not ended
/// within grace(), and waits for its end. (In a no-switch section, it sends SIGKILL at once, and the thread waits.) If
/// a cancel or a deadline ends wait(), wait() also ends the child in this way, but leaves the pipes open. A child that
/// cannot be sent signals, because it has changed its user, lives on. So does a child of the process that the calling
/// process was forked from.
///
/// A write to a child that does not read any more raises SIGPIPE, so programs with pipes should ignore that signal.
class [[nodiscard]] process {
public:
    explicit process(std::initializer_list<const char*> words) : process(words, process_attributes()) {}
    process(std::initializer_list<const char*> words, const process_attributes& attr) {
        auto all = std::make_unique<const char*[]>(words.size() + 1);
        for (std::size_t i = 0; i < words.size(); i++) all[i] = words.begin()[i];
        spawn(const_cast<char* const*>(all.get()), attr);
    }
    /// words: the last one is followed by nullptr.
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

    /// Its process ID; 0 once wait(), try_wait() or release() has taken it.
    pid_t id() const noexcept { return pid_; }
    explicit operator bool() const noexcept { return pid_ > 0; }

    /// The caller's end of a stream made with FIBER_PROCESS_PIPE.
    descriptor& pipe(int stream) { return pipes_.at(static_cast<std::size_t>(stream)); }

    /// Sets the time between SIGTERM and SIGKILL; the default is 5 s. 0: only SIGKILL; forever: no SIGKILL.
    template <class Rep, class Period>
    process& grace(std::chrono::duration<Rep, Period> time) noexcept {
        grace_ns_ = detail::timeout(time);
        return *this;
    }

    /// Sends it a signal.
    void send(int signal) const {
        if (!*this || ::kill(pid_, signal) < 0) throw error(*this ? -errno : -ESRCH, "kill");
    }

    /// Waits for the child's end. If a cancel or a deadline of the caller ends the wait, it ends the child, and throws
    /// when the child has ended. After interrupted, the child lives on.
    process_status wait() {
        int status = 0;
        int result = fiber_process_wait(pid_, &status, grace_ns_);
        if (ended(result)) pid_ = 0;
        check(result, "fiber_process_wait");
        return process_status(status);
    }

    /// Returns how the child has ended; empty if it has not.
    std::optional<process_status> try_wait() {
        int status = 0;
        if (!check(fiber_waitpid(pid_, &status, WNOHANG), "fiber_waitpid")) return std::nullopt;
        pid_ = 0;
        return process_status(status);
    }

    /// Gives up the child, and returns its process ID; the caller must wait for its end.
    pid_t release() noexcept { return std::exchange(pid_, 0); }

private:
    void spawn(char* const words[], const process_attributes& attr) {
        int ends[3];
        check(fiber_process_spawn(&pid_, ends, attr.native(), words[0], words), "fiber_process_spawn");
        for (std::size_t i = 0; i < pipes_.size(); i++) pipes_[i].reset(ends[i]);
    }

    // Whether the child has ended by this result of a wait, or is no child of this process.
    static bool ended(int result) noexcept {
        return result == 0 || result == -ECANCELED || result == -ETIMEDOUT || result == -ECHILD;
    }

    // Sends SIGKILL if the number is still that of a child of this process: not after a fork, nor if the child has been
    // waited for elsewhere, since another process may have the number then.
    bool kill_if_ours() const noexcept {
        siginfo_t info;
        return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               ::kill(pid_, SIGKILL) == 0;
    }

    void end() noexcept {
        if (!*this) return;
        detail::waits_shielded here;
        for (descriptor& pipe : pipes_) pipe.reset(); // the child may wait until its input ends
        fiber_scope_t over{0};                        // if there is no memory for it, SIGKILL is sent at once
        if (fiber_scope_open(&over, 0, 0) != 0) kill_if_ours();
        int result;
        do {
            result = fiber_process_wait(pid_, nullptr, grace_ns_);
        } while (result == -EINTR);
        if (over.id) fiber_scope_close(over, nullptr);
        // A child to which this process may send no signal lives on.
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
// A coroutine that returns task<T> can run as a HOSTED fiber (a stackless task), which has no stack: it needs only the
// coroutine's frame, some hundred bytes. It is a fiber like the others: it has a fiber<T> as its handle, runs from the
// same run queue, and uses the same channels and locks. Where other fibers call a function that waits, it awaits the
// function of the same name in namespace co. In a coroutine, a call that waits without co_await fails with EPERM;
// co::call runs such calls on a stack.
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
// A cancel throws cancelled from the co_await, as it does from a call. Destructors cannot wait in a coroutine: a
// fiber<T> that is destroyed there is cancelled and detached, so join the fibers that you have spawned. Scopes serve
// only for deadlines there (co::with_timeout). A lambda that is spawned lives as long as its coroutine, so it may
// capture.

/// A coroutine that has not begun. It runs when another coroutine awaits it, or when it is spawned. Its frame is
/// destroyed with it. One coroutine continues another by symmetric transfer. That is a tail call only in optimised
/// builds: at -O0, GCC nests the calls, so a loop that awaits many tasks that never wait overflows the stack on which
/// hosted fibers run.
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

// The state of a hosted fiber that runs a coroutine, shared by the coroutines nested in it and the awaitables below.
struct host {
    static constexpr std::int64_t not_begun = INT64_MIN;

    std::coroutine_handle<> leaf;    // the innermost coroutine, which the next turn resumes
    std::int64_t result = not_begun; // of the operation that it has awaited
    std::coroutine_handle<> same;    // the leaf, while `how` is FIBER_STEP_AGAIN; else null
    int how = FIBER_STEP_END;        // how the leaf has left this turn: the value that the step returns
    fiber_op_t op{};

    void left(std::coroutine_handle<> by, int as) noexcept {
        leaf = by;
        same = as == FIBER_STEP_AGAIN ? by : nullptr;
        how = as;
    }
    void ends() noexcept { left(leaf, FIBER_STEP_END); }
};

// A request to leave the turn like a step that returns `how`; awaiting it is awaiting leaves<how>.
template <int how>
struct leave {};
template <int how>
struct leaves;

struct promise_base {
    host* hosted = nullptr;
    std::coroutine_handle<> awaiter; // null in the outermost coroutine
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

    /// Runs the coroutine to its end and returns its result: `co_await of(3)`, or `co_await std::move(t)`. Await a task
    /// once. Throws error (EINVAL) if it has been moved away, or awaited before.
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

// The body of a hosted fiber: its coroutine, and the coroutine's result. A handle, if there is one, has a share, too.
template <class T>
struct hosted_body final : outcome<T> {
    host hosted;
    std::optional<task<T>> coroutine;

    hosted_body(int count, task<T> of) : outcome<T>(count), coroutine(std::move(of)) {
        hosted.leaf = coroutine->held();
        coroutine->frame_.promise().hosted = &hosted;
    }
    void drop_function() noexcept override { coroutine.reset(); }

    // Runs a turn of the fiber. The library calls it with the result of the operation that the fiber awaited.
    static int step(void* arg, std::int64_t result) {
        auto* self = static_cast<hosted_body*>(static_cast<body*>(arg));
        host& hosted = self->hosted;
        if (result != hosted.result) [[unlikely]] {
            // The fiber was cancelled before its first turn.
            if (result < 0 && hosted.result == host::not_begun) [[unlikely]]
                return self->never();
            hosted.result = result;
        }
        hosted.leaf.resume();
        if (hosted.how == FIBER_STEP_END) [[unlikely]]
            return self->ended();
        return hosted.how;
    }

    // These two are not inlined: else each turn would save the registers that they need.
    [[gnu::noinline]] int never() {
        body::never_ran(this);
        fiber_hosted_end(this_fiber::self(), FIBER_CANCELLED);
        return FIBER_STEP_END;
    }

    [[gnu::noinline]] int ended() {
        auto& promise = coroutine->frame_.promise();
        try { // moving the value may throw
            if (!coroutine->frame_.done())
                throw error(-EINVAL, "a task awaited an object that does not let its fiber go on");
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

    // For a detached fiber: an exception other than cancelled terminates the program, because no joiner can get it.
    void unless_cancelled() {
        try {
            std::rethrow_exception(this->failure);
        } catch (const cancelled&) {}
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

// Calls a lambda that is a coroutine, and keeps the lambda as long as the coroutine.
template <class T, class F>
task<T> call_coroutine(F function) {
    co_return co_await std::move(function)();
}

// An awaitable for an operation of fiberrt.h. Wait::prepare(op) fills in the operation. When the coroutine continues,
// the result is in `from`, and Wait::done() converts it.
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

// Waits for an event or a wait group, and keeps it alive meanwhile.
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

/// Starts a coroutine as a hosted fiber of the calling thread's cord. It uses only the attributes name and daemon.
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

/// Starts a coroutine as a detached hosted fiber, which cannot be joined. An exception that leaves it terminates the
/// program, unless it is cancelled.
template <class T>
void spawn_detached(task<T> coroutine) {
    detail::create_hosted(detail::default_attributes(),
                          std::make_unique<detail::hosted_body<T>>(1, std::move(coroutine)), true);
}

/// Functions for co_await in a coroutine, each instead of the function of the same name that waits on a stack.
///
///     descriptor connection;
///     auto echo = spawn([&]() -> task<> {
///         char bytes[100];
///         while (std::size_t n = co_await co::recv(connection, bytes, sizeof bytes)) {
///             co_await co::send(connection, bytes, n);
///         }
///     });
///     echo.cancel(); // throws cancelled from the co_await
namespace co {

template <class Rep, class Period>
auto sleep_for(std::chrono::duration<Rep, Period> time) {
    return detail::awaits<detail::wait_plain>{{FIBER_OP_SLEEP, "fiber_sleep", nullptr, detail::timeout(time)}};
}
template <class Clock, class Duration>
auto sleep_until(std::chrono::time_point<Clock, Duration> time) {
    return detail::awaits<detail::wait_plain>{{FIBER_OP_SLEEP, "fiber_sleep", nullptr, detail::timeout_until(time)}};
}

/// Gives every other runnable fiber its turn.
inline auto reschedule() { return detail::leave<FIBER_STEP_AGAIN>{}; }

/// Parks the fiber until a wakeup.
inline auto park() { return detail::leave<FIBER_STEP_YIELD>{}; }

/// Waits for a fiber and returns its result, as fiber<T>::join does. The handle must live until then, as it does in
/// `co_await co::join(spawn(...))`.
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
/// Waits for an item. An empty result: the channel is closed, and no item is left in it.
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
/// Locks the mutex and returns a std::unique_lock. Unlike mutex::lock, a cancel ends it.
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
/// Accepts a connection and returns its descriptor.
inline auto accept(const descriptor& listener, int flags = 0) {
    return detail::awaits<detail::wait_accept>{{{FIBER_OP_ACCEPT, "fiber_accept4", listener.get(), nullptr, 0, flags}}};
}
inline auto connect(const descriptor& socket, const sockaddr* address, socklen_t length) {
    return detail::awaits<detail::wait_int>{
        {{FIBER_OP_CONNECT, "fiber_connect", socket.get(), const_cast<sockaddr*>(address), length}}};
}
/// Waits for events of poll(2), and returns those that have occurred.
inline auto poll(const descriptor& of, int events) {
    return detail::awaits<detail::wait_int>{{{FIBER_OP_POLL, "fiber_poll_fd", of.get(), nullptr, 0, events}}};
}

/// Calls a function on a fiber that has a stack, where it may wait. Returns its result, or throws its exception. A
/// cancel of the coroutine cancels that fiber; the co_await ends when that fiber has ended.
///
/// (gcc 12 destroys a lambda that has captured an object twice if the lambda is written inside the awaited expression.
/// Store the lambda in a variable before. This concerns every co_await.)
template <class F>
auto call(F function) {
    return detail::awaits<detail::wait_call<F, std::invoke_result_t<F>>>{{std::move(function)}};
}

/// Runs a coroutine with a time limit, as fiberrt::with_timeout does for a function.
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
