# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The smoke test of the benchmarks: run.py measures our own subjects, as briefly as it can, and check_json.py checks its
# output for form and completeness. No figure is judged: figures depend on the machine. Needs bench to be added before.
# The test picture draws README's picture from figures of its own.
find_package(Python3 COMPONENTS Interpreter)

if(Python3_FOUND)
    add_test(NAME picture
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/picture.py ${PROJECT_SOURCE_DIR}
            ${CMAKE_CURRENT_BINARY_DIR}/picture)
endif()
if(NOT FIBERRT_BENCH)
    message(STATUS "Test bench_smoke left out: the benchmarks are not built (FIBERRT_BENCH).")
elseif(NOT TARGET bench_fiberrt OR NOT TARGET bench_bare)
    message(WARNING "Test bench_smoke LEFT OUT: the benchmarks could not be built; the reason stands above.")
elseif(NOT Python3_FOUND)
    message(WARNING "Test bench_smoke LEFT OUT: no python3.")
else()
    set(bench_source_dir "${CMAKE_CURRENT_LIST_DIR}/../bench")
    set(bench_smoke_dir "${CMAKE_BINARY_DIR}/bench_smoke")
    file(MAKE_DIRECTORY "${bench_smoke_dir}")

    # Where the kernel has no light guard pages (before Linux 6.13) 100,000 guarded stacks pass its limit on mappings.
    set(bench_smoke_names
        yield/same yield/different yield/1000 yield/1000x16 yield/deep3 yield/shuffled1000 parkwake spawn
        crosswake spawnbatch scale/10 memory/10000 sim lock channel scope task hosted hooks select posix observe
        echo copy)
    message(STATUS "Test bench_smoke measures ${bench_smoke_names}; not the shapes with 100,000 fibers and more, which "
        "not every kernel can run, nor sleep, which takes long, nor http, https and query, which need servers.")

    add_test(NAME bench_smoke.run
        COMMAND Python3::Interpreter "${bench_source_dir}/run.py" --build-dir "${CMAKE_BINARY_DIR}"
            --subjects fiberrt,bare,epoll --repetitions 5 --min-time 0.001
            --json "${bench_smoke_dir}/figures.json" --svg-dir "${bench_smoke_dir}" ${bench_smoke_names})
    add_test(NAME bench_smoke.check
        COMMAND Python3::Interpreter "${bench_source_dir}/check_json.py" "${bench_smoke_dir}/figures.json"
            ${bench_smoke_names} --subjects fiberrt,bare,epoll --svg-dir "${bench_smoke_dir}")
    # A name that does not exist ends run.py with 2, before anything is measured.
    add_test(NAME bench_smoke.unknown_name
        COMMAND sh -c "\"$0\" \"$1\" --build-dir \"$2\" nosuchbench; test $? -eq 2"
            "$<TARGET_FILE:Python3::Interpreter>" "${bench_source_dir}/run.py" "${CMAKE_BINARY_DIR}")
    set_tests_properties(bench_smoke.run PROPERTIES FIXTURES_SETUP bench_figures)
    set_tests_properties(bench_smoke.check PROPERTIES FIXTURES_REQUIRED bench_figures)
endif()
