# SPDX-License-Identifier: MIT OR Apache-2.0
# The programs of tests under Valgrind's memcheck: each as a whole, as Valgrind takes half a second to start. Those that
# are left out: fairness_test and lookout_test measure times; io_limits_test floods the queues with more operations than
# Valgrind, which is fifty times slower, ends in time, and fills its table of mappings; run_queue_test, timers_test and
# slots_test are algorithms on plain arrays, which AddressSanitizer watches as well; cord_test, cross_cord_test, inbox_test,
# embed_test, embed_eventfd_test, cord_exchange_test, cord_stress_test and io_close_elsewhere_test are threads, which
# Valgrind runs one at a time and so slowly that they do not end: ThreadSanitizer and AddressSanitizer run them;
# examples_test, httpd_test and doctor_test run other programs; stack_pool_test, stack_pool_refusal_test, stacks_test and
# stacks_scale_test count mappings, refuse system calls and fill address space, all of which Valgrind does too, for itself;
# switch_cfi_test needs hundreds of signals in the middle of a switch, which Valgrind delivers at the ends of blocks.
if(FIBERRT_SANITIZE)
    return()
endif()
fiberrt_names_left_out(${CMAKE_CURRENT_SOURCE_DIR}/valgrind-leaves-out.txt left_out)
get_property(programs GLOBAL PROPERTY fiberrt_test_programs)
list(REMOVE_ITEM programs fairness_test lookout_test io_limits_test run_queue_test timers_test slots_test cord_test
    cross_cord_test inbox_test embed_test embed_eventfd_test cord_exchange_test cord_exchange_soak cord_stress_test
    cord_stress_soak io_close_elsewhere_test examples_test httpd_test doctor_test
    stack_pool_test stack_pool_refusal_test stacks_test stacks_scale_test switch_cfi_test)
foreach(program IN LISTS programs)
    # Not found is an error of the test, not of the configuration: ./dev installs it before the tests that need it.
    add_test(NAME valgrind.${program}
        COMMAND valgrind -q --error-exitcode=99 --num-callers=20 $<TARGET_FILE:${program}> --gtest_filter=-${left_out})
    set_tests_properties(valgrind.${program} PROPERTIES LABELS all TIMEOUT 120)
endforeach()
