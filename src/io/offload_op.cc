// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations on threads of the pool, and their way back to the fiber's cord.
#include "io/offload_op.h"

#include "core/hooks.h"
#include "core/scheduler.h"
#include "io/io.h"

#include <errno.h>

namespace fiberrt {

namespace {

void perform(OffloadJob& job) {
    auto& op_job = static_cast<OpJob&>(job);
    op_job.result = blocking_fallback(*op_job.op);
}

void send_home(OffloadJob& job) {
    auto& op_job = static_cast<OpJob&>(job);
    send(*op_job.home, &op_job); // cannot fail: a cord does not end before its operations
}

void come_back(Cord&, Message* message) {
    auto* job = static_cast<OpJob*>(message);
    job->op->job = nullptr;
    op_done(job->op, int32_t(job->result));
}

// Like stop_op, for an operation that the pool has.
void stop_elsewhere(Wait* wait, int reason) {
    auto* op = static_cast<Op*>(wait);
    bool first = note_stop(*op, reason);
    op->seen = 0;
    if (!first || !offload_cancel(*op->job)) return;
    op->job = nullptr;
    op_done(op, -ECANCELED);
}

} // namespace

bool waits_stop_the_pool(const Cord& cord) { return hooks::on_valgrind() && cord.io && !cord.io->backend->try_op; }

OpJob::OpJob(Cord& cord, Op& operation) : op(&operation), home(&cord) {
    run = perform;
    done = send_home;
}

bool begin_elsewhere(Cord& cord, Op& op, OpJob& job) {
    job.receive = come_back;
    op.job = &job;
    op.Wait::stop = stop_elsewhere;
    op.stop_reason = 0;
    if (!offload(job)) return false;
    cord.io->in_flight++;
    return true;
}

} // namespace fiberrt
