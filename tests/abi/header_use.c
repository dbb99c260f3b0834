/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses the header's macros and types, as C and as C++; check_header.sh compiles it in each dialect. */
#include <fiberrt.h>
#include <fiberrt.h>

#if FIBERRT_VERSION_MAJOR < 0 || FIBERRT_VERSION_MINOR < 0 || FIBERRT_VERSION_PATCH < 0
#error "versions"
#endif

/* Names that the header must leave to the program. */
typedef struct fiber {
    int number;
} fiber;

#ifdef __cplusplus
extern "C" {
#endif
int header_use(fiber *own);
int leave_by_return(void);
int static_objects(void);
#ifdef __cplusplus
}
#endif

/* Static objects of every kind, without a constructor; in C++11 and newer the compiler is held to that. */
#ifdef __cplusplus
#define CONSTANT constexpr
#else
#define CONSTANT const
#endif
static fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
static fiber_cond_t cond = FIBER_COND_INITIALIZER;
static fiber_rwlock_t rwlock = FIBER_RWLOCK_INITIALIZER;
static fiber_once_t once = FIBER_ONCE_INITIALIZER;
static CONSTANT fiber_sem_t three = FIBER_SEM_INITIALIZER(3);
static CONSTANT fiber_event_t set = FIBER_EVENT_INITIALIZER(FIBER_EVENT_MANUAL | FIBER_EVENT_SET);
static CONSTANT fiber_wg_t group = FIBER_WG_INITIALIZER(FIBER_SEC(1));
static CONSTANT fiber_barrier_t pair = FIBER_BARRIER_INITIALIZER(2);

int static_objects(void) {
    fiber_sem_t sem = three;
    fiber_event_t event = set;
    fiber_wg_t left = group;
    fiber_barrier_t barrier = pair;
    return fiber_mutex_destroy(&mutex) + fiber_cond_destroy(&cond) + fiber_rwlock_destroy(&rwlock) +
           (once.opaque[0] != 0) + fiber_sem_destroy(&sem) + fiber_event_is_set(&event) + fiber_wg_destroy(&left) +
           fiber_barrier_destroy(&barrier);
}

int leave_by_return(void) {
    FIBER_WITH_TIMEOUT(FIBER_USEC(10), NULL) { return 1; }
    return 0;
}

int header_use(fiber *own) {
    int outer = 0, inner = 0, rounds = 0;
    size_t sizes = FIBER_STACK_MIN + FIBER_STACK_DEFAULT;
    fiber_info_t info;
    fiber_stats_t stats;
    char name[FIBER_NAME_MAX];
    fiber_t self = {0};
    fiber_scope_t scope = {0};
    fiber_key_t key = {0};
    void *cancelled = FIBER_CANCELLED;

    FIBER_WITH_TIMEOUT(FIBER_SEC(1), &outer) {
        FIBER_WITH_TIMEOUT(FIBER_MSEC(1) + FIBER_USEC(1), &inner) {
            if (fiber_sleep(FIBER_FOREVER) != 0) break;
        }
        FIBER_WITH_TIMEOUT(FIBER_FOREVER, NULL) rounds++;
    }
    if (fiber_self(&self) != 0 || fiber_info(self, &info, sizeof info) != 0 || fiber_stats(&stats, sizeof stats) != 0 ||
        fiber_name(self, name, sizeof name) < 0)
        return -1;
    if (fiber_scope_open(&scope, 0, FIBER_SCOPE_SHIELD) != 0 || fiber_scope_close(scope, NULL) != 0) return -1;
    if (fiber_key_get(key) == cancelled || info.state == FIBER_DEAD || sizes > FIBER_STACK_MAX) return -1;
    switch (fiber_state(self)) {
    case FIBER_NEW:
    case FIBER_RUNNABLE:
    case FIBER_RUNNING:
    case FIBER_WAITING: break;
    default: return own->number;
    }
    return outer + inner + rounds;
}
