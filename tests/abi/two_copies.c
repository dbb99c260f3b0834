/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * two_copies [COPY] OTHER - two copies of the library in one process, which know nothing of each other: two files, both
 * loaded; or, built with -DLINKED, the archive that is linked in and one that is loaded. Each has its own cords, fibers
 * and backend on every thread.
 */
#include <fiberrt_dl.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                 \
    do {                                                                 \
        if (!(condition)) {                                              \
            printf("line %d: %s does not hold\n", __LINE__, #condition); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static fiberrt_dl_t copies[2];

/* The copies, and which of them is meant. */
struct side {
    const fiberrt_dl_t *own;
    const fiberrt_dl_t *other;
    int fds[2];
    fiber_mutex_t mutex;
};

static void *answer(void *argument) {
    struct side *side = argument;
    char byte = 0;
    CHECK(side->own->fiber_read(side->fds[1], &byte, 1) == 1 && byte == 'q');
    CHECK(side->own->fiber_sleep(FIBER_MSEC(1)) == 0);
    CHECK(side->own->fiber_write(side->fds[1], "a", 1) == 1);
    return side;
}

/* Two fibers of one copy that wait for each other, for the kernel and for time. */
static void talk(const fiberrt_dl_t *own) {
    struct side side = {own, NULL, {-1, -1}, {{0}}};
    char byte = 0;
    fiber_t fiber;
    void *result = NULL;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, side.fds) == 0);
    CHECK(own->fiber_spawn(&fiber, answer, &side) == 0);
    CHECK(own->fiber_write(side.fds[0], "q", 1) == 1);
    CHECK(own->fiber_read(side.fds[0], &byte, 1) == 1 && byte == 'a');
    CHECK(own->fiber_join(fiber, &result) == 0 && result == &side);
    CHECK(own->fiber_close(side.fds[0]) == 0 && own->fiber_close(side.fds[1]) == 0);
}

/* A fiber of one copy uses the other: for that one it is the main flow of the thread. */
static void *nested(void *argument) {
    struct side *side = argument;
    fiber_t self;
    CHECK(side->own->fiber_reschedule() == 0);
    talk(side->other);
    CHECK(side->own->fiber_self(&self) == 0 && side->own->fiber_state(self) == FIBER_RUNNING);
    talk(side->own);
    return side;
}

static void *never_woken(void *argument) {
    const fiberrt_dl_t *own = argument;
    (void)own->fiber_yield();
    return NULL;
}

static void *holder(void *argument) {
    struct side *side = argument;
    CHECK(side->own->fiber_mutex_lock(&side->mutex) == 0);
    (void)side->own->fiber_yield();
    return NULL;
}

/* Ends with fibers of both copies that are not done. */
static void *thread(void *argument) {
    struct side *sides = argument;
    int i;
    for (i = 0; i < 2; i++) {
        fiber_t fiber;
        talk(sides[i].own);
        CHECK(sides[i].own->fiber_spawn(NULL, never_woken, (void *)sides[i].own) == 0);
        CHECK(sides[i].own->fiber_new(&fiber, NULL, holder, &sides[i]) == 0 && sides[i].own->fiber_start(fiber) == 0);
    }
    return NULL;
}

static void *cord(void *argument) {
    talk(argument);
    return argument;
}

#ifdef LINKED
/* The table of the copy that is linked in. */
static void *linked(const char *name) { return dlsym(RTLD_DEFAULT, name); }
#endif

int main(int argc, char **argv) {
    char why[256] = "";
    struct side sides[2] = {{&copies[0], &copies[1], {-1, -1}, {{0}}}, {&copies[1], &copies[0], {-1, -1}, {{0}}}};
    pthread_t other;
    int i;
#ifdef LINKED
    CHECK(argc == 2 && linked("fiberrt_fiber_version") == (void *)(uintptr_t)fiber_version);
    CHECK(fiberrt_dl_load(RTLD_DEFAULT, &copies[0], why, sizeof why) == 0);
#else
    CHECK(argc == 3);
    if (fiberrt_dl_open(argv[1], &copies[0], why, sizeof why) != 0) return printf("%s\n", why), 1;
#endif
    if (fiberrt_dl_open(argv[argc - 1], &copies[1], why, sizeof why) != 0) return printf("%s\n", why), 1;
    CHECK(copies[0].fiber_new != copies[1].fiber_new && copies[0].fiber_dump != copies[1].fiber_dump);

    for (i = 0; i < 2; i++) {
        fiber_t fiber, self;
        fiber_cord_t started;
        void *result = NULL;
        talk(sides[i].own);
        CHECK(sides[i].own->fiber_spawn(&fiber, nested, &sides[i]) == 0);
        CHECK(sides[i].own->fiber_join(fiber, &result) == 0 && result == &sides[i]);
        CHECK(sides[i].own->fiber_cord_start(&started, NULL, cord, (void *)sides[i].own) == 0);
        CHECK(sides[i].own->fiber_cord_join(started, &result) == 0 && result == sides[i].own);
        CHECK(sides[i].own->fiber_self(&self) == 0 && sides[i].own->fiber_state(self) == FIBER_RUNNING);
    }

    /* Both are closed before a thread ends that has fibers in both; the thread's mutexes show that both copies noticed
     * its end. */
    CHECK(pthread_create(&other, NULL, thread, sides) == 0);
    for (i = 0; i < 2; i++) CHECK(copies[i].handle == NULL || dlclose(copies[i].handle) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    for (i = 0; i < 2; i++) CHECK(sides[i].own->fiber_mutex_lock(&sides[i].mutex) == -EOWNERDEAD);
    puts("two_copies: fine");
    return 0;
}
