/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * crawl.c - fetches many pages by libcurl's easy interface, which blocks its caller: here it blocks a fiber only. Some
 * fibers share the work, and a scope limits the time of each page. (crawl URL PAGES FIBERS LIMIT-MS; page 7 is URL7)
 */
#include <curl/curl.h>
#include <errno.h>
#include <fiberrt.h>
#include <stdio.h>
#include <stdlib.h>

static const char *url;
static int pages, next, fetched, late, failed;
static int64_t limit_ns;
static long long bytes;

static size_t count_bytes(char *data, size_t size, size_t items, void *unused) {
    (void)data, (void)unused;
    bytes += (long long)(size * items); /* the fibers share a thread: no lock */
    return size * items;
}

static void fetch(CURL *curl) {
    char page[1024];
    int verdict = 0;
    CURLcode result = CURLE_OK;
    snprintf(page, sizeof page, "%s%d", url, ++next);
    curl_easy_setopt(curl, CURLOPT_URL, page);
    FIBER_WITH_TIMEOUT(limit_ns, &verdict) result = curl_easy_perform(curl);
    int *count = verdict < 0 ? &late : result != CURLE_OK ? &failed : &fetched;
    ++*count;
    if (count == &failed) fprintf(stderr, "crawl: %s: %s\n", page, curl_easy_strerror(result));
}

static int64_t work(void *unused) {
    CURL *curl = curl_easy_init(); /* keeps its connection from one page to the next */
    if (curl == NULL) return -ENOMEM;
    (void)unused;
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L); /* signals are the thread's, not the fiber's */
    while (next < pages) fetch(curl);
    curl_easy_cleanup(curl);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: crawl URL PAGES FIBERS LIMIT-MS\n"), 1;
    url = argv[1], pages = atoi(argv[2]), limit_ns = FIBER_MSEC(atoi(argv[4]));
    fiber_scope_t workers;
    int error = curl_global_init(CURL_GLOBAL_DEFAULT) != 0 ? -ENOMEM : fiber_posix_adopt("libcurl.so", 0);
    if (error >= 0) error = fiber_scope_open(&workers, FIBER_FOREVER, 0);
    for (int i = atoi(argv[3]); i > 0 && error >= 0; i--) error = fiber_scope_spawn(workers, NULL, work, NULL);
    if (error >= 0) error = fiber_scope_close(workers, NULL);
    if (error < 0) return fprintf(stderr, "crawl: %s\n", fiber_strerror(error)), 1;
    printf("%d pages with %lld bytes, %d too late, %d failed\n", fetched, bytes, late, failed);
    return failed > 0;
}
