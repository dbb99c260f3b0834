// SPDX-License-Identifier: MIT OR Apache-2.0
// Returns from main with live fibers: the process ends with the status that main gave, and no fiber runs again.
#include <fiberrt.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace {

int pipe_ends[2];

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "return_from_main: %s\n", what);
    _exit(1);
}

// A fiber that waits in one of four ways and must never come back from it.
void *wait_for_ever(void *how) {
    char byte;
    switch (*static_cast<int *>(how)) {
    case 0: fiber_yield(); break;
    case 1: fiber_sleep(FIBER_MSEC(1)); break;
    case 2: fiber_reschedule(); break;
    case 3:
        if (fiber_read(pipe_ends[0], &byte, 1) == -ENOTSUP) fiber_yield(); // built without I/O
        break;
    }
    fail("a fiber ran after main had returned");
}

// A static object is destroyed after main: the events that the sleeper and the reader wait for happen by then.
struct After {
    ~After() {
        usleep(2000);
        if (write(pipe_ends[1], "x", 1) != 1) fail("write");
    }
} after;

} // namespace

int main() {
    static int ways[] = {0, 1, 2, 3};
    if (pipe(pipe_ends) != 0) fail("pipe");
    for (int &way : ways) {
        fiber_t fiber;
        if (fiber_new(&fiber, nullptr, wait_for_ever, &way) != 0) fail("fiber_new");
        if (fiber_start(fiber) != 0) fail("fiber_start");
        int state = fiber_state(fiber);
        if (state != FIBER_WAITING && state != FIBER_RUNNABLE) fail("a fiber has ended");
    }
    if (fiber_spawn(nullptr, wait_for_ever, &ways[0]) != 0) fail("fiber_spawn");
    return 0;
}
