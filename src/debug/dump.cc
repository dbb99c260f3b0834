// SPDX-License-Identifier: MIT OR Apache-2.0
// Collects the dump: looks at all fibers, some at a time, and hands them to the form that the caller wants.
#include "debug/dump.h"

#include "base/arena.h"
#include "base/keep_errno.h"
#include "core/handles.h"
#include "debug/code_frames.h"
#include "debug/describe.h"
#include "debug/dump_json.h"
#include "debug/dump_text.h"
#include "debug/running_frames.h"
#include "debug/wait_graph.h"

#include <errno.h>
#include <new>

namespace fiberrt {

namespace {

constexpr unsigned json = FIBER_DUMP_JSON, grouped = FIBER_DUMP_GROUPED, with_frames = FIBER_DUMP_FRAMES;

constexpr int frames_most = 128; // of a stack
constexpr int code_frames_most = 64;

struct Stack {
    Backtrace trace;
    CodeFrames code;
};

void read_stack(const Snapshot& seen, void* arg) {
    auto& stack = *static_cast<Stack*>(arg);
    follow_stack(seen, &stack.trace);
    read_code_frames(seen.tag, stack.code);
}

// Room for some looks at a time, and for the frames that they find.
class Looks {
public:
    // False: there is no memory. Then there is room for one look without frames.
    bool begin(Arena& arena) {
        auto* memory = arena.make<Memory>();
        if (!memory) return false;
        looks_ = memory->looks;
        seen_ = memory->seen;
        stacks_ = memory->stacks;
        frames_ = memory->frames[0];
        code_frames_ = memory->code_frames[0];
        most_ = looks_most;
        return true;
    }

    // Looks at all fibers of the process, or at the only one, and calls visit(snapshot, stack, none) for each;
    // `none` tells why there are no frames, or is null. caller: an address in the function with which the calling
    // fiber's own frames begin.
    template <class Visit>
    void at_all_fibers(bool frames, uint64_t only, const void* caller, Visit visit) {
        fibers.each([&](Fiber* fiber) {
            fiber_t handle = {id_in(fiber)};
            if (!handle.id || (only && handle.id != only)) return;
            void** room = frames_ ? frames_ + ptrdiff_t(count_) * frames_most : nullptr;
            fiber_code_frame_t* code_room =
                code_frames_ ? code_frames_ + ptrdiff_t(count_) * code_frames_most : nullptr;
            stacks_[count_] = {{room, frames_most, 0, true, 0}, {code_room, code_frames_most, 0, false, {}}};
            looks_[count_] = {fiber, handle, &seen_[count_], &stacks_[count_]};
            if (++count_ == most_) at_some(frames, caller, visit);
        });
        at_some(frames, caller, visit);
    }

private:
    template <class Visit>
    void at_some(bool frames, const void* caller, Visit visit) {
        look_at_all(looks_, count_, frames ? read_stack : nullptr);
        for (int i = 0; i < count_; i++) {
            if (looks_[i].error) continue;
            Backtrace& trace = stacks_[i].trace;
            CodeFrames& code = stacks_[i].code;
            if (frames && !seen_[i].still) miss_code_frames(seen_[i].tag, code);
            const char* none = nullptr;
            if (frames && is_caller(looks_[i].fiber)) {
                trace.from = caller;
                follow_own_stack(trace);
                read_own_code_frames(seen_[i].tag, code);
            } else if (frames && (seen_[i].state == State::running || trace.count < 0)) {
                none = ask_running(seen_[i], trace);
            } else if (!seen_[i].still) {
                trace.count = 0;
            }
            visit(seen_[i], stacks_[i], none);
        }
        count_ = 0;
    }

    // Finds the frames of a fiber on whose stack its thread is, if the program has given a signal for that. Returns why
    // there are none; null: there are some, or there is no signal.
    const char* ask_running(const Snapshot& seen, Backtrace& trace) {
        trace.count = 0;
        ThreadFrames found;
        if (!asks_running()) return nullptr;
        constexpr int64_t least_ns = 10'000'000; // for each thread, also when others have used up the time
        int64_t before = clock_now();
        const char* none = frames_of_running(seen, patience_ns_ > least_ns ? patience_ns_ : least_ns, found);
        patience_ns_ -= clock_now() - before;
        if (none) return none;
        for (int i = found.first; i < found.count && trace.count < trace.most; i++)
            trace.frames[trace.count++] = found.frames[i];
        // The address of the innermost frame is no return address, but one byte further it is like one.
        trace.frames[0] = static_cast<char*>(trace.frames[0]) + 1;
        trace.complete = found.count < ThreadFrames::most;
        return nullptr;
    }

    struct Memory {
        Look looks[looks_most];
        Snapshot seen[looks_most];
        Stack stacks[looks_most];
        void* frames[looks_most][frames_most];
        fiber_code_frame_t code_frames[looks_most][code_frames_most];
    };

    Look one_look_;
    Snapshot one_seen_;
    Stack one_stack_;
    Look* looks_ = &one_look_;
    Snapshot* seen_ = &one_seen_;
    Stack* stacks_ = &one_stack_;
    void** frames_ = nullptr;
    fiber_code_frame_t* code_frames_ = nullptr;
    int most_ = 1;
    int count_ = 0;
    int64_t patience_ns_ = 1'000'000'000; // how long this dump waits for threads that it asks, in all
};

FramesEnd end_of(const Backtrace& trace) {
    if (!trace.complete) return FramesEnd::lost;
    return trace.count == trace.most ? FramesEnd::cut : FramesEnd::outermost;
}

// Makes the frames that a dump shows from a backtrace.
class FrameFinder {
public:
    // False: there is no memory.
    bool begin(Arena& arena) { return (frames_ = arena.make<Frame>(frames_most)); }

    // The frames without the library's own at both ends, if any are left then. Valid until the next call.
    Frames of(const Backtrace& trace, Symbols& symbols) {
        int count = trace.count > 0 ? trace.count : 0;
        for (int i = 0; i < count; i++) {
            auto pc = reinterpret_cast<uintptr_t>(trace.frames[i]);
            frames_[i] = {pc, symbols.of(pc)};
        }
        int first = 0;
        int last = count;
        while (first < last && is_own(first)) first++;
        // Outside the library's own frames, a thread's stack has some frames of the C library.
        constexpr int of_threads = 3;
        for (int outer = 0; outer <= of_threads && last - 1 - outer > first; outer++) {
            if (!is_own(last - 1 - outer)) continue;
            last -= outer;
            break;
        }
        while (last > first && is_own(last - 1)) last--;
        if (first == last) {
            first = 0;
            last = count;
        }
        return {frames_ + first, last - first, end_of(trace), nullptr, {}};
    }

private:
    bool is_own(int i) const { return frames_[i].symbol && frames_[i].symbol->is_internal; }

    Frame* frames_ = nullptr;
};

struct FoundCircle {
    WaitCircle circle;
    FoundCircle* next;
};

// Puts the deadlocks, then the circles that may end.
template <class Form>
void put_circles(Form& form, WaitGraph& graph, Arena& arena) {
    FoundCircle* uncertain = nullptr;
    for (WaitCircle circle; graph.next(circle);) {
        if (circle.certain) {
            form.deadlock(circle);
        } else if (auto* found = arena.make<FoundCircle>()) {
            *found = {circle, uncertain};
            uncertain = found;
        } else {
            form.incomplete("some waits in circles are not listed: there was no memory"); // coverage: no memory
        }
    }
    for (; uncertain; uncertain = uncertain->next) form.circle(uncertain->circle);
    if (graph.lacks_memory()) form.incomplete("deadlocks were not found: there was no memory");
}

template <class Form>
int dump_in(Form& form, Report& report, Arena& arena, Symbols& symbols, const DumpOptions& options) {
    unsigned flags = options.flags;
    Looks looks;
    FrameFinder finder;
    bool frames = flags & (with_frames | grouped);
    if ((!looks.begin(arena) || !finder.begin(arena)) && flags) return -ENOMEM;
    StackGroups groups(arena);
    WaitGraph graph(arena);
    form.begin(flags & grouped);
    cords.each([&](Cord* cord) { form.cord(cord); });
    looks.at_all_fibers(frames, options.only, options.caller,
                        [&](const Snapshot& seen, const Stack& stack, const char* none) {
                            graph.add(seen);
                            Frames found = {};
                            if (frames) {
                                found = finder.of(stack.trace, symbols);
                                found.none = none;
                                found.code = stack.code;
                            }
                            if (flags & grouped) {
                                groups.add(seen, found);
                            } else if (frames) {
                                form.fiber(seen, stack.trace.function, &found);
                            } else {
                                form.fiber(seen, 0, nullptr);
                            }
                        });
    for (StackGroup* group = groups.sorted(); group; group = group->next) form.group(*group, flags & with_frames);
    put_circles(form, graph, arena);
    if (groups.left_out()) form.incomplete("some fibers are in no group: there was no memory");
    form.end();
    return report.end();
}

} // namespace

int dump(int fd, const DumpOptions& options) {
    KeepErrno keep;
    Report report(fd, options.timeout_ns);
    Arena arena;
    Symbols symbols(arena);
    int64_t now = clock_now();
    if (options.flags & json) {
        JsonDump form(report, symbols, now);
        return dump_in(form, report, arena, symbols, options);
    }
    TextDump form(report, symbols, now);
    return dump_in(form, report, arena, symbols, options);
}

} // namespace fiberrt
