// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_hooks_set and fiber_tag_...: the program's hooks of a cord, and the tags of fibers.
#include "embed/user_hooks.h"

#include "api/api.h"
#include "base/planted.h"

#include <string.h>

using namespace fiberrt;

int fiber_hooks_set(const fiber_hooks_t* hooks, size_t size) {
    // All members are pointers. Refuses a size that ends within one: half of the address of a function would be used.
    if (hooks && (!size || (!PLANTED(half_a_hook) && size % sizeof(void*)))) return -EINVAL;
    Cord* cord = cord_here();
    if (!cord) return no_cord();
    if (!hooks) {
        hooks_set(*cord, nullptr);
        return 0;
    }
    fiber_hooks_t known = {};
    memcpy(&known, hooks, size < sizeof known ? size : sizeof known);
    const auto* given = reinterpret_cast<const unsigned char*>(hooks);
    for (size_t i = sizeof known; i < size; i++) {
        if (given[i]) return -ENOTSUP;
    }
    hooks_set(*cord, &known);
    return 0;
}

int fiber_tag_set(fiber_t handle, fiber_tag_t tag) {
    if (tag.kind > FIBER_TAG_KIND_MAX || (!tag.kind && tag.pointer)) return -EINVAL;
    Fiber* fiber;
    if (int error = own_fiber(handle, &fiber)) return error;
    if (fiber->sched.state == State::dead) return -ESRCH;
    fiber->values.tag = tag.pointer;
    fiber->extras.tag_kind = uint8_t(tag.kind);
    Locked locked(fiber->remote.lock);
    if (tag.kind) fiber->requests.asked_elsewhere = true; // so the fiber's end takes the slow path
    return 0;
}

int fiber_tag_get(fiber_t handle, fiber_tag_t* out) {
    if (!out) return -EINVAL;
    Fiber* fiber;
    if (int error = own_fiber(handle, &fiber)) return error;
    *out = tag_of(fiber);
    if (!out->kind) out->pointer = nullptr;
    return 0;
}
