# SPDX-License-Identifier: MIT OR Apache-2.0
# The programs of tests under Valgrind's memcheck: each as a whole, as Valgrind takes half a second to start; the
# conformance suite in parts. Left out of the suite are scenarios that measure times, that flood the queues with more
# operations than Valgrind, which is fifty times slower, completes in time, or that use many threads, which Valgrind
# runs one at a time and so slowly that they do not end: ThreadSanitizer and AddressSanitizer run these. For the same
# reasons the programs left out are spin_before_sleep_test, inbox_test, embed_test, embed_eventfd_test,
# cord_exchange_test, cord_stress_test and pool_stress_test. run_queue_test, timers_test and slots_test are algorithms
# on plain arrays, which AddressSanitizer watches as well; sim_test forks a process for each run; examples_test,
# httpd_test and doctor_test run other programs; names_test runs on libev, below; stack_pool_test,
# stack_pool_refusal_test, stacks_test and stacks_scale_test count mappings, refuse system calls and fill address
# space, as Valgrind does for itself; io_limits_test fills its table of mappings; switch_cfi_test needs hundreds of
# signals in the middle of a switch, which Valgrind delivers at the ends of blocks.
if(FIBERRT_SANITIZE)
    return()
endif()
set(valgrind_timeout 400) # each takes less than a minute
fiberrt_names_left_out(${CMAKE_CURRENT_SOURCE_DIR}/valgrind-leaves-out.txt left_out)
get_property(programs GLOBAL PROPERTY fiberrt_test_programs)
list(REMOVE_ITEM programs conformance spin_before_sleep_test io_limits_test run_queue_test timers_test slots_test
    inbox_test embed_test embed_eventfd_test cord_exchange_test cord_stress_test pool_stress_test sim_test examples_test
    httpd_test doctor_test names_test
    stack_pool_test stack_pool_refusal_test stacks_test stacks_scale_test switch_cfi_test)
foreach(program IN LISTS programs)
    # Without valgrind the test fails. ./dev installs it; where it cannot, it leaves these tests out, and says so.
    add_test(NAME valgrind.${program}
        COMMAND valgrind -q --error-exitcode=99 --num-callers=20 $<TARGET_FILE:${program}> --gtest_filter=-${left_out})
    set_tests_properties(valgrind.${program} PROPERTIES LABELS all TIMEOUT ${valgrind_timeout}
        ENVIRONMENT FIBERRT_TEST_UNDER_VALGRIND=1)
endforeach()

# Programs of several threads do not hang: the library takes libev by itself.
if(have_ev)
    add_executable(valgrind_threads valgrind_threads.c)
    set_target_properties(valgrind_threads PROPERTIES C_STANDARD 99)
    target_compile_options(valgrind_threads PRIVATE -Wall -Wextra)
    target_compile_definitions(valgrind_threads PRIVATE _GNU_SOURCE)
    find_package(Threads REQUIRED)
    target_link_libraries(valgrind_threads PRIVATE fiberrt Threads::Threads)
    add_test(NAME valgrind.threads
        COMMAND valgrind -q --error-exitcode=99 --num-callers=20 $<TARGET_FILE:valgrind_threads>)
    set_tests_properties(valgrind.threads PROPERTIES LABELS all TIMEOUT 120 ENVIRONMENT_MODIFICATION
        FIBERRT_BACKEND=unset:)
endif()

# While a thread sleeps in its ring, Valgrind does not let the others run. So on libev all scenarios run in the soak,
# and some of them before; on a ring, those that concern a ring, half of
# them for the soak; each without the scenarios that the list names.
set(memcheck valgrind -q --error-exitcode=99 --num-callers=20)
# conformance_under_valgrind(NAME LABEL FILTER BACKEND PARTS [FIRST]): the parts from FIRST on are for the soak.
function(conformance_under_valgrind name label filter backend parts)
    math(EXPR last "${parts} - 1")
    foreach(part RANGE ${last})
        set(test valgrind.conformance.${name}.${part})
        set(timeout ${valgrind_timeout})
        if(ARGC GREATER 5 AND part GREATER_EQUAL ARGV5)
            set(label soak)
        endif()
        if(label STREQUAL "soak")
            set(timeout ${slow_test_timeout})
        endif()
        add_test(NAME ${test} COMMAND ${memcheck} $<TARGET_FILE:conformance> --gtest_brief=1 --gtest_filter=${filter})
        set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT ${timeout}
            ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part};FIBERRT_BACKEND=${backend}")
    endforeach()
endfunction()
string(CONCAT left_out_of_conformance
    "${left_out}:Cord*:Post.*:Shutdown.*:Cross*:*Elsewhere*:End.AScopeThatTheFunctionLeft*:"
    "Join.DoesNotBlockTheThread*:Fairness.*:FairPolling.*:RescheduleIfDue.*:SleepZero.*:Sleep.*:Counters.*:QueueTest.*:"
    "BusyTest.*:TimeTest.*:CountTest.*:ThreadExitTest.*:*Threads.*:*Death.*:WaitingMix.*")
if(have_ev)
    conformance_filter("scheduling|transfer|life|cancel|scope|channel|select|hooks|offload" filter_of_some)
    conformance_under_valgrind(some_on_ev all "${filter_of_some}-${left_out_of_conformance}" ev 2)
    conformance_under_valgrind(on_ev soak "-${left_out_of_conformance}" ev 5)
    add_test(NAME valgrind.names_test.on_ev
        COMMAND ${memcheck} $<TARGET_FILE:names_test> --gtest_filter=-${left_out})
    set_tests_properties(valgrind.names_test.on_ev PROPERTIES LABELS all TIMEOUT ${valgrind_timeout}
        ENVIRONMENT FIBERRT_BACKEND=ev)
endif()
if(have_uring)
    conformance_filter("io_.*|process|signal|hosted" filter_of_ring)
    conformance_under_valgrind(on_uring all "${filter_of_ring}-${left_out_of_conformance}" uring 4 2)
endif()
