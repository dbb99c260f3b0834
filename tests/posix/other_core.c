// SPDX-License-Identifier: MIT OR Apache-2.0
// Stands for libfiberrt.so.1 of another release (OTHER_VERSION), or for another library of that name (without it).
#ifdef OTHER_VERSION
int fiberrt_fiber_version(void) { return OTHER_VERSION; }
int fiberrt_fiber_posix_adopt(const char *library, unsigned flags) {
    (void)library, (void)flags;
    __builtin_trap();
}
int fiberrt_fiber_posix_each(void) { return 0; }
int fiberrt_fiber_sleep(long ns) {
    (void)ns;
    return 0;
}
const char *fiberrt_fiber_strerror(int error) {
    (void)error;
    return "";
}
#else
int nothing_of_fibers;
#endif
