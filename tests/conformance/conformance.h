// SPDX-License-Identifier: MIT OR Apache-2.0
// What the scenarios of the conformance suite know of the run that they are in: how much of what is repeated
// often, and the trace.
#ifndef FIBERRT_TESTS_CONFORMANCE_H
#define FIBERRT_TESTS_CONFORMANCE_H

#include "support.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace conformance {

// How often, or how much: the whole, or in a simulation the smaller number, as that runs under thousands of seeds.
template <class Number>
Number often(Number whole, std::type_identity_t<Number> in_simulation) {
    return support::simulated() ? std::min<Number>(whole, in_simulation) : whole;
}

// The traces of the scenario that runs now.
inline std::vector<std::string> traces;

// A log of events whose order is part of the contract: the same on every backend, under every seed. Nothing that
// differs by address, descriptor or time of day belongs into it. `conformance --trace` prints it when it goes out of
// scope.
class Trace : public std::string {
public:
    using std::string::operator+=;
    using std::string::operator=;
    Trace() = default;
    Trace(const Trace &) = delete;
    Trace &operator=(const Trace &) = delete;
    ~Trace() { traces.push_back(std::move(*this)); }
};

} // namespace conformance

using conformance::often;
using conformance::Trace;

#endif
