// SPDX-License-Identifier: MIT OR Apache-2.0
//
// sums.cc - fiberrt.hpp: the threads of a pool add up numbers, and a channel brings their sums together. Tasks capture
// the channel and the wait group by value: both live until the last copy of them is gone.
#include <cstdio>
#include <exception>
#include <fiberrt.hpp>

static int add_up(int parts) {
    fiberrt::pool workers;
    fiberrt::channel<int> sums(static_cast<std::size_t>(parts));
    fiberrt::wait_group all(parts);
    for (int part = 0; part < parts; part++) {
        workers.submit([sums, all, part] {
            int sum = 0;
            for (int i = 0; i < 1000; i++) sum += part;
            sums.send(sum);
            all.done();
        });
    }
    all.wait();
    sums.close();
    int total = 0;
    for (int sum : sums) total += sum; // until the channel is closed and empty
    return total;
}

int main() {
    try {
        std::printf("%d\n", add_up(10));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "sums: %s\n", e.what());
        return 1;
    }
}
