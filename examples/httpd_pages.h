/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_pages.h - pages that httpd finds in an SQLite database, as an example of code that blocks its thread. */
#ifndef HTTPD_PAGES_H
#define HTTPD_PAGES_H

#include <stddef.h>

struct page {
    char *type; /* for Content-Type; the caller owns both, and frees them with free_page */
    char *body;
    size_t length;
};

/* Sets the database, which must have a table or view pages(path, type, body), or reports that httpd was built without
 * SQLite. Returns 0, or -errno. */
int pages_open(const char *file);

/* Finds the page of a path, without the '/' at its beginning. The calling fiber waits; the other fibers run, however
 * long the database takes. Returns 0, -ENOENT if there is no such page or no database, or another -errno. */
int find_page(const char *path, struct page *page);

void free_page(struct page *page);

#endif
