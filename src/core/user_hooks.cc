// SPDX-License-Identifier: MIT OR Apache-2.0
// Hooks of the user's, and ambient values.
#include "core/user_hooks.h"

#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/locals.h"
#include "core/relay.h"

#include <errno.h>
#include <stdlib.h>

namespace fiberrt {

// Values that are in force on a cord: of each ambient key that has been set there.
struct Ambient {
    struct Value {
        uint32_t index;
        uint32_t generation; // of the key
        void* in_force;
        bool applying; // apply has not returned
    };
    uint32_t count;
    uint32_t room;
    uint32_t not_null; // of those in force
    Value values[];
};

namespace {

void hooked_update(Cord& cord, uint8_t by_user) {
    uint8_t hooked = (cord.hooked & hooked_by_sanitizer) | by_user;
    if (cord.ambient) hooked |= hooked_by_ambient;
    hooked_changes(cord, hooked);
}

void tell_nobody(void*, fiber_tag_t, fiber_tag_t) {}

// So that a switch calls them without looking.
void keep_hooks(Cord& cord, const fiber_hooks_t& hooks) {
    cord.hooks = hooks;
    if (!cord.hooks.before_switch) cord.hooks.before_switch = tell_nobody;
    if (!cord.hooks.after_switch) cord.hooks.after_switch = tell_nobody;
}

void* value_of(const Fiber* fiber, const Ambient::Value& value) {
    return local_of(fiber, value.index, value.generation);
}

// now: what is to be in force.
void put_in_force(Cord& cord, Fiber* as, Ambient::Value& value, void* now) {
    void* old = value.in_force;
    if (old == now) return;
    cord.ambient->not_null += uint32_t(now != nullptr) - uint32_t(old != nullptr);
    value.in_force = now;
    auto apply = key_apply(value.index, value.generation);
    if (!apply) return;                         // the key is gone
    auto place = &value - cord.ambient->values; // which may move meanwhile
    bool applying = value.applying;
    value.applying = true;
    {
        InHook in(cord, as);
        apply(old, now);
    }
    cord.ambient->values[place].applying = applying;
}

Ambient::Value* find(Cord& cord, uint32_t index, uint32_t generation) {
    for (uint32_t i = 0; cord.ambient && i < cord.ambient->count; i++) {
        Ambient::Value& value = cord.ambient->values[i];
        if (value.index == index && value.generation == generation) return &value;
    }
    return nullptr;
}

} // namespace

void ambient_switch(Cord& cord, Fiber* to) {
    if (!cord.ambient->not_null && !to->locals) return;
    for (uint32_t i = 0; i < cord.ambient->count; i++) {
        Ambient::Value& value = cord.ambient->values[i];
        put_in_force(cord, to, value, value_of(to, value));
    }
}

void hooks_set(Cord& cord, const fiber_hooks_t* hooks) {
    keep_hooks(cord, hooks ? *hooks : fiber_hooks_t{});
    hooked_update(cord, hooks ? hooked_by_user : 0);
}

void hooks_end(Cord& cord) {
    free(cord.ambient);
    cord.ambient = nullptr;
    keep_hooks(cord, {});
}

void hooks_switch(Cord& cord, Fiber* from, Fiber* to) {
    bool ordinary = from && !cord.noswitch_depth && !((from->attention | to->attention) & attention_noswitch);
    if (ordinary) [[likely]] {
        Fiber* before = cord.current;
        cord.current = from;
        hooks_call_pair(cord, from, to);
        cord.current = before;
        return;
    }
    InHook in(cord, from ? from : to); // one for both: the second finds another fiber the calling one
    if (from) {
        cord.hooks.before_switch(cord.hooks.data, tag_of(from), tag_of(to));
        in.go_on_as(to);
    }
    cord.hooks.after_switch(cord.hooks.data, from ? tag_of(from) : fiber_tag_t{nullptr, 0}, tag_of(to));
}

void start_told(Cord& cord, Fiber* fiber) {
    if (!cord.hooks.start) return;
    InHook in(cord, fiber);
    cord.hooks.start(cord.hooks.data, tag_of(fiber));
}

void exit_told(Cord& cord, Fiber* fiber) {
    if (!cord.hooks.exit) return;
    InHook in(cord, fiber);
    cord.hooks.exit(cord.hooks.data, tag_of(fiber));
}

void destroy_told(Cord& cord, Fiber* fiber) {
    fiber_tag_t tag = tag_of(fiber);
    fiber->tag_kind = 0;
    if (!tag.kind || !cord.hooks.destroy) return;
    {
        Locked locked(fiber->mail.lock);
        fiber->detached = true; // so that the hook cannot: the slot would be given back twice
    }
    InHook in(cord, cord.current);
    cord.hooks.destroy(cord.hooks.data, {fibers.id_of(fiber)}, tag);
}

bool wants_polls(const Cord& cord) { return cord.hooks.before_poll || cord.hooks.after_poll; }

void poll_begins(Cord& cord) {
    if (!cord.hooks.before_poll) return;
    InHook in(cord, cord.current);
    cord.hooks.before_poll(cord.hooks.data);
}

void poll_ended(Cord& cord) {
    int result = 0;
    if (auto after = cord.hooks.after_poll) {
        InHook in(cord, cord.current);
        result = after(cord.hooks.data);
    }
    if (result == -EINTR && note_interrupt(cord.main, nullptr)) interrupt(cord, cord.main);
}

int ambient_reserve(Cord& cord, uint32_t index, uint32_t generation) {
    if (const Ambient::Value* value = find(cord, index, generation)) return value->applying ? -EBUSY : 0;
    for (uint32_t i = 0; cord.ambient && i < cord.ambient->count; i++) { // of a key that is gone
        Ambient::Value& value = cord.ambient->values[i];
        if (key_apply(value.index, value.generation)) continue;
        if (value.in_force) cord.ambient->not_null--;
        value = {index, generation, nullptr, false};
        return 0;
    }
    KeepErrno keep;
    uint32_t room = cord.ambient ? cord.ambient->room : 0;
    if (!cord.ambient || cord.ambient->count == room) {
        uint32_t grown = room ? 2 * room : 4;
        auto* ambient = static_cast<Ambient*>(realloc(cord.ambient, sizeof(Ambient) + grown * sizeof(Ambient::Value)));
        if (!ambient) return -ENOMEM;
        if (!cord.ambient) ambient->count = ambient->not_null = 0;
        ambient->room = grown;
        cord.ambient = ambient;
        hooked_update(cord, cord.hooked & hooked_by_user);
    }
    cord.ambient->values[cord.ambient->count++] = {index, generation, nullptr, false};
    return 0;
}

void ambient_changed(Cord& cord, Fiber* fiber, uint32_t index, uint32_t generation) {
    Ambient::Value* value = find(cord, index, generation);
    if (value) put_in_force(cord, fiber, *value, value_of(fiber, *value));
}

void ambient_drop(Cord& cord, uint32_t index, uint32_t generation, void* dropped) {
    Ambient::Value* value = find(cord, index, generation);
    if (value && value->in_force == dropped) put_in_force(cord, cord.current, *value, nullptr);
}

} // namespace fiberrt
