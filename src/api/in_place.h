// SPDX-License-Identifier: MIT OR Apache-2.0
// Primitives that lie in the user's memory: all zero bytes are a fresh one.
#pragma once

#include <errno.h>
#include <new>

namespace fiberrt::api {

template <class Primitive, class Storage>
Primitive& in_place(Storage* storage) {
    static_assert(sizeof(Primitive) <= sizeof(Storage) && alignof(Primitive) <= alignof(Storage));
    return *reinterpret_cast<Primitive*>(storage);
}

// Whether a primitive may be destroyed: 0; -EBUSY, it has waiters; -EINVAL.
template <class Primitive, class Storage>
int destroy(Storage* storage) {
    if (!storage) return -EINVAL;
    auto& primitive = in_place<Primitive>(storage);
    primitive.enter();
    bool busy = !primitive.empty();
    primitive.leave();
    return busy ? -EBUSY : 0;
}

} // namespace fiberrt::api
