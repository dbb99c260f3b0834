// SPDX-License-Identifier: MIT OR Apache-2.0
// The headers that every file of the C boundary needs.
#pragma once

#include "core/cord.h"
#include "core/handles.h"
#include "core/hooks.h"
#include "core/relay.h"
#include "fiberrt.h"

#include <errno.h>
