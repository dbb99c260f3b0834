/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_listing.h - the page that httpd shows for a directory without an index file. */
#ifndef HTTPD_LISTING_H
#define HTTPD_LISTING_H

#include <stddef.h>

/* Makes the page in memory that is the caller's to free. path is the directory's, below the root, with '/' at its end
 * unless it is the root itself. Takes over the descriptor. Returns 0, or -errno. */
int make_listing(int directory, const char *path, char **page, size_t *length);

#endif
