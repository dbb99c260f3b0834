// SPDX-License-Identifier: MIT OR Apache-2.0
// Fiber-local values. Keys are the process's; each fiber has an array of values, made when it first sets one.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// apply: it is of ambient values (embed/user_hooks.h); null: it is not. 0, -EAGAIN
int key_create(uint64_t* out, void (*destructor)(void*), void (*apply)(void* old, void* now) = nullptr);
// What puts a value of this key into force; null: the key is gone, or not ambient.
void (*key_apply(uint32_t index, uint32_t generation))(void* old, void* now);
void* local_of(const Fiber* fiber, uint32_t index, uint32_t generation);
int key_delete(uint64_t id);                      // 0, -EINVAL, -ESRCH
void* local_get(const Fiber* fiber, uint64_t id); // null: none, or no such key
// Of the current one. 0, -ENOMEM, -EBUSY (embed/user_hooks.h), -EINVAL, -ESRCH
int local_set(Cord& cord, Fiber* fiber, uint64_t id, void* value);

// Calls the destructors, up to four rounds, and frees the array.
void locals_destroy(Fiber* fiber);
void locals_free(Fiber* fiber); // without destructors

// Around a fork: nobody makes or deletes keys meanwhile.
void keys_hold();
void keys_let_go();

} // namespace fiberrt
