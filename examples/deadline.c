/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * deadline.c - a time limit for a block of calls. When it is over, FIBER_WITH_TIMEOUT ends the wait in progress with
 * -ETIMEDOUT, and every later wait in the block. The called function needs no argument for the limit.
 */
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>

/* Stands for any function that waits: a read, a lock, a join. It only passes errors on. */
static int work(int64_t step_ns) {
    for (int step = 0; step < 3; step++) {
        int error = fiber_sleep(step_ns);
        if (error < 0) return error;
    }
    return 0;
}

static void work_with_limit(int64_t step_ns, int64_t limit_ns) {
    int result = 0, verdict;
    FIBER_WITH_TIMEOUT(limit_ns, &verdict) { result = work(step_ns); }
    /* The verdict tells whether this limit ended the block; the result could be a timeout of something else. */
    if (verdict == -ETIMEDOUT) {
        printf("too late: %s\n", fiber_strerror(result));
    } else {
        printf("in time: %s\n", result == 0 ? "done" : fiber_strerror(result));
    }
}

int main(void) {
    work_with_limit(FIBER_MSEC(1), FIBER_SEC(60));
    work_with_limit(FIBER_SEC(60), FIBER_MSEC(10));
    return 0;
}
