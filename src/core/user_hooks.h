// SPDX-License-Identifier: MIT OR Apache-2.0
// What a user is told of switches: hooks of a cord, about fibers that have a tag; and ambient values, which are put into
// force when the fiber that goes on has others than the one before.
//
// A cord on which there are any has its bits in `hooked`, as where a sanitizer listens: then each of its switches takes
// the slow way, and comes past switch_told. On others nothing is looked at.
#pragma once

#include "base/keep_errno.h"
#include "core/cord.h"

namespace fiberrt {

// Bits of CordWorld::hooked.
constexpr uint8_t hooked_by_sanitizer = 1;
constexpr uint8_t hooked_by_user = 2;
constexpr uint8_t hooked_by_ambient = 4;
constexpr uint8_t hooked_by_any_user = hooked_by_user | hooked_by_ambient;

// While a user's function runs in between: it finds a certain fiber the calling one, may not wait, and keeps errno.
class InHook {
public:
    InHook(Cord& cord, Fiber* as);
    ~InHook();
    InHook(const InHook&) = delete;
    InHook& operator=(const InHook&) = delete;

private:
    KeepErrno keep_;
    Cord& cord_;
    Fiber* before_;
    Fiber* as_;
    uint32_t depth_;
    bool refused_; // before, too
    bool in_hook_; // the same
};

inline fiber_tag_t tag_of(const Fiber* fiber) { return {fiber->tag, fiber->tag_kind}; }

int hooks_set(Cord& cord, const fiber_hooks_t* hooks); // null: none. 0, -ENOMEM
void hooks_end(Cord& cord);                            // it ends

// A switch is about to be made; from null: what runs has ended. Then `to` is the current one.
void switch_told(Cord& cord, Fiber* from, Fiber* to);
// The same of a fiber that has a tag, at other moments.
void start_told(Cord& cord, Fiber* fiber);
void exit_told(Cord& cord, Fiber* fiber);
void destroy_told(Cord& cord, Fiber* fiber);

bool wants_polls(const Cord& cord);
void poll_begins(Cord& cord);
void poll_ended(Cord& cord);

// Of ambient keys, by their index and generation. 0, -ENOMEM: there is room for what is to be in force on this cord.
int ambient_reserve(Cord& cord, uint32_t index, uint32_t generation);
// The calling fiber has another value from now on.
void ambient_changed(Cord& cord, Fiber* fiber, uint32_t index, uint32_t generation);
// This value of a fiber that ends is about to be destroyed: it is in force no more.
void ambient_drop(Cord& cord, uint32_t index, uint32_t generation, void* value);

} // namespace fiberrt
