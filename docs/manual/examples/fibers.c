/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fibers.c - examples of the manual: making fibers, switching, cancels and scopes. examples.h describes the marks.
 */
#include "examples.h"

static int ran;

/* EXAMPLE fiber_spawn: The first fiber runs when the caller gives way, the second at once. */
static void *work(void *name) {
    printf("%s runs\n", (const char *)name);
    return NULL;
}

static int make_two(fiber_t *soon, fiber_t *now) {
    int error = fiber_spawn(soon, work, "soon");
    if (error < 0) return error;
    error = fiber_new(now, NULL, work, "now");
    return error < 0 ? error : fiber_start(*now);
}
/* END */

static void try_spawn(void) {
    fiber_t soon, now;
    assert(make_two(&soon, &now) == 0);
    assert(fiber_join(soon, NULL) == 0 && fiber_join(now, NULL) == 0);
}

static void *load(void *path) { return path; }

static int try_join(const char *path, char **loaded) {
    /* EXAMPLE fiber_join: The caller waits at most five seconds for the result. If the fiber is late, or the caller is
     * cancelled, it cancels the fiber and joins it all the same. The shield keeps its own cancel from ending that. */
    fiber_t loader;
    fiber_scope_t shield;
    void *result = NULL;
    int error = fiber_spawn(&loader, load, (void *)path);
    if (error < 0) return error;
    error = fiber_join_timeout(loader, &result, FIBER_SEC(5));
    if (error < 0) {
        fiber_cancel(loader, NULL);
        if (fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD) == 0) {
            int joined = fiber_join(loader, &result);
            if (joined == 0 && result != FIBER_CANCELLED) error = 0; /* FIBER_CANCELLED: it never ran */
            fiber_scope_close(shield, NULL);
        }
    }
    /* END */
    *loaded = result;
    return error;
}

static int try_name(char *name, size_t size) {
    /* EXAMPLE fiber_name: The fiber that serves a connection names itself, for fiber_dump(3) and gdb. */
    char text[FIBER_NAME_MAX];
    fiber_t self;
    int error = fiber_self(&self);
    if (error < 0) return error;
    snprintf(text, sizeof text, "connection %d", 7);
    error = fiber_set_name(self, text);
    /* END */
    assert(error == 0 && fiber_name(self, name, size) == 12);
    return error;
}

static void *count_run(void *unused) {
    ran++;
    return unused;
}

static int try_attr(void) {
    int error;
    fiber_t fiber;
    /* EXAMPLE fiber_attr_create: A fiber with a name, and a stack that is larger than the default. */
    fiber_attr_t *attr;
    error = fiber_attr_create(&attr);
    if (error < 0) return error;
    fiber_attr_set_name(attr, "parser");
    fiber_attr_set_stack_size(attr, 1 << 20);
    error = fiber_spawn_attr(&fiber, attr, count_run, NULL);
    fiber_attr_destroy(attr); /* the fiber keeps its own copy */
    /* END */
    assert(error == 0);
    return fiber_join(fiber, NULL);
}

/* EXAMPLE fiber_yield: A queue of one fiber: the consumer parks while the queue is empty, and the producer wakes it. A
 * wakeup that comes first is remembered, so none is lost. */
static int queue[16], queued;
static fiber_t consumer;

static void *consume(void *sum) {
    for (;;) {
        while (queued == 0) {
            if (fiber_yield() < 0) return NULL; /* cancelled */
        }
        *(int *)sum += queue[--queued];
    }
}

static void produce(int item) {
    queue[queued++] = item;
    fiber_wakeup(consumer);
}
/* END */

static void try_yield(void) {
    int sum = 0;
    assert(fiber_spawn(&consumer, consume, &sum) == 0);
    produce(3);
    assert(fiber_reschedule() == 0 && fiber_reschedule() == 0);
    produce(4);
    assert(fiber_reschedule() == 0 && fiber_reschedule() == 0 && sum == 7);
    assert(fiber_cancel(consumer, NULL) == 0 && fiber_join(consumer, NULL) == 0);
}

/* EXAMPLE fiber_reschedule: A long computation that lets the other fibers run in between. */
static int64_t add_all(const int *numbers, size_t count) {
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += numbers[i];
        if (i % 1024 == 0) {
            int error = fiber_reschedule_if_due();
            if (error < 0) return error;
        }
    }
    return sum;
}
/* END */

/* EXAMPLE fiber_transfer: A generator: each transfer to it brings the next square. */
static void *squares(void *unused) {
    fiber_t asker;
    for (int i = 1;; i++) {
        int square = i * i;
        if (fiber_transferrer(&asker, NULL) < 0) return unused;
        if (fiber_transfer(asker, &square, NULL) < 0) return unused; /* cancelled */
    }
}

static int next_square(fiber_t generator) {
    void *square;
    int result = fiber_transfer(generator, NULL, &square);
    return result < 0 ? result : *(int *)square;
}
/* END */

static void try_transfer(void) {
    fiber_t generator;
    assert(fiber_new(&generator, NULL, squares, NULL) == 0);
    assert(next_square(generator) == 1 && next_square(generator) == 4 && next_square(generator) == 9);
    assert(fiber_cancel(generator, NULL) == 0 && fiber_join(generator, NULL) == 0);
}

static struct item { struct item *next; } list_head;

/* EXAMPLE fiber_noswitch_enter: No other fiber may see the list half changed. A call inside that could switch returns
 * -EPERM, so the mistake is found. */
static int insert(struct item *item) {
    int error = fiber_noswitch_enter();
    if (error < 0) return error;
    item->next = list_head.next;
    list_head.next = item;
    return fiber_noswitch_leave();
}
/* END */

/* EXAMPLE fiber_cancel: The fiber cleans up when a call returns -ECANCELED. Its owner cancels it and waits for its
 * end. */
static void *watch(void *file) {
    int error = 0;
    while (error == 0) error = fiber_sleep(FIBER_SEC(1));
    free(file);
    return NULL;
}

static int stop_watching(fiber_t watcher) {
    int error = fiber_cancel(watcher, "no longer needed");
    return error < 0 ? error : fiber_join(watcher, NULL);
}
/* END */

/* EXAMPLE fiber_interrupt: An interrupt ends one wait: the fiber reads the new configuration and goes on. */
static void *serve(void *served) {
    const char *configuration = "old";
    for (;;) {
        int error = fiber_sleep(FIBER_SEC(1));
        void *value;
        if (error == -EINTR && fiber_interrupted(&value) == 1) {
            configuration = value;
        } else if (error < 0) {
            break; /* cancelled */
        }
        *(const char **)served = configuration;
    }
    return NULL;
}

static int configure(fiber_t server, char *configuration) {
    return fiber_interrupt(server, configuration); /* -EBUSY: it has not seen the one before */
}
/* END */

static void try_interrupt(void) {
    fiber_t server;
    const char *served = NULL;
    char new[] = "new";
    assert(fiber_spawn(&server, serve, &served) == 0 && fiber_reschedule() == 0);
    assert(configure(server, new) == 0 && fiber_reschedule() == 0 && served == new);
    assert(stop_watching(server) == 0);
}

static int refresh(int64_t time_ns) { return fiber_sleep(time_ns); }

static int try_scope(int64_t time_ns) {
    /* EXAMPLE fiber_scope_open: All calls between the two share one limit of ten seconds. */
    fiber_scope_t scope;
    int error = fiber_scope_open(&scope, FIBER_SEC(10), 0);
    if (error < 0) return error;
    error = refresh(time_ns);
    if (error == 0) error = fiber_scope_set_timeout(scope, FIBER_SEC(30)); /* more time for the rest */
    if (error == 0) error = refresh(time_ns);
    int verdict = fiber_scope_close(scope, NULL); /* -ETIMEDOUT: the time was over */
    /* END */
    return verdict < 0 ? verdict : error;
}

static int64_t fetch(void *part) { return *(int *)part; }

static int64_t try_children(int *parts, int count) {
    /* EXAMPLE fiber_scope_spawn: Several fetches at once; the first failure cancels the others. When the scope is
     * closed, all of them have ended. */
    fiber_scope_t scope;
    int64_t failure;
    int error = fiber_scope_open(&scope, FIBER_FOREVER, 0);
    if (error < 0) return error;
    for (int i = 0; i < count && error == 0; i++) error = fiber_scope_spawn(scope, NULL, fetch, &parts[i]);
    if (error < 0) fiber_scope_cancel(scope, NULL);
    int verdict = fiber_scope_close(scope, &failure);
    return error < 0 ? error : verdict < 0 ? verdict : failure;
    /* END */
}

static int try_block(int64_t time_ns) {
    /* EXAMPLE FIBER_WITH_TIMEOUT: A limit for a block. The verdict tells whether the limit ended it. */
    int result = 0, verdict;
    FIBER_WITH_TIMEOUT(FIBER_MSEC(10), &verdict) {
        result = refresh(time_ns);
        if (result == 0) result = refresh(time_ns);
    }
    if (verdict == -ETIMEDOUT) printf("too late\n");
    /* END */
    return verdict < 0 ? verdict : result;
}

int main(void) {
    char path[] = "path", *loaded, name[FIBER_NAME_MAX];
    int numbers[3000] = {0, 5, [2000] = 2}, parts[] = {0, -EIO, 0};
    struct item item = {NULL};
    fiber_t watcher;
    try_spawn();
    assert(try_join(path, &loaded) == 0 && loaded == path);
    assert(try_name(name, sizeof name) == 0 && strcmp(name, "connection 7") == 0);
    assert(try_attr() == 0 && ran == 1);
    try_yield();
    assert(add_all(numbers, 3000) == 7);
    try_transfer();
    assert(insert(&item) == 0 && list_head.next == &item);
    assert(fiber_spawn(&watcher, watch, malloc(1)) == 0 && fiber_reschedule() == 0 && stop_watching(watcher) == 0);
    try_interrupt();
    assert(try_scope(1) == 0 && try_block(FIBER_SEC(60)) == -ETIMEDOUT);
    assert(try_children(parts, 3) == -EIO && try_children(parts, 1) == 0);
    return 0;
}
