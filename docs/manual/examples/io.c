/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* io.c - examples of the manual: files, sockets, processes, blocking code. examples.h describes the marks. */
#include "examples.h"

/* EXAMPLE fiber_read: Reads a file at an offset, up to count bytes or its end; one call may return less. */
static int64_t read_fully(int fd, char *buffer, size_t count, int64_t offset) {
    size_t got = 0;
    while (got < count) {
        int64_t more = fiber_pread(fd, buffer + got, count - got, offset + (int64_t)got);
        if (more < 0) return more;
        if (more == 0) break; /* the end of the file */
        got += (size_t)more;
    }
    return (int64_t)got;
}
/* END */

/* EXAMPLE fiber_recv: Sends back what arrives, until the peer sends no more. One call may send less than it is given. */
static int64_t echo(int fd) {
    char buffer[4096];
    int64_t count;
    while ((count = fiber_recv(fd, buffer, sizeof buffer, 0)) > 0) {
        for (int64_t sent = 0, more; sent < count; sent += more) {
            more = fiber_send(fd, buffer + sent, (size_t)(count - sent), 0);
            if (more < 0) return more;
        }
    }
    return count; /* 0 at the end of the stream */
}
/* END */

static int64_t echoed = -1;

/* EXAMPLE fiber_accept: A fiber for each connection. */
static void *serve(void *connection) {
    int fd = (int)(intptr_t)connection;
    echoed = echo(fd);
    fiber_close(fd);
    return NULL;
}

static int accept_connections(int listener) {
    for (;;) {
        int fd = fiber_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd == -ECONNABORTED) continue; /* the client is gone already */
        if (fd < 0) return fd;
        if (fiber_spawn(NULL, serve, (void *)(intptr_t)fd) < 0) fiber_close(fd);
    }
}
/* END */

static void *accept_in_fiber(void *listener) { return (void *)(intptr_t)accept_connections(*(int *)listener); }

static void try_connections(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    char reply[5];
    void *result;
    fiber_t server;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0);
    assert(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    assert(fiber_spawn(&server, accept_in_fiber, &listener) == 0);
    assert(fiber_connect(client, (struct sockaddr *)&address, length) == 0);
    assert(fiber_send(client, "hello", 5, 0) == 5 && fiber_recv(client, reply, 5, MSG_WAITALL) == 5);
    assert(memcmp(reply, "hello", 5) == 0 && fiber_close(client) == 0);
    while (echoed < 0) assert(fiber_reschedule() == 0);
    assert(fiber_cancel(server, NULL) == 0 && fiber_join(server, &result) == 0 && (intptr_t)result == -ECANCELED);
    fiber_close(listener);
}

/* EXAMPLE fiber_open: Reads the beginning of a file. fiber_close reports the error of a write that was delayed; after
 * reading it may be ignored. */
static int64_t read_beginning(const char *path, char *buffer, size_t size) {
    int fd = fiber_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    int64_t count = fiber_read(fd, buffer, size);
    fiber_close(fd);
    return count;
}
/* END */

/* EXAMPLE fiber_fsync: Appends to a journal; when the call returns 0, the entry survives a crash. */
static int64_t append(int journal, const char *entry, size_t length) {
    while (length > 0) { /* the file was opened with O_APPEND */
        int64_t written = fiber_write(journal, entry, length);
        if (written < 0) return written;
        entry += written;
        length -= (size_t)written;
    }
    return fiber_fdatasync(journal);
}
/* END */

/* EXAMPLE fiber_renameat2: Replaces a file at once: other programs see the old or the new one, never half of it. */
static int64_t save(const char *path, const char *temporary, const char *text, size_t length) {
    int fd = fiber_open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return fd;
    int64_t result = fiber_write(fd, text, length);
    if (result >= 0 && (size_t)result < length) result = -EIO;
    if (result >= 0) result = fiber_fsync(fd);
    fiber_close(fd);
    return result < 0 ? result : fiber_rename(temporary, path);
}
/* END */

/* EXAMPLE fiber_unlinkat: Removes a folder and the file in it. A file that is gone already is no error. */
static int remove_folder(const char *folder, const char *file) {
    int fd = fiber_open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    int error = fiber_unlinkat(fd, file, 0);
    fiber_close(fd);
    return error < 0 && error != -ENOENT ? error : fiber_rmdir(folder);
}
/* END */

/* EXAMPLE fiber_mkdirat: Makes a folder that may exist already. */
static int make_folder(const char *path) {
    int error = fiber_mkdir(path, 0777); /* less the umask */
    return error == -EEXIST ? 0 : error;
}
/* END */

/* EXAMPLE fiber_copy: Copies a file. An error of closing may be a write that was delayed. */
static int64_t copy_file(const char *from, const char *to) {
    int in = fiber_open(from, O_RDONLY | O_CLOEXEC, 0);
    if (in < 0) return in;
    int out = fiber_open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int64_t result = out < 0 ? out : fiber_copy(in, out, FIBER_COPY_ALL, NULL, NULL);
    int closed = out < 0 ? 0 : fiber_close(out);
    fiber_close(in);
    return result < 0 || closed == 0 ? result : closed; /* the number of bytes */
}
/* END */

static void try_files(void) {
    char folder[] = "/tmp/fiberrt_example_XXXXXX", path[64], temporary[64], text[16];
    assert(mkdtemp(folder) != NULL && make_folder(folder) == 0);
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(temporary, sizeof temporary, "%s/new", folder);
    assert(save(path, temporary, "a line\n", 7) == 0);
    int fd = fiber_open(path, O_RDWR | O_APPEND, 0);
    assert(fd >= 0 && append(fd, "more\n", 5) == 0);
    assert(read_fully(fd, text, sizeof text, 2) == 10 && memcmp(text, "line\nmore\n", 10) == 0);
    assert(fiber_close(fd) == 0);
    assert(read_beginning(path, text, 6) == 6 && memcmp(text, "a line", 6) == 0);
    assert(copy_file(path, temporary) == 12 && unlink(temporary) == 0);
    assert(remove_folder(folder, "file") == 0 && access(folder, F_OK) != 0);
}

/* EXAMPLE fiber_send_fds: Passes a descriptor to another process, with one byte to carry it. */
static int64_t give(int channel, int fd) { return fiber_send_fds(channel, "", 1, &fd, 1); }

static int take(int channel) {
    char byte;
    int fd = -1;
    size_t count = 1;
    int64_t got = fiber_recv_fds(channel, &byte, 1, &fd, &count, NULL);
    if (got < 0) return (int)got;
    return count == 1 ? fd : -EPROTO; /* closed on exec */
}
/* END */

static void try_passing(void) {
    int channel[2];
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) == 0 && give(channel[0], 0) == 1);
    int fd = take(channel[1]);
    assert(fd > 2);
    fiber_close(fd), fiber_close(channel[0]), fiber_close(channel[1]);
}

/* EXAMPLE fiber_offload: crypt, a database or a resolver would block the thread: another thread calls it, and the other
 * fibers go on. The argument may lie on the caller's stack. */
struct query {
    int key, answer;
};

static int64_t look_up(void *arg) { /* an ordinary function, which may block */
    struct query *query = arg;
    usleep(1000);
    query->answer = 10 * query->key;
    return 0;
}

static int ask(int key) {
    struct query query = {.key = key};
    int64_t result;
    int error = fiber_offload(look_up, &query, &result);
    return error < 0 ? error : result < 0 ? (int)result : query.answer;
}
/* END */

static int try_process(void) {
    pid_t child;
    int pipes[3], error;
    char *const words[] = {"sh", "-c", "echo out; echo err >&2", NULL};
    /* EXAMPLE fiber_process_spawn, fiber_process_attr_create: A child process whose output and errors arrive in one pipe. */
    fiber_process_attr_t *attr;
    error = fiber_process_attr_create(&attr);
    if (error < 0) return error;
    fiber_process_attr_set_stream(attr, STDIN_FILENO, FIBER_PROCESS_NULL);
    fiber_process_attr_set_stream(attr, STDOUT_FILENO, FIBER_PROCESS_PIPE);
    fiber_process_attr_set_stream(attr, STDERR_FILENO, FIBER_PROCESS_STDOUT);
    error = fiber_process_spawn(&child, pipes, attr, words[0], words);
    fiber_process_attr_destroy(attr);
    if (error < 0) return error; /* otherwise read pipes[1] to its end, and close it */
    /* END */
    char text[16];
    size_t got = 0;
    for (int64_t more; (more = fiber_read(pipes[1], text + got, sizeof text - got)) > 0; got += (size_t)more) {}
    assert(got == 8 && memcmp(text, "out\nerr\n", 8) == 0 && fiber_close(pipes[1]) == 0);
    return fiber_process_wait(child, NULL, 0);
}

/* EXAMPLE fiber_process_wait: Runs a program for a limited time. The deadline ends the child by SIGTERM, and if it
 * lives on for a second more, by SIGKILL; it is reaped in any case. */
static int run(char *const words[], int64_t limit_ns) {
    pid_t child;
    int status, verdict, error = 0;
    FIBER_WITH_TIMEOUT(limit_ns, &verdict) { /* if the scope cannot be opened, there is no child either */
        error = fiber_process_spawn(&child, NULL, NULL, words[0], words);
        if (error == 0) error = fiber_process_wait(child, &status, FIBER_SEC(1));
    }
    if (verdict < 0 || error < 0) return verdict < 0 ? verdict : error;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
/* END */

/* EXAMPLE fiber_dial: Connects to a server and sends a request, all within ten seconds. Returns the descriptor. */
static int64_t send_request(const char *address, const char *request) {
    int64_t fd = -ENOMEM, sent = 0; /* -ENOMEM: the block could not begin */
    FIBER_WITH_TIMEOUT(FIBER_SEC(10), NULL) {
        fd = fiber_dial(address, SOCK_CLOEXEC); /* "name:port", "[host]:port", "unix:path" */
        for (size_t left = strlen(request); fd >= 0 && left > 0; left -= (size_t)sent, request += sent) {
            sent = fiber_send((int)fd, request, left, 0); /* may take fewer bytes than it is given */
            if (sent < 0) break;
        }
    }
    if (fd < 0 || sent >= 0) return fd;
    fiber_close((int)fd);
    return sent;
}
/* END */

static void try_dial(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    char text[32];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0);
    assert(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
    int64_t fd = send_request(text, "hello");
    int peer = fiber_accept(listener, NULL, NULL);
    assert(fd >= 0 && fiber_recv(peer, text, sizeof text, 0) == 5 && memcmp(text, "hello", 5) == 0);
    fiber_close((int)fd), fiber_close(peer), fiber_close(listener);
}

static int shut_down;

/* EXAMPLE fiber_sigwait: A program that ends in order at SIGTERM. No signal is lost: it is blocked, and stays pending
 * until a fiber waits for it. */
static int run_until_signal(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before there are other threads */
    int number = fiber_sigwait(&signals, NULL);
    if (number > 0) shut_down = 1;
    return number;
}
/* END */

static void *send_signal(void *unused) {
    assert(kill(getpid(), SIGTERM) == 0);
    return unused;
}

int main(void) {
    char *const fails[] = {"sh", "-c", "exit 3", NULL}, *const sleeps[] = {"sleep", "1000", NULL};
    alarm(120);
    assert(fiber_spawn(NULL, send_signal, NULL) == 0 && run_until_signal() == SIGTERM && shut_down);
    try_connections();
    try_dial();
    try_files();
    try_passing();
    assert(ask(7) == 70);
    assert(try_process() == 0 && run(fails, FIBER_SEC(60)) == 3 && run(sleeps, FIBER_MSEC(10)) == -ETIMEDOUT);
    return 0;
}
