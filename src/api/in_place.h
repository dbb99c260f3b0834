// SPDX-License-Identifier: MIT OR Apache-2.0
// Access to primitives in the user's memory: the public struct is the storage, and all zero bytes are a new primitive.
#pragma once

#include <errno.h>
#include <new>

namespace fiberrt::api {

// The primitive in the storage of a public struct.
template <class Primitive, class Storage>
Primitive& in_place(Storage* storage) {
    static_assert(sizeof(Primitive) <= sizeof(Storage) && alignof(Primitive) <= alignof(Storage));
    return *reinterpret_cast<Primitive*>(storage);
}

// Checks that a primitive may be destroyed; there is nothing to free. 0; -EBUSY: it has waiters; -EINVAL.
template <class Primitive, class Storage>
int destroy(Storage* storage) {
    if (!storage) return -EINVAL;
    auto& primitive = in_place<Primitive>(storage);
    primitive.lock_list();
    bool busy = !primitive.empty();
    primitive.unlock_list();
    return busy ? -EBUSY : 0;
}

} // namespace fiberrt::api
