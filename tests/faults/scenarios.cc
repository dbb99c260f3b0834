// SPDX-License-Identifier: MIT OR Apache-2.0
// Scenarios made for the sweeps of conformance_faults.cc: each call that may be refused something is made until it
// succeeds, what it says until then must be an error that its documentation names, and all is released at the end.
#include "support.h"
