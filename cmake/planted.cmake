# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds with a planted bug. Its marker stands in the source, PLANTED(NAME) of src/base/planted.h; here it is looked
# for, so that code may be renamed and moved.

# Each marker has a finder: plant(NAME ...) or sim_finds(NAME ...).
file(READ ${PROJECT_SOURCE_DIR}/fuzz/CMakeLists.txt fuzz_finds)
file(READ ${PROJECT_SOURCE_DIR}/tests/sim.cmake sim_finds)
execute_process(
    COMMAND grep -rhoE "PLANTED\\([a-z0-9_]+\\)" --exclude=planted.h --include=*.cc --include=*.h --include=*.S .
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE markers)
string(REGEX MATCHALL "[a-z0-9_]+" markers "${markers}")
foreach(name IN LISTS markers)
    if(NOT "${fuzz_finds}${sim_finds}" MATCHES "[(]${name} ")
        message(FATAL_ERROR
            "Nothing looks for the planted bug ${name}: neither fuzz/CMakeLists.txt nor tests/sim.cmake.")
    endif()
endforeach()

if(FIBERRT_UNITY AND NOT FIBERRT_FUZZ)
    message(STATUS "No builds with a planted bug: FIBERRT_UNITY compiles the marked files together with others")
endif()

# marked_file(OUT NAME): the one file of src/ with the marker, relative to src/.
function(marked_file out name)
    set(src ${PROJECT_SOURCE_DIR}/src)
    execute_process(COMMAND grep -rlF "PLANTED(${name})" --include=*.cc --include=*.h --include=*.S .
        WORKING_DIRECTORY ${src} OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT found MATCHES "^\\./[^\n]+$")
        message(FATAL_ERROR "The marker PLANTED(${name}) must stand in one file of src/. It stands in: ${found}")
    endif()
    string(SUBSTRING ${found} 2 -1 found)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${src}/${found}) # the marker may move
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# plant_in(EXECUTABLE NAME FILE): compiles EXECUTABLE with PLANTED_NAME; FILE's object from the library is left out, and
# EXECUTABLE has FILE (or its includer) as a source.
function(plant_in executable name file)
    target_compile_definitions(${executable} PRIVATE PLANTED_${name}
        $<TARGET_PROPERTY:fiberrt_objects,COMPILE_DEFINITIONS>)
    string(REPLACE "." "\\." pattern "/${file}.o")
    target_link_libraries(${executable} PRIVATE
        "$<FILTER:$<TARGET_OBJECTS:fiberrt_objects>,EXCLUDE,${pattern}$>")
    add_dependencies(${executable} fiberrt_objects)
endfunction()
