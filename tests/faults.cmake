# SPDX-License-Identifier: MIT OR Apache-2.0
# The library's behaviour when it is refused memory, descriptors or threads: sweeps over the conformance suite, with a
# copy of the library's objects whose calls for these the test replaces (faults/fault_calls.h).
if(FIBERRT_SANITIZE)
    return() # their own memory is not to be had by other names
endif()

set(fault_calls ${CMAKE_CURRENT_SOURCE_DIR}/faults/fault_calls.cc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${fault_calls})
file(STRINGS ${fault_calls} lines REGEX "^FAULT\\(|^[a-z].*[ *]fault_[a-z_0-9]+\\([^;]*\\{")
set(renamed)
foreach(line IN LISTS lines)
    if(NOT line MATCHES "^FAULT\\([A-Za-z:]+, [^,]+, ([a-z_0-9]+),")
        string(REGEX MATCH "fault_([a-z_0-9]+)\\(" line "${line}")
    endif()
    list(APPEND renamed "${CMAKE_MATCH_1} fault_${CMAKE_MATCH_1}")
endforeach()
if(ev_private)
    list(TRANSFORM renamed REPLACE "^ev_" "fiberrt_ev_") # as backend/libev.h calls them
endif()
list(JOIN renamed "\n" renamed)
file(CONFIGURE OUTPUT fault_names.txt CONTENT "${renamed}\n")
set(objects_of_faults ${CMAKE_CURRENT_BINARY_DIR}/fault_objects.o)
add_custom_command(
    OUTPUT ${objects_of_faults}
    COMMAND ${FIBERRT_LD} -r $<TARGET_OBJECTS:fiberrt_objects> -o fault_all.o
    COMMAND ${CMAKE_OBJCOPY} --redefine-syms=${CMAKE_CURRENT_BINARY_DIR}/fault_names.txt fault_all.o
        ${objects_of_faults}
    DEPENDS fiberrt_objects $<TARGET_OBJECTS:fiberrt_objects> ${CMAKE_CURRENT_BINARY_DIR}/fault_names.txt
    COMMAND_EXPAND_LISTS VERBATIM)

add_executable(conformance_faults faults/conformance_faults.cc faults/fault_calls.cc faults/scenarios.cc
    "$<FILTER:$<TARGET_OBJECTS:conformance_objects>,EXCLUDE,main[.]cc>" ${objects_of_faults}) # it has its own main
target_compile_features(conformance_faults PRIVATE cxx_std_20)
target_compile_options(conformance_faults PRIVATE ${test_options})
target_include_directories(conformance_faults PRIVATE . ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(conformance_faults PRIVATE _GNU_SOURCE
    FIBERRT_TEST_IO=$<OR:$<BOOL:${have_uring}>,$<BOOL:${have_ev}>>
    FIBERRT_TEST_URING=$<BOOL:${have_uring}> FIBERRT_TEST_EV=$<BOOL:${have_ev}>
    $<$<BOOL:${ev_private}>:FIBERRT_EV_PRIVATE>)
target_link_libraries(conformance_faults PRIVATE GTest::gtest
    $<$<BOOL:${have_uring}>:uring> ${ev_link})

# fault_sweep(<name> <backend> [TIMEOUT <seconds>] [LABELS ...] ARGUMENTS <argument>...)
function(fault_sweep name backend)
    cmake_parse_arguments(F "" "TIMEOUT" "LABELS;ARGUMENTS" ${ARGN})
    add_test(NAME faults.${backend}.${name} COMMAND conformance_faults ${F_ARGUMENTS})
    set_tests_properties(faults.${backend}.${name} PROPERTIES
        LABELS "faults;${F_LABELS}" ENVIRONMENT FIBERRT_BACKEND=${backend})
    if(F_TIMEOUT)
        set_tests_properties(faults.${backend}.${name} PROPERTIES TIMEOUT ${F_TIMEOUT})
    endif()
endfunction()

set(backends_with_faults)
if(have_uring)
    list(APPEND backends_with_faults uring)
endif()
if(have_ev)
    list(APPEND backends_with_faults ev)
endif()
foreach(backend IN LISTS backends_with_faults)
    # In the scenarios that handle refusals, each place, the first times.
    fault_sweep(places ${backend} ARGUMENTS --places --uses 3 --gtest_filter=Faults.*)
    # In some of all.
    fault_sweep(some_uses ${backend} LABELS all ARGUMENTS --places --every 5 --shorter-than 25)
    # In all of them: some uses of each place, and all kinds of calls.
    fault_sweep(uses ${backend} TIMEOUT 14400 LABELS soak
        ARGUMENTS --places --scenarios 1000 --uses 3 --shorter-than 1000)
    fault_sweep(calls ${backend} TIMEOUT 14400 LABELS soak ARGUMENTS --calls --most 100 --shorter-than 1000)
endforeach()
