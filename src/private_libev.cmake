# SPDX-License-Identifier: MIT OR Apache-2.0
# The library's own copy of libev, made from the system's libev.a; backend/libev.h says why. (Opening libev.so.4 by
# dlopen with RTLD_DEEPBIND would also keep the names apart, but not under sanitizers, nor in static programs.)
#
# private_libev(<archive> <out>): sets <out> to the path of the copy, an archive with one object. If it cannot be made,
# sets <out> to empty and <out>_refusal to the reason. The copy exports only the names that backend/libev.h lists, under
# the new names given there.
function(private_libev archive out)
    set(header ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/backend/libev.h)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header} ${archive})
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/libev)
    file(REMOVE_RECURSE ${folder})
    file(MAKE_DIRECTORY ${folder})
    set(${out} "" PARENT_SCOPE)

    file(STRINGS ${header} names REGEX "^#define ev_")
    # __isoc23_strtol: headers of newer C libraries rename strtol so, and older C libraries lack it.
    set(renamed "stderr fiberrt_ev_stderr\n__isoc23_strtol strtol\n")
    set(kept "")
    set(declared "")
    set(used "")
    foreach(line IN LISTS names)
        string(REGEX MATCH "^#define (ev_[a-z_]+) (fiberrt_ev_[a-z_]+)" line "${line}")
        string(APPEND renamed "${CMAKE_MATCH_1} ${CMAKE_MATCH_2}\n")
        string(APPEND kept "${CMAKE_MATCH_2}\n")
        string(APPEND declared "HIDDEN void ${CMAKE_MATCH_2}(void);\n")
        string(APPEND used "    p = (void *)&${CMAKE_MATCH_2};\n")
    endforeach()
    file(WRITE ${folder}/renamed.txt "${renamed}")
    file(WRITE ${folder}/kept.txt "${kept}")
    # A test link follows, since the archive may have code for executables only, code for a link-time optimizer, or
    # another libev.
    file(WRITE ${folder}/use.c "#include <stdio.h>
#define HIDDEN __attribute__((visibility(\"hidden\")))
HIDDEN FILE *fiberrt_ev_stderr;
${declared}void *volatile p;
void use(void) {
${used}}
")
    # The compiler, with the options that CMake gives it.
    separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
    if(CMAKE_C_COMPILE_OPTIONS_TARGET AND CMAKE_C_COMPILER_TARGET)
        list(PREPEND flags ${CMAKE_C_COMPILE_OPTIONS_TARGET}${CMAKE_C_COMPILER_TARGET})
    endif()
    if(CMAKE_C_COMPILE_OPTIONS_EXTERNAL_TOOLCHAIN AND CMAKE_C_COMPILER_EXTERNAL_TOOLCHAIN)
        list(PREPEND flags ${CMAKE_C_COMPILE_OPTIONS_EXTERNAL_TOOLCHAIN}${CMAKE_C_COMPILER_EXTERNAL_TOOLCHAIN})
    endif()
    if(CMAKE_C_COMPILE_OPTIONS_SYSROOT AND CMAKE_SYSROOT)
        list(PREPEND flags ${CMAKE_C_COMPILE_OPTIONS_SYSROOT}${CMAKE_SYSROOT})
    endif()
    execute_process(
        COMMAND ${FIBERRT_LD} -r -u ev_run ${archive} -o all.o
        RESULT_VARIABLE failed ERROR_VARIABLE said WORKING_DIRECTORY ${folder})
    foreach(command
            # Two steps: GNU's objcopy renames symbols before it applies --keep-global-symbols, LLVM's after.
            "${CMAKE_OBJCOPY};--redefine-syms=renamed.txt;all.o;libev.o"
            "${CMAKE_OBJCOPY};--keep-global-symbols=kept.txt;libev.o"
            "${CMAKE_AR};rcsD;libfiberrt_ev.a;libev.o"
            "${CMAKE_C_COMPILER};${flags};-fPIC;-shared;use.c;libfiberrt_ev.a;-lm;-Wl,-z,defs;-Wl,-z,text;-o;use.so")
        if(NOT failed)
            execute_process(COMMAND ${command}
                RESULT_VARIABLE failed ERROR_VARIABLE said WORKING_DIRECTORY ${folder})
        endif()
    endforeach()
    if(failed)
        set(${out}_refusal "${said}" PARENT_SCOPE)
    else()
        set(${out} ${folder}/libfiberrt_ev.a PARENT_SCOPE)
    endif()
endfunction()
