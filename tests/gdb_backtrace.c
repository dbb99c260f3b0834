/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stops in a debugger three times inside fibers: on a fresh one, after switches, and in a key's destructor. */
#include <fiberrt.h>

#include <signal.h>
#include <stdlib.h>

static void check(int result) {
    if (result != 0) exit(1);
}

static void destructor_of_the_value(void *value) {
    (void)value;
    raise(SIGTRAP);
}

static void *fiber_function_to_find(void *argument) {
    raise(SIGTRAP);
    check(fiber_reschedule());
    check(fiber_sleep(FIBER_USEC(100)));
    raise(SIGTRAP);
    check(fiber_key_set(*(fiber_key_t *)argument, argument));
    return NULL;
}

int main(void) {
    fiber_key_t key;
    fiber_t fiber;
    check(fiber_key_create(&key, destructor_of_the_value));
    check(fiber_spawn(&fiber, fiber_function_to_find, &key));
    check(fiber_join(fiber, NULL));
    return 0;
}
