// SPDX-License-Identifier: MIT OR Apache-2.0
// Replaces functions in loaded objects, lists the replaced ones, and restores them.
#pragma once

#include "posix/objects.h"

#include <stdint.h>

namespace fiberrt::posix {

// The kinds of replaced functions: calls of posix/calls.h, lock functions of posix/locks.h, functions of a language's
// runtime (posix::runtime), and functions that load libraries.
enum class Kind { calls, locks, of_language, loads };

// Replaces the functions of a kind that the object imports. Slots whose value the dynamic linker has not stored
// (posix/bindings.h) stay. Returns the number of functions; or -ENOMEM, -EACCES, -EPERM. pass: a number of this adoption,
// for restore_pass_in.
int replace_in(const Object& object, Kind kind, uint64_t pass);

// Undoes replace_in. Returns the number of functions restored; -ENOENT: none had been replaced; -EACCES, -EPERM.
int restore_in(const Object& object, Kind kind);

// Undoes what the adoption of this number has replaced, and no earlier one had. except_loads: not of Kind::loads.
void restore_pass_in(const Object& object, uint64_t pass, bool except_loads);

// Whether replace_in was called for the object and this kind, and not undone, also if the object imports no such
// function. An object that was unloaded, and loaded again at the same place, is another one.
bool is_replaced_in(const Object& object, Kind kind);

// While a replacement was stored, another thread may have been in the dynamic linker, binding the same function at its
// first call: then the dynamic linker stores the function's address over the replacement. Replaces such functions again.
void look_again_in(const Object& object);

// Removes the records of objects that have been unloaded since they were adopted, or unloaded and loaded again.
void forget_unloaded(const ObjectList& objects);

// Calls visit for each replaced function, except those that load libraries, until visit returns a value other than 0.
// Takes no lock.
int each_replaced(int (*visit)(const char* path, const char* function, void* arg), void* arg);

} // namespace fiberrt::posix
