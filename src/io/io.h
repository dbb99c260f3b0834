// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's I/O: its backend, opened at the first operation, and who is using which descriptor.
#pragma once

#include "base/list.h"
#include "io/backend.h"
#include "io/op.h"

#include <limits.h>
#include <stdint.h>

namespace fiberrt {

// One call's use of a descriptor, from its first operation to its last. fiber_close ends every use of its descriptor
// before it closes: so no step of a call meets another file under the same number.
class DescriptorUse : public Link {
public:
    static constexpr int none = INT_MIN; // operations on no descriptor

    // Opens the cord's backend if it must.
    DescriptorUse(Cord& cord, int fd);
    ~DescriptorUse();
    DescriptorUse(const DescriptorUse&) = delete;
    DescriptorUse& operator=(const DescriptorUse&) = delete;

    // Runs one operation for the current fiber, parked until it is done. Fails before giving it to the backend with what
    // stands in the way of the fiber (attend) or of the use: -ENOTSUP, -ENOMEM, -EBADF, …
    int64_t run(Op& op);
    int check(); // why it would fail so; 0: it would not

private:
    friend struct Io;
    friend int io_close(Cord& cord, int fd);
    void stop(int reason); // ends the operation under way, if there is one

    Cord& cord_;
    struct Descriptor* descriptor_ = nullptr;
    Op* op_ = nullptr; // while the backend has it
    int error_ = 0;    // why no operation may begin
};

// The uses of one descriptor, and the fiber_close of it that waits for their end.
struct Descriptor {
    List<DescriptorUse> uses;
    Wait* closer = nullptr;
};

struct Io : CordIo {
    Descriptor unbound; // operations on no descriptor
    Descriptor** descriptors = nullptr; // by number, made when first used
    int descriptor_count = 0;

    static int open(Cord& cord);  // 0, -ENOTSUP, -ENOMEM, -EMFILE, -ENFILE
    static void close(Cord& cord); // CordIo::end
    int descriptor(int fd, Descriptor** out); // 0, -EBADF, -ENOMEM
};

// fiber_close: ends what is under way on fd, then closes it. Nothing ends it early.
int io_close(Cord& cord, int fd);

} // namespace fiberrt
