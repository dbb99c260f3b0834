// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes attribute objects of all kinds, for the functions fiber_..._attr_create.
#pragma once

#include "base/keep_errno.h"
#include "core/attr.h"

#include <errno.h>
#include <new>
#include <stdlib.h>

namespace fiberrt::api {

// Allocates an attribute object with the defaults; free() destroys it. 0, -EINVAL, -ENOMEM.
template <class Attr>
int make_attr(Attr** out) {
    if (!out) return -EINVAL;
    KeepErrno keep;
    void* memory = malloc(sizeof(Attr));
    if (!memory) return -ENOMEM;
    *out = new (memory) Attr;
    return 0;
}

} // namespace fiberrt::api
