# SPDX-License-Identifier: MIT OR Apache-2.0
# Fetches the sources of a package from the package mirrors of this system, even if the system has no deb-src lines, and
# unpacks them. Needs no root: apt's state is in downloads.
# Usage: cmake -D package=NAME -D source=FOLDER -D downloads=FOLDER -P download.cmake
file(MAKE_DIRECTORY ${downloads} ${source})
file(LOCK ${downloads} DIRECTORY)
file(GLOB archive ${downloads}/${package}_*.orig.tar.*)
if(NOT archive)
    file(MAKE_DIRECTORY ${downloads}/lists/partial ${downloads}/cache/archives/partial ${downloads}/sources
        ${downloads}/new)
    file(WRITE ${downloads}/status "")
    file(GLOB lists /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)
    foreach(list IN LISTS lists)
        cmake_path(GET list FILENAME name)
        if(name STREQUAL "sources.list")
            set(name main.list) # apt reads only files with this ending in a folder
        endif()
        file(READ ${list} text)
        string(PREPEND text "\n")
        string(REGEX REPLACE "\ndeb-src [^\n]*" "" text "${text}")
        string(REGEX REPLACE "\ndeb " "\ndeb-src " text "${text}")
        string(REGEX REPLACE "\n[Tt]ypes:[^\n]*" "\nTypes: deb-src" text "${text}")
        file(WRITE ${downloads}/sources/${name} "${text}")
    endforeach()

    # The system's own state is not touched, so its lock is not needed; as root, apt reads these files as root.
    set(apt apt-get -o Dir::State=${downloads} -o Dir::State::status=${downloads}/status
        -o Dir::Cache=${downloads}/cache
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=${downloads}/sources -o Debug::NoLocking=1
        -o APT::Sandbox::User=root)
    execute_process(COMMAND ${apt} update COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${apt} source --download-only --tar-only ${package} WORKING_DIRECTORY ${downloads}/new
        COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB archive ${downloads}/new/${package}_*.orig.tar.*)
    cmake_path(GET archive FILENAME name)
    file(RENAME ${archive} ${downloads}/${name}) # the final name appears only when the file is complete
    set(archive ${downloads}/${name})
    file(REMOVE_RECURSE ${downloads}/new)
endif()
execute_process(COMMAND tar -xf ${archive} -C ${source} --strip-components=1 COMMAND_ERROR_IS_FATAL ANY)
