// SPDX-License-Identifier: MIT OR Apache-2.0
// A watchdog that is all that the program has begun yet when it forks, as to become a daemon: the child has none.
#include <fiberrt.h>

#include <cerrno>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

int main() {
    fiber_watchdog_t what{};
    what.limit_ns = FIBER_SEC(1000);
    int error = fiber_watchdog_start(&what, sizeof what);
    if (error) {
        std::fprintf(stderr, "watchdog_first: it cannot be started: %s\n", fiber_strerror(error));
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(fiber_watchdog_stop() == -ESRCH ? 42 : 43);
    }
    int status = 0;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 42) {
        std::fprintf(stderr, "watchdog_first: the child's status is %d\n", status);
        return 1;
    }
    return fiber_watchdog_stop() == 0 ? 0 : 1;
}
