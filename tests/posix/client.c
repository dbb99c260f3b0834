/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* client.c - the tests that client.h describes, for any client library. */
#define _GNU_SOURCE
#include "client.h"
#include <dirent.h>
#include <errno.h>
#include <fiberrt.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct client *the_client;
static struct options {
    const char *test, *server_name, *server;
    bool threads, whole;
    long count, workers, seconds;
    uint64_t seed;
} options = {.count = 100, .workers = 16, .seconds = 240, .seed = 1};
static struct small_server *small; /* NULL: the server is a real one */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fflush(stdout);
    fprintf(stderr, "FAILED: %s, %s: ", the_client->name, options.test);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    _exit(1);
}

void question_comment(char *text, size_t size, const struct question *question) {
    snprintf(text, size, "/* number=%llu rows=%ld us=%ld%s */", (unsigned long long)question->number, question->rows,
             question->us, question->held ? " held" : "");
}

/* --- Hangs -------------------------------------------------------------------------------------------------------- */

static int alive[2]; /* a pipe: closed at the end of the program */

/* A plain thread, which waits until the program is done. If that takes too long it prints the fibers, and aborts. */
static void *watch(void *arg) {
    (void)arg;
    struct pollfd end = {.fd = alive[0], .events = POLLIN};
    if (poll(&end, 1, (int)options.seconds * 1000) == 0) {
        fprintf(stderr, "FAILED: %s, %s: it hangs. Its fibers:\n", the_client->name, options.test);
        fiber_dump(2);
        abort();
    }
    return NULL;
}

/* --- together ----------------------------------------------------------------------------------------------------- */

static struct together {
    void *holder;
    int answered;
} together;

static void *ask_held(void *arg) {
    struct question question = {.number = (uintptr_t)arg,
                                .rows = 1,
                                .us = 100000,
                                .variant = (unsigned)(uintptr_t)arg,
                                .held = true,
                                .small = small != NULL};
    char why[WHY] = "";
    void *connection = the_client->open(options.server, (unsigned)question.number, why);
    if (!connection) fail("question %lu: no connection: %s", (unsigned long)question.number, why);
    enum outcome outcome = the_client->ask(connection, &question, why);
    if (outcome != ANSWERED) fail("question %lu has outcome %d: %s", (unsigned long)question.number, outcome, why);
    __atomic_add_fetch(&together.answered, 1, __ATOMIC_SEQ_CST);
    the_client->close(connection);
    return NULL;
}

static double released_at;

/* A plain thread, which lets the questions go on once all of them wait at the server. */
static void *release_when_all_wait(void *arg) {
    (void)arg;
    struct timespec pause = {.tv_nsec = 5000000};
    for (int held = 0; held < options.count; nanosleep(&pause, NULL)) {
        held = small ? small_server_held(small) : the_client->held(together.holder);
        if (held < 0 || held > options.count) fail("the server has %d held questions", held);
        if (__atomic_load_n(&together.answered, __ATOMIC_SEQ_CST) > 0)
            fail("the server has answered a held question, with %d others", held);
    }
    printf("%s: %ld questions wait at the server at the same moment\n", the_client->name, options.count);
    released_at = seconds_now();
    if (small)
        small_server_release(small);
    else
        the_client->release(together.holder, (int)options.count);
    return NULL;
}

static void test_together(void) {
    char why[WHY] = "";
    if (!small && !(together.holder = the_client->hold(options.server, why))) fail("the server cannot hold: %s", why);
    pthread_t releaser;
    pthread_create(&releaser, NULL, release_when_all_wait, NULL);
    fiber_t *fibers = calloc((size_t)options.count, sizeof *fibers);
    pthread_t *threads = calloc((size_t)options.count, sizeof *threads);
    double cpu = cpu_now();
    for (long i = 0; i < options.count; i++) {
        void *number = (void *)(i + 1);
        int error = options.threads ? pthread_create(&threads[i], NULL, ask_held, number)
                                    : -fiber_spawn(&fibers[i], ask_held, number);
        if (error) fail("worker %ld does not start: %s", i, strerror(error));
    }
    for (long i = 0; i < options.count; i++) {
        int error = options.threads ? pthread_join(threads[i], NULL) : -fiber_join(fibers[i], NULL);
        if (error) fail("worker %ld does not end: %s", i, strerror(error));
    }
    double end = seconds_now();
    pthread_join(releaser, NULL);
    if (together.answered != options.count) fail("%d of %ld answers", together.answered, options.count);
    printf("%s: %d right answers to %s, %.3f s after the release; %.3f s of CPU\n", the_client->name, together.answered,
           options.threads ? "threads" : "fibers of one thread", end - released_at, cpu_now() - cpu);
    free(fibers), free(threads);
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

enum how { NOT_REFUSED, BY_CANCEL, BY_SCOPE, BY_DEADLINE, BY_INTERRUPT, HOWS };
static const char *const how_names[HOWS] = {"nothing", "fiber_cancel", "fiber_scope_cancel", "a deadline",
                                            "fiber_interrupt"};
static const char *const outcome_names[] = {"answered", "refused", "closed"};

static struct refused {
    long tried, reported; /* refusals; those of them that the library has reported */
    uint64_t next_number;
    long outcomes[HOWS][WRONG];
    long connections, connections_refused;
} refused;

struct worker {
    unsigned number;
    uint64_t random;
    void *connection;
    fiber_t fiber;
    char last[80]; /* the last question, for a report of the next one */
};

static uint64_t draw(struct worker *worker, uint64_t limit) {
    worker->random ^= worker->random << 13, worker->random ^= worker->random >> 7,
        worker->random ^= worker->random << 17;
    return (worker->random >> 11) % limit;
}

/* From 0 to limit; each power of two is as likely as the others. */
static long draw_by_size(struct worker *worker, long limit) {
    int bits = 0;
    while (limit >> bits) bits++;
    long below = 1L << draw(worker, (uint64_t)bits + 1);
    long drawn = (long)draw(worker, (uint64_t)below);
    return drawn < limit ? drawn : limit;
}

/* A refusal, and its moment: after some turns of the thread or, if there are none, some nanoseconds. */
struct shot {
    enum how how;
    long turns;
    int64_t ns;
    fiber_t fiber;
    fiber_scope_t scope;
    bool over, fired;
};

static void *shoot(void *arg) {
    struct shot *shot = arg;
    if (shot->turns == 0 && fiber_sleep(shot->ns) < 0) return NULL;
    for (long i = 0; i < shot->turns && !shot->over; i++)
        if (fiber_reschedule() < 0) return NULL;
    if (shot->over) return NULL;
    shot->fired = true;
    if (shot->how == BY_CANCEL) fiber_cancel(shot->fiber, NULL);
    if (shot->how == BY_SCOPE) fiber_scope_cancel(shot->scope, NULL);
    if (shot->how == BY_INTERRUPT) fiber_interrupt(shot->fiber, NULL);
    return NULL;
}

/* A call of the library: a question if there is a connection, else a new connection. */
struct call {
    struct worker *worker;
    struct question question;
    enum outcome outcome;
    char why[WHY];
};

static void *perform(void *arg) {
    struct call *call = arg;
    struct worker *worker = call->worker;
    if (worker->connection) {
        call->outcome = the_client->ask(worker->connection, &call->question, call->why);
    } else {
        worker->connection = the_client->open(options.server, worker->number, call->why);
        call->outcome = worker->connection ? ANSWERED : REFUSED_CLOSED;
    }
    return NULL;
}

static void join(fiber_t fiber) {
    int error;
    while ((error = fiber_join(fiber, NULL)) == -EINTR) {}
    if (error < 0) fail("fiber_join: %s", fiber_strerror(error));
}

/* Makes the call and refuses its waits at a random moment. Returns whether that moment came before its end. */
static bool perform_refused(struct call *call, enum how how) {
    struct worker *worker = call->worker;
    struct shot shot = {.how = how, .fiber = worker->fiber};
    if (draw(worker, 2)) shot.turns = 1 + (long)draw(worker, 40);
    shot.ns = draw_by_size(worker, FIBER_MSEC(3));
    bool scoped = how == BY_SCOPE || how == BY_DEADLINE;
    if (scoped && fiber_scope_open(&shot.scope, how == BY_DEADLINE ? shot.ns : FIBER_FOREVER, 0) < 0)
        fail("no scope can be opened");
    fiber_t asker, shooter = {0};
    if (how == BY_CANCEL) {
        if (fiber_spawn(&asker, perform, call) < 0) fail("no fiber can be started");
        shot.fiber = asker;
    }
    if (how != BY_DEADLINE && fiber_spawn(&shooter, shoot, &shot) < 0) fail("no fiber can be started");
    if (how == BY_CANCEL)
        join(asker);
    else
        perform(call);
    shot.over = true;
    int verdict = scoped ? fiber_scope_close(shot.scope, NULL) : 0;
    if (how == BY_DEADLINE) return verdict == -ETIMEDOUT;
    fiber_cancel(shooter, NULL);
    join(shooter);
    /* An interrupt that ended no wait of the library must not end a later one. */
    while (how == BY_INTERRUPT && fiber_reschedule() == -EINTR) {}
    return shot.fired;
}

static void *ask_and_refuse(void *arg) {
    struct worker *worker = arg;
    fiber_self(&worker->fiber);
    while (refused.reported < options.count) {
        bool opens = !worker->connection;
        struct call call = {.worker = worker, .outcome = ANSWERED};
        call.question = (struct question){.number = ++refused.next_number, .rows = 1, .small = small != NULL};
        call.question.variant = (unsigned)draw(worker, 1 << 16);
        call.question.us = draw_by_size(worker, 2000);
        if (draw(worker, 4) == 0) call.question.rows = 1 + draw_by_size(worker, 3000);
        enum how how = (enum how)draw(worker, HOWS);
        if (opens && draw(worker, 4) > 0) how = NOT_REFUSED;
        bool fired = how != NOT_REFUSED && perform_refused(&call, how);
        if (how == NOT_REFUSED) perform(&call);
        unsigned long number = (unsigned long)call.question.number;
        if (call.outcome == WRONG)
            fail("question %lu of seed %llu (variant %u, us %ld, %s%s): %s", number, (unsigned long long)options.seed,
                 call.question.variant, call.question.us, how_names[how], fired ? "" : ", too late", call.why);
        if (call.outcome != ANSWERED && !fired)
            fail("question %lu has outcome %d though nothing was refused (%s): %s. The worker's question before: %s",
                 number, call.outcome, how_names[how], call.why, worker->last);
        snprintf(worker->last, sizeof worker->last, "%lu, variant %u, %ld rows, %s%s, outcome %d", number,
                 call.question.variant, call.question.rows, how_names[how], fired ? "" : ", too late", call.outcome);
        if (call.outcome == REFUSED_CLOSED && worker->connection) {
            the_client->close(worker->connection);
            worker->connection = NULL;
        }
        refused.tried += how != NOT_REFUSED;
        refused.reported += call.outcome != ANSWERED;
        if (opens) {
            refused.connections++;
            refused.connections_refused += call.outcome != ANSWERED;
        } else {
            refused.outcomes[how][call.outcome]++;
        }
        if (refused.tried > 100 + 100 * options.count)
            fail("%ld refusals, %ld reported", refused.tried, refused.reported);
    }
    struct call last = {.worker = worker, .question = {.number = ++refused.next_number, .rows = 1}};
    if (worker->connection) perform(&last);
    if (worker->connection && last.outcome != ANSWERED)
        fail("the last question: outcome %d, %s", last.outcome, last.why);
    if (worker->connection) the_client->close(worker->connection);
    return NULL;
}

/* The small server's descriptors are the program's, so it first closes its connections. */
static int count_descriptors(void) {
    while (small && small_server_connections(small) > 0) fiber_sleep(FIBER_MSEC(2));
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}

static void run_workers(long count) {
    struct worker *workers = calloc((size_t)count, sizeof *workers);
    fiber_t *fibers = calloc((size_t)count, sizeof *fibers);
    for (long i = 0; i < count; i++) {
        workers[i].number = (unsigned)i;
        workers[i].random = (options.seed << 20 | (uint64_t)i << 4 | 7) * 0x9e3779b97f4a7c15;
        if (fiber_spawn(&fibers[i], ask_and_refuse, &workers[i]) < 0) fail("a worker does not start");
    }
    for (long i = 0; i < count; i++) join(fibers[i]);
    free(workers), free(fibers);
}

static void test_refused(void) {
    /* The first refusals open what the library and the runtime keep open. */
    long count = options.count;
    options.count = 5;
    run_workers(1);
    options.count = count;
    memset(&refused, 0, sizeof refused);
    int before = count_descriptors();
    double begin = seconds_now();
    run_workers(options.workers);
    int after = count_descriptors();
    printf("%s: %ld refusals at random moments, %ld reported, no wrong answer; %llu questions in %.1f s, seed %llu\n",
           the_client->name, refused.tried, refused.reported, (unsigned long long)refused.next_number,
           seconds_now() - begin, (unsigned long long)options.seed);
    printf("%s: %ld connections, %ld of them refused\n", the_client->name, refused.connections,
           refused.connections_refused);
    for (int how = 0; how < HOWS; how++) {
        printf("%s: by %s:", the_client->name, how_names[how]);
        for (int outcome = 0; outcome < WRONG; outcome++)
            printf(" %s %ld", outcome_names[outcome], refused.outcomes[how][outcome]);
        printf("\n");
    }
    if (after > before) fail("%d descriptors are open, %d were before", after, before);
}

/* --- main --------------------------------------------------------------------------------------------------------- */

static bool parse(int argc, char **argv) {
    options.test = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--threads") == 0)
            options.threads = true;
        else if (strcmp(name, "--whole") == 0)
            options.whole = true;
        else if (!value)
            return false;
        else if (i++, strcmp(name, "--server") == 0)
            options.server_name = value;
        else if (strcmp(name, "--count") == 0)
            options.count = atol(value);
        else if (strcmp(name, "--workers") == 0)
            options.workers = atol(value);
        else if (strcmp(name, "--seconds") == 0)
            options.seconds = atol(value);
        else if (strcmp(name, "--seed") == 0)
            options.seed = strtoull(value, NULL, 10);
        else
            return false;
    }
    return strcmp(options.test, "together") == 0 || (strcmp(options.test, "refused") == 0 && !options.threads);
}

/* Of the libraries that a client library uses, some may not be loaded. */
static void adopt(void) {
    for (const char *const *library = the_client->libraries; *library; library++) {
        int functions = fiber_posix_adopt(*library, 0);
        if (functions <= 0 && library == the_client->libraries)
            fail("%s is not adopted: %s", *library,
                 functions < 0 ? fiber_strerror(functions) : "it imports no function");
        if (functions < 0 && functions != -ENOENT) fail("%s is not adopted: %s", *library, fiber_strerror(functions));
    }
}

int client_main(int argc, char **argv, const struct client *client) {
    the_client = client;
    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: %s together|refused [OPTIONS], see tests/posix/client.h\n", argv[0]);
        return 2;
    }
    if (options.server_name && !(options.server = getenv(options.server_name))) {
        printf("there is no %s: servers.py could not start this server\n", options.server_name);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (client->begin) client->begin();
    pthread_t watcher;
    if (pipe(alive) < 0 || pthread_create(&watcher, NULL, watch, NULL) != 0) fail("no watcher: %s", strerror(errno));
    char address[128];
    if (!options.server) {
        small = small_server_start(client->small_serve, NULL);
        if (!small) fail("the small server does not start");
        snprintf(address, sizeof address, client->small_address, small_server_port(small));
        options.server = address;
    }
    if (!options.threads && !options.whole) adopt();
    if (strcmp(options.test, "together") == 0)
        test_together();
    else
        test_refused();
    if (small) small_server_stop(small);
    close(alive[1]);
    pthread_join(watcher, NULL);
    return 0;
}
