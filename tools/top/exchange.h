// SPDX-License-Identifier: MIT OR Apache-2.0
// One request to the agent, and its answer. advance() never blocks, so the screen reacts to keys meanwhile.
#pragma once

#include <stdint.h>
#include <string>

#include <sys/types.h>

namespace top {

class Exchange {
public:
    static constexpr int64_t most_ns = 10'000'000'000; // for the whole answer
    static constexpr size_t most_bytes = size_t(1) << 30;

    Exchange() = default;
    ~Exchange() { close(); }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // Begins an exchange, and gives up the one under way. advance() finds its result.
    void begin(const std::string& path, const std::string& request);

    // Call it when the descriptor is readable, or the time is over. Returns whether the exchange is complete.
    bool advance();

    // Waits for the end.
    void finish();

    bool under_way() const { return fd_ >= 0; }
    int fd() const { return fd_; } // -1: there is none under way
    int64_t deadline() const { return deadline_; }

    pid_t peer() const { return peer_; } // the process that has answered

    // When complete: the answer, or why there is none.
    const std::string& text() const { return text_; }
    const std::string& error() const { return error_; }

private:
    void close();
    bool fail(const std::string& why);
    bool end();

    int fd_ = -1;
    pid_t peer_ = 0;
    int64_t deadline_ = 0;
    std::string text_, error_;
};

int64_t now_ns(); // by the monotonic clock

} // namespace top
