# SPDX-License-Identifier: MIT OR Apache-2.0
# Conformance tests of fibers, scheduling, cancelling and deadlines, through the public header only.
fiberrt_test(NAME scheduling_test SOURCES scheduling_test.cc)
fiberrt_test(NAME transfer_test SOURCES transfer_test.cc)
fiberrt_test(NAME life_test SOURCES life_test.cc)
fiberrt_test(NAME cancel_test SOURCES cancel_test.cc)
fiberrt_test(NAME scope_test SOURCES scope_test.cc)
fiberrt_test(NAME key_test SOURCES key_test.cc)
fiberrt_test(NAME handle_test SOURCES handle_test.cc)
fiberrt_test(NAME noswitch_test SOURCES noswitch_test.cc)
fiberrt_test(NAME deadlock_test SOURCES deadlock_test.cc)
fiberrt_test(NAME main_flow_test SOURCES main_flow_test.cc)
fiberrt_test(NAME fairness_test SOURCES fairness_test.cc)
fiberrt_test(NAME resource_test SOURCES resource_test.cc)
fiberrt_test(NAME cord_test SOURCES cord_test.cc)
fiberrt_test(NAME stacks_test SOURCES stacks_test.cc)

# Returning from main cannot be tried inside a GoogleTest: a program of its own, which ends with 0 if all is well.
add_executable(return_from_main return_from_main.cc)
target_compile_features(return_from_main PRIVATE cxx_std_20)
target_compile_options(return_from_main PRIVATE -Wall -Wextra)
target_link_libraries(return_from_main PRIVATE fiberrt)
add_test(NAME return_from_main.WithLiveFibersEndsTheProcessAndNoFiberRunsAgain COMMAND return_from_main)
set_tests_properties(return_from_main.WithLiveFibersEndsTheProcessAndNoFiberRunsAgain PROPERTIES TIMEOUT 30)

# Very many fibers at once: a gigabyte and some seconds each.
if(FIBERRT_SANITIZE)
    message(STATUS "Test stacks_scale_test left out: its figures are not those of a sanitizer.")
else()
    fiberrt_test(NAME stacks_scale_test SOURCES stacks_scale_test.cc LABELS all TIMEOUT 180)
endif()
