// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes children of a scope that are tasks of a pool: a record of the child, then a submit that names it.
#include "pool/spawn_task.h"

#include "base/keep_errno.h"
#include "core/children.h"
#include "core/cord.h"
#include "pool/pool.h"
#include "core/scope.h"
#include "core/spawn_child.h"

namespace fiberrt {

int spawn_task(fiber_scope_t handle, const fiber_attr& attr, int64_t (*fn)(void*), void* arg) {
    KeepErrno keep;
    Scope* scope;
    Child* child;
    uint32_t generation = id_generation(handle.id);
    if (int error = scopes.resolve(handle.id, &scope)) return error;
    Cord* here = cord_here();
    if (!here) return no_cord();
    if (int error = children_open(*here, scope, generation)) return error;
    if (int error = child_records.take(here->free.children, &child)) return error;
    child_begin_task(child, scope, attr.detached);
    child->free_arg = attr.free_arg;
    child->arg = arg;
    void* reason;
    int stopped = child_enter(child, generation, &reason);
    if (stopped < 0) { // coverage: no memory
        child_records.end_use(child);
        child_records.give_back(here->free.children, child);
        return stopped;
    }
    if (stopped) {
        child_never_begins(*here, child, -ECANCELED);
        return 0;
    }
    int error = pool_submit(attr.pool, {as_fiber_function(fn), arg, child}, false);
    if (error) child_withdraw(*here, child);
    return error;
}

} // namespace fiberrt
