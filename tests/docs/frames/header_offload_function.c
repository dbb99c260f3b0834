/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What can only block, called on another thread. */
#include <fiberrt.h>

static int64_t sqlite3_step(void *statement) {
    return *(int *)statement;
}

BLOCK

int main(void) {
    int statement = 100;
    int64_t answer = 0;
    return fiber_offload(find, &statement, &answer) != 0 || answer != 100;
}
