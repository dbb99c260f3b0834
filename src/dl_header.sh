#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# dl_header.sh HEADER - prints fiberrt_dl.h, made from the declarations of fiberrt.h. The build calls it each time.
# Shell, because the library must build on systems that have only a shell, sed and awk.
set -eu
LC_ALL=C
export LC_ALL
header=$1

# Each declaration on one line, without comments: "TYPE NAME(PARAMETERS)".
declarations() {
    sed -e 's|/\*.*\*/||' -e '/^ *\/\*/,/\*\//d' "$header" | tr '\n' ' ' | sed 's/;/;\n/g' | tr -s ' ' |
        sed -n 's/.*FIBERRT_API \([^_].*)\) FIBERRT_LINKNAME([a-z0-9_]*)\( FIBERRT_CHECK_RESULT\)*;.*/\1/p'
}

cat <<'END'
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fiberrt_dl.h - libfiberrt for programs that load it at run time by dlopen, instead of linking with it.
 *
 * MADE FROM fiberrt.h by src/dl_header.sh: change one of these.
 *
 *     fiberrt_dl_t rt;
 *     char why[256];
 *     if (fiberrt_dl_open(NULL, &rt, why, sizeof why) < 0) return fprintf(stderr, "no fibers: %s\n", why), 1;
 *     rt.fiber_spawn(&fiber, function, argument);
 *
 * A table has a pointer for every function of fiberrt.h, with the same name and type. Types and constants are those of
 * fiberrt.h, which this header includes; its plain functions can be called only by programs that are linked with the
 * library. Use FIBERRT_DL_WITH_TIMEOUT instead of FIBER_WITH_TIMEOUT. Needs C99 or C++11, or newer; link with -ldl if
 * the C library is older than glibc 2.34.
 *
 * Once loaded, the library stays in the process, because its own threads and other threads that end run its code.
 * dlclose is allowed and has no effect.
 */
#ifndef FIBERRT_DL_H
#define FIBERRT_DL_H

#include <fiberrt.h>

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of the installed library. A release with an incompatible interface has another name. */
#define FIBERRT_DL_LIBRARY "libfiberrt.so.1"

/* The functions of a loaded library. The caller provides the table, and fiberrt_dl_open or fiberrt_dl_load fills it. It
 * is plain data: it may be copied, and any thread may read it once it is filled. */
typedef struct fiberrt_dl {
    void *handle; /* from dlopen */
END
declarations | awk '{
    open = index($0, "(")
    match(substr($0, 1, open - 1), /[a-z0-9_]+$/)
    name = substr($0, RSTART, RLENGTH)
    type = substr($0, 1, RSTART - 1)
    line = "    " type "(*" name ")" substr($0, open) ";"
    while (length(line) > 120) { # between two parameters
        for (i = 120; i > 0 && substr(line, i, 2) != ", "; i--)
            ;
        print substr(line, 1, i)
        line = "        " substr(line, i + 2)
    }
    print line
}'
cat <<'END'
} fiberrt_dl_t;

/**
 * Fills a table from a library that is loaded already. handle comes from dlopen; it is RTLD_DEFAULT in a program whose
 * executable or whose libraries are linked with libfiberrt. If a function is missing, as in a release older than this
 * header, its pointer is NULL, and all others are filled. A program that does not need that function may continue.
 *
 * error (NULL if error_size is 0) receives a sentence for people, cut to error_size bytes, or an empty text.
 *
 * Where: anywhere. Switches: no. Errors: -EINVAL table is NULL, or error is NULL and error_size is not 0; -ENOSYS a
 * function is missing, and the error names the first one. Since: 0.1
 */
static inline int fiberrt_dl_load(void *handle, fiberrt_dl_t *table, char *error, size_t error_size)
{
    /* The linker names: no other library has functions with these names. */
#define FIBERRT_DL_FUNCTION_(name) {"fiberrt_" #name, offsetof(fiberrt_dl_t, name)}
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
END
declarations | sed 's/(.*//; s/.*[ *]//; s/.*/        FIBERRT_DL_FUNCTION_(&),/'
cat <<'END'
    };
#undef FIBERRT_DL_FUNCTION_
    int missing = 0;
    size_t i;
    if (table == NULL || (error == NULL && error_size != 0))
        return -EINVAL;
    if (error_size != 0)
        error[0] = '\0';
    memset(table, 0, sizeof *table);
    table->handle = handle;
    for (i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (function != NULL)
            memcpy((char *)table + functions[i].offset, &function, sizeof function);
        else if (missing++ == 0 && error_size != 0)
            (void)snprintf(error, error_size, "the library has no function %s",
                           functions[i].name + sizeof "fiberrt_" - 1);
    }
    return missing == 0 ? 0 : -ENOSYS;
}

/**
 * Loads the library and fills a table. path is a file, a name that dlopen looks for, or NULL for FIBERRT_DL_LIBRARY.
 * Other libraries do not see its names (RTLD_LOCAL). If a function is missing, the library stays loaded. error and a
 * missing function are as in fiberrt_dl_load.
 *
 * Where: anywhere. Switches: no. Errors: -ELIBACC there is no such library, or it cannot be loaded: error receives the
 * text of dlerror; as fiberrt_dl_load. Since: 0.1
 */
static inline int fiberrt_dl_open(const char *path, fiberrt_dl_t *table, char *error, size_t error_size)
{
    void *handle;
    if (table == NULL || (error == NULL && error_size != 0))
        return -EINVAL;
    memset(table, 0, sizeof *table);
    handle = dlopen(path != NULL ? path : FIBERRT_DL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        if (error_size != 0)
            (void)snprintf(error, error_size, "%s", reason != NULL ? reason : "it cannot be loaded");
        return -ELIBACC;
    }
    return fiberrt_dl_load(handle, table, error, error_size);
}

/* The state of FIBERRT_DL_WITH_TIMEOUT. Do not use it or the two functions below directly. */
typedef struct {
    fiber_timeout_block_t block;
    const fiberrt_dl_t *table;
} fiberrt_dl_block_t;

static inline fiberrt_dl_block_t fiberrt_dl_block_open(const fiberrt_dl_t *table, int64_t timeout_ns, int *verdict)
{
    fiberrt_dl_block_t opened;
    opened.block = table->fiber_timeout_block_open(timeout_ns, verdict);
    opened.table = table;
    return opened;
}

static inline void fiberrt_dl_block_close(fiberrt_dl_block_t *opened)
{
    opened->table->fiber_timeout_block_close(&opened->block);
}

/**
 * FIBERRT_DL_WITH_TIMEOUT(&table, ns, &verdict) { ... } is FIBER_WITH_TIMEOUT with the functions of a table.
 *
 * Where: a fiber. Switches: yes, at its end, as FIBER_WITH_TIMEOUT. Errors: only in *verdict. Since: 0.1
 */
#define FIBERRT_DL_WITH_TIMEOUT(table, timeout_ns, verdict) \
    FIBERRT_DL_BLOCK_(FIBERRT_PASTE_(fiberrt_dl_block_, __LINE__), table, timeout_ns, verdict)
#define FIBERRT_DL_BLOCK_(name, table, timeout_ns, verdict)                        \
    for (fiberrt_dl_block_t name __attribute__((cleanup(fiberrt_dl_block_close))) = \
             fiberrt_dl_block_open(table, timeout_ns, verdict);                    \
         name.block.once; name.block.once = 0)

#ifdef __cplusplus
}
#endif
#endif
END
