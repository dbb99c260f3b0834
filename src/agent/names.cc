// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/names.h"

#include "core/handles.h"
#include "debug/describe.h"
#include "debug/look.h"

#include <errno.h>
#include <string.h>

namespace fiberrt {

NameCount* Names::of(const char (&name)[FIBER_NAME_MAX]) {
    uint64_t hash = 0;
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) hash = hash_step(hash, uint8_t(name[i]));
    NameCount** place = trie_place(&root_, hash, [&](const NameCount& each) { return strcmp(each.name, name) == 0; });
    if (!*place) {
        auto* added = arena_.make<NameCount>();
        if (!added) return nullptr;
        added->hash = hash;
        memcpy(added->name, name, length);
        added->next = list_;
        *place = list_ = added;
    }
    return *place;
}

int Names::collect() {
    bool enough = true;
    fibers.each([&](Fiber* fiber) {
        uint64_t id = id_in(fiber);
        char name[FIBER_NAME_MAX];
        if (!id || !cord_of(fiber) || name_of(fiber, {id}, name) != 0) return;
        NameCount* count = of(name);
        count ? void(count->fibers++) : void(enough = false);
    });
    return enough ? 0 : -ENOMEM;
}

int Names::add_dead_locked(const char (&name)[FIBER_NAME_MAX]) {
    NameCount* count = of(name);
    if (!count) return -ENOMEM;
    count->dead_locked++;
    return 0;
}

} // namespace fiberrt
