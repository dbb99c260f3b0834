// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes reports by system calls only: at the C library's calls the thread could be cancelled.
#include "base/report.h"

#include "base/write_signals.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr size_t size_of_set = 8; // the kernel's
constexpr uint64_t all_signals = ~uint64_t{0};

} // namespace

// Waits until the descriptor takes text. False: the time is over. A ready pipe has room for a page, which is more than
// a report writes at once.
bool Report::await_room() {
    timespec left = {timeout_ns_ / 1'000'000'000, timeout_ns_ % 1'000'000'000};
    timespec* timeout = timeout_ns_ == for_ever ? nullptr : &left;
    for (;;) {
        pollfd ready = {fd_, POLLOUT, 0};
        // The kernel subtracts the time waited from `left`, unless a personality forbids that. No signal cuts it short.
        long ready_count = syscall(SYS_ppoll, &ready, 1, timeout, timeout ? &all_signals : nullptr, size_of_set);
        if (ready_count < 0 && errno == EINTR) continue;
        if (timeout) timeout_ns_ = ready_count == 0 ? 0 : int64_t{left.tv_sec} * 1'000'000'000 + left.tv_nsec;
        return ready_count != 0; // after an error the write reports it
    }
}

void Report::put(char c) {
    if (used_ == sizeof text_) flush();
    text_[used_++] = c;
}

void Report::put(const char* text) {
    while (*text) put(*text++);
}

void Report::number(uint64_t n, unsigned base, int digits) {
    char reversed[20];
    int count = 0;
    for (; n || count < digits; n /= base) reversed[count++] = "0123456789abcdef"[n % base];
    while (count) put(reversed[--count]);
}

void Report::id(uint64_t id) {
    put("0x");
    number(id, 16, 16);
}

void Report::name(const char* name) {
    put(" \"");
    for (; *name; name++) put(uint8_t(*name) < 0x20 || *name == 0x7f ? '?' : *name);
    put('"');
}

void Report::flush() {
    NoWriteSignals none;
    const char* at = text_;
    while (used_ && !error_) {
        if (timeout_ns_ != for_ever && !await_room()) {
            error_ = -ETIMEDOUT;
            break;
        }
        long written = syscall(SYS_write, fd_, at, used_);
        if (written >= 0) {
            at += written;
            used_ -= size_t(written);
        } else if (errno == EAGAIN) {
            await_room();
        } else if (errno != EINTR) {
            error_ = -errno;
            none.failed(errno);
        }
    }
    used_ = 0;
}

void Report::take(char* out, size_t size) {
    size_t length = used_ < size ? used_ : size - 1;
    memcpy(out, text_, length);
    out[length] = '\0';
    used_ = 0;
}

// As backtrace_symbols_fd(3), which not every C library has: the file, the nearest exported function or else the place
// in the file, and the address.
void Report::frame(void* address) {
    Dl_info place;
    if (dladdr(address, &place) && place.dli_fname && place.dli_fname[0]) {
        put(place.dli_fname);
        const auto* file = static_cast<const ElfW(Ehdr)*>(place.dli_fbase);
        if (place.dli_sname || file->e_type != ET_EXEC) { // the addresses of an ET_EXEC are those in the file
            auto offset = uintptr_t(address) - uintptr_t(place.dli_sname ? place.dli_saddr : place.dli_fbase);
            put('(');
            if (place.dli_sname) put(place.dli_sname);
            put("+0x");
            number(offset, 16);
            put(')');
        }
    }
    put("[0x");
    number(uintptr_t(address), 16);
    put("]\n");
}

void Report::frames(void* const* frames, int count) {
    for (int i = 0; i < count && !error_; i++) {
        frame(frames[i]);
        flush(); // line by line: a later address may be wrong, and its look-up crash
    }
}

} // namespace fiberrt
