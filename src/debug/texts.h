// SPDX-License-Identifier: MIT OR Apache-2.0
// The texts for a fiber's state and kind, in dumps and in gdb.
#pragma once

#include "core/fiber.h"

namespace fiberrt {

// X(enumerator of State, text). After a text that ends with a space, the code that prints it adds the rest.
#define FIBERRT_STATES(X)                                     \
    X(created, "new")                                         \
    X(scheduled, "runnable, for its first run")               \
    X(awaiting_stack, "waits for a stack, for its first run") \
    X(running, "running")                                     \
    X(queued, "runnable")                                     \
    X(woken, "runnable")                                      \
    X(yielding, "waits for a wakeup")                         \
    X(transferring, "has transferred to ")                    \
    X(waiting, "waits")                                       \
    X(offered, "runnable, to be taken by its host")           \
    X(handed_out, "handed out to its host")                   \
    X(dead, "ended, not joined")

// X(enumerator of Kind, text). An empty text: nothing is printed for this kind.
#define FIBERRT_KINDS(X)                 \
    X(keeps_cord, "")                    \
    X(daemon, "daemon")                  \
    X(internal, "the library's own")     \
    X(main_flow, "main flow")            \
    X(task_fiber, "runs a pool's tasks") \
    X(helper, "the library's own")

#define FIBERRT_TEXT(state, text) \
    static_assert(sizeof("" text) > 1, "src/debug/texts.h: the state " #state " has no text");
FIBERRT_STATES(FIBERRT_TEXT)
#undef FIBERRT_TEXT

constexpr const char* text_of(State state) {
    switch (state) {
#define FIBERRT_TEXT(state, text) \
    case State::state: return "" text;
        FIBERRT_STATES(FIBERRT_TEXT)
#undef FIBERRT_TEXT
    }
    return ""; // coverage: never
}

// gdb finds a text by its place in the table.
#define FIBERRT_PLACE(state, text) int(State::state),
constexpr int state_places[] = {FIBERRT_STATES(FIBERRT_PLACE)};
#undef FIBERRT_PLACE
#define FIBERRT_PLACE(kind, text) int(Kind::kind),
constexpr int kind_places[] = {FIBERRT_KINDS(FIBERRT_PLACE)};
#undef FIBERRT_PLACE
template <int count>
constexpr bool in_order(const int (&places)[count]) {
    for (int i = 0; i < count; i++) {
        if (places[i] != i) return false;
    }
    return true;
}
static_assert(in_order(state_places), "FIBERRT_STATES does not have the states in the order of State");
static_assert(in_order(kind_places), "FIBERRT_KINDS does not have the kinds in the order of Kind");

constexpr const char* text_of(Kind kind) {
    switch (kind) {
#define FIBERRT_TEXT(kind, text) \
    case Kind::kind: return text;
        FIBERRT_KINDS(FIBERRT_TEXT)
#undef FIBERRT_TEXT
    }
    return "";
}

} // namespace fiberrt
