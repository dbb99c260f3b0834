# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests next to the conformance suite, through the public header only.
fiberrt_test(NAME introspection_test SOURCES introspection_test.cc)
fiberrt_test(NAME spin_before_sleep_test SOURCES spin_before_sleep_test.cc)
fiberrt_test(NAME cord_exchange_test SOURCES cord_exchange_test.cc)
fiberrt_test(NAME pool_stress_test SOURCES pool_stress_test.cc)
fiberrt_test(NAME cord_stress_test SOURCES cord_stress_test.cc)

# Whether run times agree with the kernel's count of CPU time. Emulated and simulated time do not, and with a sanitizer
# a switch takes too long.
if(CMAKE_CROSSCOMPILING OR FIBERRT_SANITIZE)
    message(STATUS "Tests accounting_cpu_test left out: times differ under an emulator or a sanitizer.")
else()
    fiberrt_test_program(accounting_cpu_test SOURCES accounting_cpu_test.cc)
    foreach(backend uring ev)
        if(have_${backend})
            add_test(NAME accounting_cpu_test.${backend} COMMAND ${launcher} $<TARGET_FILE:accounting_cpu_test>)
            set_tests_properties(accounting_cpu_test.${backend} PROPERTIES ENVIRONMENT FIBERRT_BACKEND=${backend}
                SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]" TIMEOUT ${test_timeout})
        endif()
    endforeach()
endif()

# stress_run(<program> <name> <label> <size> <argument>...): it once more, of another size.
function(stress_run program name label size)
    add_test(NAME ${program}.${name} COMMAND ${launcher} $<TARGET_FILE:${program}> ${ARGN})
    set_tests_properties(${program}.${name} PROPERTIES
        LABELS "${label}" TIMEOUT 1900 ENVIRONMENT FIBERRT_TEST_SIZE=${size})
endfunction()
set(times 100)
if(FIBERRT_SANITIZE)
    set(times 20) # each takes several times as long
elseif(CMAKE_CROSSCOMPILING)
    set(times 5)
endif()
stress_run(cord_exchange_test again "" 20 --gtest_repeat=${times} --gtest_throw_on_failure)
stress_run(pool_stress_test again "" 1000 --gtest_filter=-*Idle* --gtest_repeat=${times} --gtest_throw_on_failure)
stress_run(cord_exchange_test long soak 50000)
stress_run(pool_stress_test long soak 5000000)
stress_run(cord_stress_test long soak 600000)
fiberrt_test(NAME stacks_test SOURCES stacks_test.cc)

# Returning from main cannot be tried inside a GoogleTest: a separate program, which exits with 0 if all is well.
add_executable(return_from_main return_from_main.cc)
target_compile_features(return_from_main PRIVATE cxx_std_20)
target_compile_options(return_from_main PRIVATE -Wall -Wextra)
target_link_libraries(return_from_main PRIVATE fiberrt)
add_test(NAME return_from_main.WithLiveFibersEndsTheProcessAndNoFiberRunsAgain
    COMMAND ${launcher} $<TARGET_FILE:return_from_main>)

# Calls before the process's first cord also need separate programs. This one tests the first use of the library by a
# program that then forks.
add_executable(fork_first fork_first.cc)
target_compile_features(fork_first PRIVATE cxx_std_20)
target_compile_options(fork_first PRIVATE -Wall -Wextra)
target_link_libraries(fork_first PRIVATE fiberrt)
add_test(NAME fork_first.AMutexIsLeftByItsHolder COMMAND ${launcher} $<TARGET_FILE:fork_first>)
set_tests_properties(fork_first.AMutexIsLeftByItsHolder PROPERTIES TIMEOUT ${test_timeout})
if(NOT FIBERRT_SANITIZE) # it has its own mprotect
    add_executable(fork_recorded fork_recorded.cc)
    target_compile_features(fork_recorded PRIVATE cxx_std_20)
    target_compile_options(fork_recorded PRIVATE -Wall -Wextra)
    target_link_libraries(fork_recorded PRIVATE fiberrt)
    add_test(NAME fork_recorded.WhileRecordsAreMade COMMAND ${launcher} $<TARGET_FILE:fork_recorded>)
    set_tests_properties(fork_recorded.WhileRecordsAreMade PROPERTIES TIMEOUT ${test_timeout})
endif()
add_executable(watchdog_first watchdog_first.cc)
target_compile_features(watchdog_first PRIVATE cxx_std_20)
target_compile_options(watchdog_first PRIVATE -Wall -Wextra)
target_link_libraries(watchdog_first PRIVATE fiberrt)
add_test(NAME watchdog_first.AChildOfAForkHasNone COMMAND ${launcher} $<TARGET_FILE:watchdog_first>)
set_tests_properties(watchdog_first.AChildOfAForkHasNone PROPERTIES TIMEOUT ${test_timeout})

# The JSON of a dump, read by Python.
add_executable(dump_program dump_program.c)
set_target_properties(dump_program PROPERTIES C_STANDARD 11)
target_compile_options(dump_program PRIVATE -Wall -Wextra -g -O2)
target_compile_definitions(dump_program PRIVATE _GNU_SOURCE)
target_link_libraries(dump_program PRIVATE fiberrt)
if(NOT CMAKE_CROSSCOMPILING) # it runs the program itself
    add_test(NAME dump_json COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/dump_json.py
        $<TARGET_FILE:dump_program>)
endif()

# Very many fibers at once: a gigabyte and some seconds each.
if(FIBERRT_SANITIZE)
    message(STATUS "Test stacks_scale_test left out: its figures are not those of a sanitizer.")
else()
    fiberrt_test(NAME stacks_scale_test SOURCES stacks_scale_test.cc LABELS all)
endif()
