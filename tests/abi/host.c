/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * host [PLUGIN] - a program that defines functions whose names are the library's plain ones, exported (-rdynamic). It
 * calls plugin_run of the named plugin, or, built with -DSTATIC_PLUGIN, of the plugin linked in with the archive.
 */
#include <dlfcn.h>
#include <stdio.h>

static int host_calls;

#define HOST_FUNCTION(name) \
    int name(void);         \
    int name(void) {        \
        host_calls++;       \
        return 4711;        \
    }

HOST_FUNCTION(fiber_new)
HOST_FUNCTION(fiber_start)
HOST_FUNCTION(fiber_self)
HOST_FUNCTION(fiber_join)
HOST_FUNCTION(fiber_sleep)
HOST_FUNCTION(fiber_yield)
HOST_FUNCTION(fiber_wakeup)
HOST_FUNCTION(fiber_reschedule)
HOST_FUNCTION(fiber_state)

#ifdef STATIC_PLUGIN
int plugin_run(void);
#endif

int main(int argc, char **argv) {
    int (*run)(void) = NULL;
    int result;
#ifdef STATIC_PLUGIN
    (void)argc;
    (void)argv;
    run = plugin_run;
#else
    void *library;
    void *plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL || (*(void **)&run = dlsym(plugin, "plugin_run")) == NULL) {
        printf("plugin: %s\n", dlerror());
        return 1;
    }
    /* By its handle the library gives its own function, by the default scope the host's is found. */
    library = dlopen("libfiberrt.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL || dlsym(library, "fiber_new") != dlsym(library, "fiberrt_fiber_new") ||
        dlsym(RTLD_DEFAULT, "fiber_new") == dlsym(library, "fiber_new")) {
        puts("dlsym gives the wrong function");
        return 2;
    }
#endif
    result = run();
    if (result != 0 || host_calls != 0) {
        printf("check %d of the plugin failed, after %d calls of the host's functions\n", result, host_calls);
        return 3;
    }
    if (fiber_new() != 4711 || host_calls != 1) {
        puts("the host does not reach its own function");
        return 4;
    }
    puts("host: fine");
    return 0;
}
