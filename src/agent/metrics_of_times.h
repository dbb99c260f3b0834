// SPDX-License-Identifier: MIT OR Apache-2.0
// The metrics that exist while accounting is on: times of cords, their histograms, and times of fibers by name.
#pragma once

#include "agent/exposition.h"
#include "agent/figures.h"

namespace fiberrt {

// There are metrics of at most so many names; the others have one sum.
constexpr int names_most = 100;

void put_times(Exposition& out, const Figures& figures);

} // namespace fiberrt
