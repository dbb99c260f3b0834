// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/wait_text.h"

#include "debug/texts.h"
#include "io/op.h"
#include "sync/waiting.h"

#include <poll.h>

namespace fiberrt {

namespace {

void put_op(Report& r, const WaitSnapshot& wait) {
    const auto& op = wait.op;
    if (op.code == OpCode::moment) r.put("its ");
    r.put(name_of(op.code));
    if (op.code == OpCode::poll) {
        r.put(" of");
        if (op.flags & POLLIN) r.put(" POLLIN");
        if (op.flags & POLLOUT) r.put(" POLLOUT");
        if (op.flags & ~uint32_t(POLLIN | POLLOUT)) r.put(" others");
    }
    if (op.fd >= 0) {
        r.put(" on descriptor ");
        r.number(uint64_t(op.fd));
    }
    if (op.stopping) r.put(", which is asked to end");
}

} // namespace

void put_wait(Report& r, const WaitSnapshot& wait) { // coverage: names
    r.put(text_of(wait.what));
    switch (wait.what) {
    case WaitFor::fiber:
    case WaitFor::foreign_fiber:
    case WaitFor::cord: r.id(wait.target); break;
    case WaitFor::op: put_op(r, wait); break;
    case WaitFor::primitive:
    case WaitFor::channel: r.put(wait.text); break;
    default: break; // the text is complete
    }
}

namespace {

// Puts the host's reason. False: it has given none.
bool put_reason(Report& r, const Snapshot& seen) {
    if (!seen.still || seen.state != State::yielding || !seen.reason[0]) return false;
    for (const char* c = seen.reason; *c; c++) r.put(uint8_t(*c) < 0x20 || *c == 0x7f ? '?' : *c);
    return true;
}

} // namespace

void put_state_without_wait(Report& r, const Snapshot& seen) {
    if (put_reason(r, seen)) {
        if (uint64_t fiber = fiber_of_reason(seen)) {
            r.put(' ');
            r.id(fiber);
        }
        return;
    }
    r.put(text_of(seen.state));
    if (seen.state == State::transferring) seen.still ? r.id(seen.transferred) : r.put("another fiber");
}

void put_wait_kind(Report& r, const Snapshot& seen) { // coverage: names
    if (!seen.still || !seen.has_wait) {
        if (put_reason(r, seen)) return;
        r.put(text_of(seen.state));
        if (seen.state == State::transferring) r.put("another fiber");
        return;
    }
    const WaitSnapshot& wait = seen.wait;
    switch (wait.what) {
    case WaitFor::fiber:
    case WaitFor::foreign_fiber: r.put("joins a fiber"); break;
    case WaitFor::cord: r.put("joins a cord"); break;
    case WaitFor::op:
        r.put("waits for ");
        r.put(name_of(wait.op.code));
        break;
    default: put_wait(r, wait);
    }
}

} // namespace fiberrt
