# SPDX-License-Identifier: MIT OR Apache-2.0
# The test of the manual, which is made of the comments in fiberrt.h: manual.sh.
if(FIBERRT_SANITIZE OR CMAKE_CROSSCOMPILING)
    message(STATUS "Test manual left out: it depends on neither sanitizers nor the processor.")
    return()
endif()
set(programs_with_pages)
if(TARGET fiberrt-doctor)
    set(programs_with_pages $<TARGET_FILE:fiberrt-doctor> $<TARGET_FILE:fiberrt_sim>
        $<TARGET_FILE:fiberrt_run> $<TARGET_FILE:fiberrt_top>)
endif()
add_test(NAME manual
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/manual.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
        ${programs_with_pages})
set_tests_properties(manual PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${test_timeout}
    ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER};CMAKE_GENERATOR=${CMAKE_GENERATOR}")
