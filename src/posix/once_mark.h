// SPDX-License-Identifier: MIT OR Apache-2.0
// The marks in a pthread_once_t. ThreadSanitizer's runtime replaces pthread_once by its own, which has other marks.
#pragma once

namespace fiberrt::posix::once_mark {

constexpr int in_progress = 1, done = 2; // of glibc; the bits above count the process's forks
constexpr int done_by_tsan = 1;

// Whether the function of a pthread_once_t with this word is running. running: the word of another one, read by its own
// function.
inline bool is_in_progress(int word, int running) {
    if (running & in_progress) return word == running; // glibc: with other bits, the function ran before a fork
    return word & running;                             // ThreadSanitizer: another bit says that a thread waits
}

} // namespace fiberrt::posix::once_mark
