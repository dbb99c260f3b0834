// SPDX-License-Identifier: MIT OR Apache-2.0
// hooks: switches that are reported to the program.
#include "subject.h"

using namespace subject;

namespace {

// hooks: two fibers that give way to each other, with hooks that report the switches. They do so at the same place, as
// fibers of a binding do, or each in its own loop.
enum class Told { nothing, untagged, tagged, ambient };
enum class Place { same, own };

class Hooked {
public:
    Hooked(Told told, Place place) : told_(told), place_(place) {
        check(fiber_key_create_ambient(&key_, nullptr, [](void *, void *now) { in_force_ = now; }),
              "fiber_key_create_ambient");
    }
    ~Hooked() { fiber_key_delete(key_); }

    bool run(long rounds) {
        rounds_ = rounds;
        ok_ = true;
        hook(true);
        fiber_t one = spawn(take_turns), other{};
        if (place_ == Place::same) {
            other = spawn(take_turns_with_value);
        } else {
            fiber_t main;
            check(fiber_self(&main), "fiber_self");
            tag(main, true);
            set_value(this);
            for (long i = 0; i < rounds && ok_; i++) {
                ok_ = fiber_reschedule() == 0;
            }
            set_value(nullptr);
            tag(main, false);
        }
        check(fiber_join(one, nullptr), "fiber_join");
        if (place_ == Place::same) check(fiber_join(other, nullptr), "fiber_join");
        hook(false);
        return ok_;
    }

private:
    static void *take_turns(void *argument) {
        auto *it = static_cast<Hooked *>(argument);
        for (long i = 0; i < it->rounds_ && it->ok_; i++) {
            it->ok_ = fiber_reschedule() == 0;
        }
        return nullptr;
    }
    static void *take_turns_with_value(void *argument) {
        static_cast<Hooked *>(argument)->set_value(argument);
        return take_turns(argument);
    }

    fiber_t spawn(void *(*body)(void *)) {
        fiber_t fiber;
        check(fiber_spawn(&fiber, body, this), "fiber_spawn");
        tag(fiber, true);
        return fiber;
    }
    void hook(bool on) {
        if (told_ != Told::untagged && told_ != Told::tagged) return;
        fiber_hooks_t hooks = {};
        hooks.before_switch = hooks.after_switch = [](void *, fiber_tag_t, fiber_tag_t to) { in_force_ = to.pointer; };
        check(fiber_hooks_set(on ? &hooks : nullptr, sizeof hooks), "fiber_hooks_set");
    }
    void tag(fiber_t fiber, bool on) {
        if (told_ != Told::tagged) return;
        check(fiber_tag_set(fiber, {on ? this : nullptr, on}), "fiber_tag_set");
    }
    void set_value(void *value) {
        if (told_ == Told::ambient) check(fiber_key_set(key_, value), "fiber_key_set");
    }

    static inline void *in_force_;
    Told told_;
    Place place_;
    fiber_key_t key_;
    long rounds_ = 0;
    bool ok_ = true;
};

} // namespace

void subject::add_hooks() {
    for (const Place place : {Place::same, Place::own}) {
        const std::string apart = place == Place::own ? "-apart" : "";
        bench::add<Hooked>("hooks/none" + apart, 2, Told::nothing, place);
        bench::add<Hooked>("hooks/untagged" + apart, 2, Told::untagged, place);
        bench::add<Hooked>("hooks/pair" + apart, 2, Told::tagged, place);
        bench::add<Hooked>("hooks/ambient" + apart, 2, Told::ambient, place);
    }
}
