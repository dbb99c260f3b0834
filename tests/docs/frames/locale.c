/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A fiber with its own locale; the main flow has the thread's. */
#include <fiberrt.h>
#include <locale.h>

BLOCK

int main(void) {
    fiber_t fiber;
    void *wrong;
    if (begin() < 0 || fiber_spawn(&fiber, formats_numbers, NULL) < 0 || fiber_reschedule() < 0) return 1;
    if (uselocale((locale_t)0) != LC_GLOBAL_LOCALE) return 2; /* it has run, and is to go on */
    if (fiber_join(fiber, &wrong) < 0) return 3;
    return wrong || uselocale((locale_t)0) != LC_GLOBAL_LOCALE;
}
