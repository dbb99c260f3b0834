# SPDX-License-Identifier: MIT OR Apache-2.0
# Compiles libev for the target, unless build/cross has it: Debian has no binary package for every processor. The
# presets of cross builds include this before the project is configured, which looks for libev.
set(arch ${CMAKE_SYSTEM_PROCESSOR})
set(folder ${CMAKE_CURRENT_LIST_DIR}/../build/cross/${arch}) # where the toolchain file lets CMake look
if(NOT EXISTS ${folder}/lib/libev.so)
    message(STATUS "libev for ${arch}: fetching its sources, compiling them")
    file(MAKE_DIRECTORY ${folder})
    set(log ${folder}/log)
    set(options -DCMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE} -DCMAKE_INSTALL_PREFIX=${folder})
    execute_process(
        COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/libev -B ${folder}/build -G ${CMAKE_GENERATOR} ${options}
        OUTPUT_FILE ${log} ERROR_FILE ${log} RESULT_VARIABLE failed)
    if(NOT failed)
        execute_process(COMMAND ${CMAKE_COMMAND} --build ${folder}/build
            OUTPUT_FILE ${log} ERROR_FILE ${log} RESULT_VARIABLE failed)
    endif()
    if(failed)
        message(WARNING
            "There is no libev for ${arch}, so I/O is left out: its sources could not be fetched or compiled; "
                        "see build/cross/${arch}/log.")
    endif()
endif()
