/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For ./dev coverage, in the shared library only: writes the counts so far. */
void __gcov_dump(void);
__attribute__((visibility("default"))) void fiberrt_coverage_dump(void);

void fiberrt_coverage_dump(void) { __gcov_dump(); }
