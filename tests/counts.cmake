# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that the instructions per yield, wake and spawn are the recorded ones.
if(FIBERRT_SANITIZE OR NOT Python3_FOUND)
    return()
endif()
add_executable(counts ${PROJECT_SOURCE_DIR}/bench/counts.c)
set_target_properties(counts PROPERTIES C_STANDARD 99)
target_compile_options(counts PRIVATE -Wall -Wextra -O2)
target_compile_definitions(counts PRIVATE _GNU_SOURCE
    COUNTS_ARCHITECTURE="${CMAKE_SYSTEM_PROCESSOR}" COUNTS_BUILD_TYPE="${CMAKE_BUILD_TYPE}")
target_link_libraries(counts PRIVATE fiberrt)
add_test(NAME counts COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/bench/counts.py $<TARGET_FILE:counts>)
set_tests_properties(counts PROPERTIES LABELS all SKIP_RETURN_CODE 77)
