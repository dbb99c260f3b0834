// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/dead_locks.h"

#include "agent/names.h"
#include "base/arena.h"
#include "core/handles.h"
#include "debug/describe.h"
#include "debug/look.h"
#include "debug/wait_graph.h"

#include <errno.h>

namespace fiberrt {

namespace {

struct SomeLooks {
    Look looks[looks_most];
    Snapshot seen[looks_most];
};

} // namespace

int count_dead_locks(DeadLocks* out, Names& names) {
    *out = {};
    Arena arena;
    WaitGraph graph(arena);
    auto* some = arena.make<SomeLooks>();
    if (!some) return -ENOMEM;
    int count = 0;
    auto look_at_some = [&] {
        look_at_all(some->looks, count, nullptr);
        for (int i = 0; i < count; i++) {
            if (!some->looks[i].error) graph.add(some->seen[i]);
        }
        count = 0;
    };
    fibers.each([&](Fiber* fiber) {
        fiber_t handle = {id_in(fiber)};
        if (!handle.id || state_of(fiber, handle) != FIBER_WAITING) return;
        some->looks[count] = {fiber, handle, &some->seen[count], nullptr};
        if (++count == looks_most) look_at_some();
    });
    look_at_some();
    for (WaitCircle circle; graph.next(circle);) {
        if (!circle.certain) continue;
        out->circles++;
        out->fibers += uint64_t(circle.count);
        for (int i = 0; i < circle.count; i++) {
            if (int error = names.add_dead_locked(circle.fibers[i].name)) return error;
        }
    }
    return graph.lacks_memory() ? -ENOMEM : 0;
}

} // namespace fiberrt
