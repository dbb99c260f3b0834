/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* hosts.c - examples of the manual for runtimes that use fibers, and for debugging. examples.h describes the marks. */
#include "examples.h"

/* EXAMPLE fiber_hooks_set, fiber_tag_set: An interpreter marks its fibers with its own frame; the hook puts the frame of the next fiber
 * into force. */
struct frame {
    int depth;
};

static struct frame *current;

static void after_switch(void *data, fiber_tag_t from, fiber_tag_t to) {
    (void)data, (void)from;
    current = to.pointer; /* NULL: a fiber without a tag */
}

static void at_exit(void *data, fiber_tag_t tag) {
    (void)data, (void)tag;
    current = NULL;
}

static int adopt(fiber_t fiber, struct frame *frame) {
    static const fiber_hooks_t hooks = {.after_switch = after_switch, .exit = at_exit};
    int error = fiber_hooks_set(&hooks, sizeof hooks);
    return error < 0 ? error : fiber_tag_set(fiber, (fiber_tag_t){frame, 1});
}
/* END */

static void *look_at_frame(void *frame) { return current == frame ? NULL : frame; }

static void try_tag(void) {
    struct frame frame = {1};
    fiber_t fiber;
    void *result;
    assert(fiber_new(&fiber, NULL, look_at_frame, &frame) == 0 && adopt(fiber, &frame) == 0);
    assert(fiber_wakeup(fiber) == 0 && fiber_join(fiber, &result) == 0 && result == NULL && current == NULL);
    assert(fiber_hooks_set(NULL, 0) == 0);
}

/* EXAMPLE fiber_hosted_new: A task without a stack: each turn calls its step, which sleeps three times and ends. */
struct task {
    fiber_op_t op;
    int turns;
};

static int step(void *user, int64_t result) {
    struct task *task = user;
    while (result >= 0 && task->turns++ < 3) {
        task->op.code = FIBER_OP_SLEEP;
        task->op.number = FIBER_MSEC(1);
        if (fiber_op_start(&task->op) == 0) return FIBER_STEP_WAIT;
        result = task->op.result; /* it was done at once */
    }
    return FIBER_STEP_END;
}

static int start_task(fiber_t *fiber, struct task *task) {
    int error = fiber_hosted_new(fiber, NULL, step, task);
    return error < 0 ? error : fiber_wakeup(*fiber);
}
/* END */

static void try_step(void) {
    static struct task task;
    fiber_t fiber;
    assert(start_task(&fiber, &task) == 0 && fiber_join(fiber, NULL) == 0 && task.turns == 4);
}

/* EXAMPLE fiber_exchange, fiber_ops_create: Two hosted fibers sleep at once; fiber_exchange starts their operations, and returns when
 * one of them has a turn. */
static int sleep_together(const fiber_t fibers[2]) {
    fiber_op_t *ops;
    fiber_scope_t shield;
    int error = fiber_ops_create(&ops, 2);
    if (error < 0) return error;
    fiber_op_t *starting[2] = {&ops[0], &ops[1]};
    fiber_completion_t done[2];
    for (int i = 0; i < 2; i++) {
        ops[i].fiber = fibers[i];
        ops[i].code = FIBER_OP_SLEEP;
        ops[i].number = FIBER_MSEC(1);
    }
    error = fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD); /* so that no cancel ends a wait early */
    int started = error < 0 ? error : fiber_exchange(starting, 2, done, 2, FIBER_FOREVER), count = started;
    while (count >= 0 && count < 2) {
        int more = fiber_exchange(NULL, 0, done + count, 2 - count, FIBER_FOREVER);
        count = more < 0 ? more : count + more;
    }
    if (error == 0) fiber_scope_close(shield, NULL);
    if (started < 0 || count == 2) fiber_ops_destroy(ops); /* otherwise an operation is still under way */
    return count;
}
/* END */

static void try_exchange(void) {
    fiber_t fibers[2];
    fiber_completion_t first[2];
    for (int i = 0; i < 2; i++) assert(fiber_hosted_new(&fibers[i], NULL, NULL, NULL) == 0);
    for (int i = 0; i < 2; i++) assert(fiber_wakeup(fibers[i]) == 0);
    assert(fiber_exchange(NULL, 0, first, 2, FIBER_FOREVER) == 2 && sleep_together(fibers) == 2);
    for (int i = 0; i < 2; i++) assert(fiber_hosted_end(fibers[i], NULL) == 0 && fiber_join(fibers[i], NULL) == 0);
}

static int reported;

static void *compute(void *unused) {
    for (int64_t end = fiber_now() + FIBER_SEC(10);
         fiber_now() < end && !__atomic_load_n(&reported, __ATOMIC_SEQ_CST);) {}
    return unused;
}

/* EXAMPLE fiber_watchdog_start: Reports each fiber that keeps its thread for more than 100 milliseconds. */
static void report(void *data, const fiber_overrun_t *overrun) {
    fprintf(data, "%s has run for %d ms\n", overrun->fiber_name, (int)(overrun->running_ns / FIBER_MSEC(1)));
    __atomic_store_n(&reported, 1, __ATOMIC_SEQ_CST);
}

static int watch(FILE *log) {
    fiber_watchdog_t options = {.limit_ns = FIBER_MSEC(100), .report = report, .data = log};
    return fiber_watchdog_start(&options, sizeof options); /* until fiber_watchdog_stop */
}
/* END */

/* EXAMPLE fiber_trace_start: Traces a part of the program's run, for Perfetto. */
static int trace(const char *path, int (*part)(void)) {
    fiber_trace_t options = {.path = path};
    int error = fiber_trace_start(&options, sizeof options);
    if (error < 0) return error;
    error = part();
    int stopped = fiber_trace_stop(); /* the file is complete */
    return error < 0 ? error : stopped;
}
/* END */

/* EXAMPLE fiber_trace_begin: Shows a request in the trace, and how many there are. */
static int serve_request(void) {
    fiber_trace_begin("request");
    fiber_trace_counter("requests under way", 1);
    int error = fiber_sleep(FIBER_MSEC(1));
    fiber_trace_counter("requests under way", 0);
    fiber_trace_end();
    return error;
}
/* END */

static void try_trace(void) { assert(trace("/dev/null", serve_request) == 0); }

/* EXAMPLE fiber_agent_start: Lets fiberrt-top look at this process, at a socket in the directory of the user's other sockets. */
static int serve_top(void) {
    const char *folder = getenv("XDG_RUNTIME_DIR");
    return fiber_agent_start(folder ? folder : "/tmp"); /* until the process ends */
}
/* END */

static void try_agent(void) { assert(serve_top() == 0 && fiber_agent_stop() == 0); }

/* EXAMPLE fiber_dump_on_signal: Ctrl-\\ writes the stacks of all fibers to standard error, also of those that run, and the
 * program goes on. For the beginning of main(). */
static int dump_at_quit(void) {
    int error = fiber_dump_running_signal(SIGRTMIN + 1);
    return error < 0 ? error : fiber_dump_on_signal(SIGQUIT, 2, FIBER_DUMP_FRAMES | FIBER_DUMP_GROUPED);
}
/* END */

static void try_dumps(void) {
    assert(dump_at_quit() == 0 && fiber_dump_on_signal(0, -1, 0) == 0 && fiber_dump_running_signal(0) == 0);
}

static void try_watchdog(void) {
    fiber_t fiber;
    assert(watch(stdout) == 0 && fiber_spawn(&fiber, compute, NULL) == 0 && fiber_join(fiber, NULL) == 0);
    assert(fiber_watchdog_stop() == 0 && reported);
}

/* EXAMPLE fiber_posix_adopt: Blocking calls of the program and its libraries wait as fibers. Prints which. */
static int show(const char *library, const char *function, void *out) {
    return fprintf(out, "%s: %s\n", library, function) < 0;
}

static int adopt_all(void) {
    int functions = fiber_posix_adopt(NULL, 0); /* or, for one library, "libpq.so" */
    if (functions < 0) return functions;
    return fiber_posix_each(show, stdout);
}
/* END */

static void try_posix(void) { assert(adopt_all() == 0 && fiber_posix_release(NULL) > 0); }

/* EXAMPLE fiber_here: A function that blocks its thread only where it must. */
static void wait_a_little(void) {
    if (fiber_here()) {
        fiber_sleep(FIBER_MSEC(1));
    } else {
        usleep(1000);
    }
}
/* END */

static void *return_argument(void *arg) { return arg; }

static int try_dl(void *arg, void **result) {
    /* EXAMPLE fiberrt_dl_load: A plug-in that works without fibers too, if the library is not installed. */
    fiberrt_dl_t rt;
    char why[256];
    fiber_t fiber;
    int error = fiberrt_dl_open(NULL, &rt, why, sizeof why); /* NULL: the installed library */
    if (error < 0) {
        fprintf(stderr, "no fibers: %s\n", why);
        return error;
    }
    error = rt.fiber_spawn(&fiber, return_argument, arg);
    if (error == 0) error = rt.fiber_join(fiber, result);
    /* END */
    return error;
}

int main(void) {
    char arg[] = "argument";
    void *result = NULL;
    alarm(120);
    try_tag();
    try_step();
    try_exchange();
    try_watchdog();
    try_trace();
    try_agent();
    try_dumps();
    try_posix();
    wait_a_little();
    assert(try_dl(arg, &result) == 0 && result == arg);
    return 0;
}
