/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The call of what the example before has defined. */
#include <fiberrt.h>

static int64_t find(void *statement) {
    return *(int *)statement;
}

int main(void) {
    int row = 100, *statement = &row;
BLOCK
    return error != 0 || answer != 100;
}
