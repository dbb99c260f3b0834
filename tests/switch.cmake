# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the switch, through the public header alone.
fiberrt_test(NAME switch_test SOURCES switch_test.cc switch_asm_${FIBERRT_ARCH}.S LABELS switch)
fiberrt_test(NAME switch_cfi_test SOURCES switch_cfi_test.cc INTERNAL LABELS switch)

# What a debugger shows of a fiber that runs.
if(CMAKE_CROSSCOMPILING)
    message(STATUS "Test gdb_backtrace left out: a debugger cannot trace what an emulator runs.")
    return()
endif()
find_program(FIBERRT_GDB NAMES gdb)
if(FIBERRT_GDB)
    add_executable(gdb_backtrace gdb_backtrace.c)
    target_compile_options(gdb_backtrace PRIVATE -Wall -Wextra -g -O0)
    target_link_libraries(gdb_backtrace PRIVATE fiberrt)
    add_test(NAME gdb_backtrace
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/gdb_backtrace.sh ${FIBERRT_GDB} $<TARGET_FILE:gdb_backtrace>)
    set_tests_properties(gdb_backtrace PROPERTIES LABELS switch SKIP_RETURN_CODE 77)
elseif("$ENV{FIBERRT_REQUIRE_GDB}")
    message(FATAL_ERROR "gdb was not found (package gdb), and FIBERRT_REQUIRE_GDB asks for it.")
else()
    message(WARNING "gdb was not found (package gdb): the test gdb_backtrace is LEFT OUT.")
endif()
