/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gdb_stacks FILE - parks a thousand fibers in different calls, at different depths, and writes the frames that
 * fiber_backtrace stores for each into FILE: a line with the fiber's handle and the addresses. Then it stops in a
 * debugger: gdb_stacks.py compares them with gdb's.
 */
#include <fiberrt.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, DEPTHS = 23, KINDS = 8, FRAMES = 64 };

static fiber_t fibers[COUNT];
static fiber_sem_t semaphore = FIBER_SEM_INITIALIZER(0);
static fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
static fiber_chan_t channel;

static void check(int result) {
    if (result < 0) {
        fprintf(stderr, "gdb_stacks: %d\n", result);
        exit(1);
    }
}

static int waits(int depth, int kind);

static int compares_once(const void *one, const void *other) {
    static int called;
    (void)one;
    (void)other;
    if (!called) waits(0, 3);
    return 0;
}

/* A callback: between two functions of the program there is one of the C library. */
static int waits_in_a_sort(void) {
    int numbers[2] = {1, 2};
    qsort(numbers, 2, sizeof numbers[0], compares_once);
    return numbers[0];
}

/* A frame of variable size: its address is in a register. */
__attribute__((noinline)) static int waits_below_a_large_frame(int depth, int kind) {
    char *room = __builtin_alloca(16 + (size_t)depth * 40);
    memset(room, 1, 16 + (size_t)depth * 40);
    return waits(depth - 1, kind) + room[3];
}

__attribute__((noinline)) static int waits(int depth, int kind) {
    if (depth > 0) return (depth % 3 ? waits(depth - 1, kind) : waits_below_a_large_frame(depth, kind)) + 1;
    fiber_case_t timer = {0};
    char item;
    timer.kind = FIBER_CASE_TIMER;
    timer.number = FIBER_SEC(1000);
    switch (kind) {
    case 0: return fiber_sleep(FIBER_SEC(1000));
    case 1: return fiber_sem_wait(&semaphore, 1);
    case 2: return fiber_mutex_lock(&mutex);
    case 3: return fiber_yield();
    case 4: return fiber_chan_recv(channel, &item);
    case 5: return fiber_join(fibers[0], NULL);
    case 6: return fiber_select(&timer, 1, FIBER_FOREVER);
    default: return waits_in_a_sort();
    }
}

static void *runs(void *number) {
    long i = (long)number;
    return (void *)(long)waits((int)(i % DEPTHS), (int)(i % KINDS));
}

int main(int count, char **arguments) {
    FILE *file = count == 2 ? fopen(arguments[1], "w") : NULL;
    if (!file) return 2;
    check(fiber_mutex_lock(&mutex));
    check(fiber_chan_create(&channel, 1, 0));
    for (long i = 0; i < COUNT; i++) {
        check(fiber_new(&fibers[i], NULL, runs, (void *)i));
        check(fiber_start(fibers[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        void *frames[FRAMES];
        int found = fiber_backtrace(fibers[i], frames, FRAMES);
        check(found);
        fprintf(file, "0x%llx", (unsigned long long)fibers[i].id);
        for (int j = 0; j < found; j++) fprintf(file, " %p", frames[j]);
        fprintf(file, "\n");
    }
    if (fclose(file) != 0) return 2;
    raise(SIGTRAP);
    _Exit(0);
}
