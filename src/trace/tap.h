// SPDX-License-Identifier: MIT OR Apache-2.0
// Notes the recorder's events, and those of the program, in the rings of the cords.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

namespace trace {

// Turn the recorder on and off for the trace. 0, -ENOMEM.
int tap_open();
int tap_open_at_begin(); // before the first cord
void tap_close();
void tap_forked(); // in a fork's child: forgets the rings

// Note events of the calling fiber. They do nothing if its cord is not traced yet.
void note_name(Cord& cord, Fiber* fiber); // the name of a fiber of the cord has been set
void note_begin(Cord& cord, const char* name);
void note_end(Cord& cord);
void note_value(Cord& cord, const char* name, int64_t value);

} // namespace trace
} // namespace fiberrt
