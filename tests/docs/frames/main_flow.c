/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starts two cords, and waits for them. */
#include <fiberrt.h>

BLOCK

int main(void) {
    return two_threads() != 0;
}
