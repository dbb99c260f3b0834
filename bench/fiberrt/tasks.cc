// SPDX-License-Identifier: MIT OR Apache-2.0
// task: empty tasks run by a pool.
#include "subject.h"

#include "../tasks.h"

using namespace subject;

namespace {

// task: a pool, and a wait group.
class Tasks {
public:
    explicit Tasks(int workers) {
        fiber_pool_attr_t *attr;
        check(fiber_pool_attr_create(&attr), "fiber_pool_attr_create");
        check(fiber_pool_attr_set_workers(attr, workers), "fiber_pool_attr_set_workers");
        check(fiber_pool_create(&pool_, attr), "fiber_pool_create");
        fiber_pool_attr_destroy(attr);
    }
    ~Tasks() { check(fiber_pool_close(pool_), "fiber_pool_close"); }

    void run(long count) {
        check(fiber_wg_add(&group_, static_cast<int>(count)), "fiber_wg_add");
        for (long i = 0; i < count; i++) {
            check(fiber_pool_submit(pool_, task, &group_), "fiber_pool_submit");
        }
        check(fiber_wg_wait(&group_), "fiber_wg_wait");
    }

    template <class Body>
    void inside(Body &body) {
        Outer<Body> outer = {&body, {}};
        check(fiber_event_init(&outer.done, 0), "fiber_event_init");
        check(fiber_pool_submit(pool_, Outer<Body>::run, &outer), "fiber_pool_submit");
        check(fiber_event_wait(&outer.done), "fiber_event_wait");
    }

private:
    template <class Body>
    struct Outer {
        Body *body;
        fiber_event_t done;
        static void *run(void *argument) {
            auto *outer = static_cast<Outer *>(argument);
            (*outer->body)();
            fiber_event_set(&outer->done);
            return nullptr;
        }
    };

    static void *task(void *group) {
        fiber_wg_done(static_cast<fiber_wg_t *>(group));
        return nullptr;
    }

    fiber_pool_t pool_;
    alignas(64) fiber_wg_t group_ = {}; // the submitter reads the pool's handle, not the memory that each task writes
};

} // namespace

void subject::add_tasks() { bench::add_tasks<Tasks>(); }
