// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <fiberrt.h>
#include <stdint.h>

int64_t ctest_same(void *);
int64_t ctest_nothing(void *);
int64_t ctest_gives_way(void *);
int64_t ctest_sleeps(void *);
int64_t ctest_waits(void *);
int64_t ctest_leaves(void *);
int64_t ctest_puts_up(void *);
int64_t ctest_in_time(void *);
int64_t ctest_leaves_strays(void *);
int64_t ctest_shuts_down(void *);
int64_t ctest_signals(void *);
int64_t ctest_overflows(void *);
int64_t ctest_calls(void *);
int64_t ctest_doubles(void *);
