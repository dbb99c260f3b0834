// SPDX-License-Identifier: MIT OR Apache-2.0
// A handler may not dump: a dump takes locks that the handler's own thread may hold. So the handler wakes a thread that
// does nothing else. This thread has no cord, so it writes the dump even when all cords are stuck.
#include "debug/dump_signal.h"

#include "base/c_library.h"
#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/parse_number.h"
#include "base/report.h"
#include "base/signals.h"
#include "core/begin.h"
#include "core/cord.h"
#include "debug/ask_thread.h"
#include "debug/dump.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constinit pthread_mutex_t mutex_of_dumps = PTHREAD_MUTEX_INITIALIZER; // protects these, up to dump_flags
bool dumper_lives = false;
pthread_t dumper;
constinit SignalHandler dump_handler;
// Set before the thread is started:
int dump_signal;
int dump_fd;
unsigned dump_flags;

constexpr uint32_t stop_bit = uint32_t(1) << 31; // of this futex; the other bits count the signals
constinit std::atomic<uint32_t> dumps_asked{0};

void ring_dumper() { syscall(SYS_futex, &dumps_asked, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

void on_dump_signal(int, siginfo_t*, void*) {
    KeepErrno keep;
    // A count that overflows must not set stop_bit. Release and acquire: none is needed, the number is all.
    uint32_t before = dumps_asked.load(std::memory_order_relaxed);
    uint32_t next;
    do {
        next = (before & stop_bit) | ((before + 1) & ~stop_bit);
    } while (!dumps_asked.compare_exchange_weak(before, next, std::memory_order_relaxed));
    ring_dumper();
}

void* dump_when_asked(void*) {
    pthread_setname_np(pthread_self(), "fiberrt-dump");
    // The other threads may block the signal, or be stuck in the kernel.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, dump_signal);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    for (uint32_t seen = 0;;) {
        uint32_t now = dumps_asked.load(std::memory_order_acquire);
        if ((now & ~stop_bit) != seen) {
            seen = now & ~stop_bit; // signals that come during a dump lead to one more
            dump(dump_fd, {dump_flags, nullptr, Report::unasked_ns});
        } else if (now & stop_bit) {
            return nullptr; // after the dump that a signal has asked for
        } else {
            syscall(SYS_futex, &dumps_asked, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        }
    }
}

// Under the mutex. Waits until the dumps that signals have asked for are written.
int stop_dumps() {
    dumper_lives = false;
    int error = dump_handler.remove();
    dumps_asked.fetch_or(stop_bit, std::memory_order_release);
    ring_dumper();
    int cancellable; // a pthread_cancel of this thread would leave the dumps half stopped for ever
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    pthread_join(dumper, nullptr);
    pthread_setcancelstate(cancellable, nullptr);
    return error;
}

int start_dumps(int signal, int fd, unsigned flags) {
    if (int error = dump_handler.remove()) return error; // an earlier handler that an earlier call could not remove
    dump_signal = signal;
    dump_fd = fd;
    dump_flags = flags;
    dumps_asked.store(0, std::memory_order_relaxed);
    if (int error = thread_start(&dumper, nullptr, dump_when_asked, nullptr)) return error;
    dumper_lives = true;
    int error = dump_handler.install(signal, on_dump_signal, true);
    if (error) stop_dumps();
    return error;
}

int set_dumps(int signal, int fd, unsigned flags) {
    if (signal < 0 || signal > signal_most || is_raised_by_instructions(signal)) return -EINVAL;
    if (environment) return -ENOTSUP;
    MutexGuard guard(mutex_of_dumps);
    int error = dumper_lives ? stop_dumps() : 0;
    if (!signal || error) return error;
    return start_dumps(signal, fd, flags);
}

struct SignalName {
    int number;
    const char* name;
};

// As sigabbrev_np(3) has them, a function that not every C library has.
constexpr SignalName signal_names[] = {
    {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
    {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},     {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
    {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},   {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
    {SIGSTKFLT, "STKFLT"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
    {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
    {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGPOLL, "POLL"}, {SIGPWR, "PWR"},
    {SIGSYS, "SYS"},
};

// Reads the name of a signal, such as QUIT, SIGQUIT, 3 or RTMIN+1. 0: it is none.
int signal_of_text(const char* text) {
    uint64_t number;
    const char* at = text;
    if (parse_decimal(&at, &number)) return *at == '\0' && number <= signal_most ? int(number) : 0;
    if (strncmp(text, "SIG", 3) == 0) text += 3;
    constexpr char first_of_realtime[] = "RTMIN";
    if (strncmp(text, first_of_realtime, sizeof first_of_realtime - 1) == 0) {
        at = text + sizeof first_of_realtime - 1;
        if (*at == '\0') return SIGRTMIN;
        bool valid = *at++ == '+' && parse_decimal(&at, &number) && *at == '\0';
        return valid && number <= uint64_t(signal_most - SIGRTMIN) ? SIGRTMIN + int(number) : 0;
    }
    for (const SignalName& signal : signal_names) {
        if (strcmp(text, signal.name) == 0) return signal.number;
    }
    return 0;
}

// Starts dumps if the environment variable asks for them. They go to standard error.
bool begin_by_environment() {
    const char* text = secure_getenv("FIBERRT_DUMP_SIGNAL");
    if (!text || !*text) return true;
    KeepErrno keep;
    int signal = signal_of_text(text);
    int error = signal ? set_dumps(signal, STDERR_FILENO, FIBER_DUMP_FRAMES | FIBER_DUMP_GROUPED) : -EINVAL;
    if (!error || error == -ENOTSUP) return true; // in a simulation there is no such thread
    Report report(STDERR_FILENO, Report::unasked_ns);
    report.put("fiberrt: no dumps by FIBERRT_DUMP_SIGNAL");
    report.name(text);
    const char* why = error_text(-error);
    report.put(": ");
    report.put(error == -EINVAL ? "no such signal" : error == -EBUSY ? "the program handles it" : why ? why : "?");
    report.put('\n');
    report.end();
    return true;
}

FIBERRT_INITIALIZER(When::ready, begin_by_environment);

} // namespace

int dump_on_signal(int signal, int fd, unsigned flags) {
    KeepErrno keep;
    if (!process_begin()) return -ENOMEM; // there may have been no cord yet
    return set_dumps(signal, fd, flags);
}

void dump_signal_lock() { pthread_mutex_lock(&mutex_of_dumps); }
void dump_signal_unlock() { pthread_mutex_unlock(&mutex_of_dumps); }

void dump_signal_forked() {
    if (dumper_lives) dump_handler.remove();
    dumper_lives = false;
}

} // namespace fiberrt
