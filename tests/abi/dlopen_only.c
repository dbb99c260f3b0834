/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dlopen_only LIBRARY - uses the library by dlopen and dlsym alone, by the plain names. Of the header it takes types
 * and constants.
 */
#include <fiberrt.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

typedef void *function_t(void *);

static int (*version)(void);
static int (*spawn)(fiber_t *, function_t *, void *);
static int (*join)(fiber_t, void **);
static int (*sleep_for)(int64_t);
static int (*yield)(void);
static int (*wakeup)(fiber_t);

static void *library;

static void *symbol(const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) printf("%s: %s\n", name, dlerror());
    return found;
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX shows this way. */
#define LOAD(pointer, name) (*(void **)&(pointer) = symbol(name), (pointer) != NULL)

static void *sleeper(void *argument) { return sleep_for(FIBER_MSEC(1)) == 0 ? argument : NULL; }

static void *yielder(void *argument) { return yield() == 0 ? argument : NULL; }

/* Two fibers, joined; the number of the check that failed, or 0. */
static int use(void) {
    fiber_t one, two;
    void *value = NULL;
    int token;
    if (spawn(&one, sleeper, &token) != 0 || spawn(&two, yielder, &token) != 0) return 1;
    if (sleep_for(0) != 0 || wakeup(two) != 0) return 2;
    if (join(two, &value) != 0 || value != &token) return 3;
    value = NULL;
    if (join(one, &value) != 0 || value != &token) return 4;
    return join(one, &value) == -ESRCH ? 0 : 5;
}

/* The library is closed before the thread ends, whose end runs the library's code once more. */
static void *thread(void *argument) {
    int *result = argument;
    *result = use();
    if (dlclose(library) != 0) *result = 6;
    return NULL;
}

int main(int argc, char **argv) {
    int result = -1;
    pthread_t other;
    if (argc != 2 || (library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) == NULL) {
        printf("dlopen: %s\n", argc == 2 ? dlerror() : "no library named");
        return 1;
    }
    if (!LOAD(version, "fiber_version") || !LOAD(spawn, "fiber_spawn") || !LOAD(join, "fiber_join") ||
        !LOAD(sleep_for, "fiber_sleep") || !LOAD(yield, "fiber_yield") || !LOAD(wakeup, "fiber_wakeup"))
        return 2;
    if (symbol("fiber_spawn") != symbol("fiberrt_fiber_spawn")) {
        puts("the plain name and the linker name differ");
        return 3;
    }
    if (version() != FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH) return 4;
    if (pthread_create(&other, NULL, thread, &result) != 0 || pthread_join(other, NULL) != 0) return 5;
    if (result != 0) {
        printf("check %d failed\n", result);
        return 6;
    }
    puts("dlopen: fine");
    return 0;
}
