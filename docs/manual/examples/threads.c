/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* threads.c - examples of the manual: cords, pools, fiber-local values, other loops. examples.h describes the marks. */
#include "examples.h"

static void *run_cord(void *arg) { return arg; }

static int try_cord(void *arg, void **received) {
    /* EXAMPLE fiber_cord_start, fiber_cord_join: Starts a thread with a cord, and waits for its end. */
    fiber_cord_t cord;
    void *result;
    int error = fiber_cord_start(&cord, NULL, run_cord, arg);
    if (error < 0) return error;
    error = fiber_cord_join(cord, &result); /* the other fibers of this cord run meanwhile */
    /* END */
    *received = result;
    return error;
}

/* EXAMPLE fiber_post, fiber_cord_self: A request names the cord that made it, and the answer is a fiber there. */
struct request {
    fiber_cord_t from;
    int question, answer;
    fiber_event_t answered;
};

static void *receive(void *arg) { /* runs on the cord that asked */
    struct request *request = arg;
    fiber_event_set(&request->answered);
    return NULL;
}

static void *answer(void *arg) { /* runs on another cord */
    struct request *request = arg;
    request->answer = 2 * request->question;
    if (fiber_post(request->from, receive, request) < 0) {
        fiber_event_set(&request->answered); /* no memory for a fiber there: any thread may set an event */
    }
    return NULL;
}

/* The other cord must run until it has answered. The shield keeps the request until then, if the caller is cancelled. */
static int ask(struct request *request, fiber_cord_t other) {
    fiber_scope_t shield;
    int error = fiber_cord_self(&request->from);
    if (error == 0) error = fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD);
    if (error < 0) return error;
    error = fiber_post(other, answer, request);
    if (error == 0) error = fiber_event_wait(&request->answered);
    fiber_scope_close(shield, NULL);
    return error;
}
/* END */

static fiber_event_t stop;

static void *wait_for_stop(void *unused) { return fiber_event_wait(&stop) == 0 ? unused : &stop; }

static int start_cord(fiber_cord_t *cord) {
    /* EXAMPLE fiber_cord_attr_create: A cord with a name, on the first two processors. */
    fiber_cord_attr_t *attr;
    const int cpus[] = {0, 1};
    int error = fiber_cord_attr_create(&attr);
    if (error < 0) return error;
    fiber_cord_attr_set_name(attr, "network");
    fiber_cord_attr_set_affinity(attr, cpus, 2);
    error = fiber_cord_start(cord, attr, wait_for_stop, NULL);
    fiber_cord_attr_destroy(attr);
    /* END */
    return error;
}

static void *ask_cancelled(void *cord) {
    struct request request = {.question = 4};
    fiber_t self;
    assert(fiber_self(&self) == 0 && fiber_cancel(self, NULL) == 0);
    assert(ask(&request, *(fiber_cord_t *)cord) == 0 && request.answer == 8);
    return NULL;
}

static void try_asking(void) {
    struct request request = {.question = 21};
    fiber_cord_t cord;
    fiber_t asker;
    void *result;
    assert(start_cord(&cord) == 0 && ask(&request, cord) == 0 && request.answer == 42);
    assert(fiber_spawn(&asker, ask_cancelled, &cord) == 0 && fiber_join(asker, NULL) == 0);
    assert(fiber_event_set(&stop) == 0 && fiber_cord_join(cord, &result) == 0 && result == NULL);
}

static int sum;

static void *add(void *number) {
    __atomic_fetch_add(&sum, *(int *)number, __ATOMIC_RELAXED);
    return NULL;
}

/* EXAMPLE fiber_pool_create: Runs one task for each number. The close waits until all have ended. */
static int add_all(int *numbers, int count) {
    fiber_pool_t pool;
    int error = fiber_pool_create(&pool, NULL); /* NULL: a worker for each processor */
    if (error < 0) return error;
    for (int i = 0; i < count && error == 0; i++) error = fiber_pool_submit(pool, add, &numbers[i]);
    int lost = fiber_pool_close(pool);
    return error < 0 ? error : lost;
}
/* END */

static int leaves;

/* EXAMPLE fiber_pool_submit: A task submits two tasks for its halves. A wait group counts the tasks that have not
 * ended. */
static fiber_pool_t pool;
static fiber_wg_t group = FIBER_WG_INITIALIZER(0);

static void *split(void *arg) {
    intptr_t size = (intptr_t)arg;
    if (size == 1) __atomic_fetch_add(&leaves, 1, __ATOMIC_RELAXED);
    for (int half = 0; size > 1 && half < 2; half++) {
        fiber_wg_add(&group, 1);
        if (fiber_pool_submit(pool, split, (void *)(size / 2)) < 0) fiber_wg_done(&group);
    }
    fiber_wg_done(&group);
    return NULL;
}

static int count_leaves(intptr_t size) {
    fiber_wg_add(&group, 1);
    int error = fiber_pool_submit(pool, split, (void *)size);
    if (error < 0) fiber_wg_done(&group); /* for the task that never was */
    return error < 0 ? error : fiber_wg_wait(&group);
}
/* END */

/* EXAMPLE fiber_pool_bind: The main thread works for the pool while it waits, and runs a task that must be its own. */
static int work_here(int *number) {
    int error = fiber_pool_bind(pool);
    if (error < 0) return error;
    error = fiber_pool_submit_flags(pool, add, number, FIBER_TASK_SAME_THREAD);
    int unbound = fiber_pool_unbind(pool); /* waits until its tasks have ended */
    return error < 0 ? error : unbound;
}
/* END */

static int make_pool(void) {
    /* EXAMPLE fiber_pool_attr_create: A pool of two workers with a name, each with at most 100 tasks begun. */
    fiber_pool_attr_t *attr;
    int error = fiber_pool_attr_create(&attr);
    if (error < 0) return error;
    fiber_pool_attr_set_workers(attr, 2);
    fiber_pool_attr_set_name(attr, "compute-");
    fiber_pool_attr_set_task_limit(attr, 100);
    error = fiber_pool_create(&pool, attr);
    fiber_pool_attr_destroy(attr);
    /* END */
    return error;
}

static void try_pool(void) {
    int numbers[] = {1, 2, 3}, four = 4;
    assert(add_all(numbers, 3) == 0 && sum == 6);
    assert(make_pool() == 0 && count_leaves(16) == 0 && leaves == 16);
    assert(work_here(&four) == 0 && sum == 10 && fiber_pool_close(pool) == 0);
}

/* EXAMPLE fiber_key_create: Each fiber has its own request id, for the lines that it logs. It is freed when the fiber
 * ends. */
static fiber_key_t id_key;

static int start_logging(void) { return fiber_key_create(&id_key, free); }

static int set_id(const char *text) {
    char *id = strdup(text);
    if (id == NULL) return -ENOMEM;
    char *before = fiber_key_get(id_key);
    int error = fiber_key_set(id_key, id);
    free(error < 0 ? id : before);
    return error;
}

static void log_line(const char *text) {
    const char *id = fiber_key_get(id_key);
    printf("%s: %s\n", id != NULL ? id : "-", text);
}
/* END */

static void *log_with_id(void *id) {
    assert(set_id(id) == 0 && set_id(id) == 0 && strcmp(fiber_key_get(id_key), id) == 0);
    log_line("begins");
    return NULL;
}

static void try_key(void) {
    fiber_t fiber;
    char id[] = "request 1";
    assert(start_logging() == 0 && fiber_spawn(&fiber, log_with_id, id) == 0 && fiber_join(fiber, NULL) == 0);
    assert(fiber_key_get(id_key) == NULL);
}

/* EXAMPLE fiber_cord_fd: A loop around poll that also runs fibers, until standard input is at its end. */
static int run_loop(int input) {
    char bytes[512];
    struct pollfd fds[2] = {{input, POLLIN, 0}, {fiber_cord_fd(), POLLIN, 0}};
    if (fds[1].fd < 0) return fds[1].fd;
    while (poll(fds, 2, -1) > 0) {
        if (fds[0].revents && read(input, bytes, sizeof bytes) <= 0) return 0;
        if (fds[1].revents) fiber_cord_run(0);
    }
    return -errno;
}
/* END */

static void *close_later(void *fd) {
    return fiber_sleep(FIBER_MSEC(1)) == 0 ? (void *)(intptr_t)close(*(int *)fd) : fd;
}

static void try_loop(void) {
    int ends[2];
    assert(pipe(ends) == 0 && fiber_spawn(NULL, close_later, &ends[1]) == 0 && run_loop(ends[0]) == 0);
    close(ends[0]);
}

int main(void) {
    char value[] = "value";
    void *received;
    alarm(120);
    assert(try_cord(value, &received) == 0 && received == value);
    try_asking();
    try_pool();
    try_key();
    try_loop();
    return 0;
}
