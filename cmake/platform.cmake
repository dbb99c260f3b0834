# SPDX-License-Identifier: MIT OR Apache-2.0
# Stops, with one sentence, where the library cannot work.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR "libfiberrt runs on Linux only, and this is ${CMAKE_SYSTEM_NAME}; see SUPPORTED_PLATFORMS.md.")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$" OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    message(FATAL_ERROR "libfiberrt has a switch for x86-64 only, and this is ${CMAKE_SYSTEM_PROCESSOR} with "
                        "${CMAKE_SIZEOF_VOID_P}-byte pointers; see SUPPORTED_PLATFORMS.md.")
endif()
include(CheckCSourceCompiles)
check_c_source_compiles("
#include <features.h>
#if !defined __GLIBC__ || !__GLIBC_PREREQ(2, 34)
#error too old
#endif
int main(void) { return 0; }" FIBERRT_GLIBC_2_34)
if(NOT FIBERRT_GLIBC_2_34)
    message(FATAL_ERROR "libfiberrt needs glibc 2.34 or newer; see SUPPORTED_PLATFORMS.md.")
endif()
