/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_glib.c - fibers in a program with GLib's main loop, such as a program of GTK or GStreamer: one more source.
 *
 * Each line of standard input, such as "300 tea", is an errand; fibers run them concurrently. See embed_errands.c. */
#include "embed_errands.h"

#include <fiberrt.h>
#include <glib-unix.h>
#include <glib.h>

static GMainLoop *loop;
static gboolean input_ended;

static void quit_if_done(void) {
    if (input_ended && errands_under_way() == 0) g_main_loop_quit(loop);
}

static gboolean on_cord(gint fd, GIOCondition condition, gpointer data) {
    (void)fd, (void)condition, (void)data;
    int error = fiber_cord_run(0);
    if (error < 0) errands_fail("fiber_cord_run", error);
    quit_if_done();
    return G_SOURCE_CONTINUE;
}

static gboolean on_input(gint fd, GIOCondition condition, gpointer data) {
    (void)condition, (void)data;
    input_ended = !errands_read(fd);
    quit_if_done();
    return input_ended ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

int main(void) {
    loop = g_main_loop_new(NULL, FALSE);
    int cord_fd = fiber_cord_fd();
    if (cord_fd < 0) errands_fail("fiber_cord_fd", cord_fd);
    g_unix_fd_add(cord_fd, G_IO_IN, on_cord, NULL);
    g_unix_fd_add(0, G_IO_IN | G_IO_HUP, on_input, NULL);
    g_main_loop_run(loop);
    g_main_loop_unref(loop);
    return 0;
}
