// SPDX-License-Identifier: MIT OR Apache-2.0
// A program for whole_program.sh that calls read and write. Its argument says what it does:
//   fibers    one fiber reads what another one writes: ends only if read waits as a fiber
//   cord      prints whether the first thread may wait as a fiber; knows libfiberrt only if the process has it
//   children  prints what its child inherits: LD_PRELOAD, and FIBERRT_POSIX_ALONE
//   sleep, poll, select, read, stack
//             a signal handler leaves a wait in this call by siglongjmp, as POSIX allows; then more calls wait. With
//             "stack" it runs on an alternative stack, and leaves a read
//   closes    closes all numbers, each by close and then by close_range and closefrom; then more calls wait
//   nothing   prints "fine"
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef WITH_FIBERS
#include <fiberrt.h>

static int ends[2];

static void *reader(void *arg) {
    char byte = 0;
    (void)arg;
    return read(ends[0], &byte, 1) == 1 && byte == 'x' ? "fine" : NULL;
}

static void *writer(void *arg) {
    (void)arg;
    return write(ends[1], "x", 1) == 1 ? "fine" : NULL;
}

static int fibers(void) {
    fiber_t first, second;
    void *first_result, *second_result;
    if (pipe(ends) || fiber_spawn(&first, reader, NULL) || fiber_spawn(&second, writer, NULL)) return 1;
    if (fiber_join(first, &first_result) || fiber_join(second, &second_result)) return 1;
    if (!first_result || !second_result) return 1;
    puts("fine");
    return 0;
}
#else
static int fibers(void) { return 1; }
#endif

#ifdef OWN_ALLOCATOR
// The program contains its allocator, as if it were linked with one statically.
static _Alignas(16) char memory[64 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t whole = (size + 31) / 16 * 16;
    size_t at = __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
    if (at + whole > sizeof memory) abort();
    *(size_t *)(memory + at) = size;
    return memory + at + 16;
}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *old, size_t size) {
    char *larger = malloc(size);
    size_t before = old ? *(size_t *)((char *)old - 16) : 0;
    for (size_t i = 0; i < before && i < size; i++) larger[i] = ((char *)old)[i];
    return larger;
}
void free(void *old) { (void)old; }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void use_allocator(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}
#elif defined(TAKES_ADDRESS)
// In a program at a fixed address, the addresses of these functions are those of the program's entries for calls of them,
// also in libraries.
static void *volatile addresses[3];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void use_allocator(void) {
    pthread_mutex_lock(&mutex);
    addresses[0] = (void *)malloc;
    addresses[1] = (void *)read;
    addresses[2] = (void *)dlopen;
    pthread_mutex_unlock(&mutex);
}
#else
static void use_allocator(void) {}
#endif

static int cord(void) {
    void *library = dlopen("libfiberrt.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*here)(void) = NULL;
    if (library) *(void **)&here = dlsym(library, "fiberrt_fiber_here");
    puts(!here ? "no library" : here() ? "a fiber" : "no fiber");
    return 0;
}

static sigjmp_buf before_wait;
static void jump(int signal) {
    (void)signal;
    siglongjmp(before_wait, 1);
}

static void wait_in(const char *call, const int *pipe_ends) {
    struct pollfd entries[] = {{pipe_ends[0], POLLIN, 0}, {pipe_ends[2], POLLIN, 0}};
    char byte;
    if (!strcmp(call, "sleep")) sleep(100);
    if (!strcmp(call, "poll")) poll(entries, 1, -1);
    if (!strcmp(call, "select")) poll(entries, 2, -1);
    (void)!read(pipe_ends[0], &byte, 1);
}

static int jumps(const char *call) {
    static char stack[1 << 16];
    const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    const struct itimerval soon = {{0, 0}, {0, 300000}};
    struct sigaction action = {.sa_handler = jump};
    int pipe_ends[4];
    char byte = 0;
    if (!strcmp(call, "stack")) action.sa_flags = SA_ONSTACK;
    if (pipe(pipe_ends) || pipe(pipe_ends + 2) || sigaltstack(&alternative, NULL)) return 1;
    if (sigaction(SIGALRM, &action, NULL)) return 1;
    if (!sigsetjmp(before_wait, 1)) {
        setitimer(ITIMER_REAL, &soon, NULL);
        wait_in(call, pipe_ends);
        return 1;
    }
    struct pollfd entry = {pipe_ends[0], POLLIN, 0};
    if (poll(&entry, 1, 1) || write(pipe_ends[1], "x", 1) != 1) return 1;
    if (read(pipe_ends[0], &byte, 1) != 1 || byte != 'x' || usleep(1000)) return 1;
    if (close(pipe_ends[0])) return 1;
    puts("fine");
    return 0;
}

static void close_each(void) {
    for (int fd = 3; fd < 1024; fd++) close(fd);
}
static void close_by_range(void) { close_range(3, ~0U, 0); }
static void close_from(void) { closefrom(3); }

static int closes(void) {
    void (*const ways[])(void) = {close_each, close_by_range, close_from, close_each};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int pipe_ends[2];
        char byte = 0;
        if (pipe(pipe_ends)) return 1;
        struct pollfd entry = {pipe_ends[0], POLLIN, 0};
        if (poll(&entry, 1, 1) || usleep(1000)) return 1;
        if (write(pipe_ends[1], "x", 1) != 1 || read(pipe_ends[0], &byte, 1) != 1) return 1;
        ways[i]();
        if (close(pipe_ends[0]) != -1 || errno != EBADF) return 1;
        if (close(pipe_ends[1]) != -1 || errno != EBADF) return 1;
    }
    if (close_range(5, 4, 0) != -1 || errno != EINVAL) return 1;
    puts("fine");
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "nothing";
    use_allocator();
    if (!strcmp(what, "fibers")) return fibers();
    if (!strcmp(what, "cord")) return cord();
    if (strstr("sleep poll select read stack", what)) return jumps(what);
    if (!strcmp(what, "closes")) return closes();
    if (!strcmp(what, "children")) return system("echo \"inherited: $LD_PRELOAD $FIBERRT_POSIX_ALONE\"") ? 1 : 0;
    puts("fine");
    return 0;
}
