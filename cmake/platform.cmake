# SPDX-License-Identifier: MIT OR Apache-2.0
# Stops the configuration with one sentence on a platform where the library cannot work.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR "libfiberrt runs on Linux only, and this is ${CMAKE_SYSTEM_NAME}; see SUPPORTED_PLATFORMS.md.")
endif()
# FIBERRT_ARCH: the folder of src/arch/ whose context switch is built.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(FIBERRT_ARCH x86_64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(FIBERRT_ARCH aarch64)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "riscv64")
    set(FIBERRT_ARCH riscv64)
endif()
if(NOT FIBERRT_ARCH OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8 OR CMAKE_C_BYTE_ORDER STREQUAL "BIG_ENDIAN")
    message(FATAL_ERROR "libfiberrt has switches for x86-64, AArch64 and RISC-V 64, and this is "
                        "${CMAKE_SYSTEM_PROCESSOR} with ${CMAKE_SIZEOF_VOID_P}-byte pointers; see "
                        "SUPPORTED_PLATFORMS.md.")
endif()
include(CheckCSourceCompiles)
# fiberrt_glibc(<major> <minor> <variable>): whether the C library is glibc, of this version or newer.
function(fiberrt_glibc major minor variable)
    check_c_source_compiles("
#include <features.h>
#if !defined __GLIBC__ || !__GLIBC_PREREQ(${major}, ${minor})
#error another one, or too old
#endif
int main(void) { return 0; }" ${variable})
endfunction()
# FIBERRT_GLIBC_2_34: the library can adopt other libraries (src/posix).
fiberrt_glibc(2 34 FIBERRT_GLIBC_2_34)
if(NOT FIBERRT_GLIBC_2_34)
    fiberrt_glibc(2 28 FIBERRT_GLIBC_2_28)
    # musl defines no macro that names it; recognize it by its dynamic linker or by the compiler's target.
    execute_process(COMMAND ${CMAKE_C_COMPILER} -dumpmachine OUTPUT_VARIABLE target ERROR_QUIET)
    file(GLOB musl_linker /lib/ld-musl-*.so.1)
    check_c_source_compiles("
#include <features.h>
#ifdef __GLIBC__
#error it is glibc
#endif
int main(void) { return 0; }" FIBERRT_OTHER_LIBC)
    set(musl OFF)
    if(FIBERRT_OTHER_LIBC AND (target MATCHES "musl" OR CMAKE_C_COMPILER MATCHES "musl" OR musl_linker))
        set(musl ON)
    endif()
    if(FIBERRT_OTHER_LIBC AND NOT musl)
        message(FATAL_ERROR "libfiberrt needs glibc 2.28 or newer, or musl, and this compiler is for another C "
                            "library; see SUPPORTED_PLATFORMS.md.")
    elseif(NOT musl AND NOT FIBERRT_GLIBC_2_28)
        message(FATAL_ERROR "libfiberrt needs glibc 2.28 or newer, or musl, and this glibc is older; see "
                            "SUPPORTED_PLATFORMS.md.")
    endif()
    message(STATUS
        "Built without libfiberrt_posix.so, fiberrt-run and fiber_posix_adopt: they need glibc 2.34 or newer.")
endif()
if(FIBERRT_ARCH STREQUAL "riscv64")
    check_c_source_compiles("
#ifndef __riscv_float_abi_double
#error other ABI
#endif
int main(void) { return 0; }" FIBERRT_LP64D)
    if(NOT FIBERRT_LP64D)
        message(FATAL_ERROR "libfiberrt's switch for RISC-V is for the lp64d ABI; see SUPPORTED_PLATFORMS.md.")
    endif()
endif()
