/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Asks for a file that can be read, and for one that there is not. */
#include <errno.h>
#include <fiberrt.h>
#include <unistd.h>

BLOCK

int main(void) {
    return may_read("/") != 0 || may_read("/no/such/file") != -ENOENT;
}
