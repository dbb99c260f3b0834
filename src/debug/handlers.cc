// SPDX-License-Identifier: MIT OR Apache-2.0
// Installs and removes signal handlers, and makes the stacks that they run on.
#include "debug/handlers.h"

#include "core/cord.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constinit std::atomic<uint64_t> signals_of_cords{0}; // bits. Relaxed: a thread that misses one began before

uint64_t bit_of(int signal) { return uint64_t(1) << (signal - 1); }

constinit std::atomic<int> stacks_wanted{0}; // by so many features. Relaxed: a thread that misses it began before

// A signal stack has room for the kernel's frame, whose size depends on the processor, and for the handler, a guess.
constexpr size_t for_handlers = size_t(64) * 1024;
constexpr size_t for_backtraces = size_t(8) * 1024; // one and a half times the measured need of an unwinder

constexpr size_t guard_size = StackPool::guard_default; // below the stack of handlers

size_t page() { return StackPool::page_size(); }

// The size of the kernel's frame: up to 11 KiB, on processors with matrix registers.
size_t kernels_frame() {
    long frame = sysconf(_SC_MINSIGSTKSZ);
    return frame > 0 ? size_t(frame) : 0;
}

size_t stack_size() { return (kernels_frame() + for_handlers + page() - 1) / page() * page(); }

bool same_handler(const struct sigaction& one, const struct sigaction& other) {
    return (one.sa_flags & SA_SIGINFO) == (other.sa_flags & SA_SIGINFO) && one.sa_sigaction == other.sa_sigaction;
}

bool is_none(const struct sigaction& one) {
    return !(one.sa_flags & SA_SIGINFO) && (one.sa_handler == SIG_DFL || one.sa_handler == SIG_IGN);
}

void set_plain(int signal, void (*handler)(int)) {
    struct sigaction plain = {};
    plain.sa_handler = handler;
    sigaction(signal, &plain, nullptr);
}

void set_default(int signal) { set_plain(signal, SIG_DFL); } // coverage: ends process

// Lets the default action of the signal happen, at the latest when the handler has returned.
void take_default(int signal, siginfo_t* info) { // coverage where called: ends process
    set_default(signal);
    // If an instruction has raised the signal, it raises it again, and the core file shows it. A sent signal is sent
    // again.
    if (info->si_code <= 0) syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
}

} // namespace

bool SignalHandler::is_there() const {
    struct sigaction now = {};
    return sigaction(signal_, nullptr, &now) == 0 && same_handler(now, ours_);
}

int SignalHandler::install(int signal, void (*handler)(int, siginfo_t*, void*), bool alone) { // coverage: sanitizer
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0) return -errno;
    if (in_use() && !is_none(now)) return 0;
    if (alone && !is_none(now)) return -EBUSY;
    before_ = now; // set before the handler can be called
    ours_ = {};
    ours_.sa_sigaction = handler;
    ours_.sa_mask = now.sa_mask;
    ours_.sa_flags = SA_SIGINFO | SA_ONSTACK | (alone ? SA_RESTART : now.sa_flags & (SA_RESTART | SA_NODEFER));
    if (sigaction(signal, &ours_, nullptr) != 0) return -errno;
    alone_ = alone;
    signal_ = signal;
    if (is_there()) return 0;
    signal_ = 0; // AddressSanitizer's sigaction returns 0 without effect, if its options reserve SIGSEGV
    return -ENOTSUP;
}

int SignalHandler::remove() {
    if (!in_use()) return 0;
    struct sigaction now = {};
    if (sigaction(signal_, nullptr, &now) != 0) return -errno;
    if (!is_none(now)) { // otherwise the program has removed it, and wants no handler
        if (!same_handler(now, ours_)) return -EBUSY;
        // Drop pending signals, which the default action would let end the program. A signal is pending if its thread
        // has blocked it or has not run since.
        if (alone_) set_plain(signal_, SIG_IGN);
        sigaction(signal_, &before_, nullptr);
    }
    signal_ = 0; // before_ stays: another thread may be in the handler
    return 0;
}

void SignalHandler::pass_on(int signal, siginfo_t* info, void* context) const {
    bool sent = info->si_code <= 0;
    if (before_.sa_flags & int(SA_RESETHAND)) set_default(signal);
    if (before_.sa_flags & SA_SIGINFO) {
        before_.sa_sigaction(signal, info, context);
    } else if (before_.sa_handler == SIG_DFL || (before_.sa_handler == SIG_IGN && !sent)) {
        take_default(signal, info); // like the kernel: a signal raised by an instruction cannot be ignored
    } else if (before_.sa_handler != SIG_IGN) {
        before_.sa_handler(signal);
    }
}

namespace {

void watch_threads(); // registers the observer below

} // namespace

int signal_stack_give(Cord& cord) {
    stack_t now = {};
    if (sigaltstack(nullptr, &now) != 0) return -errno;
    if (!(now.ss_flags & SS_DISABLE)) { // the program, Go or a sanitizer has set one
        cord.has_signal_stack = now.ss_size >= kernels_frame() + for_backtraces;
        return 0;
    }
    size_t size = stack_size();
    void* memory = mmap(nullptr, size + guard_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    stack_t ours = {};
    ours.ss_sp = static_cast<char*>(memory) + guard_size;
    ours.ss_size = size;
    if (mprotect(memory, guard_size, PROT_NONE) != 0 || sigaltstack(&ours, nullptr) != 0) { // coverage: no memory
        munmap(memory, size + guard_size);
        return -ENOMEM;
    }
    cord.signal_stack = memory;
    watch_threads(); // ends() frees it when the thread ends
    cord.has_signal_stack = true;
    return 0;
}

namespace {

void begins(Cord& cord) {
    if (stacks_wanted.load(std::memory_order_relaxed)) signal_stack_give(cord); // if it fails, there are no reports
    uint64_t signals = signals_of_cords.load(std::memory_order_relaxed);
    if (!signals) return;
    sigset_t set;
    sigemptyset(&set);
    for (int signal = 1; signal <= 64; signal++) {
        if (signals & bit_of(signal)) sigaddset(&set, signal);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void ends(Cord& cord) {
    if (!cord.signal_stack) return;
    stack_t now = {};
    sigaltstack(nullptr, &now);
    bool ours = now.ss_sp == static_cast<char*>(cord.signal_stack) + guard_size;
    if (ours && (now.ss_flags & SS_ONSTACK)) return; // pthread_exit in a handler: the stack is never freed
    if (ours) {
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
    }
    munmap(cord.signal_stack, stack_size() + guard_size);
    cord.signal_stack = nullptr;
}

constexpr ThreadObserver observer = {begins, ends};

void watch_threads() { thread_observer = &observer; }

} // namespace

void signal_stacks_want() {
    watch_threads();
    stacks_wanted.fetch_add(1, std::memory_order_relaxed);
}
void signal_stacks_want_no_more() { stacks_wanted.fetch_sub(1, std::memory_order_relaxed); }

void unblock_for_cords(int signal) {
    watch_threads();
    signals_of_cords.fetch_or(bit_of(signal), std::memory_order_relaxed);
}
void unblock_for_cords_no_more(int signal) { signals_of_cords.fetch_and(~bit_of(signal), std::memory_order_relaxed); }

} // namespace fiberrt
