// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks up functions as the dynamic linker does.
#include "posix/bindings.h"

#include <dlfcn.h>

namespace fiberrt::posix {

namespace {

void* find(void* scope, const char* name, const char* version) {
    void* found = version ? dlvsym(scope, name, version) : nullptr;
    return found ? found : dlsym(scope, name);
}

} // namespace

Bindings bindings_of(const Object& object, const char* name, const char* version) {
    // dlvsym passes over functions without a version, which an import with a version may be bound to: a wrapper's, or a
    // sanitizer's. The object's own libraries come before the program's if it was loaded with RTLD_DEEPBIND, or if only
    // the object sees them.
    return {find(RTLD_DEFAULT, name, version), find(RTLD_NEXT, name, version), dlsym(RTLD_DEFAULT, name),
            find(object.handle(), name, version)};
}

} // namespace fiberrt::posix
