// SPDX-License-Identifier: MIT OR Apache-2.0
// What a user is told of switches: hooks of a cord, about fibers that have a tag; and ambient values, which are put into
// force when the fiber that goes on has others than the one before.
//
// A cord on which there are any has its bits in `hooked`, as where a sanitizer listens: then each of its switches takes
// the slow way, and tells the observer of it. On others nothing is looked at.
#pragma once

#include "core/cord.h"
#include "core/noswitch.h"

namespace fiberrt {

// While functions of the user's run in between: they find a certain fiber the calling one, may not wait, and keep errno
// (whose address the cord knows, which saves the C library's call for it).
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

    // The next function finds another fiber the calling one, and a section of its own.
    void go_on_as(Fiber* as) {
        end();
        begin(as);
    }

private:
    void begin(Fiber* as) {
        as_ = as;
        cord_.sched.current = as;
        cord_.no_switch.depth = cord_.no_switch.floor = depth_ + hook_section;
        refused_ = as->sched.attention & attention_noswitch;
        as->sched.attention |= attention_noswitch;
    }
    void end() {
        if (!refused_) as_->sched.attention &= uint8_t(~attention_noswitch);
    }

    Cord& cord_;
    Fiber* before_;
    Fiber* as_;
    int errno_;
    uint32_t depth_;
    uint32_t floor_;
    bool refused_; // before, too
};

inline fiber_tag_t tag_of(const Fiber* fiber) { return {fiber->values.tag, fiber->extras.tag_kind}; }

void hooks_set(Cord& cord, const fiber_hooks_t* hooks); // null: none
// Of ambient keys, by their index and generation. There is room for what is to be in force on this cord: 0, -ENOMEM;
// -EBUSY: apply, which would be called within itself, has not returned.
int ambient_reserve(Cord& cord, uint32_t index, uint32_t generation);
// The calling fiber has another value from now on.
void ambient_changed(Cord& cord, Fiber* fiber, uint32_t index, uint32_t generation);
// This value of a fiber that ends is about to be destroyed: it is in force no more.
void ambient_drop(Cord& cord, uint32_t index, uint32_t generation, void* dropped);

} // namespace fiberrt
