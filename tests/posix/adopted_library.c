// SPDX-License-Identifier: MIT OR Apache-2.0
// Small libraries for adopting_test, all of this file:
//   libposix_reader.so  reads, and is bound function by function (lazily)
//   libposix_mixed.so   sleeps by a pointer that the program can change, and locks a mutex
//   libposix_loader.so  loads and unloads libraries; its DT_RUNPATH is the folder posix_plugins next to it
//   libposix_found.so   in that folder; its constructor reads a byte through libposix_reader.so if it is told to
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(READER)

int reader_read(int fd) {
    char byte;
    return read(fd, &byte, 1) == 1 ? byte : -1;
}

// A table of functions: not called through the object's table of calls, but copied from a relocation of data.
static ssize_t (*const functions[])(int, void *, size_t) = {read, read};
int reader_read_by_pointer(int fd, int which) {
    char byte;
    return functions[which](fd, &byte, 1) == 1 ? byte : -1;
}

#elif defined(MIXED)

#include <pthread.h>

static unsigned (*sleeps)(unsigned) = sleep;
void *mixed_pointer(void) { return (void *)sleeps; }
void mixed_set_pointer(void *function) { sleeps = (unsigned (*)(unsigned))function; }
int mixed_lock(pthread_mutex_t *mutex) { return pthread_mutex_lock(mutex); }

#elif defined(LOADER)

// dlopen tells its caller by the return address: these calls must not become jumps.
#define NOT_THE_LAST_THING() __asm__ volatile("" ::: "memory")

void *loader_open(const char *file) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    NOT_THE_LAST_THING();
    return handle;
}
void *loader_open_in_base(const char *file) {
    void *handle = dlmopen(LM_ID_BASE, file, RTLD_NOW | RTLD_LOCAL);
    NOT_THE_LAST_THING();
    return handle;
}
int loader_close(void *handle) { return dlclose(handle); }

#else

int reader_read(int fd);

int found_read(int fd) {
    char byte;
    return read(fd, &byte, 1) == 1 ? byte : -1;
}

__attribute__((constructor)) static void begin(void) {
    const char *fd = getenv("POSIX_FOUND_READS");
    if (fd) reader_read(atoi(fd));
}
__attribute__((destructor)) static void end(void) {
    const char *fd = getenv("POSIX_FOUND_READS");
    if (fd) reader_read(atoi(fd));
}

#endif
