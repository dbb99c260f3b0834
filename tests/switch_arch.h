// SPDX-License-Identifier: MIT OR Apache-2.0
// The processor's part of switch_test: its callee-saved registers, its floating-point control, its vectors. Each
// processor's switch_asm_*.S belongs to it.
#ifndef FIBERRT_TESTS_SWITCH_ARCH_H
#define FIBERRT_TESTS_SWITCH_ARCH_H

#include <cstdint>
#include <cstdio>

#if defined __x86_64__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

extern "C" {
int64_t call_with_registers(const void *function, const uint64_t *arguments, const uint64_t *in, uint64_t *out);
void *entry_probe(void *out);
}

namespace arch {

// The bits of the control words that belong to a fiber. The status flags in the same registers belong to no fiber.
struct FloatControl {
    uint64_t first;
    uint64_t second;

    static FloatControl now();
    void set() const;
};

// None of the sets of control words traps; `mixed` is rounding towards zero with the other available settings.

#if defined __x86_64__

inline constexpr const char *registers[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};
inline constexpr uint64_t entry_stack_rest = 8; // as after a call: the return address lies on a boundary of 16 less 8

// MXCSR, and the x87 control word.
inline FloatControl FloatControl::now() {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return {_mm_getcsr() & 0xffc0, x87};
}
inline void FloatControl::set() const {
    const uint16_t x87 = static_cast<uint16_t>(second);
    _mm_setcsr(static_cast<unsigned>(first));
    __asm__ volatile("fldcw %0" : : "m"(x87));
}
inline constexpr FloatControl defaults = {0x1f80, 0x37f};
inline constexpr FloatControl upward = {0x5f80, 0xb7f};
inline constexpr FloatControl downward = {0x3f80, 0x67f};
inline constexpr FloatControl mixed = {0xffc0, 0xc7f}; // and flush to zero, and single precision

__attribute__((target("avx2"))) inline int sum_by_avx2(const int *values, int count) {
    alignas(32) int lanes[8];
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < count; i += 8)
        sum = _mm256_add_epi32(sum, _mm256_loadu_si256(reinterpret_cast<const __m256i *>(values + i)));
    _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), sum); // faults if the frame is not aligned
    int total = 0;
    for (int lane : lanes) total += lane;
    return total;
}

inline int sum_by_vectors(const int *values, int count) {
    alignas(16) int lanes[4];
    __m128i sum = _mm_setzero_si128();
    for (int i = 0; i < count; i += 4)
        sum = _mm_add_epi32(sum, _mm_loadu_si128(reinterpret_cast<const __m128i *>(values + i)));
    _mm_store_si128(reinterpret_cast<__m128i *>(lanes), sum);
    const int total = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    if (__builtin_cpu_supports("avx2")) return sum_by_avx2(values, count) == total ? total : -1;
    puts("no AVX2 here: only SSE was tried");
    return total;
}

#elif defined __aarch64__

inline constexpr const char *registers[] = {"x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28",
                                            "d8",  "d9",  "d10", "d11", "d12", "d13", "d14", "d15", "x29"};
inline constexpr uint64_t entry_stack_rest = 0;

// FPCR.
inline FloatControl FloatControl::now() {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return {fpcr, 0};
}
inline void FloatControl::set() const { __asm__ volatile("msr fpcr, %0" : : "r"(first)); }
inline constexpr FloatControl defaults = {0, 0};
inline constexpr FloatControl upward = {1u << 22, 0};
inline constexpr FloatControl downward = {2u << 22, 0};
inline constexpr FloatControl mixed = {15u << 22, 0}; // and flush to zero, and default NaN

inline int sum_by_vectors(const int *values, int count) {
    int32x4_t sum = vdupq_n_s32(0);
    for (int i = 0; i < count; i += 4) sum = vaddq_s32(sum, vld1q_s32(values + i));
    return vaddvq_s32(sum);
}

#elif defined __riscv

inline constexpr const char *registers[] = {"s0",  "s1",  "s2",  "s3",  "s4",  "s5",  "s6",   "s7",
                                            "s8",  "s9",  "s10", "s11", "fs0", "fs1", "fs2",  "fs3",
                                            "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11"};
inline constexpr uint64_t entry_stack_rest = 0;

// The rounding mode.
inline FloatControl FloatControl::now() {
    uint64_t mode;
    __asm__ volatile("frrm %0" : "=r"(mode));
    return {mode, 0};
}
inline void FloatControl::set() const { __asm__ volatile("fsrm %0" : : "r"(first)); }
inline constexpr FloatControl defaults = {0, 0};
inline constexpr FloatControl upward = {3, 0};
inline constexpr FloatControl downward = {2, 0};
inline constexpr FloatControl mixed = {1, 0};

inline int sum_by_vectors(const int *values, int count) {
    puts("no vectors in the base architecture: plain code was tried");
    int total = 0;
    for (int i = 0; i < count; ++i) total += values[i];
    return total;
}

#else
#error "which registers does a function keep here?"
#endif

inline constexpr int register_count = sizeof registers / sizeof registers[0];

} // namespace arch

#endif
