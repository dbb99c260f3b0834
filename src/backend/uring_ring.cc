// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds out what the kernel's io_uring offers: makes a ring with the best flags that the kernel accepts, and asks which
// operations it has.
#include "backend/uring_state.h"

#include "base/linux_numbers.h"
#include "backend/backends.h"

#include <errno.h>

namespace fiberrt::uring_impl {

namespace {

constexpr unsigned submission_entries = 256;
constexpr unsigned completion_entries = 2048;

// How many operations may block threads of the kernel at a time, above all opens of FIFOs. By itself the kernel allows
// four per processor, and the next operation would wait for those to end.
constexpr unsigned blocked_most = 1024;

// What the kernel's rings support, found out once; relaxed: all threads find the same.
enum : int { unknown, works, does_not };
std::atomic<int> futex_op{unknown};

constexpr struct {
    OpCode code;
    int in_kernel;
} ops_in_kernel[] = {
#define FIBERRT_OP(code, name, ring, on) {OpCode::code, IORING_OP_##ring},
    FIBERRT_RING_OPS(FIBERRT_OP)
#undef FIBERRT_OP
};

} // namespace

constinit std::atomic<uint32_t> unknown_ops{0}; // relaxed, as above

void probe(io_uring& ring) {
    if (futex_op.load(std::memory_order_relaxed) != unknown) return;
    io_uring_probe* probe = io_uring_get_probe_ring(&ring);
    if (!probe) return; // no memory now: the kernel's answers will tell
    uint32_t missing = 0;
    for (const auto& op : ops_in_kernel) {
        if (!io_uring_opcode_supported(probe, op.in_kernel)) missing |= 1u << unsigned(op.code);
    }
    unknown_ops.store(missing, std::memory_order_relaxed);
    futex_op.store(io_uring_opcode_supported(probe, ioring_op_futex_wait) ? works : does_not,
                   std::memory_order_relaxed);
    io_uring_free_probe(probe);
}

bool futex_op_works() { return uring_may_use_futex_op && futex_op.load(std::memory_order_relaxed) == works; }

// Tries the best flags first. The kernel answers flags that it does not know with EINVAL.
int make_ring(io_uring& ring, UringOffer& offer) {
    static constexpr unsigned flags_by_preference[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
        IORING_SETUP_SUBMIT_ALL,
        0,
    };
    int error = -EINVAL;
    for (unsigned flags : flags_by_preference) {
        io_uring_params params = {};
        params.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        params.cq_entries = completion_entries;
        offer.flags = flags;
        error = io_uring_queue_init_params(submission_entries, &ring, &params);
        if (error != -EINVAL) break;
    }
    if (error == -EINVAL) return -ENOSYS; // before Linux 5.6: not even CQSIZE and CLAMP
    if (error) return error;
    // A filter of system calls may allow making a ring but not entering it.
    if (int entered = io_uring_submit_and_get_events(&ring); !transient(entered)) {
        io_uring_queue_exit(&ring);
        return entered;
    }
    offer.best_flags = offer.flags == flags_by_preference[0];
    offer.ext_arg = ring.features & IORING_FEAT_EXT_ARG;
    offer.nodrop = ring.features & IORING_FEAT_NODROP;
    return 0;
}

// Sets how many threads of the kernel may block for a ring. *few_for_files: it allows fewer than blocked_most for
// files. Returns whether it allows any for everything else, such as devices.
//
// In both arrays the first number is for files, the second for everything else; a 0 leaves the number and reads it.
// RLIMIT_NPROC can make the second number 0; then the kernel queues such operations and never performs them.
bool threads_available(io_uring& ring, bool* few_for_files) {
    unsigned asked[] = {blocked_most, 0};
    unsigned most_workers[] = {0, 0}; // the kernel may allow fewer than asked for, without an error
    bool answers = io_uring_register_iowq_max_workers(&ring, asked) == 0 &&
                   io_uring_register_iowq_max_workers(&ring, most_workers) == 0;
    *few_for_files = !answers || most_workers[0] < blocked_most;
    return !answers || most_workers[1] > 0;
}

} // namespace fiberrt::uring_impl

namespace fiberrt {

int uring_probe(UringOffer* out) {
    using namespace uring_impl;
    io_uring ring;
    int error = make_ring(ring, *out);
    if (error) return error;
    probe(ring);
    out->futex_op = futex_op_works();
    bool few;
    out->threads = threads_available(ring, &few);
    io_uring_queue_exit(&ring);
    return 0;
}

} // namespace fiberrt
