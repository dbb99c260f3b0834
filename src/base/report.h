// SPDX-License-Identifier: MIT OR Apache-2.0
// Text on its way to a descriptor, for people. It neither allocates nor takes a lock, and may be used in handlers of
// signals.
#pragma once

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

namespace fiberrt {

class Report {
public:
    explicit Report(int fd) : fd_(fd) {}

    void put(char c) {
        if (used_ == sizeof text_) flush();
        text_[used_++] = c;
    }
    void put(const char* text) {
        while (*text) put(*text++);
    }
    void number(uint64_t n, unsigned base = 10, int digits = 1) {
        char reversed[20];
        int count = 0;
        for (; n || count < digits; n /= base) reversed[count++] = "0123456789abcdef"[n % base];
        while (count) put(reversed[--count]);
    }
    void id(uint64_t id) {
        put("0x");
        number(id, 16, 16);
    }
    // A name that the program gave: what would break the line is not shown.
    void name(const char* name) {
        put(" \"");
        for (; *name; name++) put(uint8_t(*name) < 0x20 || *name == 0x7f ? '?' : *name);
        put('"');
    }

    // A line that may yet be dropped begins: what is put from here on stays here, if it is not longer than this.
    static constexpr size_t droppable = 400;
    size_t begin() {
        if (used_ > sizeof text_ - droppable) flush();
        return used_;
    }
    void drop(size_t begun) { used_ = begun; }

    // 0, or why it could not be written; then the rest is not tried.
    int end() {
        flush();
        return error_;
    }

private:
    void flush() {
        const char* at = text_;
        while (used_ && !error_) {
            ssize_t written = write(fd_, at, used_);
            if (written >= 0) {
                at += written;
                used_ -= size_t(written);
            } else if (errno == EAGAIN) {
                pollfd ready = {fd_, POLLOUT, 0};
                poll(&ready, 1, -1);
            } else if (errno != EINTR) {
                error_ = -errno;
            }
        }
        used_ = 0;
    }

    int fd_;
    int error_ = 0;
    size_t used_ = 0;
    char text_[1024];
};

} // namespace fiberrt
