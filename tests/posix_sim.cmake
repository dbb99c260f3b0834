# SPDX-License-Identifier: MIT OR Apache-2.0
# Adopted libraries in a simulation.

# Nothing for ThreadSanitizer: there is but one thread.
if("thread" IN_LIST FIBERRT_SANITIZE OR NOT (have_uring OR have_ev))
    return()
endif()
fiberrt_test_program(posix_sim_test NO_MAIN SOURCES posix/sim_test.cc)
add_test(NAME posix_sim_test COMMAND posix_sim_test --gtest_filter=-SimulatedFaults.*)
add_test(NAME posix_sim_test.faults COMMAND posix_sim_test --gtest_filter=SimulatedFaults.*)
set_tests_properties(posix_sim_test.faults PROPERTIES ENVIRONMENT FIBERRT_SIM_FAULTS=2)
set_tests_properties(posix_sim_test posix_sim_test.faults PROPERTIES LABELS posix)

# A program of libpq.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(FIBERRT_LIBPQ QUIET IMPORTED_TARGET libpq)
endif()
if(NOT FIBERRT_LIBPQ_FOUND)
    message(WARNING "The tests of a program of libpq in a simulation are LEFT OUT: libpq (Debian: libpq-dev) was not "
                    "found.")
    return()
endif()
add_executable(posix_sim_pq posix/sim_pq.c posix/row_server.c)
target_compile_options(posix_sim_pq PRIVATE -Wall -Wextra)
target_link_libraries(posix_sim_pq PRIVATE fiberrt PkgConfig::FIBERRT_LIBPQ)
set(program $<TARGET_FILE:posix_sim_pq>)

foreach(faults 0 1 2)
    add_test(NAME posix_sim_pq.atomic.faults_${faults}
        COMMAND fiberrt_sim --timeout 60 --seeds 1-50 --faults ${faults} -- ${program} atomic)
    add_test(NAME posix_sim_pq.atomic.faults_${faults}.3000_seeds
        COMMAND fiberrt_sim --timeout 60 --seeds 1-3000 --faults ${faults} -- ${program} atomic)
    set_tests_properties(posix_sim_pq.atomic.faults_${faults}.3000_seeds PROPERTIES LABELS soak
        TIMEOUT ${slow_test_timeout})
endforeach()
add_test(NAME posix_sim_pq.patient COMMAND fiberrt_sim --timeout 60 --seeds 1-50 -- ${program} patient)
add_test(NAME posix_sim_pq.same_trace COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/same_trace.sh 10 ${program} ${program} atomic)
if(NOT FIBERRT_SANITIZE)
    add_test(NAME posix_sim_pq.finds_the_race
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sim_finds.sh $<TARGET_FILE:fiberrt_sim> 3 ${program} race)
    add_test(NAME posix_sim_pq.finds_the_race_over_tcp
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sim_finds.sh $<TARGET_FILE:fiberrt_sim> 3 ${program} tcp race)
endif()
