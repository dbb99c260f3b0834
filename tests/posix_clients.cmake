# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of unmodified client libraries whose calls wait as fibers: against small servers of these tests, and in
# `./dev test --all` against Debian's PostgreSQL, MariaDB, Redis and nginx.

add_library(posix_client OBJECT posix/client.c posix/small_server.c posix/small_pq.c posix/small_mysql.c
    posix/small_redis.c posix/small_http.c)
target_compile_options(posix_client PRIVATE -Wall -Wextra)
target_link_libraries(posix_client PUBLIC fiberrt)
target_include_directories(posix_client PUBLIC posix)

# fiberrt_client(<library> MODULE <of pkg-config> SERVER <of servers.py> AT <environment variable>...)
# A client library's tests. AT: the ways to its server, as the environment of servers.py has them.
find_package(Python3 3.9 COMPONENTS Interpreter)
find_package(PkgConfig QUIET)
function(fiberrt_client library)
    cmake_parse_arguments(C "" "MODULE;SERVER" "AT" ${ARGN})
    set(program posix_client_${library})
    if(PkgConfig_FOUND)
        pkg_check_modules(${program} QUIET IMPORTED_TARGET ${C_MODULE})
    endif()
    if(NOT ${program}_FOUND)
        message(WARNING "The tests of ${C_MODULE} on fibers are LEFT OUT: pkg-config does not find it.")
        return()
    endif()
    add_executable(${program} posix/client_${library}.c)
    target_compile_options(${program} PRIVATE -Wall -Wextra)
    target_link_libraries(${program} PRIVATE posix_client PkgConfig::${program})
    add_test(NAME posix.${library}.threads COMMAND ${launcher} $<TARGET_FILE:${program}> together --threads)
    foreach(backend IN LISTS posix_backends)
        add_test(NAME posix.${library}.together.on_${backend} COMMAND ${launcher} $<TARGET_FILE:${program}> together)
        add_test(NAME posix.${library}.refused.on_${backend}
            COMMAND ${launcher} $<TARGET_FILE:${program}> refused --count 300)
        add_test(NAME posix.${library}.refused.on_${backend}.10000
            COMMAND ${launcher} $<TARGET_FILE:${program}> refused --count 10000 --seconds 1100)
        set(by_backend posix.${library}.together.on_${backend} posix.${library}.refused.on_${backend})
        set_tests_properties(${by_backend} PROPERTIES LABELS posix)
        set_tests_properties(posix.${library}.refused.on_${backend}.10000 PROPERTIES LABELS soak
            TIMEOUT ${slow_test_timeout})
        set_tests_properties(${by_backend} posix.${library}.refused.on_${backend}.10000 PROPERTIES
            ENVIRONMENT FIBERRT_BACKEND=${backend})
    endforeach()
    set_tests_properties(posix.${library}.threads PROPERTIES LABELS posix)
    # The whole program, by the interposer. A sanitizer's runtime must be the first library.
    if(TARGET fiberrt_run AND NOT FIBERRT_SANITIZE)
        foreach(test together refused)
            add_test(NAME posix.${library}.${test}.whole
                COMMAND fiberrt_run $<TARGET_FILE:${program}> ${test} --count 100 --whole)
            set_tests_properties(posix.${library}.${test}.whole PROPERTIES LABELS posix)
        endforeach()
    endif()
    if(NOT Python3_FOUND)
        message(WARNING "The tests of ${C_MODULE} with Debian's ${C_SERVER} are LEFT OUT: no python3.")
        return()
    endif()
    set(briefly)
    set(long)
    foreach(at ${C_AT})
        list(APPEND briefly "$1 together --server ${at}" "$1 refused --count 300 --server ${at}")
        list(APPEND long "$1 refused --count 10000 --seconds 1100 --server ${at}")
    endforeach()
    list(JOIN briefly " && " briefly)
    list(JOIN long " && " long)
    set(run Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/posix/servers.py run)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/servers)
    add_test(NAME posix.${C_SERVER} COMMAND ${run} ${folder}/${C_SERVER} --only ${C_SERVER}
        -- sh -c ${briefly} sh $<TARGET_FILE:${program}>)
    add_test(NAME posix.${C_SERVER}.10000 COMMAND ${run} ${folder}/${C_SERVER}.10000 --only ${C_SERVER}
        -- sh -c ${long} sh $<TARGET_FILE:${program}>)
    set_tests_properties(posix.${C_SERVER} PROPERTIES LABELS all TIMEOUT ${slow_test_timeout} SKIP_RETURN_CODE 77)
    set_tests_properties(posix.${C_SERVER}.10000 PROPERTIES LABELS soak TIMEOUT 3600 SKIP_RETURN_CODE 77)
endfunction()

fiberrt_client(pq MODULE libpq SERVER postgresql AT SERVER_PQ SERVER_PQ_TLS)
fiberrt_client(mysql MODULE libmariadb SERVER mariadb AT SERVER_MYSQL SERVER_MYSQL_TCP)
fiberrt_client(redis MODULE hiredis SERVER redis AT SERVER_REDIS SERVER_REDIS_TCP)
fiberrt_client(curl MODULE libcurl SERVER nginx AT SERVER_HTTP SERVER_HTTPS)

if(Python3_FOUND AND NOT FIBERRT_SANITIZE)
    add_test(NAME posix.servers
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/posix/servers_test.py
            ${CMAKE_CURRENT_BINARY_DIR}/servers)
    set_tests_properties(posix.servers PROPERTIES LABELS all TIMEOUT ${slow_test_timeout} SKIP_RETURN_CODE 77)
    # The clients' own programs and test programs, plainly and by fiberrt-run. ./dev soak runs all of curl's.
    if(TARGET fiberrt_run AND NOT CMAKE_CROSSCOMPILING)
        set(some_of_curl "1 5 10 14 20 30 40 50 60 500 507 520 526 535 547 551 562 574 580 588 593 597 1113 1516 1553 \
1570 1595 1914 1940 3027")
        function(fiberrt_client_programs name label client)
            set(test posix.client_programs.${name})
            add_test(NAME ${test}
                COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/posix/client_programs.py ${PROJECT_BINARY_DIR}
                    ${CMAKE_CURRENT_BINARY_DIR}/client_programs/${name} --only ${client} ${ARGN})
            set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT ${slow_test_timeout} SKIP_RETURN_CODE 77)
        endfunction()
        foreach(client postgresql redis mariadb)
            fiberrt_client_programs(${client} all ${client})
        endforeach()
        fiberrt_client_programs(curl all curl --curl ${some_of_curl})
        fiberrt_client_programs(curl_whole soak curl)
    endif()
endif()
