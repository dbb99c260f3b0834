// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls on descriptors of fibers without a stack; api/hosted_ops.cc calls them.
//
// Each function takes its arguments from the operation's record, which the caller has checked, and begins the call that
// its name says. It returns the result, or hosted_waits.
#pragma once

#include "stackless/record.h"

#include <stdint.h>

namespace fiberrt {

int64_t begin_read(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_write(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_recv(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_send(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_accept(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_connect(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_poll(Cord& cord, Fiber* fiber, HostedOp& op);
int64_t begin_close(Cord& cord, Fiber* fiber, HostedOp& op);

} // namespace fiberrt
