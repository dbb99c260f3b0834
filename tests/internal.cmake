# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the library's inner parts, each by itself.
if(NOT "thread" IN_LIST FIBERRT_SANITIZE) # they have one thread, and much to compute
    fiberrt_test(NAME run_queue_test SOURCES run_queue_test.cc INTERNAL)
    fiberrt_test(NAME timers_test SOURCES timers_test.cc INTERNAL)
endif()
fiberrt_test(NAME stack_pool_test SOURCES stack_pool_test.cc INTERNAL)
fiberrt_test(NAME stack_pool_refusal_test SOURCES stack_pool_refusal_test.cc INTERNAL)
fiberrt_test(NAME inbox_test SOURCES inbox_test.cc INTERNAL)
if(have_ev AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME inbox_test.on_ev COMMAND ${launcher} $<TARGET_FILE:inbox_test>)
    set_tests_properties(inbox_test.on_ev PROPERTIES ENVIRONMENT FIBERRT_BACKEND=ev)
endif()
fiberrt_test(NAME channel_test SOURCES channel_test.cc INTERNAL)
fiberrt_test(NAME mutex_test SOURCES mutex_test.cc INTERNAL)
fiberrt_test(NAME spin_lock_test SOURCES spin_lock_test.cc INTERNAL)
if(NOT CMAKE_CROSSCOMPILING) # it is about the kernel
    fiberrt_test(NAME report_test SOURCES report_test.cc INTERNAL)
endif()
if(NOT CMAKE_CROSSCOMPILING) # its subject is a program that it runs
    add_executable(trace_subject trace_subject.c)
    set_target_properties(trace_subject PROPERTIES C_STANDARD 99)
    target_compile_definitions(trace_subject PRIVATE _GNU_SOURCE)
    target_link_libraries(trace_subject PRIVATE fiberrt)
    fiberrt_test(NAME trace_test SOURCES trace_test.cc INTERNAL
        DEFINITIONS FIBERRT_TRACE_SUBJECT="$<TARGET_FILE:trace_subject>")
    add_dependencies(trace_test trace_subject)
endif()
fiberrt_test(NAME slots_test SOURCES slots_test.cc INTERNAL)
fiberrt_test(NAME sums_test SOURCES sums_test.cc INTERNAL)
fiberrt_test(NAME ticks_test SOURCES ticks_test.cc INTERNAL)
if(NOT CMAKE_CROSSCOMPILING) # it reads its own file, as /proc/self/maps has it
    fiberrt_test(NAME elf_functions_test SOURCES elf_functions_test.cc INTERNAL)
endif()
fiberrt_test(NAME tasks_test SOURCES tasks_test.cc INTERNAL)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_EXPORT_COMPILE_COMMANDS AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME tidy COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tidy.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
        $<$<BOOL:${FIBERRT_WHOLE_SUITE}>:--deep>)
    add_test(NAME format COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/format.sh ${PROJECT_SOURCE_DIR})
    set_tests_properties(tidy format PROPERTIES TIMEOUT ${slow_test_timeout} SKIP_RETURN_CODE 77)
endif()
add_test(NAME version COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/version.sh ${PROJECT_SOURCE_DIR}
    ${CMAKE_CURRENT_BINARY_DIR}/version)
find_package(Python3 COMPONENTS Interpreter)
# Sanitizers and coverage add calls to the objects; code compiled in one go is one object.
if(Python3_FOUND AND NOT CMAKE_CROSSCOMPILING AND NOT FIBERRT_SANITIZE AND NOT FIBERRT_COVERAGE AND NOT FIBERRT_UNITY)
    add_test(NAME layers COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/layers.py ${PROJECT_SOURCE_DIR}
        ${CMAKE_NM} $<TARGET_OBJECTS:fiberrt_objects> COMMAND_EXPAND_LISTS)
    if(NOT FIBERRT_FEWER_TESTS)
        add_test(NAME structure COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/structure.py
            ${PROJECT_SOURCE_DIR} ${CMAKE_NM} $<TARGET_OBJECTS:fiberrt_objects> COMMAND_EXPAND_LISTS)
    endif()
    add_test(NAME map COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/map.py ${PROJECT_SOURCE_DIR})
    add_test(NAME coverage_marks COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/coverage/marks_test.py
        ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/coverage_marks)
endif()
# How ./dev reads the results of tests.
if(Python3_FOUND AND NOT CMAKE_CROSSCOMPILING AND NOT FIBERRT_SANITIZE AND NOT FIBERRT_FEWER_TESTS
    AND NOT FIBERRT_COVERAGE)
    add_test(NAME dev COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/dev_test.py ${PROJECT_SOURCE_DIR}
        ${CMAKE_CURRENT_BINARY_DIR}/dev_test)
endif()
# Each of the bugs that ./dev mutate plants has its place in the sources, and its tests exist: in a program
# that has all.
if(NOT Python3_FOUND)
    message(WARNING "The tests layers, structure, map, dev, mutants, counts and httpd_load are LEFT OUT: no python3.")
elseif((have_uring OR have_ev) AND NOT CMAKE_CROSSCOMPILING AND NOT FIBERRT_SANITIZE AND NOT FIBERRT_FEWER_TESTS)
    add_test(NAME mutants COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mutants/mutate.py
        ${PROJECT_SOURCE_DIR} --check $<TARGET_FILE:conformance>)
endif()
