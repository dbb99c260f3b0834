// SPDX-License-Identifier: MIT OR Apache-2.0
// Fiber-local values. Keys are the process's; each fiber has an array of values, made when it first sets one.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Fiber;

int key_create(uint64_t* out, void (*destructor)(void*)); // 0, -EAGAIN
int key_delete(uint64_t id);                              // 0, -EINVAL, -ESRCH
void* local_get(const Fiber* fiber, uint64_t id);         // null: none, or no such key
int local_set(Fiber* fiber, uint64_t id, void* value);    // 0, -ENOMEM, -EINVAL, -ESRCH

// Calls the destructors, up to four rounds, and frees the array.
void locals_destroy(Fiber* fiber);
void locals_free(Fiber* fiber); // without destructors

// Around a fork: nobody makes or deletes keys meanwhile.
void keys_hold();
void keys_let_go();

} // namespace fiberrt
