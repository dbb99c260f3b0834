// SPDX-License-Identifier: MIT OR Apache-2.0
// Picks the backend of a cord (selection.h). Each cord's first operation asks the kernel anew, which costs a system
// call if io_uring is refused: a limit on locked memory or a sysctl may have changed. Only the lack of the system call
// itself is remembered.
// coverage: kernel
#include "backend/selection.h"

#include "backend/backends.h"
#include "core/begin.h"
#include "core/hooks.h"
#include "io/io.h"
#include "sim/sim.h"

#include <atomic>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

namespace {

struct Candidate {
    const char* name;
    const Backend* backend; // null: not built in
    bool by_itself;         // also if FIBERRT_BACKEND does not name it
};

#ifdef FIBERRT_HAVE_URING
constexpr const Backend* uring = &uring_backend;
#else
constexpr const Backend* uring = nullptr;
#endif
#ifdef FIBERRT_HAVE_EV
constexpr const Backend* ev = &ev_backend;
#else
constexpr const Backend* ev = nullptr;
#endif

// In the order in which a cord tries them.
constexpr Candidate candidates[] = {
    {"uring", uring, true},
    {"ev", ev, true},
    {"sim", &sim_backend, false},
};

const char* requested_name() { // null: the user names none
    const char* name = secure_getenv("FIBERRT_BACKEND");
    return name && *name ? name : nullptr;
}

const Candidate* candidate_of(const char* name) {
    for (const Candidate& candidate : candidates) {
        if (strcmp(candidate.name, name) == 0) return &candidate;
    }
    return nullptr;
}

// Whether the error is a refusal of io_uring to this process. ENOSYS lasts for ever.
bool refusal(int error) {
    return error == -EPERM || error == -ENOSYS || error == -ENOMEM || error == -EACCES || error == -ENOTSUP;
}

constinit std::atomic<bool> no_uring{false}; // relaxed: asking again does no harm

struct Opened {
    const Candidate* found = nullptr;
    int error = -ENOTSUP;
    int uring_error = 0; // why the backend is not io_uring
    void* state = nullptr;
    int doorbell_fd = -1;
};

int try_one(const Candidate& candidate, Opened& out, uint32_t* word, uint32_t asleep) {
    if (!candidate.backend) return -ENOTSUP;
    bool is_uring = candidate.backend == uring;
    if (is_uring && no_uring.load(std::memory_order_relaxed)) return -ENOSYS;
    int error = candidate.backend->open(&out.state, word, asleep, &out.doorbell_fd);
    if (is_uring && error == -ENOSYS) no_uring.store(true, std::memory_order_relaxed);
    return error;
}

Opened open_named(const char* name, uint32_t* word, uint32_t asleep) {
    Opened out;
    const Candidate* candidate = candidate_of(name);
    if (!candidate) {
        out.error = -EINVAL;
        return out;
    }
    out.error = try_one(*candidate, out, word, asleep);
    if (!out.error) out.found = candidate;
    if (candidate->backend == uring) out.uring_error = out.error;
    // Errors like -EMFILE and -ENOMEM may pass; any other refusal is reported as -ENOTSUP.
    if (refusal(out.error) && out.error != -ENOMEM) out.error = -ENOTSUP;
    return out;
}

Opened open_any(uint32_t* word, uint32_t asleep) {
    Opened out;
    int lasting = -ENOTSUP;
    // Valgrind runs no other thread while one sleeps in a ring, so programs with several threads would hang.
    bool no_rings = hooks::on_valgrind() && backend_built_in("ev");
    for (const Candidate& candidate : candidates) {
        if (!candidate.by_itself) continue;
        if (no_rings && candidate.backend && candidate.backend == uring) {
            out.uring_error = -EDEADLK;
            continue;
        }
        out.error = try_one(candidate, out, word, asleep);
        if (!out.error) {
            out.found = &candidate;
            return out;
        }
        if (candidate.backend && candidate.backend == uring) out.uring_error = out.error;
        if (!refusal(out.error)) return out;
        if (out.error == -ENOMEM) lasting = -ENOMEM;
    }
    out.error = lasting;
    return out;
}

Opened open_selected(uint32_t* word, uint32_t asleep) {
    const char* name = requested_name();
    return name ? open_named(name, word, asleep) : open_any(word, asleep);
}

Opened probe() {
    Opened simulation;
    simulation.found = candidate_of("sim");
    simulation.error = 0;
    const char* name = requested_name();
    // Not opened: the simulation begins with the first cord, as the environment then says.
    if (name && strcmp(name, "sim") == 0 && simulation_possible()) return simulation;
    uint32_t unused_word = 0;
    Opened out = open_selected(&unused_word, 1);
    if (out.found) out.found->backend->close(out.state, 0);
    return out;
}

const char* reason_of(int error) {
    switch (error) {
    case -EPERM:
        return "the kernel forbids it to this process (a container's filter, or sysctl kernel.io_uring_disabled)";
    case -ENOSYS: return "the kernel has none, or one without timed waits (EXT_ARG), or a container's filter hides it";
    case -ENOMEM: return "there is no memory for a ring (before Linux 5.12, ulimit -l counts)";
    case -EACCES: return "a security module forbids it to this process";
    case -EDEADLK: return "Valgrind lets no other thread run while one waits in a ring";
    case -EMFILE:
    case -ENFILE: return "there is no free descriptor for it";
    default: return "the kernel refuses it to this process";
    }
}

int explain_named(const Opened& out, const char* name, char* buffer, size_t size) {
    if (out.found) return snprintf(buffer, size, "The backend is %s, as FIBERRT_BACKEND says.", name);
    const Candidate* candidate = candidate_of(name);
    if (!candidate) {
        return snprintf(buffer, size,
                        "There is no backend: FIBERRT_BACKEND is \"%.40s\", and those known are uring, ev and sim.",
                        name);
    }
    if (!candidate->backend) {
        return snprintf(buffer, size,
                        "There is no backend: FIBERRT_BACKEND is %s, which this library was built without.", name);
    }
    return snprintf(buffer, size, "There is no backend: FIBERRT_BACKEND is %s, but %s.", name,
                    reason_of(out.uring_error ? out.uring_error : out.error));
}

int explain(const Opened& out, char* buffer, size_t size) {
    if (const char* name = requested_name()) return explain_named(out, name, buffer, size);
    bool tried = out.uring_error;
    const char* why = tried ? reason_of(out.uring_error) : "the library was built without it";
    if (!out.found) {
        if (tried && !refusal(out.uring_error)) // libev was not tried then
            return snprintf(buffer, size, "There is no backend now: not io_uring, as %s.", why);
        const char* second = backend_built_in("ev") ? "could not be opened either" : "is not built in";
        return snprintf(buffer, size, "There is no backend: not io_uring, as %s; and libev %s.", why, second);
    }
    if (out.found->backend == uring) return snprintf(buffer, size, "The backend is uring: the kernel offers io_uring.");
    return snprintf(buffer, size, "The backend is %s, not io_uring, as %s.", out.found->name, why);
}

// The result of the last opening by any cord, for fiber_dump. One atomic word, so that readers see it whole.
struct alignas(8) Outcome { // without padding, which std::atomic could not initialise at compile time
    int16_t known;          // 1: a cord has tried
    int16_t found;          // index of the candidate; -1: none
    int16_t error;
    int16_t uring_error;
};
constinit std::atomic<Outcome> last_outcome{Outcome{}}; // relaxed: no other memory depends on it

void note_outcome(const Opened& out) {
    auto found = out.found ? int16_t(out.found - candidates) : int16_t(-1);
    last_outcome.store({1, found, int16_t(out.error), int16_t(out.uring_error)}, std::memory_order_relaxed);
}

} // namespace

int backend_open(const Backend** backend, void** state, uint32_t* word, uint32_t asleep, int* doorbell_fd) {
    Opened out = open_selected(word, asleep);
    note_outcome(out);
    if (out.error) return out.error;
    *backend = out.found->backend;
    *state = out.state;
    *doorbell_fd = out.doorbell_fd;
    return 0;
}

const Backend* backend_find(int* error) {
    Opened out = probe();
    *error = out.error;
    return out.found ? out.found->backend : nullptr;
}

int backend_explain(char* buffer, size_t size) { return explain(probe(), buffer, size); }

int backend_explain_last(char* buffer, size_t size) {
    Outcome last = last_outcome.load(std::memory_order_relaxed);
    Opened out;
    if (last.known) {
        if (last.found >= 0) out.found = &candidates[last.found];
        out.error = last.error;
        out.uring_error = last.uring_error;
        return explain(out, buffer, size);
    }
    const char* name = requested_name();
    if (!name) return snprintf(buffer, size, "No backend has been opened yet.");
    if (!backend_built_in(name)) return explain_named(out, name, buffer, size);
    return snprintf(buffer, size, "No backend has been opened yet; it will be %s, as FIBERRT_BACKEND says.", name);
}

namespace {

bool connect_to_io() {
    open_backend = backend_open;
    return true;
}
FIBERRT_INITIALIZER(When::first_cord, connect_to_io);

} // namespace

bool backend_built_in(const char* name) {
    const Candidate* candidate = candidate_of(name);
    return candidate && candidate->backend;
}

} // namespace fiberrt
