/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_poll.c - fibers in a program with a loop around poll(2): the loop waits for one more descriptor.
 *
 * Each line of standard input, such as "300 tea", is an errand; fibers run them concurrently. See embed_errands.c. */
#include "embed_errands.h"

#include <errno.h>
#include <fiberrt.h>
#include <poll.h>
#include <stdio.h>

int main(void) {
    int cord_fd = fiber_cord_fd();
    if (cord_fd < 0) errands_fail("fiber_cord_fd", cord_fd);
    struct pollfd cord = {cord_fd, POLLIN, 0};
    struct pollfd input = {0, POLLIN, 0};
    while (input.fd >= 0 || errands_under_way() > 0) {
        struct pollfd both[2] = {cord, input};
        if (poll(both, 2, -1) < 0) {
            if (errno == EINTR) continue;
            perror("poll");
            return 1;
        }
        if (both[1].revents && !errands_read(input.fd)) input.fd = -1; /* poll ignores it */
        if (both[0].revents) {
            int error = fiber_cord_run(0);
            if (error < 0) errands_fail("fiber_cord_run", error);
        }
    }
    return 0;
}
