// SPDX-License-Identifier: MIT OR Apache-2.0
// Accounting: turns it on and off, and reads the times of fibers and cords.
#include "api/api.h"
#include "debug/times.h"
#include "record/recorder.h"

using namespace fiberrt;

int fiber_accounting_start(void) { return recorder_want(Consumer::accounting, nullptr); }

int fiber_accounting_stop(void) { return recorder_want_no_more(Consumer::accounting); }

int fiber_times(fiber_t handle, fiber_times_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Fiber* fiber;
    int where = find(handle, &fiber);
    if (where < 0) return where;
    fiber_times_t times;
    if (int error = read_times(fiber, handle, &times)) return error;
    api::copy_out(out, size, &times, sizeof times);
    return 0;
}

int fiber_cord_times(fiber_cord_t handle, fiber_cord_times_t* out, size_t size) {
    if (!out || !size) return -EINVAL;
    Cord* cord;
    if (int error = cords.resolve(handle.id, &cord)) return error;
    fiber_cord_times_t times;
    if (int error = read_times(*cord, id_generation(handle.id), &times)) return error;
    api::copy_out(out, size, &times, sizeof times);
    return 0;
}

int fiber_times_each(int by, int (*visit)(const fiber_times_sum_t* sum, void* arg), void* arg) {
    if (!visit || by < FIBER_BY_FUNCTION || by > FIBER_BY_SCOPE) return -EINVAL;
    return each_sum(by, visit, arg);
}
