/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * deny_uring [--transfers] ERRNO program [argument...] - runs a program in which io_uring_setup fails, as it does in
 * containers, by a sysctl and on old kernels. ERRNO is EPERM, ENOSYS, ENOMEM, EACCES or EINVAL. With --transfers
 * preadv2 and pwritev2 fail instead, which also came late (Linux 4.6) and which emulators lack. Exits with 125 if it
 * cannot.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup 425
#endif

#if defined __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#define THIS_ARCH AUDIT_ARCH_RISCV64
#endif

static int error_by_name(const char *name) {
    if (strcmp(name, "EPERM") == 0) return EPERM;
    if (strcmp(name, "ENOSYS") == 0) return ENOSYS;
    if (strcmp(name, "ENOMEM") == 0) return ENOMEM;
    if (strcmp(name, "EACCES") == 0) return EACCES;
    if (strcmp(name, "EINVAL") == 0) return EINVAL;
    return 0;
}

int main(int argc, char **argv) {
    const char *name = argv[0];
    unsigned refused[2] = {__NR_io_uring_setup, __NR_io_uring_setup};
    if (argc > 1 && strcmp(argv[1], "--transfers") == 0) {
        refused[0] = __NR_preadv2;
        refused[1] = __NR_pwritev2;
        argc--, argv++;
    }
    int error = argc >= 3 ? error_by_name(argv[1]) : 0;
    if (error == 0) {
        fprintf(stderr, "usage: %s [--transfers] EPERM|ENOSYS|ENOMEM|EACCES|EINVAL program [argument...]\n", name);
        return 125;
    }
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[0], 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[1], 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("deny_uring: seccomp");
        return 125;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 125;
}
