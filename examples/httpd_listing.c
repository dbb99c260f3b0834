/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * httpd_listing.c - the page that httpd shows for a directory without an index file.
 *
 * The one answer that takes memory from the heap, for how long it gets is not known before. A large directory takes a
 * while: fiber_reschedule_if_due lets the other fibers run in between. (What it returns does not matter here: this work
 * is bounded, and a cancel is met again at the send.)
 */
#define _GNU_SOURCE
#include "httpd_listing.h"

#include <dirent.h>
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "httpd_text.h"

enum { NAMES_LIMIT = 10000 };

struct names {
    char **list; /* each with '/' behind it if it is a directory */
    size_t count, room;
    int more; /* there are more than NAMES_LIMIT */
};

static int add_name(struct names *names, const struct dirent *entry) {
    if (names->count == names->room) {
        size_t room = names->room == 0 ? 64 : names->room * 2;
        char **list = realloc(names->list, room * sizeof *list);
        if (list == NULL) {
            return -ENOMEM;
        }
        names->list = list;
        names->room = room;
    }
    char *name;
    if (asprintf(&name, "%s%s", entry->d_name, entry->d_type == DT_DIR ? "/" : "") < 0) {
        return -ENOMEM;
    }
    names->list[names->count++] = name;
    return 0;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int collect_names(int directory, struct names *names) {
    DIR *stream = fdopendir(directory);
    if (stream == NULL) {
        close(directory);
        return -ENOMEM;
    }
    int result = 0;
    struct dirent *entry;
    while (result == 0 && !names->more && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        names->more = names->count == NAMES_LIMIT;
        result = names->more ? 0 : add_name(names, entry);
        fiber_reschedule_if_due();
    }
    closedir(stream);
    if (names->count > 0) {
        qsort(names->list, names->count, sizeof *names->list, compare_names);
    }
    return result;
}

static void write_page(FILE *page, const char *path, const struct names *names) {
    fputs("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>/", page);
    write_escaped_html(page, path);
    fputs("</title>\n<h1>/", page);
    write_escaped_html(page, path);
    fputs("</h1>\n<ul>\n", page);
    if (path[0] != '\0') {
        fputs("<li><a href=\"../\">../</a>\n", page);
    }
    for (size_t i = 0; i < names->count; i++) {
        char *name = names->list[i];
        size_t length = strlen(name);
        const char *slash = name[length - 1] == '/' ? "/" : "";
        name[length - strlen(slash)] = '\0';
        fputs("<li><a href=\"./", page); /* "./", so that "a:b" is not read as a scheme */
        write_escaped_url(page, name);
        fprintf(page, "%s\">", slash);
        write_escaped_html(page, name);
        fprintf(page, "%s</a>\n", slash);
        fiber_reschedule_if_due();
    }
    fprintf(page, "</ul>\n%s", names->more ? "<p>&hellip; and more.\n" : "");
}

int make_listing(int directory, const char *path, char **page, size_t *length) {
    struct names names = {NULL, 0, 0, 0};
    int result = collect_names(directory, &names);
    *page = NULL;
    if (result == 0) {
        FILE *stream = open_memstream(page, length);
        if (stream != NULL) {
            write_page(stream, path, &names);
        }
        if (stream == NULL || fclose(stream) != 0) {
            result = -ENOMEM;
        }
    }
    while (names.count > 0) {
        free(names.list[--names.count]);
    }
    free(names.list);
    return result;
}
