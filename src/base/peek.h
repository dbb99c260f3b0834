// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads memory that its owner, another thread, may write meanwhile, without any order. The reader must find out by other
// means whether the values belong together. ThreadSanitizer would report such reads, so these functions are not
// instrumented.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FIBERRT_UNSANITIZED_READ __attribute__((no_sanitize("thread"), noinline))

namespace fiberrt {

template <class T>
FIBERRT_UNSANITIZED_READ T peek(const T& member) {
    return *const_cast<const volatile T*>(&member);
}

// Memory for the bytes of an object that lies elsewhere.
template <class T>
class Bytes {
public:
    void* memory() { return bytes_; }
    const T* operator->() const {
        auto* object = reinterpret_cast<const T*>(bytes_);
        asm volatile("" : "+r"(object) : : "memory"); // the compiler must not conclude that no T was stored here
        return object;
    }
    const T& operator*() const { return *operator->(); }

private:
    alignas(T) unsigned char bytes_[sizeof(T)];
};

// The bytes of an object as they were, word by word.
template <class T>
class Image : public Bytes<T> {
public:
    FIBERRT_UNSANITIZED_READ void take(const T& from) {
        using Word [[gnu::may_alias]] = uint64_t;
        static_assert(sizeof(T) % sizeof(Word) == 0 && alignof(T) >= alignof(Word));
        const auto* source = reinterpret_cast<const volatile Word*>(&from);
        auto* words = static_cast<volatile Word*>(this->memory());
        for (size_t i = 0; i < sizeof(T) / sizeof(Word); i++) words[i] = source[i];
    }
};

} // namespace fiberrt
