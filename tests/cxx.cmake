# SPDX-License-Identifier: MIT OR Apache-2.0
# fiberrt.hpp, on each backend. Each program is one process: the tests take no time, but their compilation does, as long
# as a quarter of the conformance suite. So the release build compiles them as C++17, and the trees of clang and of the
# sanitizers as C++20. ./dev soak compiles them as both in all of these trees, and for other processors.
set(hpp_sources hpp_test.cc hpp_objects_test.cc hpp_system_test.cc)
set(hpp_options ${test_options})
if(FIBERRT_WHOLE_SUITE)
    set(standards 17 20)
elseif(FIBERRT_SANITIZE OR FIBERRT_FEWER_TESTS)
    set(standards 20)
    list(APPEND hpp_options ${without_ubsan}) # it would take a third longer
    if("thread" IN_LIST FIBERRT_SANITIZE)
        set(hpp_sources hpp_test.cc) # the others have one thread
    endif()
else()
    set(standards 17)
endif()
list(GET standards -1 last_standard)
foreach(standard IN LISTS standards)
    add_executable(hpp_test_${standard} ${hpp_sources})
    set_target_properties(hpp_test_${standard} PROPERTIES
        CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    target_compile_options(hpp_test_${standard} PRIVATE ${hpp_options} -Wpedantic -Wconversion -Wshadow)
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
    target_compile_options(coroutine_test PRIVATE ${hpp_options} -Wpedantic -Wconversion -Wshadow -O1)
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
    add_test(NAME cxx.on_${backend} COMMAND ${launcher} $<TARGET_FILE:hpp_test_${last_standard}> --gtest_brief=1)
    if(coroutines)
        list(APPEND programs cxx.coroutines_on_${backend})
        add_test(NAME cxx.coroutines_on_${backend} COMMAND ${launcher} $<TARGET_FILE:coroutine_test> --gtest_brief=1)
    endif()
    set_tests_properties(${programs} PROPERTIES ENVIRONMENT FIBERRT_BACKEND=${backend})
endforeach()
