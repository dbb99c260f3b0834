# SPDX-License-Identifier: MIT OR Apache-2.0
# Unmodified libraries: the locks of an adopted program.

file(GLOB locks_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} posix/locks_*.cc)
fiberrt_test_program(posix_locks_test NO_MAIN SOURCES ${locks_sources})
set(locks_backends)
if(have_uring)
    list(APPEND locks_backends uring)
endif()
if(have_ev)
    list(APPEND locks_backends ev)
endif()
# The tests misuse mutexes on purpose, and a thread holds more at once than the detector of deadlocks knows (64).
set(locks_environment)
if("thread" IN_LIST FIBERRT_SANITIZE)
    set(locks_environment TSAN_OPTIONS=report_mutex_bugs=0:detect_deadlocks=0:report_destroy_locked=0)
endif()
foreach(backend IN LISTS locks_backends)
    add_test(NAME posix_locks_test.on_${backend}
        COMMAND ${launcher} $<TARGET_FILE:posix_locks_test> --gtest_brief=1
            --gtest_filter=-${left_out_here})
    set_tests_properties(posix_locks_test.on_${backend} PROPERTIES
        ENVIRONMENT "FIBERRT_BACKEND=${backend};${locks_environment}" LABELS posix)
endforeach()

# Its exported function makes it look like an interpreter.
fiberrt_test(NAME posix_interpreter_test SOURCES posix/interpreter_test.cc LABELS posix)
set_target_properties(posix_interpreter_test PROPERTIES ENABLE_EXPORTS ON)
