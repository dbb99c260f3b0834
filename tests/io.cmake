# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of I/O, through the public header alone.

foreach(part stream datagram file close close_elsewhere cancel limits)
    fiberrt_test(NAME io_${part}_test SOURCES io_${part}_test.cc LABELS io TIMEOUT 30)
endforeach()

# Where the kernel refuses io_uring: the same program for each way of refusing.
add_executable(deny_uring deny_uring.c)
target_compile_options(deny_uring PRIVATE -Wall -Wextra)
add_executable(io_refused_test io_refused_test.cc)
target_compile_features(io_refused_test PRIVATE cxx_std_20)
target_compile_options(io_refused_test PRIVATE -Wall -Wextra -O1)
target_link_libraries(io_refused_test PRIVATE GTest::gtest_main fiberrt)
foreach(refusal EPERM ENOSYS ENOMEM)
    add_test(NAME io_refused_test.${refusal} COMMAND deny_uring ${refusal} $<TARGET_FILE:io_refused_test>)
    set_tests_properties(io_refused_test.${refusal} PROPERTIES
        ENVIRONMENT FIBERRT_REFUSAL=${refusal} LABELS io TIMEOUT 30)
endforeach()
