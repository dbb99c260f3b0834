// SPDX-License-Identifier: MIT OR Apache-2.0
// Primitives that lie in memory of the user's, as whom all zero bytes are a fresh one.
#pragma once

#include <new>

namespace fiberrt::api {

template <class Primitive, class Storage>
Primitive& in_place(Storage* storage) {
    static_assert(sizeof(Primitive) <= sizeof(Storage) && alignof(Primitive) <= alignof(Storage));
    return *reinterpret_cast<Primitive*>(storage);
}

} // namespace fiberrt::api
