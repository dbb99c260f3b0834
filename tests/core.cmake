# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of what is beside the conformance suite, through the public header only.
fiberrt_test(NAME sight_test SOURCES sight_test.cc)
fiberrt_test(NAME lookout_test SOURCES lookout_test.cc)
fiberrt_test(NAME cord_exchange_test SOURCES cord_exchange_test.cc DEFINITIONS MESSAGES=200)
fiberrt_test(NAME cord_exchange_soak SOURCES cord_exchange_test.cc DEFINITIONS MESSAGES=50000 LABELS soak TIMEOUT 1800)
add_executable(cord_exchange_small cord_exchange_test.cc)
target_compile_features(cord_exchange_small PRIVATE cxx_std_20)
target_compile_definitions(cord_exchange_small PRIVATE MESSAGES=20)
target_link_libraries(cord_exchange_small PRIVATE GTest::gtest_main fiberrt)
add_test(NAME cord_exchange_test.AHundredTimes
    COMMAND ${launcher} $<TARGET_FILE:cord_exchange_small> --gtest_repeat=100 --gtest_throw_on_failure)
fiberrt_test(NAME pool_stress_test SOURCES pool_stress_test.cc DEFINITIONS TASKS=20000)
fiberrt_test(NAME pool_stress_soak SOURCES pool_stress_test.cc DEFINITIONS TASKS=5000000 LABELS soak TIMEOUT 1800)
add_executable(pool_stress_small pool_stress_test.cc)
target_compile_features(pool_stress_small PRIVATE cxx_std_20)
target_compile_definitions(pool_stress_small PRIVATE TASKS=1000)
target_link_libraries(pool_stress_small PRIVATE GTest::gtest_main fiberrt)
add_test(NAME pool_stress_test.AHundredTimes COMMAND ${launcher} $<TARGET_FILE:pool_stress_small>
    --gtest_filter=-*Idle* --gtest_repeat=100 --gtest_throw_on_failure)
fiberrt_test(NAME cord_stress_test SOURCES cord_stress_test.cc DEFINITIONS MILLISECONDS=3000)
fiberrt_test(NAME cord_stress_soak SOURCES cord_stress_test.cc DEFINITIONS MILLISECONDS=600000 LABELS soak TIMEOUT 1900)
fiberrt_test(NAME stacks_test SOURCES stacks_test.cc)

# Returning from main cannot be tried inside a GoogleTest: a program of its own, which ends with 0 if all is well.
add_executable(return_from_main return_from_main.cc)
target_compile_features(return_from_main PRIVATE cxx_std_20)
target_compile_options(return_from_main PRIVATE -Wall -Wextra)
target_link_libraries(return_from_main PRIVATE fiberrt)
add_test(NAME return_from_main.WithLiveFibersEndsTheProcessAndNoFiberRunsAgain
    COMMAND ${launcher} $<TARGET_FILE:return_from_main>)

# Very many fibers at once: a gigabyte and some seconds each.
if(FIBERRT_SANITIZE)
    message(STATUS "Test stacks_scale_test left out: its figures are not those of a sanitizer.")
else()
    fiberrt_test(NAME stacks_scale_test SOURCES stacks_scale_test.cc LABELS all)
endif()
