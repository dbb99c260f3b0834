// SPDX-License-Identifier: MIT OR Apache-2.0
// The headers that every file of src/api needs. These files define the functions of fiberrt.h: each checks its
// arguments, finds the cord and the objects, and calls the layer that does the work.
#pragma once

#include "core/cord.h"
#include "core/handles.h"
#include "core/hooks.h"
#include "core/scheduler.h"
#include "fiberrt.h"

#include <errno.h>
