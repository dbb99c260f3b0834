/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_no_pages.c - replaces httpd_pages.c where there is no SQLite. */
#include "httpd_pages.h"

#include <errno.h>

int pages_open(const char *file) {
    (void)file;
    return -ENOTSUP;
}

int find_page(const char *path, struct page *page) {
    (void)path;
    (void)page;
    return -ENOENT;
}

void free_page(struct page *page) { (void)page; }
