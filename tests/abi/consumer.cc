// SPDX-License-Identifier: MIT OR Apache-2.0
// consumer.cc - a C++17 program that uses the installed library by fiberrt.hpp.
#include <cstdio>
#include <fiberrt.hpp>
#include <stdexcept>

int main() {
    fiberrt::channel<int> numbers(1);
    auto sum = fiberrt::spawn([numbers] {
        int total = 0;
        for (int number : numbers) total += number;
        return total;
    });
    auto thrower = fiberrt::spawn([numbers] {
        for (int i = 1; i <= 4; i++) numbers.send(i);
        numbers.close();
        throw std::runtime_error("from a fiber");
    });
    bool caught = false;
    try {
        thrower.join();
    } catch (const std::runtime_error&) {
        caught = true;
    }
    bool fine = sum.join() == 10 && caught;
    return std::puts(fine ? "consumer: fine" : "consumer: not fine") < 0 || !fine;
}
