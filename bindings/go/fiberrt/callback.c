// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls from C into Go. Go's frames must be on the thread's own stack: the Go runtime would not find them on the stack
// of a fiber. So this file checks the stack first.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern void fiberrtGoCalled(uintptr_t callback);

static __thread uintptr_t stack_low, stack_high;

static void find_stack(void) {
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return;
    pthread_attr_getstack(&attr, &low, &size);
    pthread_attr_destroy(&attr);
    stack_low = (uintptr_t)low;
    stack_high = stack_low + size;
}

void fiberrt_go_call(void *callback) {
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!stack_high) find_stack();
    if (stack_high && (here < stack_low || here >= stack_high)) {
        fputs("fiberrt: a fiber of C has called Go, which cannot run on its stack; send to a channel instead, or call "
              "from the thread's own stack\n",
              stderr);
        abort();
    }
    fiberrtGoCalled((uintptr_t)callback);
}
