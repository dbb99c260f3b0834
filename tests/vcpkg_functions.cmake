# SPDX-License-Identifier: MIT OR Apache-2.0
# The functions of vcpkg that packaging/vcpkg/portfile.cmake calls, as far as vcpkg's documentation describes them, for
# a machine that has no vcpkg. They build for release only, with the libraries of the system. Usage:
# cmake -DBUILDTREES=FOLDER -DCURRENT_PACKAGES_DIR=FOLDER -DPORT=fiberrt -DFEATURES=ev;uring -DPORTFILE=FILE
#       -P vcpkg_functions.cmake
cmake_minimum_required(VERSION 3.20)

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

function(vcpkg_check_linkage)
    if(NOT ARGN STREQUAL "ONLY_DYNAMIC_LIBRARY")
        message(FATAL_ERROR "vcpkg_check_linkage: ${ARGN}")
    endif()
endfunction()

function(vcpkg_check_features)
    cmake_parse_arguments(A "" "OUT_FEATURE_OPTIONS" "FEATURES" ${ARGN})
    set(options)
    while(A_FEATURES)
        list(POP_FRONT A_FEATURES feature variable)
        set(value OFF)
        if(feature IN_LIST FEATURES)
            set(value ON)
        endif()
        list(APPEND options -D${variable}=${value})
    endwhile()
    set(${A_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(A "" "SOURCE_PATH" "OPTIONS" ${ARGN})
    run(${CMAKE_COMMAND} -G Ninja -S ${A_SOURCE_PATH} -B ${BUILDTREES} -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib ${A_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
    run(${CMAKE_COMMAND} --build ${BUILDTREES} --target install)
endfunction()

# Moves the CMake package to share/PORT, and finds its prefix from there.
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(A "" "CONFIG_PATH" "" ${ARGN})
    file(GLOB configs ${CURRENT_PACKAGES_DIR}/${A_CONFIG_PATH}/*.cmake)
    file(COPY ${configs} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT})
    file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${A_CONFIG_PATH})
    file(GLOB configs ${CURRENT_PACKAGES_DIR}/share/${PORT}/*.cmake)
    foreach(config IN LISTS configs)
        file(READ ${config} text)
        set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
        string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}") # one folder less deep
        file(WRITE ${config} "${text}")
    endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(A "" "" "FILE_LIST" ${ARGN})
    foreach(file IN LISTS A_FILE_LIST)
        file(READ ${file} text)
        file(APPEND ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright "${text}\n")
    endforeach()
endfunction()

include(${PORTFILE})
