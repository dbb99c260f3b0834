// SPDX-License-Identifier: MIT OR Apache-2.0
// Facts about the current run that the scenarios need: how many rounds a loop makes, and the trace.
#ifndef FIBERRT_TESTS_CONFORMANCE_H
#define FIBERRT_TESTS_CONFORMANCE_H

#include "support.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace conformance {

// How often, or how much: `whole`, or in a simulation the smaller number, because that runs under thousands of seeds.
template <class Number>
Number often(Number whole, std::type_identity_t<Number> in_simulation) {
    return support::simulated() ? std::min<Number>(whole, in_simulation) : whole;
}

// The traces of the running scenario.
inline std::vector<std::string> traces;

// A log of events whose order is part of the contract: equal on every backend and under every seed. It must contain
// nothing that depends on addresses, descriptors or the time of day. `conformance --trace` prints it when it goes out
// of scope.
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
