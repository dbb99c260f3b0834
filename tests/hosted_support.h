// SPDX-License-Identifier: MIT OR Apache-2.0
// A hosted fiber that performs one operation on a descriptor and ends, for tests that compare it with a call.
#ifndef FIBERRT_TESTS_HOSTED_SUPPORT_H
#define FIBERRT_TESTS_HOSTED_SUPPORT_H

#include "support.h"

namespace support {

// Its record lives until the fiber has ended: the caller starts the fiber, joins it, and reads the result.
struct HostedOperation {
    fiber_op_t op{};
    fiber_t fiber{};
    int64_t result = 0;

    HostedOperation(uint32_t code, int fd, const void *address, uint64_t length) {
        op.code = code;
        op.fd = fd;
        op.address = const_cast<void *>(address);
        op.length = length;
    }
    HostedOperation(const HostedOperation &) = delete;
    HostedOperation &operator=(const HostedOperation &) = delete;

    int start() {
        if (int error = fiber_hosted_new(&fiber, nullptr, step, this)) return error;
        return fiber_start(fiber);
    }

private:
    static int step(void *user, int64_t result) {
        auto &me = *static_cast<HostedOperation *>(user);
        if (!me.begun_ && result >= 0) {
            me.begun_ = true;
            const int started = fiber_op_start(&me.op);
            if (started == 0) return FIBER_STEP_WAIT;
            result = started < 0 ? started : me.op.result;
        }
        me.result = result;
        return FIBER_STEP_END;
    }

    bool begun_ = false;
};

} // namespace support

#endif
