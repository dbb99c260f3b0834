// SPDX-License-Identifier: MIT OR Apache-2.0
// What all attribute objects share: how one is made.
#pragma once

#include "base/keep_errno.h"
#include "core/attr.h"

#include <errno.h>
#include <new>
#include <stdlib.h>

namespace fiberrt::api {

// An attribute object with the defaults; free() ends it.
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
