// SPDX-License-Identifier: MIT OR Apache-2.0
// A member that one thread writes and others may look at meanwhile: what they see is some value that it had, no more.
// Relaxed loads and stores are plain ones to the processor.
#pragma once

#include <atomic>

namespace fiberrt {

template <class T>
class Relaxed {
public:
    operator T() const { return value_.load(std::memory_order_relaxed); }
    T operator=(T value) { // NOLINT(misc-unconventional-assign-operator): as std::atomic's
        value_.store(value, std::memory_order_relaxed);
        return value;
    }
    T operator->() const { return *this; }

private:
    std::atomic<T> value_;
};

} // namespace fiberrt
