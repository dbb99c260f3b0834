# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs that are built with a sanitizer, by either compiler, and use the library as it is installed: without.
if(FIBERRT_SANITIZE)
    return()
endif()
set(link_shared $<TARGET_FILE:fiberrt> -Wl,-rpath,$<TARGET_FILE_DIR:fiberrt>)
set(link_static $<TARGET_FILE:fiberrt_static> $<$<BOOL:${have_uring}>:-luring> $<$<BOOL:${have_ev}>:${FIBERRT_EV_LIBRARY}>)
foreach(compiler g++ clang++)
    foreach(sanitizer address thread)
        foreach(kind shared static)
            # A compiler that is not found is an error of the test: ./dev installs both before the tests that need them.
            set(test sanitized_consumer.${compiler}.${sanitizer}.${kind})
            add_test(NAME ${test} COMMAND_EXPAND_LISTS
                COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sanitized_consumer/run.sh ${PROJECT_SOURCE_DIR}
                    ${CMAKE_CURRENT_BINARY_DIR}/${test} ${compiler} ${sanitizer} ${link_${kind}})
            set_tests_properties(${test} PROPERTIES LABELS all TIMEOUT ${slow_test_timeout})
        endforeach()
    endforeach()
endforeach()
