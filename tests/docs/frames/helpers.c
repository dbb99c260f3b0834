/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two children of a scope; one takes too long. */
#include <errno.h>
#include <fiberrt.h>

static int64_t ask(void *name) {
    return fiber_sleep(*(char *)name == 'o' ? FIBER_MSEC(1) : FIBER_SEC(60));
}

BLOCK

int main(void) {
    return ask_both() != -ETIMEDOUT;
}
