/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two cords, on which dump_all dumps. */
#include <fiberrt.h>
#include <stdio.h>
#include <unistd.h>

BLOCK

static void *waits(void *unused) {
    fiber_sleep(FIBER_MSEC(50));
    return unused;
}

int main(void) {
    fiber_cord_t cords[2];
    if (fiber_cord_start(&cords[0], NULL, waits, NULL) < 0) return 1;
    if (fiber_cord_start(&cords[1], NULL, waits, NULL) < 0) return 2;
    dump_all(cords, 2);
    return fiber_cord_join(cords[0], NULL) < 0 || fiber_cord_join(cords[1], NULL) < 0;
}
