/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpd_listing.c - the page that httpd shows for a directory without an index file, made piece by piece.
 *
 * A listing holds the names of one read of the directory, in a buffer of fixed size, however large the directory is and
 * however slowly the client reads. It sorts the names of each read. So the page of a directory with up to about a
 * thousand files is sorted, and the page of a larger one consists of sorted parts.
 */
#define _GNU_SOURCE
#include "httpd_listing.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "httpd_text.h"

enum {
    NAMES_LIMIT = 10000,
    BATCH_SIZE = 32 * 1024,
    SHORTEST_ENTRY = 24,      /* bytes of one name in the data that the kernel returns */
    ENTRY_TEXT = 9 * 256 + 64 /* bytes of the longest entry in the page: 3 a byte in the link, 6 in the text */
};

struct listing {
    int directory;
    const char *path;
    enum { HEAD, NAMES, END } state;
    int names; /* so far */
    struct dirent64 *sorted[BATCH_SIZE / SHORTEST_ENTRY];
    size_t next, count; /* of these */
    union {
        struct dirent64 first;
        char bytes[BATCH_SIZE];
    } batch;
};

int listing_open(struct listing **listing, int directory, const char *path) {
    *listing = malloc(sizeof **listing);
    if (*listing == NULL) {
        close(directory);
        return -ENOMEM;
    }
    (*listing)->directory = directory;
    (*listing)->path = path;
    (*listing)->state = HEAD;
    (*listing)->names = 0;
    (*listing)->next = (*listing)->count = 0;
    return 0;
}

void listing_close(struct listing *listing) {
    close(listing->directory);
    free(listing);
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(struct dirent64 *const *)a)->d_name, (*(struct dirent64 *const *)b)->d_name);
}

/* Reads the next names. Returns their size in bytes, 0 at the end of the directory, or -errno. */
static long read_batch(struct listing *listing) {
    long length = syscall(SYS_getdents64, listing->directory, &listing->batch, BATCH_SIZE);
    listing->next = listing->count = 0;
    for (long at = 0; at < length;) {
        struct dirent64 *entry = (struct dirent64 *)(listing->batch.bytes + at);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            listing->sorted[listing->count++] = entry;
        }
        at += entry->d_reclen;
    }
    qsort(listing->sorted, listing->count, sizeof listing->sorted[0], compare_names);
    return length < 0 ? -errno : length;
}

static char *put_head(char *to, const char *path) {
    to = stpcpy(to, "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>/");
    to = put_escaped_html(to, path);
    to = stpcpy(to, "</title>\n<h1>/");
    to = put_escaped_html(to, path);
    to = stpcpy(to, "</h1>\n<ul>\n");
    return path[0] != '\0' ? stpcpy(to, "<li><a href=\"../\">../</a>\n") : to;
}

static char *put_entry(char *to, const struct dirent64 *entry) {
    const char *slash = entry->d_type == DT_DIR ? "/" : "";
    to = stpcpy(to, "<li><a href=\"./"); /* "./", so that "a:b" is not read as a scheme */
    to = put_escaped_url(to, entry->d_name);
    to = stpcpy(to, slash);
    to = stpcpy(to, "\">");
    to = put_escaped_html(to, entry->d_name);
    to = stpcpy(to, slash);
    return stpcpy(to, "</a>\n");
}

long listing_read(struct listing *listing, char *to, size_t room) {
    char *at = to;
    long got = 1;
    if (listing->state == END) {
        return 0;
    }
    if (listing->state == HEAD) {
        at = put_head(at, listing->path);
        listing->state = NAMES;
    }
    while (got > 0 && listing->next == listing->count) {
        got = read_batch(listing); /* may find no names except "." and ".." */
    }
    while (listing->next < listing->count && listing->names < NAMES_LIMIT && room - (size_t)(at - to) >= ENTRY_TEXT) {
        at = put_entry(at, listing->sorted[listing->next++]);
        listing->names++;
    }
    int more = listing->next < listing->count && listing->names == NAMES_LIMIT;
    if (got == 0 || (more && room - (size_t)(at - to) >= ENTRY_TEXT)) {
        at = stpcpy(at, more ? "</ul>\n<p>&hellip; and more.\n" : "</ul>\n");
        listing->state = END;
    }
    return got < 0 ? got : at - to;
}
