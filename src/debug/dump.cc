// SPDX-License-Identifier: MIT OR Apache-2.0
// Collects the dump: looks at all fibers, some at a time, and hands them to the form that the caller wants.
#include "debug/dump.h"

#include "base/arena.h"
#include "base/keep_errno.h"
#include "core/handles.h"
#include "debug/describe.h"
#include "debug/dump_json.h"
#include "debug/dump_text.h"

#include <errno.h>

namespace fiberrt {

namespace {

constexpr unsigned json = FIBER_DUMP_JSON, grouped = FIBER_DUMP_GROUPED, with_frames = FIBER_DUMP_FRAMES;

// A mark makes a switch slower, and a fiber that runs within the time of one round must be looked at again; so a round
// has few fibers.
constexpr int looks_most = 32;
constexpr int frames_most = 128; // of a stack

struct Looks {
    Look looks[looks_most];
    Snapshot seen[looks_most];
    Backtrace traces[looks_most];
    void* frames[looks_most][frames_most];
};

FramesEnd end_of(const Backtrace& trace) {
    if (!trace.complete) return FramesEnd::lost;
    return trace.count == trace.most ? FramesEnd::cut : FramesEnd::outermost;
}

class FrameFinder {
public:
    explicit FrameFinder(Symbols& symbols) : symbols_(symbols) {}

    // The frames of the backtrace, without the library's own at both ends, if any are left then. Valid until the next
    // call.
    Frames of(const Backtrace& trace) {
        int count = trace.count > 0 ? trace.count : 0;
        for (int i = 0; i < count; i++) {
            auto pc = reinterpret_cast<uintptr_t>(trace.frames[i]);
            frames_[i] = {pc, symbols_.of(pc)};
        }
        int first = 0;
        int last = count;
        while (first < last && is_own(first)) first++;
        while (last > first && is_own(last - 1)) last--;
        if (first == last) {
            first = 0;
            last = count;
        }
        return {frames_ + first, last - first, end_of(trace)};
    }

private:
    bool is_own(int i) const { return frames_[i].symbol && is_internal(*frames_[i].symbol); }

    Symbols& symbols_;
    Frame frames_[frames_most];
};

// Looks at all fibers of the process, and calls visit(snapshot, backtrace) for each.
template <class Visit>
void look_at_all_fibers(Looks& some, bool frames, const void* caller, Visit visit) {
    int count = 0;
    auto look_at_some = [&] {
        look_at_all(some.looks, count, frames ? follow_stack : nullptr);
        for (int i = 0; i < count; i++) {
            if (some.looks[i].error) continue;
            Backtrace& trace = some.traces[i];
            if (frames && is_caller(some.looks[i].fiber)) {
                trace.from = caller;
                follow_own_stack(trace);
            } else if (!some.seen[i].still) {
                trace.count = 0;
            }
            visit(some.seen[i], trace);
        }
        count = 0;
    };
    fibers.each([&](Fiber* fiber) {
        fiber_t handle = {id_in(fiber)};
        if (!handle.id) return;
        some.traces[count] = {some.frames[count], frames_most, 0, true, 0};
        some.looks[count] = {fiber, handle, &some.seen[count], &some.traces[count]};
        if (++count == looks_most) look_at_some();
    });
    look_at_some();
}

template <class Form>
int dump_in(Form& form, Report& report, Arena& arena, Symbols& symbols, unsigned flags, const void* caller) {
    auto* some = arena.make<Looks>();
    void* memory = arena.take(sizeof(FrameFinder));
    if (!some || !memory) return -ENOMEM;
    auto* finder = new (memory) FrameFinder(symbols);
    bool frames = flags & (with_frames | grouped);
    StackGroups groups(arena);
    form.begin(flags & grouped);
    cords.each([&](Cord* cord) { form.cord(cord); });
    look_at_all_fibers(*some, frames, caller, [&](const Snapshot& seen, const Backtrace& trace) {
        if (flags & grouped) {
            groups.add(seen.id, public_state(seen.state), finder->of(trace));
        } else if (frames) {
            Frames found = finder->of(trace);
            form.fiber(seen, trace.function, &found);
        } else {
            form.fiber(seen, 0, nullptr);
        }
    });
    for (StackGroup* group = groups.sorted(); group; group = group->next) form.group(*group, flags & with_frames);
    if (groups.left_out()) form.incomplete("some fibers are in no group: there was no memory");
    form.end();
    return report.end();
}

} // namespace

int dump(int fd, unsigned flags, const void* caller) {
    KeepErrno keep;
    Report report(fd);
    Arena arena;
    Symbols symbols(arena);
    int64_t now = clock_now();
    if (flags & json) {
        JsonDump form(report, symbols, now);
        return dump_in(form, report, arena, symbols, flags, caller);
    }
    TextDump form(report, now);
    return dump_in(form, report, arena, symbols, flags, caller);
}

} // namespace fiberrt
