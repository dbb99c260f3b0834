// SPDX-License-Identifier: MIT OR Apache-2.0
// The user's hooks, and ambient values.
#include "embed/user_hooks.h"

#include "base/keep_errno.h"
#include "core/cancel.h"
#include "core/scheduler.h"
#include "embed/locals.h"
#include "core/switch.h"

#include <errno.h>
#include <stdlib.h>

namespace fiberrt {

// The ambient values in force on a cord: one for each ambient key that has been set there.
struct Ambient {
    struct Value {
        uint32_t index;
        uint32_t generation; // of the key
        void* in_force;
        bool applying; // apply has not returned
    };
    uint32_t count;
    uint32_t room;
    uint32_t not_null; // values in force that are not null
    Value values[];
};

namespace {

void hooked_update(Cord& cord, uint8_t by_user) {
    uint8_t hooked = uint8_t(cord.hooked & ~hooked_by_any_user) | by_user;
    if (cord.observer.ambient) hooked |= hooked_by_ambient;
    set_hooked(cord, hooked);
}

void no_hook(void*, fiber_tag_t, fiber_tag_t) {}

// Sets the cord's hooks. No hook at switches stays null, so that a switch calls them without a check.
void keep_hooks(Cord& cord, const fiber_hooks_t& hooks) {
    cord.observer.hooks = hooks;
    if (!cord.observer.hooks.before_switch) cord.observer.hooks.before_switch = no_hook;
    if (!cord.observer.hooks.after_switch) cord.observer.hooks.after_switch = no_hook;
}

// Calls the two hooks at an ordinary switch: `from` is the current fiber, both have a stack, and no section is entered.
// Does the same as two InHooks, but the values to restore are known. Afterwards `to` is the current fiber.
[[gnu::always_inline]] inline void hooks_call_pair(Cord& cord, Fiber* from, Fiber* to) {
    int error = *cord.thread_state.errno_address;
    cord.no_switch.depth = cord.no_switch.floor = hook_section;
    from->sched.pending |= pending_noswitch;
    cord.observer.hooks.before_switch(cord.observer.hooks.data, tag_of(from), tag_of(to));
    from->sched.pending &= uint8_t(~pending_noswitch);
    cord.sched.current = to;
    cord.no_switch.depth = hook_section;
    to->sched.pending |= pending_noswitch;
    cord.observer.hooks.after_switch(cord.observer.hooks.data, tag_of(from),
                                     tag_of(to)); // not read earlier: the first hook may have set other hooks
    to->sched.pending &= uint8_t(~pending_noswitch);
    cord.no_switch.depth = cord.no_switch.floor = 0;
    *cord.thread_state.errno_address = error;
}

void* value_of(const Fiber* fiber, const Ambient::Value& value) {
    return local_of(fiber, value.index, value.generation);
}

// Puts the value `now` in force, and calls the key's apply function as the fiber `as`.
void put_in_force(Cord& cord, Fiber* as, Ambient::Value& value, void* now) {
    void* old = value.in_force;
    if (old == now) return;
    cord.observer.ambient->not_null += uint32_t(now != nullptr) - uint32_t(old != nullptr);
    value.in_force = now;
    auto apply = key_apply(value.index, value.generation);
    if (!apply) return;                                  // the key is gone
    auto place = &value - cord.observer.ambient->values; // apply may move the array
    bool applying = value.applying;
    value.applying = true;
    {
        InHook in(cord, as);
        apply(old, now);
    }
    cord.observer.ambient->values[place].applying = applying;
}

Ambient::Value* find(Cord& cord, uint32_t index, uint32_t generation) {
    for (uint32_t i = 0; cord.observer.ambient && i < cord.observer.ambient->count; i++) {
        Ambient::Value& value = cord.observer.ambient->values[i];
        if (value.index == index && value.generation == generation) return &value;
    }
    return nullptr;
}

} // namespace

namespace {

void ambient_switch(Cord& cord, Fiber* to) {
    if (!cord.observer.ambient->not_null && !to->values.locals) return;
    for (uint32_t i = 0; i < cord.observer.ambient->count; i++) {
        Ambient::Value& value = cord.observer.ambient->values[i];
        put_in_force(cord, to, value, value_of(to, value));
    }
}

void observer_end(Cord& cord) {
    free(cord.observer.ambient);
    cord.observer.ambient = nullptr;
    keep_hooks(cord, {});
}

void call_hooks(Cord& cord, Fiber* from, Fiber* to) {
    bool ordinary = from && !cord.no_switch.depth && !((from->sched.pending | to->sched.pending) & pending_noswitch);
    if (ordinary) [[likely]] {
        Fiber* before = cord.sched.current;
        cord.sched.current = from;
        hooks_call_pair(cord, from, to);
        cord.sched.current = before;
        return;
    }
    InHook in(cord, from ? from : to); // one object for both hooks; go_on_as() changes the calling fiber
    if (from) {
        cord.observer.hooks.before_switch(cord.observer.hooks.data, tag_of(from), tag_of(to));
        in.go_on_as(to);
    }
    cord.observer.hooks.after_switch(cord.observer.hooks.data, from ? tag_of(from) : fiber_tag_t{nullptr, 0},
                                     tag_of(to));
}

void switched(Cord& cord, Fiber* from, Fiber* to) {
    if ((from ? from->extras.tag_kind : 0) | to->extras.tag_kind) call_hooks(cord, from, to);
    if (cord.observer.ambient) ambient_switch(cord, to);
}

// Each kind of switch has a separate function: a function with fewer calls saves fewer registers, so that hooks cost
// little more than their own time.
[[gnu::noinline]] int make_ambient_switch(Cord& cord, Fiber* me, Fiber* next) {
    ambient_switch(cord, next);
    cord.sched.current = next;
    return fiberrt_switch(&cord, next, me);
}

[[gnu::noinline]] int make_tagged_switch(Cord& cord, Fiber* me, Fiber* next) {
    hooks_call_pair(cord, me, next);
    if (cord.observer.ambient) [[unlikely]]
        return make_ambient_switch(cord, me, next);
    return fiberrt_switch(&cord, next, me);
}

int make_switch(Cord& cord, Fiber* me, Fiber* next) {
    next->sched.state = State::running;
    cord.stack_in_use.hooked_from = me;
    if (me->extras.tag_kind | next->extras.tag_kind) [[likely]]
        return make_tagged_switch(cord, me, next);
    if (cord.observer.ambient) return make_ambient_switch(cord, me, next);
    return fiberrt_switch(&cord, next, me);
}

void started(Cord& cord, Fiber* fiber) {
    if (!cord.observer.hooks.start) return;
    InHook in(cord, fiber);
    cord.observer.hooks.start(cord.observer.hooks.data, tag_of(fiber));
}

void exits(Cord& cord, Fiber* fiber) {
    if (!cord.observer.hooks.exit) return;
    InHook in(cord, fiber);
    cord.observer.hooks.exit(cord.observer.hooks.data, tag_of(fiber));
}

void destroyed(Cord& cord, Fiber* fiber) {
    fiber_tag_t tag = tag_of(fiber);
    fiber->extras.tag_kind = 0;
    if (!cord.observer.hooks.destroy) return;
    {
        Locked locked(fiber->remote.lock);
        fiber->life.detached = true; // so that the hook cannot detach it: the slot would be given back twice
    }
    InHook in(cord, cord.sched.current);
    cord.observer.hooks.destroy(cord.observer.hooks.data, {fibers.id_of(fiber)}, tag);
}

bool wants_sleeps(const Cord& cord) { return cord.observer.hooks.before_poll || cord.observer.hooks.after_poll; }

void sleeps(Cord& cord) {
    if (!cord.observer.hooks.before_poll) return;
    InHook in(cord, cord.sched.current);
    cord.observer.hooks.before_poll(cord.observer.hooks.data);
}

void woke(Cord& cord) {
    int result = 0;
    if (auto after = cord.observer.hooks.after_poll) {
        InHook in(cord, cord.sched.current);
        result = after(cord.observer.hooks.data);
    }
    if (result == -EINTR && note_interrupt(cord.main_flow.fiber, nullptr)) interrupt(cord, cord.main_flow.fiber);
}

constexpr ObserverOps observer_ops = {make_switch,  switched, started, exits,       destroyed,
                                      wants_sleeps, sleeps,   woke,    observer_end};

// Gives the cord an observer, if it has none.
void observe(Cord& cord) {
    if (cord.observer.ops) return;
    keep_hooks(cord, {});
    cord.observer.ops = &observer_ops;
}

} // namespace

void hooks_set(Cord& cord, const fiber_hooks_t* hooks) {
    observe(cord);
    keep_hooks(cord, hooks ? *hooks : fiber_hooks_t{});
    hooked_update(cord, hooks ? hooked_by_user : 0);
}

int ambient_reserve(Cord& cord, uint32_t index, uint32_t generation) {
    if (const Ambient::Value* value = find(cord, index, generation)) return value->applying ? -EBUSY : 0;
    for (uint32_t i = 0; cord.observer.ambient && i < cord.observer.ambient->count; i++) { // of a key that is gone
        Ambient::Value& value = cord.observer.ambient->values[i];
        if (key_apply(value.index, value.generation)) continue;
        if (value.in_force) cord.observer.ambient->not_null--;
        value = {index, generation, nullptr, false};
        return 0;
    }
    KeepErrno keep;
    uint32_t room = cord.observer.ambient ? cord.observer.ambient->room : 0;
    if (!cord.observer.ambient || cord.observer.ambient->count == room) {
        uint32_t grown = room ? 2 * room : 4;
        auto* ambient =
            static_cast<Ambient*>(realloc(cord.observer.ambient, sizeof(Ambient) + grown * sizeof(Ambient::Value)));
        if (!ambient) return -ENOMEM;
        if (!cord.observer.ambient) ambient->count = ambient->not_null = 0;
        ambient->room = grown;
        cord.observer.ambient = ambient;
        observe(cord);
        hooked_update(cord, cord.hooked & hooked_by_user);
    }
    cord.observer.ambient->values[cord.observer.ambient->count++] = {index, generation, nullptr, false};
    return 0;
}

void ambient_changed(Cord& cord, Fiber* fiber, uint32_t index, uint32_t generation) {
    Ambient::Value* value = find(cord, index, generation);
    if (value) put_in_force(cord, fiber, *value, value_of(fiber, *value));
}

void ambient_drop(Cord& cord, uint32_t index, uint32_t generation, void* dropped) {
    Ambient::Value* value = find(cord, index, generation);
    if (value && value->in_force == dropped) put_in_force(cord, cord.sched.current, *value, nullptr);
}

} // namespace fiberrt
