# SPDX-License-Identifier: MIT OR Apache-2.0
# Unmodified libraries: the calls of an adopted program, compared with the kernel's.

file(GLOB calls_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} posix/calls_*.cc)
fiberrt_test_program(posix_calls_test NO_MAIN SOURCES ${calls_sources})
set(posix_backends)
if(have_uring)
    list(APPEND posix_backends uring)
endif()
if(have_ev)
    list(APPEND posix_backends ev)
endif()
foreach(backend IN LISTS posix_backends)
    add_test(NAME posix_calls_test.on_${backend}
        COMMAND ${launcher} $<TARGET_FILE:posix_calls_test> --gtest_brief=1)
    set_tests_properties(posix_calls_test.on_${backend} PROPERTIES
        ENVIRONMENT FIBERRT_BACKEND=${backend} LABELS "posix;io")
endforeach()
if(NOT "thread" IN_LIST FIBERRT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    foreach(seed RANGE 1 3)
        add_test(NAME posix_calls_test.on_sim_${seed} COMMAND posix_calls_test --gtest_brief=1)
        set_tests_properties(posix_calls_test.on_sim_${seed} PROPERTIES
            ENVIRONMENT "FIBERRT_BACKEND=sim;FIBERRT_SEED=${seed}" LABELS "posix;io")
    endforeach()
endif()

# A library for tests to adopt.
add_library(posix_plain_calls SHARED posix/plain_calls.c)
target_compile_options(posix_plain_calls PRIVATE -Wall -Wextra)
fiberrt_test(NAME posix_refused_test SOURCES posix/refused_test.cc)
target_link_libraries(posix_refused_test PRIVATE posix_plain_calls)
target_include_directories(posix_refused_test PRIVATE posix)


# OpenSSL's errors, of the version that is installed, and of a stand-in for version 1.1 under the name that such a
# library has in a Python wheel.
if(NOT CMAKE_CROSSCOMPILING)
    find_package(OpenSSL QUIET)
endif()
add_library(fake_libcrypto MODULE posix/fake_libcrypto.c)
set_target_properties(fake_libcrypto PROPERTIES PREFIX "" OUTPUT_NAME libcrypto-0f1e2d SUFFIX .so.1.1)
fiberrt_test(NAME posix_openssl_test
    SOURCES posix/openssl_test.cc
    DEFINITIONS FAKE_LIBCRYPTO="$<TARGET_FILE:fake_libcrypto>" OPENSSL_SUPPRESS_DEPRECATED
        FIBERRT_TEST_OPENSSL=$<BOOL:${OpenSSL_FOUND}>
    LABELS posix)
add_dependencies(posix_openssl_test fake_libcrypto)
if(OpenSSL_FOUND)
    target_link_libraries(posix_openssl_test PRIVATE OpenSSL::SSL)
else()
    message(STATUS "OpenSSL (Debian: libssl-dev) was not found: its error queue is tested by a stand-in only.")
endif()
if(have_ev AND have_uring)
    add_test(NAME posix_openssl_test.on_ev COMMAND ${launcher} $<TARGET_FILE:posix_openssl_test>)
    set_tests_properties(posix_openssl_test.on_ev PROPERTIES ENVIRONMENT FIBERRT_BACKEND=ev LABELS posix)
endif()

# The example httpsd, with the clients that people have.
if("thread" IN_LIST FIBERRT_SANITIZE)
    message(STATUS "The test of the example httpsd LEFT OUT: not run under ThreadSanitizer yet")
elseif(TARGET example_httpsd AND Python3_FOUND)
    foreach(backend uring ev)
        if(have_${backend})
            add_test(NAME httpsd.on_${backend}
                COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/posix/httpsd_test.py
                    $<TARGET_FILE:example_httpsd>)
            set_tests_properties(httpsd.on_${backend} PROPERTIES ENVIRONMENT FIBERRT_BACKEND=${backend}
                LABELS "examples;posix" SKIP_RETURN_CODE 77)
        endif()
    endforeach()
endif()

# fiberrt_posix_test(<name> [LIBRARIES <target>...]): the program of posix/<name>.cc, on io_uring and on libev.
function(fiberrt_posix_test name)
    cmake_parse_arguments(P "" "" "LIBRARIES" ${ARGN})
    fiberrt_test_program(${name} SOURCES posix/${name}.cc)
    target_link_libraries(${name} PRIVATE ${P_LIBRARIES} ${CMAKE_DL_LIBS})
    foreach(backend IN LISTS posix_backends)
        add_test(NAME ${name}.on_${backend} COMMAND ${launcher} $<TARGET_FILE:${name}> --gtest_brief=1
            --gtest_filter=-${left_out_here})
        set_tests_properties(${name}.on_${backend} PROPERTIES ENVIRONMENT FIBERRT_BACKEND=${backend} LABELS posix)
    endforeach()
endfunction()

fiberrt_posix_test(posix_process_test)
fiberrt_posix_test(posix_file_locks_test)
fiberrt_posix_test(posix_signals_test)

# The program brings a resolver, in place of the C library's.
add_library(posix_resolving SHARED posix/resolving_caller.c)
target_compile_options(posix_resolving PRIVATE -Wall -Wextra)
target_compile_definitions(posix_resolving PRIVATE _GNU_SOURCE)
fiberrt_posix_test(posix_names_test LIBRARIES posix_resolving)
set_property(TARGET posix_names_test PROPERTY ENABLE_EXPORTS ON)

function(fiberrt_adopted_library name definition)
    add_library(${name} SHARED posix/adopted_library.c)
    target_compile_options(${name} PRIVATE -Wall -Wextra)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE ${definition})
endfunction()
fiberrt_adopted_library(posix_reader READER)
target_link_options(posix_reader PRIVATE -Wl,-z,lazy -Wl,-z,relro)
fiberrt_adopted_library(posix_mixed MIXED)
fiberrt_adopted_library(posix_loader LOADER)
target_link_options(posix_loader PRIVATE -Wl,-z,now -Wl,-z,relro)
set_target_properties(posix_loader PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGIN/posix_plugins")
fiberrt_adopted_library(posix_found FOUND)
target_link_libraries(posix_found PRIVATE posix_reader)
set_target_properties(posix_found PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/posix_plugins)
fiberrt_posix_test(posix_adopting_test LIBRARIES posix_reader posix_mixed posix_loader)
add_dependencies(posix_adopting_test posix_found)

# Programs under fiberrt-run, and linked with libfiberrt_posix.so. A sanitizer's runtime must be the first library, and
# a build that counts lines needs the library of its counters.
if(TARGET fiberrt_run AND NOT CMAKE_CROSSCOMPILING AND NOT FIBERRT_SANITIZE AND NOT FIBERRT_COVERAGE)
    add_test(NAME posix.whole_program
        COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/posix/whole_program.sh ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
    set_tests_properties(posix.whole_program PROPERTIES LABELS posix ENVIRONMENT CC=${CMAKE_C_COMPILER})
endif()
