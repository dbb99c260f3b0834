// SPDX-License-Identifier: MIT OR Apache-2.0
// Fiber-local values. Keys are the process's; each fiber has an array of values, made when it first sets one.
#pragma once

#include <stdint.h>

namespace fiberrt {

struct Cord;
struct Fiber;

// Makes a key. apply not null: a key of ambient values (embed/user_hooks.h). 0, -EAGAIN
int key_create(uint64_t* out, void (*destructor)(void*), void (*apply)(void* old, void* now) = nullptr);
// The function that applies a value of this key; null: the key is gone, or not ambient.
void (*key_apply(uint32_t index, uint32_t generation))(void* old, void* now);
void* local_of(const Fiber* fiber, uint32_t index, uint32_t generation);
int key_delete(uint64_t id);                      // 0, -EINVAL, -ESRCH
void* local_get(const Fiber* fiber, uint64_t id); // null: none, or no such key
// Sets a value of the current fiber. 0, -ENOMEM, -EBUSY (embed/user_hooks.h), -EINVAL, -ESRCH
int local_set(Cord& cord, Fiber* fiber, uint64_t id, void* value);

// Calls the destructors, up to four rounds, and frees the array.
void locals_destroy(Fiber* fiber);
void locals_free(Fiber* fiber); // without destructors

// Around a fork: no thread makes or deletes keys between these two.
void keys_lock();
void keys_unlock();

} // namespace fiberrt
