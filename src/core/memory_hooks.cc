// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells sanitizers and Valgrind about memory.
#include "core/hooks.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) ((void)(low), (void)(high))
#define VALGRIND_MAKE_MEM_DEFINED(memory, size) ((void)(memory), (void)(size))
#define RUNNING_ON_VALGRIND 0
#endif

extern "C" {
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* memory, size_t size);
[[gnu::weak]] void __lsan_register_root_region(const void* memory, size_t size);
[[gnu::weak]] void __lsan_unregister_root_region(const void* memory, size_t size);
}

namespace fiberrt::hooks {

bool watches_descriptors() { return __tsan_switch_to_fiber; }

bool on_valgrind() { return RUNNING_ON_VALGRIND; }

void pointers_made(void* memory, size_t size) {
    if (__lsan_register_root_region) __lsan_register_root_region(memory, size);
}

void stack_made(void* low, size_t size) {
    pointers_made(low, size);
    VALGRIND_STACK_REGISTER(low, static_cast<char*>(low) + size);
}

void stack_gone(void* low, size_t size) {
    if (__lsan_unregister_root_region) __lsan_unregister_root_region(low, size);
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(low, size);
}

void memory_filled([[maybe_unused]] const void* memory, [[maybe_unused]] size_t size) {
    VALGRIND_MAKE_MEM_DEFINED(memory, size);
}

} // namespace fiberrt::hooks
