// SPDX-License-Identifier: MIT OR Apache-2.0
// fiber_key_...: fiber-local values and ambient keys, by embed/locals.h.
// fuzz: switch 95 %
#include "api/api.h"
#include "embed/locals.h"

using namespace fiberrt;

int fiber_key_create(fiber_key_t* out, void (*destructor)(void*)) {
    return out ? key_create(&out->id, destructor) : -EINVAL;
}

int fiber_key_create_ambient(fiber_key_t* out, void (*destructor)(void*), void (*apply)(void* old, void* now)) {
    return out && apply ? key_create(&out->id, destructor, apply) : -EINVAL;
}

int fiber_key_delete(fiber_key_t key) { return key_delete(key.id); }

void* fiber_key_get(fiber_key_t key) {
    // A thread without a cord has no values, so this opens no cord.
    const Cord* cord = cord_if_any();
    return cord ? local_get(cord->sched.current, key.id) : nullptr;
}

int fiber_key_set(fiber_key_t key, void* value) {
    Cord* cord = cord_for_query();
    return cord ? local_set(*cord, cord->sched.current, key.id, value) : no_cord();
}
