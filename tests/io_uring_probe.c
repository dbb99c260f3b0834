/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Says whether this kernel lets this process use io_uring as the library needs it. ./dev test runs it first, so that a
 * refusal is one sentence before the build and not a hundred failed tests after it. Exit 0: yes; 1: no, and why.
 * It includes no header of liburing: it is to work where that is missing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int read_number(const char *path) {
    int number = 0;
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%d", &number) != 1) number = 0;
        fclose(file);
    }
    return number;
}

int main(void) {
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
    if (ring >= 0) {
        close(ring);
        if (params.features & IORING_FEAT_EXT_ARG) return 0;
        puts("io_uring of this kernel has no timed wait (EXT_ARG); Linux 5.11 or newer is needed");
        return 1;
    }
    int error = errno;
    printf("the kernel refuses io_uring: %s", strerror(error));
    if (error == ENOSYS)
        printf(" (the kernel has none, or a container's filter hides it)");
    else if (error == EPERM && read_number("/proc/sys/kernel/io_uring_disabled") != 0)
        printf(" (kernel.io_uring_disabled is %d)", read_number("/proc/sys/kernel/io_uring_disabled"));
    else if (error == EPERM)
        printf(" (a seccomp filter; Docker's default is one: --security-opt seccomp=unconfined lifts it)");
    putchar('\n');
    return 1;
}
