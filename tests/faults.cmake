# SPDX-License-Identifier: MIT OR Apache-2.0
# What the library does when it is refused memory, descriptors, threads: sweeps over the conformance suite, with a copy
# of the library's objects whose calls for these are in the test's hands (faults/fault_calls.h).
if(FIBERRT_SANITIZE)
    return() # their own memory is not to be had by other names
endif()

set(fault_calls ${CMAKE_CURRENT_SOURCE_DIR}/faults/fault_calls.cc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${fault_calls})
file(STRINGS ${fault_calls} lines REGEX "^FAULT\\(|^[a-z].*[ *]fault_[a-z_0-9]+\\(.*\\{$")
set(renamed)
foreach(line IN LISTS lines)
    if(NOT line MATCHES "^FAULT\\([A-Za-z:]+, [^,]+, ([a-z_0-9]+),")
        string(REGEX MATCH "fault_([a-z_0-9]+)\\(" line "${line}")
    endif()
    list(APPEND renamed "${CMAKE_MATCH_1} fault_${CMAKE_MATCH_1}")
endforeach()
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
    "$<FILTER:$<TARGET_OBJECTS:conformance_objects>,EXCLUDE,main[.]cc>" ${objects_of_faults}) # that has a main of its own
target_compile_features(conformance_faults PRIVATE cxx_std_20)
target_compile_options(conformance_faults PRIVATE ${test_options})
target_include_directories(conformance_faults PRIVATE . ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(conformance_faults PRIVATE _GNU_SOURCE FIBERRT_TEST_IO=$<OR:$<BOOL:${have_uring}>,$<BOOL:${have_ev}>>
    FIBERRT_TEST_URING=$<BOOL:${have_uring}> FIBERRT_TEST_EV=$<BOOL:${have_ev}>)
target_link_libraries(conformance_faults PRIVATE GTest::gtest
    $<$<BOOL:${have_uring}>:uring> $<$<BOOL:${have_ev}>:${FIBERRT_EV_LIBRARY}>)
