/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fake_libcrypto.c - the queue of errors of OpenSSL 1.1, for machines that have a newer one: the functions of that
 * version, a queue for each thread, texts freed by the queue. openssl_test loads it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, TEXT = 2 };

struct error {
    unsigned long code;
    const char *file;
    int line;
    char *data;
};

static __thread struct error errors[MOST];
static __thread int top, bottom; /* the newest, and the place before the oldest */

static void clear(struct error *error) {
    free(error->data);
    memset(error, 0, sizeof *error);
}

unsigned long ERR_peek_error(void) { return bottom == top ? 0 : errors[(bottom + 1) % MOST].code; }

void ERR_clear_error(void) {
    for (int i = 0; i < MOST; i++) clear(&errors[i]);
    top = bottom = 0;
}

void ERR_put_error(int library, int function, int reason, const char *file, int line) {
    top = (top + 1) % MOST;
    if (top == bottom) bottom = (bottom + 1) % MOST; /* the oldest is lost */
    clear(&errors[top]);
    errors[top].code = (unsigned long)library << 24 | (unsigned long)function << 12 | (unsigned long)reason;
    errors[top].file = file;
    errors[top].line = line;
}

void ERR_add_error_data(int count, ...) {
    va_list texts;
    va_start(texts, count);
    free(errors[top].data);
    errors[top].data = count == 1 ? strdup(va_arg(texts, const char *)) : NULL;
    va_end(texts);
}

/* *data is valid until the error's place is used again. */
unsigned long ERR_get_error_line_data(const char **file, int *line, const char **data, int *flags) {
    if (bottom == top) return 0;
    bottom = (bottom + 1) % MOST;
    struct error *error = &errors[bottom];
    unsigned long code = error->code;
    *file = error->file;
    *line = error->line;
    *data = error->data ? error->data : "";
    *flags = error->data ? TEXT : 0;
    error->code = 0;
    return code;
}
