# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of fiberrt-top and of the metrics, with a process that has all that they show.
if(NOT TARGET fiberrt_top OR NOT Python3_FOUND)
    message(STATUS "Tests top and metrics left out: no fiberrt-top is built (FIBERRT_TOOLS), or there is no python3.")
    return()
endif()
if(CMAKE_CROSSCOMPILING)
    message(STATUS "Tests top and metrics left out: they are about programs of this processor.")
    return()
endif()
add_executable(top_subject top_subject.c)
target_compile_options(top_subject PRIVATE -Wall -Wextra)
set_target_properties(top_subject PROPERTIES ENABLE_EXPORTS ON) # names of functions
target_link_libraries(top_subject PRIVATE fiberrt)
set(top_fibers 10000)
if("thread" IN_LIST FIBERRT_SANITIZE) # which allows 8,128 threads and fibers
    set(top_fibers 5000)
endif()
foreach(backend uring ev)
    if(have_${backend})
        add_test(NAME top.${backend}
            COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/top.py $<TARGET_FILE:fiberrt_top>
                $<TARGET_FILE:top_subject> ${top_fibers})
        add_test(NAME metrics.${backend}
            COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metrics.py $<TARGET_FILE:top_subject>)
        set_tests_properties(top.${backend} metrics.${backend} PROPERTIES
            ENVIRONMENT FIBERRT_BACKEND=${backend} TIMEOUT ${test_timeout})
    endif()
endforeach()
