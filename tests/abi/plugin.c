/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A plugin linked with the library, for a host that exports functions of the same plain names (host.c). */
#include <fiberrt.h>

#include <stddef.h>

int plugin_run(void);

static void *add_one(void *argument) {
    int *number = argument;
    (void)fiber_reschedule();
    ++*number;
    return argument;
}

/* 0 if each call reached the library. */
int plugin_run(void) {
    int number = 0;
    void *value = NULL;
    fiber_t self, fiber;
    if (fiber_self(&self) != 0 || self.id == 0) return 1;
    if (fiber_new(&fiber, NULL, add_one, &number) != 0 || fiber_state(fiber) != FIBER_NEW) return 2;
    if (fiber_start(fiber) != 0 || number != 0) return 3;
    if (fiber_sleep(0) != 0) return 4;
    if (fiber_join(fiber, &value) != 0 || value != &number || number != 1) return 5;
    return fiber_wakeup(self) == 0 && fiber_yield() == 0 ? 0 : 6;
}
