// SPDX-License-Identifier: MIT OR Apache-2.0
// Fiber-local values.
// fuzz: switch 95 %
#include "embed/locals.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/fiber.h"
#include "embed/user_hooks.h"

#include <atomic>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

namespace fiberrt {

struct LocalValues : LocalValuesBase {
    struct Value {
        uint32_t generation; // of the key under which it was set. Not the key's generation now: there is no value
        void* value;
    };
    uint32_t count;
    Value values[];
};

namespace {

LocalValues* values_of(const Fiber* fiber) { return static_cast<LocalValues*>(fiber->values.locals); }

constexpr LocalsOps locals_ops = {locals_destroy, locals_free};

constexpr uint32_t max_keys = 128;
constexpr int destructor_rounds = 4;

struct Key {
    std::atomic<uint32_t> generation; // odd while in use
    std::atomic<void (*)(void*)> destructor;
    std::atomic<void (*)(void* old, void* now)> apply;
};

constinit Key keys[max_keys] = {};
constinit pthread_mutex_t keys_mutex = PTHREAD_MUTEX_INITIALIZER; // held to create and delete

// Returns 0 if id names a key that exists.
int key_check(uint64_t id) {
    uint32_t index = id_index(id);
    if (uint8_t(id >> 56) != uint8_t(Tag::key) || index >= max_keys || !(id_generation(id) & 1)) return -EINVAL;
    // Acquire: pairs with the release in key_create, so that the destructor is seen with it.
    uint32_t generation = keys[index].generation.load(std::memory_order_acquire);
    if (generation == id_generation(id)) return 0;
    return generation == 0 ? -EINVAL : -ESRCH;
}

} // namespace

int key_create(uint64_t* out, void (*destructor)(void*), void (*apply)(void* old, void* now)) {
    int error = -EAGAIN;
    pthread_mutex_lock(&keys_mutex);
    for (uint32_t i = 0; i < max_keys; i++) {
        uint32_t generation = keys[i].generation.load(std::memory_order_relaxed);
        if (generation & 1 || generation >= UINT32_MAX - 1) continue;
        keys[i].destructor.store(destructor, std::memory_order_relaxed);
        keys[i].apply.store(apply, std::memory_order_relaxed);
        keys[i].generation.store(generation + 1, std::memory_order_release);
        *out = make_id(Tag::key, i, generation + 1);
        error = 0;
        break;
    }
    pthread_mutex_unlock(&keys_mutex);
    return error;
}

int key_delete(uint64_t id) {
    pthread_mutex_lock(&keys_mutex);
    int error = key_check(id);
    if (!error) keys[id_index(id)].generation.store(id_generation(id) + 1, std::memory_order_release);
    pthread_mutex_unlock(&keys_mutex);
    return error;
}

void (*key_apply(uint32_t index, uint32_t generation))(void* old, void* now) {
    bool there = keys[index].generation.load(std::memory_order_acquire) == generation; // acquire: see key_check
    return there ? keys[index].apply.load(std::memory_order_relaxed) : nullptr;
}

void* local_of(const Fiber* fiber, uint32_t index, uint32_t generation) {
    const LocalValues* locals = values_of(fiber);
    if (!locals || index >= locals->count) return nullptr;
    return locals->values[index].generation == generation ? locals->values[index].value : nullptr;
}

void* local_get(const Fiber* fiber, uint64_t id) {
    const LocalValues* locals = values_of(fiber);
    if (!locals || key_check(id) < 0 || id_index(id) >= locals->count) return nullptr;
    const LocalValues::Value& value = locals->values[id_index(id)];
    return value.generation == id_generation(id) ? value.value : nullptr;
}

int local_set(Cord& cord, Fiber* fiber, uint64_t id, void* value) {
    int error = key_check(id);
    if (error) return error;
    uint32_t index = id_index(id);
    bool ambient = keys[index].apply.load(std::memory_order_relaxed);
    bool changes = value || local_of(fiber, index, id_generation(id));
    if (ambient && changes) error = ambient_reserve(cord, index, id_generation(id));
    if (error) return error;
    uint32_t count = fiber->values.locals ? values_of(fiber)->count : 0;
    if (index >= count) {
        if (!value) return 0;
        KeepErrno keep;
        uint32_t grown = index < 8 ? 8 : max_keys;
        auto* locals = static_cast<LocalValues*>(
            realloc(fiber->values.locals, sizeof(LocalValues) + grown * sizeof(LocalValues::Value)));
        if (!locals) return -ENOMEM;
        for (uint32_t i = count; i < grown; i++) locals->values[i] = {0, nullptr};
        locals->ops = &locals_ops;
        locals->count = grown;
        fiber->values.locals = locals;
    }
    values_of(fiber)->values[index] = {id_generation(id), value};
    if (ambient) ambient_changed(cord, fiber, index, id_generation(id));
    return 0;
}

void keys_lock() { pthread_mutex_lock(&keys_mutex); }
void keys_unlock() { pthread_mutex_unlock(&keys_mutex); }

void locals_destroy(Fiber* fiber) {
    bool again = true;
    for (int round = 0; round < destructor_rounds && again; round++) {
        again = false;
        // A destructor may set values, and so move or lengthen the array.
        for (uint32_t i = 0; fiber->values.locals && i < values_of(fiber)->count; i++) {
            LocalValues::Value value = values_of(fiber)->values[i];
            values_of(fiber)->values[i] = {0, nullptr};
            if (!value.value || keys[i].generation.load(std::memory_order_acquire) != value.generation) continue;
            if (this_cord->observer.ambient) ambient_drop(*this_cord, i, value.generation, value.value);
            auto destructor = keys[i].destructor.load(std::memory_order_relaxed);
            if (!destructor) continue;
            destructor(value.value);
            again = true;
        }
    }
    locals_free(fiber);
}

void locals_free(Fiber* fiber) {
    free(fiber->values.locals);
    fiber->values.locals = nullptr;
}

} // namespace fiberrt
