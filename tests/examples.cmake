# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the example programs: each example runs in its own process.

if(NOT TARGET example_hello)
    message(STATUS "The examples are not built (FIBERRT_EXAMPLES), so their tests are left out.")
    return()
endif()

if(TARGET example_httpd)
    fiberrt_test(NAME httpd_test
        SOURCES httpd_test.cc
        DEFINITIONS EXAMPLES_DIR="${CMAKE_BINARY_DIR}/examples"
        LABELS examples SHARDS 4)
    add_dependencies(httpd_test example_httpd)
    if(FIBERRT_SQLITE_INCLUDE_DIR AND FIBERRT_SQLITE_LIBRARY)
        target_compile_definitions(httpd_test PRIVATE FIBERRT_TEST_SQLITE=1)
        target_include_directories(httpd_test SYSTEM PRIVATE ${FIBERRT_SQLITE_INCLUDE_DIR})
        target_link_libraries(httpd_test PRIVATE ${FIBERRT_SQLITE_LIBRARY})
    endif()
else()
    message(WARNING "The example httpd is left out, and so are its tests.")
endif()

# Under ThreadSanitizer the other examples show no more than the tests do.
if("thread" IN_LIST FIBERRT_SANITIZE)
    return()
endif()

fiberrt_test(NAME examples_test
    SOURCES examples_test.cc
    DEFINITIONS EXAMPLES_DIR="${CMAKE_BINARY_DIR}/examples"
        FIBERRT_TEST_PQ=$<TARGET_EXISTS:example_pq> FIBERRT_TEST_CURL=$<TARGET_EXISTS:example_crawl>
    LABELS examples)
get_property(examples DIRECTORY ${PROJECT_SOURCE_DIR}/examples PROPERTY BUILDSYSTEM_TARGETS)
add_dependencies(examples_test ${examples})

# Each example is short, opens with what it shows, is in the table of examples/README.md, is built and is run.
if(Python3_FOUND)
    add_test(NAME examples.are_short_and_listed
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/examples.py ${PROJECT_SOURCE_DIR})
endif()

add_executable(trace_check trace_check.cc)
target_compile_features(trace_check PRIVATE cxx_std_20)

# Whether dumps, metrics, traces and fiberrt-top name the faults of the example troubled.
if(Python3_FOUND)
    set(top)
    if(TARGET fiberrt_top)
        set(top $<TARGET_FILE:fiberrt_top>)
    endif()
    foreach(backend uring ev sim)
        if(have_${backend} OR backend STREQUAL "sim")
            add_test(NAME troubled.${backend}
                COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/troubled.py
                    $<TARGET_FILE:example_troubled> $<TARGET_FILE:trace_check> ${top})
            set_tests_properties(troubled.${backend} PROPERTIES LABELS examples
                ENVIRONMENT FIBERRT_BACKEND=${backend} TIMEOUT ${test_timeout})
        endif()
    endforeach()
else()
    message(WARNING "python3 was not found: the tests troubled are LEFT OUT.")
endif()

if(TARGET example_httpd AND Python3_FOUND)
    # A page of an ordinary size to ask for.
    string(REPEAT "<p>This paragraph is here to be served many times over.\n" 70 FIBERRT_LOAD_PAGE)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/httpd_load_root/index.html
        "<!DOCTYPE html>\n<title>load</title>\n${FIBERRT_LOAD_PAGE}")
    add_test(NAME httpd_load
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/httpd_load.py $<TARGET_FILE:example_httpd>
            ${CMAKE_CURRENT_BINARY_DIR}/httpd_load_root)
    add_test(NAME httpd_load.two_threads
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/httpd_load.py $<TARGET_FILE:example_httpd>
            ${CMAKE_CURRENT_BINARY_DIR}/httpd_load_root 100000 2)
    # A trace of it, read by Perfetto's own trace_processor where npm has that.
    add_test(NAME trace.httpd
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/trace/httpd.py $<TARGET_FILE:example_httpd>
            ${CMAKE_CURRENT_BINARY_DIR}/httpd_load_root $<TARGET_FILE:trace_check>
            ${PROJECT_BINARY_DIR}/trace-processor)
    set_tests_properties(trace.httpd PROPERTIES LABELS trace SKIP_RETURN_CODE 77 TIMEOUT ${slow_test_timeout})
    set_tests_properties(httpd_load httpd_load.two_threads PROPERTIES LABELS load RUN_SERIAL ON
        SKIP_RETURN_CODE 77)
endif()
