# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the documentation (tests/docs): docs compiles and runs its code blocks and looks up names; links checks
# links, and the paths that pages and comments name; prose counts turns of phrase that make comments, pages, messages
# and names of tests hard to read. Each test with the suffix .planted checks that the other finds planted mistakes.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
    message(WARNING "The tests docs, links and prose, and their tests .planted, are LEFT OUT: no python3.")
    return()
endif()
add_test(NAME prose COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/prose.py --root ${PROJECT_SOURCE_DIR})
add_test(NAME prose.planted COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/prose_test.py)
add_test(NAME links
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/docs/links.py ${PROJECT_SOURCE_DIR} --at-least 150)
add_test(NAME links.planted COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/docs/links_test.py)
set_tests_properties(prose prose.planted links links.planted PROPERTIES LABELS docs)
if(NOT FIBERRT_EXAMPLES OR NOT FIBERRT_TOOLS OR NOT FIBERRT_PKG_CONFIG)
    message(WARNING "The tests docs and docs.planted are LEFT OUT: they need the examples, the tools and pkg-config.")
    return()
endif()
add_test(NAME docs
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/docs/blocks.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
        ${CMAKE_CURRENT_BINARY_DIR}/docs/work --at-least 30)
add_test(NAME docs.planted
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/docs/planted.py ${PROJECT_BINARY_DIR}
        ${PROJECT_SOURCE_DIR})
if(NOT FIBERRT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME docs.readme_by_clang
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/docs/blocks.py ${PROJECT_SOURCE_DIR}
            ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR}/docs/readme_by_clang --page README.md
            --cxx clang++ --at-least 2)
    set_tests_properties(docs.readme_by_clang PROPERTIES LABELS docs SKIP_RETURN_CODE 77)
endif()
set_tests_properties(docs docs.planted PROPERTIES
    LABELS docs ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER}")
