# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of fiberrt-doctor, each statement against a fact that the test finds out by itself or that doctor_subject, a
# program with the library, meets in the same circumstances.
if(NOT TARGET fiberrt-doctor)
    message(STATUS "Test doctor_test left out: fiberrt-doctor is not built (FIBERRT_TOOLS).")
    return()
endif()
add_executable(doctor_subject doctor_subject.c)
target_compile_options(doctor_subject PRIVATE -Wall -Wextra)
target_link_libraries(doctor_subject PRIVATE fiberrt)
fiberrt_doctor(doctor_of_root doctor_of_root.cc)
fiberrt_test(NAME doctor_test SOURCES doctor_test.cc
    DEFINITIONS DOCTOR="$<TARGET_FILE:fiberrt-doctor>" SUBJECT="$<TARGET_FILE:doctor_subject>"
        DOCTOR_OF_ROOT="$<TARGET_FILE:doctor_of_root>"
        HAVE_URING=$<BOOL:${have_uring}> HAVE_EV=$<BOOL:${have_ev}>)
add_dependencies(doctor_test fiberrt-doctor doctor_of_root doctor_subject)
