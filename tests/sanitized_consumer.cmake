# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs that are built with a sanitizer, by either compiler, and use the library as it is installed: without.
if(FIBERRT_SANITIZE)
    return()
endif()
set(link_shared $<TARGET_FILE:fiberrt> -Wl,-rpath,$<TARGET_FILE_DIR:fiberrt>)
get_target_property(link_static fiberrt_static INTERFACE_LINK_LIBRARIES)
list(TRANSFORM link_static REPLACE "^([^/].*)" "-l\\1")
list(PREPEND link_static $<TARGET_FILE:fiberrt_static>)
foreach(compiler g++ clang++)
    foreach(sanitizer address thread)
        foreach(kind shared static)
            # Without the compiler the test fails. ./dev installs both; where it cannot, it leaves these tests out, and
            # says so.
            set(test sanitized_consumer.${compiler}.${sanitizer}.${kind})
            add_test(NAME ${test} COMMAND_EXPAND_LISTS
                COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sanitized_consumer/run.sh ${PROJECT_SOURCE_DIR}
                    ${CMAKE_CURRENT_BINARY_DIR}/${test} ${compiler} ${sanitizer} ${link_${kind}})
            set(label all)
            if("${compiler} ${kind}" MATCHES "^(g.* shared|clang.* static)$") # the other halves of the pairs
                set(label soak)
            endif()
            set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT ${slow_test_timeout}
                ENVIRONMENT "LAUNCHER=$<$<STREQUAL:${sanitizer},thread>:$<JOIN:${tsan_launcher}, >>")
        endforeach()
    endforeach()
endforeach()
