/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For ./dev coverage: test programs call this for _exit(), which discards the counts (ld's --wrap). Many of them are
 * children of a fork, and end with _exit(). */
void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

/* The shared library counts by itself; a program that is linked with the library's objects has none. */
__attribute__((weak)) void fiberrt_coverage_dump(void);

void __wrap__exit(int status) {
    if (fiberrt_coverage_dump) fiberrt_coverage_dump();
    __gcov_dump();
    __real__exit(status);
}
