/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* httpd_listing.h - the page that httpd shows for a directory without an index file, made piece by piece. */
#ifndef HTTPD_LISTING_H
#define HTTPD_LISTING_H

#include <limits.h>
#include <stddef.h>

enum { LISTING_PIECE = 12 * PATH_MAX + 4096 /* bytes that a piece may need: the path escaped twice, and an entry */ };

struct listing;

/* Begins the page of a directory. Takes over the descriptor, even if it fails. path is the path of the directory below
 * the root, with '/' at its end unless it is the root itself; it must live as long as the listing. Returns 0 or
 * -ENOMEM. */
int listing_open(struct listing **listing, int directory, const char *path);

/* Writes the next piece of the page to `to`, which has room for LISTING_PIECE bytes or more. Returns its length, 0 at
 * the end of the page, or -errno. Does no more work than one piece takes. */
long listing_read(struct listing *listing, char *to, size_t room);

void listing_close(struct listing *listing);

#endif
