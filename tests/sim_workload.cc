// SPDX-License-Identifier: MIT OR Apache-2.0
// A program for the simulation: wakeups, cancels, deadlines, I/O and cords that meet in as many orders as there are,
// and exits with 1 if any of them is lost or comes twice. sim.cmake has its tests.
//
//     sim_workload [wake|cancel|complete|mix|cords|all|speed]
#include <fiberrt.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "sim_workload: line %d: not so: %s\n", __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

namespace {

struct Pipe {
    int ends[2];
    Pipe() { EXPECT(pipe2(ends, O_CLOEXEC) == 0); }
    ~Pipe() {
        close(ends[0]);
        close(ends[1]);
    }
    void put(const char *text) { EXPECT(write(ends[1], text, strlen(text)) == ssize_t(strlen(text))); }
};

// The errors that the simulation's faults may return where data could be expected.
bool is_fault(int64_t result) { return result == -ECONNRESET || result == -EPIPE || result == 0; }

// Reads a byte, however many calls it takes.
void take_byte(int fd) {
    char byte;
    EXPECT(fiber_read(fd, &byte, 1) == 1);
}

fiber_t spawned(void *(*fn)(void *), void *argument) {
    fiber_t fiber;
    int result;
    while ((result = fiber_spawn(&fiber, fn, argument)) == -ENOMEM) {} // a fault
    EXPECT(result == 0);
    return fiber;
}

// False: a fault has kept it from running. If stacks may be refused, all other fibers may be waiting for a fiber that
// waits for a stack.
bool joined(fiber_t fiber) {
    int result = fiber_join(fiber, nullptr);
    const char *faults = getenv("FIBERRT_SIM_FAULTS");
    if (result == -EDEADLK && faults && *faults == '3') exit(0);
    EXPECT(result == 0 || result == -EAGAIN);
    return result == 0;
}

// ---- A wakeup for a fiber that is about to go on for another reason -------------------------------------------------

struct Wake {
    Pipe to_consumer, to_producer;
    fiber_t consumer;
};

void *consume(void *argument) {
    auto &wake = *static_cast<Wake *>(argument);
    take_byte(wake.to_consumer.ends[0]);
    EXPECT(fiber_yield() == 0);
    return nullptr;
}

void *produce(void *argument) {
    auto &wake = *static_cast<Wake *>(argument);
    take_byte(wake.to_producer.ends[0]);
    fiber_wakeup(wake.consumer);
    return nullptr;
}

void wakes() {
    Wake wake;
    wake.consumer = spawned(consume, &wake);
    fiber_t producer = spawned(produce, &wake);
    wake.to_consumer.put("c");
    wake.to_producer.put("p");
    if (!joined(producer)) fiber_wakeup(wake.consumer);
    joined(wake.consumer);
}

// ---- A cancel of a fiber that is between two operations -------------------------------------------------------------

struct Cancel {
    int sockets[2];
    Pipe to_canceller;
    fiber_t sender;
    int64_t sent = 1;
};

void *send_into_a_full_socket(void *argument) {
    auto &cancel = *static_cast<Cancel *>(argument);
    cancel.sent = fiber_send(cancel.sockets[0], "x", 1, 0);
    return nullptr;
}

void *cancel_the_sender(void *argument) {
    auto &cancel = *static_cast<Cancel *>(argument);
    take_byte(cancel.to_canceller.ends[0]);
    fiber_cancel(cancel.sender, nullptr);
    return nullptr;
}

void cancels() {
    Cancel cancel;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, cancel.sockets) == 0);
    static const char much[4096] = {};
    while (send(cancel.sockets[0], much, sizeof much, MSG_DONTWAIT) > 0) {}
    cancel.sender = spawned(send_into_a_full_socket, &cancel);
    fiber_t canceller = spawned(cancel_the_sender, &cancel);
    cancel.to_canceller.put("c");
    if (!joined(canceller)) fiber_cancel(cancel.sender, nullptr);
    joined(cancel.sender);
    EXPECT(cancel.sent == -ECANCELED || cancel.sent == 1 || is_fault(cancel.sent)); // 1: it never ran
    close(cancel.sockets[0]);
    close(cancel.sockets[1]);
}

// ---- A cancel of an operation that is just being done -------------------------------------------------------------

struct Complete {
    Pipe data;
    fiber_t reader;
    bool read = false;
};

void *read_once(void *argument) {
    auto &complete = *static_cast<Complete *>(argument);
    char byte;
    int64_t result = fiber_read(complete.data.ends[0], &byte, 1);
    EXPECT(result == 1 || result == -ECANCELED);
    complete.read = result == 1;
    return nullptr;
}

void *cancel_the_reader(void *argument) {
    auto &complete = *static_cast<Complete *>(argument);
    for (int i = 0; i < 70; i++) EXPECT(fiber_reschedule() == 0);
    fiber_cancel(complete.reader, nullptr);
    return nullptr;
}

void completes() {
    Complete complete;
    complete.data.put("d");
    complete.reader = spawned(read_once, &complete);
    fiber_t canceller = spawned(cancel_the_reader, &complete);
    joined(canceller);
    joined(complete.reader);
    char byte;
    fcntl(complete.data.ends[0], F_SETFL, O_NONBLOCK);
    EXPECT((read(complete.data.ends[0], &byte, 1) == 1) == !complete.read); // neither lost nor there twice
}

// ---- Everything at once -------------------------------------------------------------------------------------------

struct Talk {
    int sockets[2];
    int sent = 0, received = 0;
    bool cut = false; // by a fault
};

void *talk(void *argument) {
    auto &talk = *static_cast<Talk *>(argument);
    for (int i = 0; i < 8 && !talk.cut; i++) {
        char text[32];
        memset(text, 'a' + i, sizeof text);
        int64_t result = fiber_send(talk.sockets[0], text, sizeof text, 0);
        if (result > 0) {
            talk.sent += int(result);
        } else {
            EXPECT(is_fault(result));
            talk.cut = true;
        }
        if (i % 3 == 0) EXPECT(fiber_sleep(FIBER_USEC(100)) == 0);
    }
    shutdown(talk.sockets[0], SHUT_WR);
    return nullptr;
}

void *listen_to(void *argument) {
    auto &talk = *static_cast<Talk *>(argument);
    for (;;) {
        fiber_scope_t scope;
        if (fiber_scope_open(&scope, FIBER_USEC(70), 0) < 0) continue; // a fault
        char text[100];
        int64_t result = fiber_recv(talk.sockets[1], text, sizeof text, 0);
        int verdict = fiber_scope_close(scope, nullptr);
        EXPECT(verdict == 0 || verdict == -ETIMEDOUT);
        if (result > 0) talk.received += int(result);
        if (result == -ECONNRESET) talk.cut = true;
        if (result == 0 || result == -ECONNRESET) return nullptr;
        EXPECT(result > 0 || (result == -ETIMEDOUT && verdict == -ETIMEDOUT));
    }
}

void mixes() {
    constexpr int count = 4;
    static Talk talks[count];
    fiber_t fibers[2 * count];
    for (int i = 0; i < count; i++) {
        talks[i] = Talk();
        EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talks[i].sockets) == 0);
        fibers[2 * i] = spawned(talk, &talks[i]);
        fibers[2 * i + 1] = spawned(listen_to, &talks[i]);
    }
    for (int i = 0; i < count; i++) {
        if (!joined(fibers[2 * i])) {
            talks[i].cut = true;
            shutdown(talks[i].sockets[0], SHUT_WR);
        }
        if (!joined(fibers[2 * i + 1])) talks[i].cut = true;
        EXPECT(talks[i].cut || (talks[i].sent >= 8 && talks[i].received == talks[i].sent)); // sends may be short
        EXPECT(fiber_close(talks[i].sockets[0]) == 0);
        EXPECT(fiber_close(talks[i].sockets[1]) == 0);
    }
}

// ---- Messages between cords -----------------------------------------------------------------------------------------

bool want() { // stacks and memory may be refused
    const char *faults = getenv("FIBERRT_SIM_FAULTS");
    return faults && *faults == '3';
}

fiber_cord_t started(void *(*fn)(void *), void *argument) {
    fiber_cord_t cord;
    int result;
    while ((result = fiber_cord_start(&cord, nullptr, fn, argument)) < 0) EXPECT(want());
    return cord;
}

fiber_t spawned_on(fiber_cord_t cord, void *(*fn)(void *), void *argument) {
    fiber_attr_t *attr;
    EXPECT(fiber_attr_create(&attr) == 0 && fiber_attr_set_cord(attr, cord) == 0);
    fiber_t fiber;
    int result;
    while ((result = fiber_new(&fiber, attr, fn, argument)) == -ENOMEM) EXPECT(want());
    EXPECT(result == 0 && fiber_attr_destroy(attr) == 0);
    EXPECT(fiber_wakeup(fiber) == 0);
    return fiber;
}

struct Turns {
    static constexpr int count = 4;
    fiber_t here, there;
    int posted = 0, ran = 0;
};

// The main flow of another cord.
void *answer(void *argument) {
    auto &turns = *static_cast<Turns *>(argument);
    EXPECT(fiber_self(&turns.there) == 0);
    for (int i = 0; i < Turns::count; i++) {
        EXPECT(fiber_wakeup(turns.here) == 0);
        EXPECT(fiber_yield() == 0);
    }
    return argument;
}

void *count_run(void *argument) {
    static_cast<Turns *>(argument)->ran++;
    return nullptr;
}

// Two cords wake each other in turns; a function posted to a cord that is ending runs or is refused.
void wakes_across() {
    Turns turns;
    EXPECT(fiber_self(&turns.here) == 0);
    fiber_cord_t cord = started(answer, &turns);
    for (int i = 0; i < Turns::count; i++) {
        EXPECT(fiber_yield() == 0);
        EXPECT(fiber_wakeup(turns.there) == 0);
    }
    for (int i = 0; i < 3; i++) {
        int result = fiber_post(cord, count_run, &turns);
        EXPECT(result == 0 || result == -ESRCH || (result == -ENOMEM && want()));
        turns.posted += result == 0;
    }
    void *result = nullptr;
    EXPECT(fiber_cord_join(cord, &result) == 0 && result == &turns);
    EXPECT(turns.ran == turns.posted || (want() && turns.ran < turns.posted));
}

void *sleep_for_ever(void *) {
    EXPECT(fiber_sleep(FIBER_FOREVER) == -ECANCELED);
    return nullptr;
}

// A fiber of another cord reads, is cancelled and joined from here; then its cord is shut down.
void reads_across() {
    Complete complete;
    fiber_cord_t cord = started(sleep_for_ever, nullptr);
    complete.reader = spawned_on(cord, read_once, &complete);
    EXPECT(fiber_write(complete.data.ends[1], "d", 1) == 1);
    EXPECT(fiber_sleep(FIBER_USEC(1)) == 0);
    EXPECT(fiber_cancel(complete.reader, nullptr) == 0);
    joined(complete.reader);
    char byte;
    fcntl(complete.data.ends[0], F_SETFL, O_NONBLOCK);
    EXPECT((read(complete.data.ends[0], &byte, 1) == 1) == !complete.read);
    int left = fiber_cord_shutdown(cord, 0, FIBER_FOREVER);
    EXPECT(left == 0 || left == -ESRCH || (left < 0 && want()));
    if (left >= 0 || left == -ESRCH) EXPECT(fiber_cord_join(cord, nullptr) == 0);
}

void cords() {
    wakes_across();
    reads_across();
}

// ---- How fast it is -----------------------------------------------------------------------------------------------

constexpr int turns = 20000;

void *take_turns(void *) {
    for (int i = 0; i < turns; i++) EXPECT(fiber_reschedule() == 0);
    return nullptr;
}

void *sleep_often(void *) {
    for (int i = 0; i < turns; i++) EXPECT(fiber_sleep(FIBER_USEC(1)) == 0);
    return nullptr;
}

void *pass_bytes(void *argument) {
    auto &pipe = *static_cast<Pipe *>(argument);
    for (int i = 0; i < turns; i++) {
        EXPECT(fiber_write(pipe.ends[1], "x", 1) == 1);
        take_byte(pipe.ends[0]);
    }
    return nullptr;
}

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

double rate(void *(*fn)(void *), int steps_per_turn) {
    constexpr int count = 20;
    static Pipe pipe;
    fiber_t fibers[count];
    double begun = seconds();
    for (fiber_t &fiber : fibers) fiber = spawned(fn, &pipe);
    for (fiber_t fiber : fibers) EXPECT(joined(fiber));
    return double(count) * turns * steps_per_turn / (seconds() - begun);
}

void speed() {
    printf("steps a second: %.0f taking turns, ", rate(take_turns, 1));
    printf("%.0f sleeping, ", rate(sleep_often, 1));
    printf("%.0f passing bytes through a pipe\n", rate(pass_bytes, 2));
}

} // namespace

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    auto wanted = [&](const char *name) { return strcmp(what, name) == 0 || strcmp(what, "all") == 0; };
    if (wanted("wake")) wakes();
    if (wanted("cancel")) cancels();
    if (wanted("complete")) completes();
    if (wanted("mix")) mixes();
    if (wanted("cords")) cords();
    if (strcmp(what, "speed") == 0) speed();
    return 0;
}
