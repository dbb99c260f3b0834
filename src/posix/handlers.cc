// SPDX-License-Identifier: MIT OR Apache-2.0
// sigaction, signal and similar functions: they set a function that notes where the library's handler runs, and calls
// the handler.
#include "posix/handlers.h"

#include "base/keep_errno.h"
#include "posix/calls.h"

#include <atomic>
#include <utility>

namespace fiberrt::posix {

constinit thread_local HandlerNotes handler_notes;

namespace {

using Handler = void (*)(int, siginfo_t*, void*);

// Each handler, not each signal, has its own caller: a handler may call the handler that was set before it, and that
// one must have another caller. If a program has more handlers, the further ones are set as they are.
constexpr int callers_most = 64;
constinit std::atomic<Handler> called[callers_most] = {};

// Shows that the noted frame is still there. If a handler has left by siglongjmp, later calls overwrite its frame.
struct Mark {
    explicit Mark(uint64_t value) : of_frame(value) {}
    ~Mark() { of_frame = 0; }
    volatile uint64_t of_frame;
};

uint64_t mark_of(uintptr_t frame) { return frame ^ 0x5eed'f1be'4a11'd1e5; }

fiber_t running_fiber() {
    fiber_t fiber = {};
    return fiber_here() && fiber_self(&fiber) == 0 ? fiber : fiber_t{};
}

// Whether the thread waits. The scheduler then polls on the stack of the fiber that parked last.
bool in_wait() {
    fiber_t fiber = running_fiber();
    return fiber.id && fiber_state(fiber) != FIBER_RUNNING;
}

// The outermost handler has left by siglongjmp. Returns whether it has left a wait.
bool note_left() {
    HandlerNotes& notes = handler_notes;
    notes.has_left_wait = notes.in_wait;
    notes.frame = notes.in_wait; // so that each later call looks at has_left_wait
    return notes.has_left_wait;
}

bool is_on_alternative_stack(stack_t* stack) {
    return ::sigaltstack(nullptr, stack) == 0 && (stack->ss_flags & SS_ONSTACK);
}

void call_on_alternative_stack(const stack_t& stack, Handler handler, int signal, siginfo_t* info, void* context) {
    bool outermost = !handler_notes.alternative_end && !handler_notes.has_left_wait;
    if (outermost) {
        if (!handler_notes.frame) handler_notes.in_wait = in_wait();
        handler_notes.alternative_begin = uintptr_t(stack.ss_sp);
        std::atomic_signal_fence(std::memory_order_release); // another signal may come, whose handler jumps
        handler_notes.alternative_end = uintptr_t(stack.ss_sp) + stack.ss_size;
    }
    handler(signal, info, context);
    if (outermost) handler_notes.alternative_end = 0;
}

// AddressSanitizer may put variables elsewhere than on the stack.
__attribute__((no_sanitize("address"))) void call_on_this_stack(Handler handler, int signal, siginfo_t* info,
                                                                void* context) {
    Mark mark(0);
    auto frame = uintptr_t(&mark);
    bool outermost = !in_handler();
    if (outermost) {
        mark.of_frame = mark_of(frame);
        handler_notes.fiber = running_fiber();
        handler_notes.in_wait = in_wait();
        std::atomic_signal_fence(std::memory_order_release);
        handler_notes.frame = frame;
    }
    handler(signal, info, context);
    if (outermost && handler_notes.frame == frame) handler_notes.frame = 0;
}

template <size_t index>
void call(int signal, siginfo_t* info, void* context) {
    Handler handler = called[index].load(std::memory_order_acquire);
    stack_t stack;
    int error = errno; // for the handler, which restores it
    bool on_alternative = is_on_alternative_stack(&stack);
    errno = error;
    if (on_alternative)
        call_on_alternative_stack(stack, handler, signal, info, context);
    else
        call_on_this_stack(handler, signal, info, context);
}

template <size_t... index>
Handler caller_at(size_t which, std::index_sequence<index...>) {
    Handler found = nullptr;
    ((index == which ? void(found = call<index>) : void()), ...);
    return found;
}
Handler caller_at(size_t which) { return caller_at(which, std::make_index_sequence<callers_most>()); }

bool is_function(Handler handler) {
    auto value = uintptr_t(handler);
    return value > uintptr_t(SIG_HOLD) && value != uintptr_t(SIG_ERR);
}

// The function to set in place of a handler. Signal-safe.
Handler caller_of(Handler handler) {
    if (!is_function(handler)) return handler;
    for (size_t i = 0; i < callers_most; i++) {
        Handler none = nullptr;
        if (called[i].load(std::memory_order_acquire) == handler) return caller_at(i);
        if (called[i].compare_exchange_strong(none, handler, std::memory_order_acq_rel) || none == handler)
            return caller_at(i);
    }
    return handler;
}

// The handler in whose place a function was set.
Handler handler_of(Handler caller) {
    if (!is_function(caller)) return caller;
    for (size_t i = 0; i < callers_most && called[i].load(std::memory_order_acquire); i++)
        if (caller_at(i) == caller) return called[i].load(std::memory_order_acquire);
    return caller;
}

// A handler that takes only the number ignores the other arguments.
Handler as_handler(sighandler_t handler) { return reinterpret_cast<Handler>(reinterpret_cast<void*>(handler)); }
sighandler_t as_plain(Handler handler) { return reinterpret_cast<sighandler_t>(reinterpret_cast<void*>(handler)); }

} // namespace

bool still_in_handler() {
    auto here = uintptr_t(__builtin_frame_address(0));
    HandlerNotes& notes = handler_notes;
    if (notes.has_left_wait) return true;
    if (notes.alternative_end) {
        if (here >= notes.alternative_begin && here < notes.alternative_end) return true;
        notes.alternative_end = 0; // left by siglongjmp, perhaps into another handler
        if (!notes.frame) return note_left();
    }
    if (!notes.frame || notes.fiber.id != running_fiber().id) return false;
    const auto* mark = reinterpret_cast<const Mark*>(notes.frame);
    if (here < notes.frame && mark->of_frame == mark_of(notes.frame)) return true;
    return note_left();
}

int sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
    struct sigaction wrapped;
    if (action) {
        wrapped = *action;
        wrapped.sa_sigaction = caller_of(action->sa_sigaction);
    }
    int result = ::sigaction(signal, action ? &wrapped : nullptr, old);
    if (result == 0 && old) old->sa_sigaction = handler_of(old->sa_sigaction);
    return result;
}

sighandler_t signal(int number, sighandler_t handler) noexcept {
    return as_plain(handler_of(as_handler(::signal(number, as_plain(caller_of(as_handler(handler)))))));
}

sighandler_t sysv_signal(int number, sighandler_t handler) noexcept {
    return as_plain(handler_of(as_handler(::sysv_signal(number, as_plain(caller_of(as_handler(handler)))))));
}

} // namespace fiberrt::posix
