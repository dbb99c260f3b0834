// SPDX-License-Identifier: MIT OR Apache-2.0
// A member that one thread writes and other threads may read meanwhile. A reader gets some value that the member has
// had, and nothing else is ordered by it. The processor performs relaxed loads and stores as plain ones.
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
