/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What fiberrt.cc begins with: the systems, compilers and options of that file. (CMake checks the same for the library
 * of many files.) */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#if __cplusplus < 202002L
#error "fiberrt needs C++20: gcc 12, clang 14 or newer, with -std=c++20"
#endif
#ifndef __linux__
#error "fiberrt runs on Linux only"
#endif
#include <features.h>
#if defined __GLIBC__
#if !__GLIBC_PREREQ(2, 28)
#error "fiberrt needs glibc 2.28 or newer, or musl"
#endif
#endif

#ifdef FIBERRT_BUNDLED
#define FIBERRT_WITH_URING
#define FIBERRT_WITH_EV
#endif
#ifdef FIBERRT_WITH_URING
#define FIBERRT_HAVE_URING
#ifdef FIBERRT_BUNDLED
#include "fiberrt_liburing.h"
#else
#include <liburing.h>
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#error "fiberrt needs liburing 2.3 or newer"
#endif
#endif
#ifdef FIBERRT_WITH_EV
#define FIBERRT_HAVE_EV
#endif
#ifdef FIBERRT_PRIVATE
#define FIBERRT_API __attribute__((visibility("hidden")))
#endif
#if __has_include(<sys/sdt.h>)
#define FIBERRT_HAVE_SDT
#endif
#pragma GCC diagnostic ignored "-Wunused-const-variable" /* constants of headers, which not all options need */
