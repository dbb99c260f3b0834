# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of the simulation and of fiberrt-sim.

add_executable(sim_workload sim_workload.cc)
target_compile_features(sim_workload PRIVATE cxx_std_20)
target_compile_options(sim_workload PRIVATE ${test_options})
target_link_libraries(sim_workload PRIVATE fiberrt)

# The rest does not depend on the compiler.
if(FIBERRT_FEWER_TESTS)
    return()
endif()

# Under ThreadSanitizer a process may not fork and go on, under AddressSanitizer it may.
if(NOT "thread" IN_LIST FIBERRT_SANITIZE)
    fiberrt_test(NAME sim_test SOURCES sim_test.cc)
endif()

# A run repeats itself; ./dev test --all also compares the builds of gcc and clang.
add_test(NAME sim_same_trace
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/same_trace.sh 10 $<TARGET_FILE:sim_workload> $<TARGET_FILE:sim_workload>)
# Accounting changes no choice.
add_test(NAME sim_same_trace.accounting
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/same_trace.sh 5 $<TARGET_FILE:sim_workload> $<TARGET_FILE:sim_workload>)
set_tests_properties(sim_same_trace.accounting PROPERTIES ENVIRONMENT OF_OTHER=FIBERRT_ACCOUNTING=1)

# Whatever the faults do, the workload does not fail. (--timeout is real time, in which the machine may stand still.)
foreach(faults 0 1 2 3)
    add_test(NAME sim_seeds.faults_${faults}
        COMMAND fiberrt_sim --timeout 60 --seeds 1-300 --faults ${faults} -- $<TARGET_FILE:sim_workload>)
    set_tests_properties(sim_seeds.faults_${faults} PROPERTIES LABELS all)
    add_test(NAME sim_seeds.faults_${faults}.10000_seeds
        COMMAND fiberrt_sim --timeout 60 --seeds 1-10000 --faults ${faults} -- $<TARGET_FILE:sim_workload>)
    set_tests_properties(sim_seeds.faults_${faults}.10000_seeds PROPERTIES LABELS soak TIMEOUT ${slow_test_timeout})
endforeach()

add_test(NAME sim_signals COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sim_signals.sh $<TARGET_FILE:fiberrt_sim>)
if(TARGET example_bank)
    add_test(NAME sim_finds.the_banks_lost_money
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sim_finds.sh $<TARGET_FILE:fiberrt_sim> 3 $<TARGET_FILE:example_bank>)
    add_test(NAME sim_exhaustive.the_bank
        COMMAND fiberrt_sim --timeout 60 --exhaustive -- $<TARGET_FILE:example_bank>)
    set_tests_properties(sim_exhaustive.the_bank PROPERTIES PASS_REGULAR_EXPRESSION
        "balance is [0-9]+, and should be 350")
    add_test(NAME sim_exhaustive.all_of_hello COMMAND fiberrt_sim --timeout 60 --exhaustive
        -- $<TARGET_FILE:example_hello>)
    set_tests_properties(sim_exhaustive.all_of_hello PROPERTIES PASS_REGULAR_EXPRESSION "runs, all possible runs")
    add_test(NAME sim_seeds.the_mailbox COMMAND fiberrt_sim --seeds 1-300 -- $<TARGET_FILE:example_mailbox>)
endif()

# How fiberrt-sim treats its options and the ends of programs: all possible seeds; the last two seeds; a program that
# ends with 127; no seed at all.
function(sim_says name expected)
    add_test(NAME sim_says.${name} COMMAND fiberrt_sim ${ARGN})
    set_tests_properties(sim_says.${name} PROPERTIES PASS_REGULAR_EXPRESSION "${expected}")
endfunction()
if(TARGET example_bank)
    sim_says(first_of_all_seeds "seed [0-9]: it exits with 1"
        --seeds 0-18446744073709551615 -- $<TARGET_FILE:example_bank>)
    sim_says(last_two_seeds "no run failed: 2 seeds"
        --seeds 18446744073709551614-18446744073709551615 -- $<TARGET_FILE:example_hello>)
endif()
sim_says(a_program_that_exits_with_127 "seed 1: it exits with 127" --seeds 1-2 -- sh -c "exit 127")
sim_says(a_timeout_beyond_32_bits "seed 1: it exits with 1"
    --timeout 4294967297 --seeds 1 -- sh -c "sleep 1.5 && exit 1")
sim_says(a_timeout_of_zero_is_an_error "at least 1 second" --timeout 0 --seeds 1 -- true)
sim_says(a_missing_program_is_an_error "no_such_program cannot be run: No such file" --seeds 1-2 -- ./no_such_program)

# All orders in which two or three fibers can meet at a primitive while one of them is disturbed. With a cord for each
# these are too many: some of them at random, and the first of them.
# Nothing for ThreadSanitizer: there is but one thread.
set(some 100)
if(FIBERRT_SANITIZE AND NOT FIBERRT_WHOLE_SUITE) # each run costs several times as much
    set(some 30)
endif()
if(NOT "thread" IN_LIST FIBERRT_SANITIZE)
    add_executable(sim_waiting sim_waiting.cc)
    target_compile_features(sim_waiting PRIVATE cxx_std_20)
    target_compile_options(sim_waiting PRIVATE ${test_options})
    target_link_libraries(sim_waiting PRIVATE fiberrt)
    foreach(what mutex death cond sem event rwlock channel rendezvous select join scope)
        foreach(disturbance cancel interrupt timeout)
            set(name sim_waiting.${what}.${disturbance})
            set(program $<TARGET_FILE:sim_waiting> ${what} ${disturbance})
            if(FIBERRT_SANITIZE)
                add_test(NAME ${name} COMMAND fiberrt_sim --seeds 1-${some} --timeout 60 -- ${program})
                continue()
            endif()
            add_test(NAME ${name} COMMAND fiberrt_sim --exhaustive --timeout 60 -- ${program})
            set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "runs, all possible runs")
            add_test(NAME ${name}.cords COMMAND fiberrt_sim --seeds 1-100 --timeout 60 -- ${program} cords)
            set_tests_properties(${name}.cords PROPERTIES LABELS all TIMEOUT ${slow_test_timeout})
            add_test(NAME ${name}.cords.3000_seeds COMMAND fiberrt_sim --seeds 1-3000 --timeout 60 -- ${program} cords)
            set_tests_properties(${name}.cords.3000_seeds PROPERTIES LABELS soak TIMEOUT ${slow_test_timeout})
            add_test(NAME ${name}.cords.first_orders
                COMMAND fiberrt_sim --exhaustive --timeout 60 --runs 20000 -- ${program} cords)
            set_tests_properties(${name}.cords.first_orders PROPERTIES LABELS soak TIMEOUT 900)
        endforeach()
    endforeach()
endif()

# A pool: each accepted task runs exactly once. For 3 tasks and 2 working threads, all orders that differ from the
# ordinary one in a few choices; and seeds, for more tasks and workers.
if(NOT "thread" IN_LIST FIBERRT_SANITIZE)
    add_executable(sim_pool sim_pool.cc)
    target_compile_features(sim_pool PRIVATE cxx_std_20)
    target_compile_options(sim_pool PRIVATE ${test_options})
    target_link_libraries(sim_pool PRIVATE fiberrt)
    if(NOT FIBERRT_SANITIZE) # each run costs several times as much
        foreach(shape flat chain tree bound child)
            foreach(deviations 2 3)
                set(name sim_pool.${shape}.all_with_${deviations}_deviations)
                add_test(NAME ${name} COMMAND fiberrt_sim --exhaustive --deviations ${deviations} --runs 1000000
                    --timeout 60 -- $<TARGET_FILE:sim_pool> ${shape} 2 3)
                set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "runs, all possible runs"
                    TIMEOUT ${slow_test_timeout})
                if(deviations GREATER 2) # minutes each
                    set_tests_properties(${name} PROPERTIES LABELS soak)
                endif()
            endforeach()
        endforeach()
    endif()
    foreach(shape flat chain tree bound child mixed again)
        set(program $<TARGET_FILE:sim_pool> ${shape} 8 200)
        if(shape STREQUAL again)
            set(program $<TARGET_FILE:sim_pool> again 2 6)
        endif()
        # With faults: no memory for some fibers, no stack at once, threads that cannot be started.
        foreach(faults 0 3)
            set(name sim_pool.${shape}.)
            if(faults)
                set(name sim_pool.${shape}.faults_${faults}.)
            endif()
            set(seeds fiberrt_sim --faults ${faults} --timeout 60 --seeds)
            add_test(NAME ${name}${some}_seeds COMMAND ${seeds} 1-${some} -- ${program})
            add_test(NAME ${name}100_more_seeds COMMAND ${seeds} 101-200 -- ${program})
            set_tests_properties(${name}100_more_seeds PROPERTIES LABELS all TIMEOUT ${slow_test_timeout})
            add_test(NAME ${name}10000_seeds COMMAND ${seeds} 1-10000 -- ${program})
            set_tests_properties(${name}10000_seeds PROPERTIES LABELS soak TIMEOUT 3600)
        endforeach()
    endforeach()
    set(program $<TARGET_FILE:sim_pool> meet 2 50)
    add_test(NAME sim_pool.meet.200_seeds COMMAND fiberrt_sim --timeout 60 --seeds 1-200 -- ${program})
    add_test(NAME sim_pool.meet.800_more_seeds COMMAND fiberrt_sim --timeout 60 --seeds 201-1000 -- ${program})
    set_tests_properties(sim_pool.meet.800_more_seeds PROPERTIES LABELS all TIMEOUT ${slow_test_timeout})
    add_test(NAME sim_pool.meet.10000_seeds COMMAND fiberrt_sim --timeout 60 --seeds 1-10000 -- ${program})
    set_tests_properties(sim_pool.meet.10000_seeds PROPERTIES LABELS soak TIMEOUT ${slow_test_timeout})
endif()

# All calls that may wait, disturbed at each step; and by other choices than the ordinary ones.
if(NOT "thread" IN_LIST FIBERRT_SANITIZE AND (have_uring OR have_ev))
    add_executable(sim_sweep sim_sweep.cc)
    target_compile_features(sim_sweep PRIVATE cxx_std_20)
    target_compile_options(sim_sweep PRIVATE ${test_options})
    target_link_libraries(sim_sweep PRIVATE fiberrt)
    add_test(NAME sim_sweep.has_all_calls_of_the_header
        COMMAND sim_sweep --header ${PROJECT_SOURCE_DIR}/include/fiberrt.h)
    add_test(NAME sim_sweep COMMAND sim_sweep)
    set_tests_properties(sim_sweep PROPERTIES ENVIRONMENT "FIBERRT_BACKEND=sim;FIBERRT_SIM_REPLAY=")
    add_test(NAME sim_sweep.seeds
        COMMAND fiberrt_sim --seeds 1-3 --steps 0 --timeout 200 -- $<TARGET_FILE:sim_sweep>)
    set_tests_properties(sim_sweep.seeds PROPERTIES LABELS all TIMEOUT ${slow_test_timeout})
    add_test(NAME sim_sweep.1000_seeds
        COMMAND fiberrt_sim --seeds 1-1000 --steps 0 --timeout 600 -- $<TARGET_FILE:sim_sweep>)
    set_tests_properties(sim_sweep.1000_seeds PROPERTIES LABELS soak TIMEOUT 7200)
endif()

# The rest is about fiberrt-sim, not about the programs that it runs.
if(FIBERRT_SANITIZE)
    return()
endif()

# Whether fiberrt-sim finds a bug that is planted in the library (cmake/planted.cmake). PROGRAM.cc with the arguments
# SCENARIO must fail within 1,000 seeds and shrink to at most 20 choices.
include(${PROJECT_SOURCE_DIR}/cmake/planted.cmake)
function(sim_finds name program scenario)
    if(FIBERRT_UNITY) # see cmake/planted.cmake
        return()
    endif()
    set(executable sim_planted_${name})
    marked_file(file ${name})
    add_executable(${executable} ${program}.cc ${PROJECT_SOURCE_DIR}/src/${file})
    target_compile_features(${executable} PRIVATE cxx_std_20)
    target_include_directories(${executable} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    plant_in(${executable} ${name} ${file})
    target_link_libraries(${executable} PRIVATE $<$<BOOL:${have_uring}>:uring> ${ev_link})
    add_test(NAME sim_finds.${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sim_finds.sh
        $<TARGET_FILE:fiberrt_sim> 20 $<TARGET_FILE:${executable}> ${scenario})
endfunction()

sim_finds(a_lost_doorbell sim_workload cords)
sim_finds(a_lost_wake sim_workload all)
sim_finds(a_lost_cancel sim_workload all)
sim_finds(a_double_completion sim_workload all)
sim_finds(two_sums_in_the_wrong_order sim_pool "tree;2;6")
sim_finds(no_look_before_sleep sim_pool "mixed;8;200")
sim_finds(a_bit_that_no_thread_gives_back sim_pool "again;1;1")
