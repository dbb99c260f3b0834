# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks of the sources themselves, so that they can be shipped: licences, spelling, the HTML site. `./dev deb` builds
# and tries the packages.
add_test(NAME reuse COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/reuse.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(reuse PROPERTIES SKIP_RETURN_CODE 77)
find_package(Python3 3.9 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME spelling
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/spelling.py ${PROJECT_SOURCE_DIR})
    set_tests_properties(spelling PROPERTIES SKIP_RETURN_CODE 77)
else()
    message(WARNING "The test spelling is LEFT OUT: no python3.")
endif()

# The amalgamation (tools/amalgamate) is the library, and its README has the commands that compile it.
if(Python3_FOUND AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT FIBERRT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    set(backends $<$<BOOL:${have_uring}>:uring> $<$<BOOL:${have_ev}>:ev>)
    foreach(name one_file one_file.whole)
        string(REGEX MATCH "whole" whole ${name})
        add_test(NAME ${name} COMMAND_EXPAND_LISTS
            COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/one_file.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
                ${CMAKE_CURRENT_BINARY_DIR}/${name} $<$<BOOL:${whole}>:--whole>)
        set_tests_properties(${name} PROPERTIES TIMEOUT ${slow_test_timeout} ENVIRONMENT
            "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER};FIBERRT_BACKENDS=$<JOIN:${backends}, >")
    endforeach()
    set_tests_properties(one_file PROPERTIES LABELS all)
    set_tests_properties(one_file.whole PROPERTIES LABELS soak TIMEOUT 3600)
else()
    message(STATUS "The test one_file is left out: it is for gcc, needs python3, and runs programs.")
endif()

# A primitive is added to a copy of the sources as CONTRIBUTING.md says.
if(NOT FIBERRT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME adding COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/adding.sh ${PROJECT_SOURCE_DIR}
        ${CMAKE_CURRENT_BINARY_DIR}/adding)
    set_tests_properties(adding PROPERTIES LABELS all TIMEOUT ${slow_test_timeout}
        ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER};CMAKE_GENERATOR=${CMAKE_GENERATOR}")
    if(Python3_FOUND) # each broken table fails the build with one sentence
        add_test(NAME tables COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tables.py ${PROJECT_SOURCE_DIR}
            ${CMAKE_CURRENT_BINARY_DIR}/tables)
        set_tests_properties(tables PROPERTIES LABELS all TIMEOUT ${slow_test_timeout}
            ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER};CMAKE_GENERATOR=${CMAKE_GENERATOR}")
        add_test(NAME site COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/site.py ${PROJECT_SOURCE_DIR}
            ${CMAKE_CURRENT_BINARY_DIR}/site ${CMAKE_CURRENT_BINARY_DIR}/site-tools)
        set_tests_properties(site PROPERTIES LABELS all TIMEOUT ${slow_test_timeout} SKIP_RETURN_CODE 77)
    else()
        message(WARNING "The tests tables and site are LEFT OUT: no python3.")
    endif()
endif()
