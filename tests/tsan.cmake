# SPDX-License-Identifier: MIT OR Apache-2.0
# The tests of ThreadSanitizer support: with a library built for it (preset tsan), and, in the release build, with the
# ordinary library, which must inform the sanitizer of a program equally.
set(tsan_environment "TSAN_OPTIONS=halt_on_error=1:exitcode=66")
if("thread" IN_LIST FIBERRT_SANITIZE)
    fiberrt_test(NAME tsan_test SOURCES tsan_test.cc)
elseif(NOT FIBERRT_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_executable(tsan_plain_library_test tsan_test.cc)
    target_compile_features(tsan_plain_library_test PRIVATE cxx_std_20)
    target_compile_options(tsan_plain_library_test PRIVATE ${test_options} -fsanitize=thread)
    target_link_options(tsan_plain_library_test PRIVATE -fsanitize=thread)
    target_link_libraries(tsan_plain_library_test PRIVATE GTest::gtest_main fiberrt)
    add_test(NAME tsan_plain_library_test
        COMMAND ${tsan_launcher} $<TARGET_FILE:tsan_plain_library_test>)
    set_tests_properties(tsan_plain_library_test PROPERTIES
        LABELS all TIMEOUT ${slow_test_timeout} ENVIRONMENT "${tsan_environment}")
endif()
