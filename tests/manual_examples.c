/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The code around the examples of fiberrt.h when they are tested: manual_examples.py inserts each example. */
#define _GNU_SOURCE
#undef NDEBUG
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fiberrt_dl.h>

/* The beginning of the header: a program of its own */
//@example #include <fiberrt.h>

//@example static void *hello(

int hello_main(void);
#define main hello_main
//@example int main(void) {
#undef main

/* fiber_every */
static int measured;

static void measure(void) {
    fiber_t self;
    measured++;
    assert(fiber_self(&self) == 0 && fiber_cancel(self, NULL) == 0); /* which ends the loop */
}

static void *every(void *unused) {
    //@example int64_t tick = 0;
    return NULL;
}

/* fiber_select */
static int served;

static void serve(const int *request) { served = *request; }

static void select_one(void) {
    fiber_chan_t requests;
    fiber_event_t stop = FIBER_EVENT_INITIALIZER(0);
    int request = 0, seven = 7;
    assert(fiber_chan_create(&requests, sizeof request, 1) == 0 && fiber_chan_send(requests, &seven) == 0);
    //@example fiber_case_t cases[]
    assert(served == 7 && fiber_chan_destroy(requests) == 0);
}

/* fiber_sim_pick: without a simulation it fails, and the fiber goes on */
static void choose(void) {
    //@example if (fiber_sim_pick(2, 8) == 1)
}

/* fiber_process_attr_add_fd */
static void give_listener(void) {
    fiber_process_attr_t *attr;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status = -1;
    char *const words[] = {"sh", "-c", "test -S /dev/fd/3", NULL};
    pid_t child;
    assert(fiber_process_attr_create(&attr) == 0);
    //@example fiber_process_attr_add_fd(attr, 3
    assert(fiber_process_spawn(&child, NULL, attr, "sh", words) == 0);
    assert(fiber_process_wait(child, &status, FIBER_SEC(5)) == 0 && status == 0);
    fiber_process_attr_destroy(attr);
    fiber_close(listener);
}

/* Pools */
static fiber_wg_t group;
static int work;

static void *first_half(void *arg) {
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
    fiber_wg_done(&group);
    return NULL;
}

static void *second_half(void *arg) { return first_half(arg); }

static void with_pool(void) {
    //@example fiber_pool_t pool;
    assert(error == 0 && lost == 0 && work == 2);
}

/* fiber_getdents64 */
static int entries;

static void use(const char *name) { entries += strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

static void read_directory(void) {
    char buffer[32768] __attribute__((aligned(8)));
    int64_t got;
    int fd = fiber_open("/", O_RDONLY | O_DIRECTORY, 0);
    assert(fd >= 0);
    //@example while ((got = fiber_getdents64
    assert(got == 0 && entries == 2);
    fiber_close(fd);
}

/* Child processes: the work of the example's two fibers, in turn, because so little fits into a pipe */
static void talk(int input, int output) {
    char lines[16];
    assert(fiber_write(input, "b\na\n", 4) == 4 && fiber_close(input) == 0);
    assert(fiber_read(output, lines, sizeof lines) == 4 && memcmp(lines, "a\nb\n", 4) == 0);
}

static void sort_lines(void) {
    //@example fiber_process_attr_t *attr;
    assert(status == 0);
    fiber_close(pipes[1]);
    fiber_process_attr_destroy(attr);
}

/* Signals */
static int signals_seen;

static void shut_down(void) {
    fiber_t self;
    signals_seen++;
    assert(fiber_self(&self) == 0 && fiber_cancel(self, NULL) == 0); /* which ends the loop */
}

static void *send_signal(void *unused) { /* which runs when the other waits, and has blocked it */
    assert(kill(getpid(), SIGTERM) == 0);
    return NULL;
}

static void *wait_for_signals(void *unused) {
    assert(fiber_spawn(NULL, send_signal, NULL) == 0);
    //@example sigset_t signals;
    return NULL;
}

/* Blocking code */
static int sqlite3_step(void *statement) { return *(int *)statement; }

//@example static int64_t find(

static void ask(void) {
    int row = 100, *statement = &row;
    //@example int64_t answer;
    assert(error == 0 && answer == 100);
}

/* Loading at run time */
static void *function(void *argument) { return argument; }

static int load(void) {
    int seven = 7, *argument = &seven;
    void *result;
    fiber_t fiber;
    //@example fiberrt_dl_t rt;
    assert(rt.fiber_join(fiber, &result) == 0 && result == argument);
    return 0;
}

int main(void) {
    fiber_t fiber;
    alarm(120);
    assert(fiber_spawn(&fiber, every, NULL) == 0 && fiber_join(fiber, NULL) == 0 && measured == 1);
    assert(hello_main() == 0);
    select_one();
    choose();
    give_listener();
    with_pool();
    read_directory();
    sort_lines();
    assert(fiber_spawn(&fiber, wait_for_signals, NULL) == 0 && fiber_join(fiber, NULL) == 0 && signals_seen == 1);
    ask();
    assert(load() == 0);
    return 0;
}
