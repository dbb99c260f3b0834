// SPDX-License-Identifier: MIT OR Apache-2.0
// The doorbell of the rings in the programs of embed_test.cc: with EMBED_BY_EVENTFD an eventfd, otherwise the ring's own
// choice.

void choose_doorbell();

#ifdef EMBED_BY_EVENTFD
namespace fiberrt {
extern bool uring_may_use_futex_op;
}

void choose_doorbell() { fiberrt::uring_may_use_futex_op = false; }
#else
void choose_doorbell() {}
#endif
