// SPDX-License-Identifier: MIT OR Apache-2.0
// Statements of a main function, with fiberrt.hpp.
#include <fiberrt.hpp>
#include <cstdio>
using namespace std::chrono_literals;

int main() {
BLOCK
}
