// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord with fibers that wait for something, and a main flow that holds the thread until the test ends it: items,
// permits and signals given to these fibers meanwhile find them waiting, and the fibers never run again.
#ifndef FIBERRT_TESTS_DOOMED_H
#define FIBERRT_TESTS_DOOMED_H

#include "cord_support.h"

namespace support {

class Doomed {
public:
    template <class Wait>
    explicit Doomed(Wait wait, int fibers = 1)
        : never_([wait] {
              wait();
              ADD_FAILURE() << "it ran";
          }),
          fibers_(fibers) {
        cord_ = start_cord(body_);
        await([&] { return is_set(waiting_); });
    }
    ~Doomed() { end(); }
    Doomed(const Doomed &) = delete;
    Doomed &operator=(const Doomed &) = delete;

    void end() {
        if (!cord_.id) return;
        end_ = true;
        join_cord(cord_);
        cord_ = {};
    }

private:
    struct Main {
        Doomed *doomed;
        void operator()() const {
            for (int i = 0; i < doomed->fibers_; i++) {
                const fiber_t fiber = create(doomed->never_, On(this_cord_handle()).daemon());
                EXPECT_EQ(fiber_start(fiber), 0);
                await([&] { return fiber_state(fiber) == FIBER_WAITING; }); // a thread may have handled its first
                                                                            // fibers
            }
            doomed->waiting_ = true;
            await_holding_the_thread([&] { return doomed->end_.load(); });
        }
    };
    std::function<void()> never_;
    const int fibers_;
    Main body_{this};
    fiber_cord_t cord_{};
    std::atomic<bool> waiting_{false};
    std::atomic<bool> end_{false};
};

} // namespace support

#endif
