/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dl_table LIBRARY STAND-IN MISSING - uses fiberrt_dl.h, as C and as C++. LIBRARY is the real one, STAND-IN one that
 * has all functions but the one that is named MISSING.
 */
#include <fiberrt_dl.h>
#include <fiberrt_dl.h>

#include <stdlib.h>

static fiberrt_dl_t rt;

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            printf("line %d: %s does not hold; %s\n", __LINE__, #condition, why); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static char why[256];

static void *sleeper(void *argument) { return rt.fiber_sleep(FIBER_MSEC(1)) == 0 ? argument : NULL; }

static void *waiter(void *argument) {
    int *verdict = (int *)argument;
    int left = 0;
    FIBERRT_DL_WITH_TIMEOUT(&rt, FIBER_MSEC(1), verdict) {
        FIBERRT_DL_WITH_TIMEOUT(&rt, FIBER_FOREVER, NULL) left = rt.fiber_yield();
    }
    return left == -ETIMEDOUT ? argument : NULL;
}

static void use(void) {
    fiber_t one, two;
    void *value = NULL;
    int token = 0;
    CHECK(rt.fiber_version() == FIBERRT_VERSION_MAJOR * 10000 + FIBERRT_VERSION_MINOR * 100 + FIBERRT_VERSION_PATCH);
    CHECK(rt.fiber_spawn(&one, sleeper, why) == 0 && rt.fiber_spawn(&two, waiter, &token) == 0);
    CHECK(rt.fiber_join(one, &value) == 0 && value == why);
    CHECK(rt.fiber_join(two, &value) == 0 && value == &token && token == -ETIMEDOUT);
    CHECK(rt.fiber_join(two, &value) == -ESRCH);
}

int main(int argc, char **argv) {
    fiberrt_dl_t table;
    char wanted[128], few[8];
    void *stand_in;
    CHECK(argc == 4);

    CHECK(fiberrt_dl_open(argv[1], &rt, why, sizeof why) == 0 && why[0] == '\0' && rt.handle != NULL);
    use();
    /* By its handle instead of its path, and by its own name. */
    CHECK(fiberrt_dl_load(rt.handle, &table, NULL, 0) == 0 && memcmp(&table, &rt, sizeof rt) == 0);
    CHECK(fiberrt_dl_open(NULL, &table, why, sizeof why) == 0 && table.fiber_new == rt.fiber_new);
    CHECK(dlclose(table.handle) == 0);

    /* The error names the missing symbol; the others are found. */
    CHECK(fiberrt_dl_open(argv[2], &table, why, sizeof why) == -ENOSYS);
    (void)snprintf(wanted, sizeof wanted, "the library has no function %s", argv[3]);
    CHECK(strcmp(why, wanted) == 0);
    CHECK(table.fiber_join == NULL && table.fiber_version != NULL && table.fiber_dump != NULL);
    stand_in = table.handle;
    CHECK(stand_in != NULL);
    CHECK(fiberrt_dl_load(stand_in, &table, few, sizeof few) == -ENOSYS && strcmp(few, "the lib") == 0);
    CHECK(fiberrt_dl_load(stand_in, &table, NULL, 0) == -ENOSYS);

    CHECK(fiberrt_dl_open("/nowhere/libfiberrt.so", &table, why, sizeof why) == -ELIBACC);
    CHECK(strstr(why, "/nowhere/libfiberrt.so") != NULL && table.handle == NULL && table.fiber_new == NULL);
    CHECK(fiberrt_dl_open("/nowhere/libfiberrt.so", &table, NULL, 0) == -ELIBACC);
    CHECK(fiberrt_dl_open(argv[1], NULL, why, sizeof why) == -EINVAL);
    CHECK(fiberrt_dl_open(argv[1], &table, NULL, sizeof why) == -EINVAL);
    CHECK(fiberrt_dl_load(rt.handle, NULL, why, sizeof why) == -EINVAL);
    CHECK(fiberrt_dl_load(rt.handle, &table, NULL, sizeof why) == -EINVAL);

    CHECK(dlclose(rt.handle) == 0);
    use(); /* it stays where it is */
    puts("dl_table: fine");
    return 0;
}
