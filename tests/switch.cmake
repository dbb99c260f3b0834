# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the switch, through the public header alone.
fiberrt_test(NAME switch_test SOURCES switch_test.cc switch_asm_${FIBERRT_ARCH}.S LABELS switch)
fiberrt_test(NAME switch_cfi_test SOURCES switch_cfi_test.cc INTERNAL LABELS switch)

# fiberrt_gdb_stacks(<name> <gdb> <variable>...): whether fiber_backtrace finds the frames that gdb finds, with these
# variables in the environment.
function(fiberrt_gdb_stacks name gdb)
    if(NOT TARGET gdb_stacks)
        add_executable(gdb_stacks gdb_stacks.c)
        set_target_properties(gdb_stacks PROPERTIES C_STANDARD 99)
        target_compile_options(gdb_stacks PRIVATE -Wall -Wextra -g -O2)
        target_compile_definitions(gdb_stacks PRIVATE _GNU_SOURCE)
        target_link_libraries(gdb_stacks PRIVATE fiberrt)
    endif()
    add_test(NAME ${name} COMMAND ${gdb} -nx -batch -x ${CMAKE_CURRENT_SOURCE_DIR}/gdb_stacks.py
        $<TARGET_FILE:gdb_stacks>)
    set_tests_properties(${name} PROPERTIES LABELS switch SKIP_REGULAR_EXPRESSION "SKIPPED:" TIMEOUT ${test_timeout}
        PASS_REGULAR_EXPRESSION "\n1000 fibers have the same frames"
        ENVIRONMENT "FIBERRT_GDB_SCRIPT=${PROJECT_SOURCE_DIR}/gdb/fiberrt-gdb.py;${ARGN}"
        ENVIRONMENT_MODIFICATION "FIBERRT_STACKS=set:${CMAKE_CURRENT_BINARY_DIR}/${name}.txt")
endfunction()

# A debugger's view of a running fiber.
if(CMAKE_CROSSCOMPILING)
    message(STATUS "Tests gdb_backtrace, gdb_fibers and gdb_probes left out: gdb cannot start what an emulator runs.")
    find_program(FIBERRT_GDB_MULTIARCH NAMES gdb-multiarch)
    if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
        message(STATUS "Test gdb_stacks left out: of the emulated processors, it is for aarch64.")
    elseif(FIBERRT_GDB_MULTIARCH)
        list(GET CMAKE_CROSSCOMPILING_EMULATOR 1 qemu)
        list(GET CMAKE_CROSSCOMPILING_EMULATOR 2 sysroot)
        set(environment FIBERRT_QEMU=${qemu} FIBERRT_SYSROOT=${sysroot} FIBERRT_LIBRARIES=$<TARGET_FILE_DIR:fiberrt>)
        # qemu 7.2 does not tell gdb which bits of a return address are its signature, so gdb can follow the stacks only
        # of a processor without signatures. The library's script shows the innermost frame, without its signature.
        fiberrt_gdb_stacks(gdb_stacks ${FIBERRT_GDB_MULTIARCH} ${environment} QEMU_CPU=max,pauth=off)
        fiberrt_gdb_stacks(gdb_stacks.signed ${FIBERRT_GDB_MULTIARCH} ${environment} QEMU_CPU=max FIBERRT_FRAMES_MOST=1)
    else()
        message(WARNING "gdb-multiarch was not found (package gdb-multiarch): the tests gdb_stacks are LEFT OUT.")
    endif()
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

    # The script's output for all fibers. With a sanitizer a program has more memory than a core file may hold.
    if(NOT FIBERRT_SANITIZE)
        foreach(name gdb_fibers gdb_fibers_static)
            add_executable(${name} gdb_fibers.c)
            set_target_properties(${name} PROPERTIES C_STANDARD 99 ENABLE_EXPORTS ON)
            target_compile_options(${name} PRIVATE -Wall -Wextra -g -O0)
            target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
        endforeach()
        target_link_libraries(gdb_fibers PRIVATE fiberrt)
        target_link_libraries(gdb_fibers_static PRIVATE fiberrt_static)
        set(gdb_fibers ${CMAKE_CURRENT_SOURCE_DIR}/gdb_fibers.sh ${FIBERRT_GDB}
            ${PROJECT_SOURCE_DIR}/gdb/fiberrt-gdb.py $<TARGET_FILE:fiberrt> $<TARGET_FILE:gdb_fibers>
            $<TARGET_FILE:gdb_fibers_static>)
        add_test(NAME gdb_fibers.common COMMAND ${gdb_fibers} live core)
        add_test(NAME gdb_fibers.rare COMMAND ${gdb_fibers} stripped stripped_core archive archive_core copies idle
            idle_core hosted none smashed)
        set_tests_properties(gdb_fibers.common gdb_fibers.rare PROPERTIES LABELS switch SKIP_RETURN_CODE 77)

        fiberrt_gdb_stacks(gdb_stacks ${FIBERRT_GDB})

        # Whether the static probes fire while gdb is attached to them, and only then.
        if(FIBERRT_SDT_HEADER)
            add_executable(gdb_probes gdb_probes.c)
            set_target_properties(gdb_probes PROPERTIES C_STANDARD 99)
            target_compile_options(gdb_probes PRIVATE -Wall -Wextra -g -O1)
            target_compile_definitions(gdb_probes PRIVATE _GNU_SOURCE)
            target_link_libraries(gdb_probes PRIVATE fiberrt)
            foreach(backend uring ev sim unannounced)
                set(environment FIBERRT_BACKEND=${backend})
                if(backend STREQUAL "unannounced")
                    set(environment FIBERRT_BACKEND=sim FIBERRT_PROBES=1)
                elseif(NOT have_${backend} AND NOT backend STREQUAL "sim")
                    continue()
                endif()
                add_test(NAME gdb_probes.${backend} COMMAND ${FIBERRT_GDB} -nx -batch
                    -x ${CMAKE_CURRENT_SOURCE_DIR}/gdb_probes.py $<TARGET_FILE:gdb_probes>)
                set_tests_properties(gdb_probes.${backend} PROPERTIES LABELS switch ENVIRONMENT "${environment}"
                    SKIP_REGULAR_EXPRESSION "SKIPPED:" PASS_REGULAR_EXPRESSION "\nThe result is 0\n"
                    TIMEOUT ${test_timeout})
            endforeach()
        else()
            message(WARNING "sys/sdt.h was not found (package systemtap-sdt-dev): the library has no static probes, "
                            "and the tests gdb_probes are LEFT OUT.")
        endif()
    endif()
elseif("$ENV{FIBERRT_REQUIRE_GDB}")
    message(FATAL_ERROR "gdb was not found (package gdb), and FIBERRT_REQUIRE_GDB asks for it.")
else()
    message(WARNING "gdb was not found (package gdb): the tests gdb_* are LEFT OUT.")
endif()
