# SPDX-License-Identifier: MIT OR Apache-2.0
# The conformance suite: every scenario once, on every backend. Each file in conformance/ is one subject.
file(GLOB conformance_subjects CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/conformance conformance/*.cc)
list(TRANSFORM conformance_subjects REPLACE "\\.cc$" "")
list(REMOVE_ITEM conformance_subjects main)
if(NOT have_uring AND NOT have_ev)
    list(FILTER conformance_subjects EXCLUDE REGEX "^(io_.*|process|signal)$")
endif()
# Scenarios that do not depend on the processor or the compiler are tested with other processors and compilers only by
# ./dev soak.
if(FIBERRT_SAMPLE_TESTS AND NOT FIBERRT_WHOLE_SUITE)
    list(FILTER conformance_subjects INCLUDE REGEX "^(scheduling|transfer|life|cross_cord|pool|hosted|fork|io_stream)$")
elseif((CMAKE_CROSSCOMPILING OR FIBERRT_FEWER_TESTS) AND NOT FIBERRT_WHOLE_SUITE)
    list(FILTER conformance_subjects INCLUDE REGEX "^(scheduling|transfer|life|scope|noswitch|main_flow|resource|\
cross_cord|mutex|channel|pool|hosted|hooks|fork|io_stream)$")
elseif("thread" IN_LIST FIBERRT_SANITIZE AND NOT FIBERRT_WHOLE_SUITE)
    # Nor are scenarios with one thread tested with ThreadSanitizer.
    list(FILTER conformance_subjects EXCLUDE REGEX
        "^(fairness|every|life|cancel|scope|noswitch|main_flow|deadlock|free_arg|\
resource|children|refused|io_posix.*|io_cancel)$")
endif()
list(TRANSFORM conformance_subjects REPLACE "(.+)" "conformance/\\1.cc" OUTPUT_VARIABLE conformance_sources)
fiberrt_test_program(conformance_objects OBJECTS SOURCES conformance/main.cc ${conformance_sources})
if("io_posix" IN_LIST conformance_subjects)
    set_property(SOURCE conformance/io_posix.cc APPEND PROPERTY COMPILE_DEFINITIONS
        FIBERRT_POSIX_TABLE="${PROJECT_SOURCE_DIR}/docs/posix-calls.md")
endif()

# The filter for the scenarios of files with matching names.
function(conformance_filter regex out)
    set(filter)
    foreach(subject IN LISTS conformance_subjects)
        if(subject MATCHES "^(${regex})$")
            set(file ${CMAKE_CURRENT_SOURCE_DIR}/conformance/${subject}.cc)
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
            file(STRINGS ${file} suites REGEX "^TEST(_[FP])?\\(")
            list(TRANSFORM suites REPLACE "^TEST[_FP]*\\(([A-Za-z0-9_]+),.*" "\\1.*:*/\\1.*")
            list(APPEND filter ${suites})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES filter)
    list(JOIN filter ":" filter)
    set(${out} "${filter}" PARENT_SCOPE)
endfunction()

# By the backend that is chosen where nothing is asked for.
set(conformance_shards 8)
if(CMAKE_CROSSCOMPILING)
    set(conformance_shards 16)
endif()
# Most of the two thousand scenarios take less time than the start of the program.
fiberrt_test(NAME conformance SOURCES $<TARGET_OBJECTS:conformance_objects> LABELS conformance
    SHARDS ${conformance_shards} WHOLE)

# Of a backend that is not the first, and of one that is refused something, only the scenarios that concern it.
conformance_filter("io_.*|process|signal|offload|hosted|cord|cross_cord|waiting_mix|select" filter_of_backend)
set(filter_of_second_backend *)
if(whole_programs)
    set(filter_of_second_backend ${filter_of_backend})
endif()

# conformance_run(<name> [TIMEOUT <seconds>] [LABELS ...] COMMAND <command>... [ENVIRONMENT <name=value>...])
# Many of them in one process.
function(conformance_run name)
    cmake_parse_arguments(R "" "TIMEOUT" "COMMAND;ENVIRONMENT;LABELS" ${ARGN})
    add_test(NAME conformance.${name} COMMAND ${R_COMMAND} --gtest_brief=1)
    set_tests_properties(conformance.${name} PROPERTIES
        SKIP_RETURN_CODE 77 LABELS "conformance;${R_LABELS}" ENVIRONMENT "${R_ENVIRONMENT}")
    if(R_TIMEOUT)
        set_tests_properties(conformance.${name} PROPERTIES TIMEOUT ${R_TIMEOUT})
    endif()
endfunction()

set(program $<TARGET_FILE:conformance>)
# Not for another processor, as every seed needs a process, under an emulator; nor under ThreadSanitizer: there is only
# one thread.
if(NOT CMAKE_CROSSCOMPILING AND NOT "thread" IN_LIST FIBERRT_SANITIZE)
    set(seeds 1-10)
    if(FIBERRT_SANITIZE AND NOT FIBERRT_WHOLE_SUITE) # each costs several times as much
        set(seeds 1-1)
    elseif(FIBERRT_COVERAGE)
        set(seeds 1-3)
    endif()
    conformance_run(on_sim COMMAND ${program} --seeds ${seeds} ENVIRONMENT FIBERRT_BACKEND=sim)
    if("children_elsewhere" IN_LIST conformance_subjects)
        # Other threads look at an exiting thread while it discards its fibers, and some were runnable.
        conformance_run(children_on_sim COMMAND ${program} --seeds 1-30 --gtest_filter=Children*
            ENVIRONMENT FIBERRT_BACKEND=sim)
    endif()
    # A run under a seed in which nothing ran, and one that ends its process in the middle, have not passed.
    conformance_run(no_scenario_fails COMMAND ${program} --seeds 1-2 --gtest_filter=No.Such
        ENVIRONMENT FIBERRT_BACKEND=sim)
    conformance_run(backward_seeds_fail COMMAND ${program} --seeds 2-1 ENVIRONMENT FIBERRT_BACKEND=sim)
    set_tests_properties(conformance.no_scenario_fails conformance.backward_seeds_fail PROPERTIES
        WILL_FAIL ON)
    conformance_run(no_scenario_is_reported COMMAND ${program} --seeds 1-2 --gtest_filter=No.Such
        ENVIRONMENT FIBERRT_BACKEND=sim)
    set_tests_properties(conformance.no_scenario_is_reported PROPERTIES PASS_REGULAR_EXPRESSION
        "^no scenario matches No\\.Such")
endif()
# With accounting on, every scenario still passes: each switch takes the way of hooks, also beside the user's.
set(with_accounting
    "accounting|scheduling|transfer|life|cancel|hooks|hosted|pool|cross_cord|children|fork|mutex|select")
if(CMAKE_CROSSCOMPILING)
    set(with_accounting "accounting|transfer|hooks")
elseif(FIBERRT_SANITIZE)
    set(with_accounting "accounting|transfer|hooks|hosted|pool|cross_cord")
endif()
conformance_filter("${with_accounting}" filter_of_accounting)
conformance_run(with_accounting TIMEOUT ${slow_test_timeout}
    COMMAND ${launcher} ${program} --gtest_filter=${filter_of_accounting}-${left_out_here}
    ENVIRONMENT FIBERRT_ACCOUNTING=1)
conformance_run(with_accounting_whole TIMEOUT 3600 LABELS soak
    COMMAND ${launcher} ${program} --gtest_filter=*-${left_out_here} ENVIRONMENT FIBERRT_ACCOUNTING=1)
if(NOT CMAKE_CROSSCOMPILING AND NOT "thread" IN_LIST FIBERRT_SANITIZE)
    conformance_run(with_accounting_on_sim COMMAND ${program} --seeds 21-23
        ENVIRONMENT FIBERRT_BACKEND=sim FIBERRT_ACCOUNTING=1)
endif()
conformance_run(on_sim_more_seeds TIMEOUT ${slow_test_timeout} LABELS all COMMAND ${program} --seeds 11-15
    ENVIRONMENT FIBERRT_BACKEND=sim)
conformance_run(on_sim_10000_seeds TIMEOUT 14400 LABELS soak COMMAND ${program} --seeds 1-10000
    ENVIRONMENT FIBERRT_BACKEND=sim)
set(backends sim)
if(have_ev)
    list(PREPEND backends ev)
    # A cross build has no other backend: each scenario runs on it by itself.
    if(NOT CMAKE_CROSSCOMPILING)
        foreach(part RANGE 2)
            conformance_run(on_ev.${part}
                COMMAND ${launcher} ${program} --gtest_filter=${filter_of_second_backend}-${left_out_here}
                ENVIRONMENT FIBERRT_BACKEND=ev GTEST_TOTAL_SHARDS=3 GTEST_SHARD_INDEX=${part})
        endforeach()
    endif()
endif()
if(have_uring)
    list(PREPEND backends uring)
endif()
if("address" IN_LIST FIBERRT_SANITIZE)
    # Puts locals on second stacks, to find uses after their functions have returned. LeakSanitizer does not see
    # pointers held only by these stacks; scenarios that count memory, or use the smallest stacks, cannot run like that.
    set(with_second_stacks Attr Barrier Cancel Channel Children Cond Dump Event Exchange Exit Hosted Interrupt Join Key
        Mutex NoSwitch Once Order Park Pool Rwlock Scope Select Semaphore Spawn Task WaitGroup WithTimeout Yield)
    list(JOIN with_second_stacks "*:" filter_of_second_stacks)
    conformance_run(use_after_return
        COMMAND ${program} --gtest_filter=${filter_of_second_stacks}*-*LeaveNothing*:*LeavesNothing*
        ENVIRONMENT ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0)
endif()
set(with_traces)
foreach(subject IN LISTS conformance_subjects)
    file(STRINGS conformance/${subject}.cc traces REGEX "Trace [a-z]")
    if(traces)
        list(APPEND with_traces ${subject})
    endif()
endforeach()
list(JOIN with_traces "|" with_traces)
conformance_filter("${with_traces}" filter_of_traces)
if(Python3_FOUND)
    add_test(NAME conformance.tables_have_all_calls
        COMMAND ${Python3_EXECUTABLE} # and no emulator before it, which CTest puts before targets
            ${CMAKE_CURRENT_SOURCE_DIR}/conformance/tables.py ${PROJECT_SOURCE_DIR})
    set_tests_properties(conformance.tables_have_all_calls PROPERTIES LABELS conformance)
endif()
add_test(NAME conformance.traces
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/conformance/compare_traces.sh ${program} ${filter_of_traces} ${backends})
set_tests_properties(conformance.traces PROPERTIES TIMEOUT ${slow_test_timeout} LABELS "conformance;all")

if(have_ev AND NOT CMAKE_CROSSCOMPILING AND (FIBERRT_COVERAGE OR NOT whole_programs))
    # The kernel, or an emulator, has neither preadv2 nor pwritev2, and so no RWF_NOWAIT.
    conformance_run(without_nowait LABELS all
        COMMAND $<TARGET_FILE:deny_uring> --transfers ENOSYS ${program} --gtest_filter=${filter_of_backend}
        ENVIRONMENT FIBERRT_BACKEND=ev)
endif()
if(have_uring AND have_ev AND (FIBERRT_COVERAGE OR NOT whole_programs))
    # The kernel forbids io_uring, as containers do: by a filter of system calls. It is libev then, which has all of
    # these scenarios in on_ev: some of each kind are enough.
    conformance_filter("io_stream|io_file|io_close|process|cord" filter_of_forbidden)
    conformance_run(forbidden COMMAND $<TARGET_FILE:deny_uring> EPERM ${program} --gtest_filter=${filter_of_forbidden}
        ENVIRONMENT FIBERRT_REFUSAL=EPERM)
    conformance_run(forbidden_whole LABELS soak
        COMMAND $<TARGET_FILE:deny_uring> EPERM ${program} --gtest_filter=${filter_of_backend}
        ENVIRONMENT FIBERRT_REFUSAL=EPERM)
    # The ring refuses operations (a bit for each OpCode): all except polls, or only polls. Threads perform the refused
    # operations: one poll need not find all that are done by then, nor can 20,000 wait at once.
    fiberrt_test_program(conformance_on_refusing_ring INTERNAL NO_MAIN
        SOURCES $<TARGET_OBJECTS:conformance_objects> refuse_ops.cc)
    set(by_one_look SleepZero.LooksAt*:Order.CompletionBeats*:LossTest.ACompletionBeats*:QueueTest.MoreCompletions*)
    foreach(refused 0x3fbfff 0x4000)
        conformance_run(refused_${refused} LABELS all
            COMMAND $<TARGET_FILE:conformance_on_refusing_ring> --gtest_filter=${filter_of_backend}-${by_one_look}
            ENVIRONMENT FIBERRT_BACKEND=uring FIBERRT_TEST_REFUSED_OPS=${refused})
    endforeach()
endif()
