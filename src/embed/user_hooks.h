// SPDX-License-Identifier: MIT OR Apache-2.0
// The user's hooks at switches, for fibers that have a tag; and ambient values, which a switch applies if the next
// fiber has other values than the last one.
//
// A cord with hooks or ambient values has bits in `hooked`, as it has for a sanitizer. Then each switch of the cord
// takes the slow way, and calls the observer. Switches of other cords check nothing.
#pragma once

#include "core/cord.h"
#include "core/noswitch.h"

namespace fiberrt {

// While an object exists, functions of the user may run between the library's own steps: `as` is the calling fiber for
// them, they may not wait, and errno is kept. (The cord knows errno's address, which saves a call of the C library.)
class InHook {
public:
    InHook(Cord& cord, Fiber* as)
        : cord_(cord), before_(cord.sched.current), errno_(*cord.thread_state.errno_address),
          depth_(cord.no_switch.depth), floor_(cord.no_switch.floor) {
        begin(as ? as : cord.main_flow.fiber);
    }
    ~InHook() {
        end();
        cord_.no_switch.depth = depth_;
        cord_.no_switch.floor = floor_;
        cord_.sched.current = before_;
        *cord_.thread_state.errno_address = errno_;
    }
    InHook(const InHook&) = delete;
    InHook& operator=(const InHook&) = delete;

    // For the next function another fiber is the calling one, and the section begins anew.
    void go_on_as(Fiber* as) {
        end();
        begin(as);
    }

private:
    void begin(Fiber* as) {
        as_ = as;
        cord_.sched.current = as;
        cord_.no_switch.depth = cord_.no_switch.floor = depth_ + hook_section;
        refused_ = as->sched.pending & pending_noswitch;
        as->sched.pending |= pending_noswitch;
    }
    void end() {
        if (!refused_) as_->sched.pending &= uint8_t(~pending_noswitch);
    }

    Cord& cord_;
    Fiber* before_;
    Fiber* as_;
    int errno_;
    uint32_t depth_;
    uint32_t floor_;
    bool refused_; // waiting was refused before, too
};

inline fiber_tag_t tag_of(const Fiber* fiber) { return {fiber->values.tag, fiber->extras.tag_kind}; }

void hooks_set(Cord& cord, const fiber_hooks_t* hooks); // null: none
// The next three take an ambient key by its index and generation.
// Reserves room for the key's value in force on this cord. 0, -ENOMEM; -EBUSY: apply has not returned, and would be
// called within itself.
int ambient_reserve(Cord& cord, uint32_t index, uint32_t generation);
// Applies the calling fiber's new value.
void ambient_changed(Cord& cord, Fiber* fiber, uint32_t index, uint32_t generation);
// Puts a value out of force that is about to be destroyed, because its fiber ends.
void ambient_drop(Cord& cord, uint32_t index, uint32_t generation, void* dropped);

} // namespace fiberrt
