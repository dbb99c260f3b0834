/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* locks.c - examples of the manual: locks, other primitives, channels, fiber_select. examples.h describes the marks. */
#include "examples.h"

static int64_t balance;

/* EXAMPLE fiber_mutex_lock: The fiber waits between reading and writing the balance, so it holds a mutex meanwhile. */
static fiber_mutex_t lock = FIBER_MUTEX_INITIALIZER;

static int pay_in(int64_t cents) {
    int error = fiber_mutex_lock(&lock);
    if (error < 0 && error != -EOWNERDEAD) return error; /* after -EOWNERDEAD the caller holds it too */
    int64_t before = balance;
    error = fiber_sleep(FIBER_MSEC(1)); /* stands for a write to the journal */
    if (error == 0) balance = before + cents;
    fiber_mutex_unlock(&lock);
    return error;
}
/* END */

static void *pay(void *cents) {
    assert(pay_in(*(int64_t *)cents) == 0);
    return NULL;
}

static void try_mutex(void) {
    int64_t cents[] = {1, 2};
    fiber_t fibers[2];
    for (int i = 0; i < 2; i++) assert(fiber_spawn(&fibers[i], pay, &cents[i]) == 0);
    for (int i = 0; i < 2; i++) assert(fiber_join(fibers[i], NULL) == 0);
    assert(balance == 3);
}

/* EXAMPLE fiber_cond_wait: A wait for a change of what the mutex protects. The loop checks the condition again, as
 * another fiber may come first. */
static fiber_mutex_t room_lock = FIBER_MUTEX_INITIALIZER;
static fiber_cond_t changed = FIBER_COND_INITIALIZER;
static int guests;

/* After -EOWNERDEAD the caller holds the mutex too. The count of guests is right at all times. */
static int held(int result) { return result == -EOWNERDEAD ? 0 : result; }

static int wait_until_empty(void) {
    int error = held(fiber_mutex_lock(&room_lock));
    if (error < 0) return error;
    while (error == 0 && guests > 0) error = held(fiber_cond_wait(&changed, &room_lock));
    fiber_mutex_unlock(&room_lock); /* after an error of fiber_cond_wait, too */
    return error;
}

static int leave(void) {
    int error = held(fiber_mutex_lock(&room_lock));
    if (error < 0) return error;
    if (--guests == 0) fiber_cond_broadcast(&changed);
    return fiber_mutex_unlock(&room_lock);
}
/* END */

static void *guest(void *unused) {
    assert(leave() == 0);
    return unused;
}

static void try_cond(void) {
    guests = 2;
    for (int i = 0; i < 2; i++) assert(fiber_spawn(NULL, guest, NULL) == 0);
    assert(wait_until_empty() == 0 && guests == 0);
}

static int downloads;

static int download(const char *url) {
    downloads += *url != '\0';
    return 0;
}

/* EXAMPLE fiber_sem_init: At most four downloads at once, by any number of fibers. */
static fiber_sem_t slots = FIBER_SEM_INITIALIZER(4);

static int download_politely(const char *url) {
    int error = fiber_sem_wait(&slots, 1);
    if (error < 0) return error;
    error = download(url);
    fiber_sem_post(&slots, 1);
    return error;
}
/* END */

/* EXAMPLE fiber_event_init: All waiters start when the event is set; as it is a manual one, it stays set for those that
 * come later. */
static fiber_event_t ready = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL);

static void *wait_for_start(void *started) {
    if (fiber_event_wait(&ready) == 0) ++*(int *)started;
    return NULL;
}

static void start_all(void) { fiber_event_set(&ready); }
/* END */

static void try_event(void) {
    int started = 0;
    fiber_t fibers[2];
    for (int i = 0; i < 2; i++) assert(fiber_spawn(&fibers[i], wait_for_start, &started) == 0);
    assert(fiber_reschedule() == 0 && started == 0);
    start_all();
    for (int i = 0; i < 2; i++) assert(fiber_join(fibers[i], NULL) == 0);
    assert(started == 2);
}

static int parts_done;

/* EXAMPLE fiber_wg_add: The caller waits until all parts are done, whichever threads they run on. */
static fiber_wg_t group = FIBER_WG_INITIALIZER(0);

static void *do_part(void *unused) {
    parts_done++;
    fiber_wg_done(&group);
    return unused;
}

static int do_all(int parts) {
    for (int i = 0; i < parts; i++) {
        int error = fiber_wg_add(&group, 1); /* before the part can be done */
        if (error == 0 && (error = fiber_spawn(NULL, do_part, NULL)) < 0) fiber_wg_done(&group);
        if (error < 0) return error;
    }
    return fiber_wg_wait(&group);
}
/* END */

/* EXAMPLE fiber_rwlock_rdlock: Many fibers read the settings at once; a writer has them for itself. */
static fiber_rwlock_t settings_lock = FIBER_RWLOCK_INITIALIZER;
static int settings[2] = {1, 1};

static int read_settings(void) {
    int error = fiber_rwlock_rdlock(&settings_lock);
    if (error < 0) return error;
    int sum = settings[0] + settings[1];
    fiber_rwlock_unlock(&settings_lock);
    return sum;
}

static int change_settings(int value) {
    int error = fiber_rwlock_wrlock(&settings_lock);
    if (error < 0) return error;
    settings[0] = settings[1] = value;
    return fiber_rwlock_unlock(&settings_lock);
}
/* END */

static int rounds_reported;

/* EXAMPLE fiber_barrier_init: Four workers begin each round together; the last to arrive reports it. */
static fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(4);

static void *work_in_rounds(void *rounds) {
    for (int i = 0; i < *(int *)rounds; i++) {
        int last = fiber_barrier_wait(&barrier);
        if (last < 0) break;
        if (last == 1) rounds_reported++;
    }
    return NULL;
}
/* END */

static void try_barrier(void) {
    int rounds = 3;
    fiber_t fibers[4];
    for (int i = 0; i < 4; i++) assert(fiber_spawn(&fibers[i], work_in_rounds, &rounds) == 0);
    for (int i = 0; i < 4; i++) assert(fiber_join(fibers[i], NULL) == 0);
    assert(rounds_reported == 3);
}

/* EXAMPLE fiber_chan_create: A producer and a consumer. The channel holds eight numbers; the producer waits when it is
 * full, and its close ends the consumer. */
static fiber_chan_t numbers;

static int64_t produce(void *most) {
    for (int i = 1; i <= (intptr_t)most; i++) {
        if (fiber_chan_send(numbers, &i) < 0) break;
    }
    return fiber_chan_close(numbers);
}

static int add_up(int most) {
    fiber_scope_t scope;
    int number, sum = 0, error = fiber_chan_create(&numbers, sizeof number, 8);
    if (error < 0) return error;
    error = fiber_scope_open(&scope, FIBER_FOREVER, 0);
    if (error == 0) {
        error = fiber_scope_spawn(scope, NULL, produce, (void *)(intptr_t)most);
        while (error == 0 && (error = fiber_chan_recv(numbers, &number)) == 0) sum += number;
        if (error != -EPIPE) fiber_scope_cancel(scope, NULL);
        fiber_scope_close(scope, NULL); /* waits until the producer has ended */
    }
    fiber_chan_destroy(numbers);
    return error == -EPIPE ? sum : error; /* -EPIPE: the channel is closed and empty */
}
/* END */

static void use(int job) { balance += job; }

/* EXAMPLE fiber_select: A worker waits for a job or the end, and reports when neither has come for a second. */
static void serve(fiber_chan_t jobs, fiber_event_t *stop) {
    for (int job;;) {
        fiber_case_t cases[] = {{.kind = FIBER_CASE_RECV, .chan = jobs, .item = &job},
                                {.kind = FIBER_CASE_EVENT, .object = stop}};
        int chosen = fiber_select(cases, 2, FIBER_SEC(1));
        if (chosen == -ETIMEDOUT) {
            printf("idle\n");
        } else if (chosen == 0 && cases[0].result == 0) {
            use(job);
        } else {
            return; /* stopped, cancelled, or the channel is closed */
        }
    }
}
/* END */

static void try_select(void) {
    fiber_chan_t jobs;
    fiber_event_t stop = FIBER_EVENT_INITIALIZER(0);
    int job = 7;
    balance = 0;
    assert(fiber_chan_create(&jobs, sizeof job, 1) == 0 && fiber_chan_send(jobs, &job) == 0);
    assert(fiber_chan_close(jobs) == 0);
    serve(jobs, &stop);
    assert(balance == 7 && fiber_event_set(&stop) == 0);
    serve(jobs, &stop);
    assert(fiber_chan_destroy(jobs) == 0);
}

static int opened;

static int open_log(void *path) {
    opened += path != NULL;
    return 0;
}

/* EXAMPLE fiber_once: The log is opened by the first fiber that needs it; the others wait until it is open. */
static fiber_once_t log_once = FIBER_ONCE_INITIALIZER;

static int use_log(char *path) {
    int error = fiber_once(&log_once, open_log, path); /* after an error the next caller tries again */
    if (error == 0) puts("a line of the log");
    return error;
}
/* END */

int main(void) {
    char path[] = "log";
    try_mutex();
    try_cond();
    assert(download_politely("url") == 0 && downloads == 1 && fiber_sem_value(&slots) == 4);
    try_event();
    assert(do_all(3) == 0 && parts_done == 3);
    assert(change_settings(4) == 0 && read_settings() == 8);
    try_barrier();
    assert(add_up(20) == 210);
    try_select();
    assert(use_log(path) == 0 && use_log(path) == 0 && opened == 1);
    return 0;
}
