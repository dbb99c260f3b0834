# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests specific to each way of doing I/O, through the public header only. For other processors all of them run on libev
# as it is, and qemu has no filters that could refuse a system call.

fiberrt_test(NAME io_limits_test SOURCES io_limits_test.cc LABELS io)
# In place of liburing's calls, and of the C library's, which they forward.
if(have_uring AND NOT CMAKE_CROSSCOMPILING AND NOT FIBERRT_SANITIZE)
    fiberrt_test_program(uring_busy_test SOURCES uring_busy_test.cc)
    set_property(TARGET uring_busy_test PROPERTY ENABLE_EXPORTS ON)
    target_link_libraries(uring_busy_test PRIVATE uring)
    add_test(NAME uring_busy_test COMMAND uring_busy_test)
    set_tests_properties(uring_busy_test PROPERTIES LABELS io)
    fiberrt_test_program(uring_calls_test SOURCES uring_calls_test.cc)
    set_property(TARGET uring_calls_test PROPERTY ENABLE_EXPORTS ON)
    add_test(NAME uring_calls_test COMMAND uring_calls_test)
    set_tests_properties(uring_calls_test PROPERTIES LABELS io)
endif()

if(have_ev AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME spin_before_sleep_test.on_ev COMMAND ${launcher} $<TARGET_FILE:spin_before_sleep_test>)
    add_test(NAME embed_test.on_ev COMMAND ${launcher} $<TARGET_FILE:embed_test>)
    set_tests_properties(spin_before_sleep_test.on_ev embed_test.on_ev PROPERTIES ENVIRONMENT FIBERRT_BACKEND=ev)
    fiberrt_test_program(ev_calls_test SOURCES ev_calls_test.cc)
    set_property(TARGET ev_calls_test PROPERTY ENABLE_EXPORTS ON)
    add_test(NAME ev_calls_test COMMAND ${launcher} $<TARGET_FILE:ev_calls_test>)
    set_tests_properties(ev_calls_test PROPERTIES ENVIRONMENT FIBERRT_BACKEND=ev LABELS io)
endif()

# Where the kernel refuses io_uring, for each way of refusing: the chosen backend, and the error for programs that
# demand io_uring.
fiberrt_test(NAME backend_selection_test SOURCES backend_selection_test.cc LABELS io)
if(NOT CMAKE_CROSSCOMPILING)
    add_executable(deny_uring deny_uring.c)
    target_compile_options(deny_uring PRIVATE -Wall -Wextra)
    fiberrt_test_program(io_refused_test SOURCES io_refused_test.cc)
    foreach(refusal EPERM ENOSYS ENOMEM EACCES EINVAL)
        add_test(NAME io_refused_test.${refusal}
            COMMAND ${launcher} $<TARGET_FILE:deny_uring> ${refusal} $<TARGET_FILE:io_refused_test>)
        set_tests_properties(io_refused_test.${refusal} PROPERTIES
            ENVIRONMENT "FIBERRT_REFUSAL=${refusal};FIBERRT_BACKEND=uring" LABELS io)
        add_test(NAME backend_selection_test.${refusal}
            COMMAND ${launcher} $<TARGET_FILE:deny_uring> ${refusal} $<TARGET_FILE:backend_selection_test>)
        set_tests_properties(backend_selection_test.${refusal} PROPERTIES
            ENVIRONMENT FIBERRT_REFUSAL=${refusal} LABELS io)
    endforeach()
    fiberrt_test(NAME filters_test SOURCES filters_test.cc LABELS io)
endif()

# Cords in other event loops, with each of the ring's doorbells; and with libev's and GLib's loops if they are here.
find_path(FIBERRT_EV_INCLUDE_DIR ev.h)
find_library(FIBERRT_EV_LIBRARY ev)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND AND NOT CMAKE_CROSSCOMPILING) # it would find this processor's
    pkg_check_modules(FIBERRT_GLIB IMPORTED_TARGET glib-2.0)
endif()
fiberrt_test_program(embed_objects OBJECTS SOURCES embed_test.cc)
set(embed_programs embed_objects embed_test)
fiberrt_test(NAME embed_test SOURCES embed_doorbell.cc $<TARGET_OBJECTS:embed_objects> LABELS io)
if(NOT CMAKE_CROSSCOMPILING AND NOT FIBERRT_FEWER_TESTS) # another processor has no ring
    list(APPEND embed_programs embed_eventfd_test)
    fiberrt_test(NAME embed_eventfd_test SOURCES embed_doorbell.cc $<TARGET_OBJECTS:embed_objects> LABELS io INTERNAL
        DEFINITIONS EMBED_BY_EVENTFD)
endif()
foreach(program ${embed_programs})
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

# Names, with a resolver of the program's own, and threads that cannot be made.
fiberrt_test(NAME names_test SOURCES names_test.cc LABELS io INTERNAL)
if(have_ev AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME names_test.on_ev COMMAND ${launcher} $<TARGET_FILE:names_test>)
    set_tests_properties(names_test.on_ev PROPERTIES ENVIRONMENT FIBERRT_BACKEND=ev LABELS io)
endif()
if(NOT CMAKE_CROSSCOMPILING AND NOT "thread" IN_LIST FIBERRT_SANITIZE)
    foreach(seed RANGE 1 5)
        add_test(NAME names_test.on_sim_${seed} COMMAND names_test)
        set_tests_properties(names_test.on_sim_${seed} PROPERTIES
            ENVIRONMENT "FIBERRT_BACKEND=sim;FIBERRT_SEED=${seed}" LABELS io)
    endforeach()
endif()
