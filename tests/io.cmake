# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of I/O, through the public header alone.

# The programs: each by the backend that is chosen, each of their tests a CTest of its own; and as a whole on libev, where
# io_uring is forbidden, and on rings that refuse operations.
set(parts "")
if(have_uring OR have_ev)
    set(parts stream datagram file close close_elsewhere cancel limits)
endif()
foreach(part IN LISTS parts)
    fiberrt_test(NAME io_${part}_test SOURCES io_${part}_test.cc LABELS io TIMEOUT 30)
endforeach()

# Without the tests that fork: the child shares the parent's ring or epoll instance, and what it does there would be seen
# by the tests that follow.
# fiberrt_io_variant(<name> COMMAND <command>... ENVIRONMENT <name=value>...)
function(fiberrt_io_variant name)
    cmake_parse_arguments(V "" "" "COMMAND;ENVIRONMENT" ${ARGN})
    set(left_out "*DeathTest*")
    if("thread" IN_LIST FIBERRT_SANITIZE)
        fiberrt_names_left_out(${CMAKE_CURRENT_SOURCE_DIR}/tsan-leaves-out.txt names)
        string(APPEND left_out ":${names}")
    endif()
    list(APPEND V_COMMAND --gtest_filter=-${left_out})
    add_test(NAME ${name} COMMAND ${V_COMMAND})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${V_ENVIRONMENT}" LABELS io TIMEOUT 120
        SKIP_RETURN_CODE 77)
endfunction()

add_executable(deny_uring deny_uring.c)
target_compile_options(deny_uring PRIVATE -Wall -Wextra)

if(have_ev)
    foreach(part IN LISTS parts)
        fiberrt_io_variant(io_${part}_test.on_ev COMMAND $<TARGET_FILE:io_${part}_test> ENVIRONMENT FIBERRT_BACKEND=ev)
        fiberrt_io_variant(io_${part}_test.forbidden
            COMMAND deny_uring EPERM $<TARGET_FILE:io_${part}_test> ENVIRONMENT FIBERRT_REFUSAL=EPERM)
    endforeach()
    # And those of the core's tests that do I/O.
    foreach(program cancel_test scope_test deadlock_test fairness_test handle_test cord_test cross_cord_test lookout_test)
        fiberrt_io_variant(${program}.on_ev COMMAND $<TARGET_FILE:${program}> ENVIRONMENT FIBERRT_BACKEND=ev)
    endforeach()
endif()

if(have_uring)
    # A bit for each OpCode: of polls alone, and of all but polls.
    foreach(part stream file)
        add_executable(io_${part}_on_refusing_ring io_${part}_test.cc refuse_ops.cc)
        target_compile_features(io_${part}_on_refusing_ring PRIVATE cxx_std_20)
        target_compile_options(io_${part}_on_refusing_ring PRIVATE -Wall -Wextra -O1)
        target_compile_definitions(io_${part}_on_refusing_ring PRIVATE FIBERRT_TEST_IO=1)
        target_link_libraries(io_${part}_on_refusing_ring PRIVATE GTest::gtest_main fiberrt_objects uring
            $<$<BOOL:${have_ev}>:${FIBERRT_EV_LIBRARY}>)
    endforeach()
    fiberrt_io_variant(io_file_test.all_but_polls_refused COMMAND $<TARGET_FILE:io_file_on_refusing_ring>
        ENVIRONMENT FIBERRT_BACKEND=uring FIBERRT_TEST_REFUSED_OPS=0x3fff)
    fiberrt_io_variant(io_stream_test.all_but_polls_refused COMMAND $<TARGET_FILE:io_stream_on_refusing_ring>
        ENVIRONMENT FIBERRT_BACKEND=uring FIBERRT_TEST_REFUSED_OPS=0x3fff)
    fiberrt_io_variant(io_stream_test.polls_refused COMMAND $<TARGET_FILE:io_stream_on_refusing_ring>
        ENVIRONMENT FIBERRT_BACKEND=uring FIBERRT_TEST_REFUSED_OPS=0x4000)
endif()

# Where the kernel refuses io_uring, for each way of refusing: what is chosen, and what those are told who want io_uring.
fiberrt_test(NAME choice_test SOURCES choice_test.cc LABELS io TIMEOUT 30)
add_executable(io_refused_test io_refused_test.cc)
target_compile_features(io_refused_test PRIVATE cxx_std_20)
target_compile_options(io_refused_test PRIVATE -Wall -Wextra -O1)
target_link_libraries(io_refused_test PRIVATE GTest::gtest_main fiberrt)
foreach(refusal EPERM ENOSYS ENOMEM EACCES)
    add_test(NAME io_refused_test.${refusal} COMMAND deny_uring ${refusal} $<TARGET_FILE:io_refused_test>)
    set_tests_properties(io_refused_test.${refusal} PROPERTIES
        ENVIRONMENT "FIBERRT_REFUSAL=${refusal};FIBERRT_BACKEND=uring" LABELS io TIMEOUT 30)
    add_test(NAME choice_test.${refusal} COMMAND deny_uring ${refusal} $<TARGET_FILE:choice_test>)
    set_tests_properties(choice_test.${refusal} PROPERTIES
        ENVIRONMENT FIBERRT_REFUSAL=${refusal} LABELS io TIMEOUT 30)
endforeach()

# Cords in other event loops, with each of the ring's doorbells; and with libev's and GLib's loops if they are here.
find_path(FIBERRT_EV_INCLUDE_DIR ev.h)
find_library(FIBERRT_EV_LIBRARY ev)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(FIBERRT_GLIB IMPORTED_TARGET glib-2.0)
endif()
fiberrt_test(NAME embed_test SOURCES embed_test.cc LABELS io)
fiberrt_test(NAME embed_eventfd_test SOURCES embed_test.cc LABELS io INTERNAL DEFINITIONS EMBED_BY_EVENTFD)
foreach(program embed_test embed_eventfd_test)
    if(FIBERRT_EV_INCLUDE_DIR AND FIBERRT_EV_LIBRARY)
        target_compile_definitions(${program} PRIVATE FIBERRT_TEST_LIBEV=1)
        target_include_directories(${program} SYSTEM PRIVATE ${FIBERRT_EV_INCLUDE_DIR})
        target_link_libraries(${program} PRIVATE ${FIBERRT_EV_LIBRARY})
    endif()
    if(FIBERRT_GLIB_FOUND)
        target_compile_definitions(${program} PRIVATE FIBERRT_TEST_GLIB=1)
        target_link_libraries(${program} PRIVATE PkgConfig::FIBERRT_GLIB)
    endif()
endforeach()
