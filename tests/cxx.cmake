# SPDX-License-Identifier: MIT OR Apache-2.0
# fiberrt.hpp: the same tests as C++17 and as C++20, on each backend. Each variant is one process: the tests take no
# time.
set(standards 17 20)
if((FIBERRT_SANITIZE OR FIBERRT_FEWER_TESTS OR CMAKE_CROSSCOMPILING) AND NOT FIBERRT_WHOLE_SUITE)
    set(standards 20)
endif()
foreach(standard IN LISTS standards)
    add_executable(hpp_test_${standard} hpp_test.cc hpp_objects_test.cc hpp_system_test.cc)
    set_target_properties(hpp_test_${standard} PROPERTIES
        CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    target_compile_options(hpp_test_${standard} PRIVATE ${test_options} -Wpedantic -Wconversion -Wshadow)
    target_compile_definitions(hpp_test_${standard} PRIVATE
        FIBERRT_TEST_IO=$<OR:$<BOOL:${have_uring}>,$<BOOL:${have_ev}>>)
    target_link_libraries(hpp_test_${standard} PRIVATE GTest::gtest_main fiberrt)
    add_test(NAME cxx.as_${standard} COMMAND ${launcher} $<TARGET_FILE:hpp_test_${standard}> --gtest_brief=1)
endforeach()

# Its coroutines, where the compiler has any. All but one have one thread.
if("thread" IN_LIST FIBERRT_SANITIZE AND NOT FIBERRT_WHOLE_SUITE)
    set(coroutines OFF)
else()
    set(coroutines ON)
    add_executable(coroutine_test coroutine_test.cc)
    set_target_properties(coroutine_test PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    # Optimised in any case: else gcc keeps the caller's frame where one coroutine goes on into another.
    target_compile_options(coroutine_test PRIVATE ${test_options} -Wpedantic -Wconversion -Wshadow -O1)
    target_compile_definitions(coroutine_test PRIVATE
        FIBERRT_TEST_IO=$<OR:$<BOOL:${have_uring}>,$<BOOL:${have_ev}>>)
    target_link_libraries(coroutine_test PRIVATE GTest::gtest_main fiberrt)
    add_test(NAME cxx.coroutines COMMAND ${launcher} $<TARGET_FILE:coroutine_test> --gtest_brief=1)
endif()

set(hpp_backends sim)
if(have_ev)
    list(APPEND hpp_backends ev)
endif()
foreach(backend ${hpp_backends})
    set(programs cxx.on_${backend})
    add_test(NAME cxx.on_${backend} COMMAND ${launcher} $<TARGET_FILE:hpp_test_20> --gtest_brief=1)
    if(coroutines)
        list(APPEND programs cxx.coroutines_on_${backend})
        add_test(NAME cxx.coroutines_on_${backend} COMMAND ${launcher} $<TARGET_FILE:coroutine_test> --gtest_brief=1)
    endif()
    set_tests_properties(${programs} PROPERTIES ENVIRONMENT FIBERRT_BACKEND=${backend})
endforeach()
