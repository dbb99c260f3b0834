// SPDX-License-Identifier: MIT OR Apache-2.0
// Help with mistakes that a program can turn on: reports of stack overflows and of fibers that keep their threads for too
// long, and the agent, which answers other programs.
#include "agent/agent.h"
#include "api/api.h"
#include "debug/overflow.h"
#include "debug/watchdog.h"

#include <stddef.h>
#include <string.h>

using namespace fiberrt;

int fiber_report_overflows(int on) { return overflow_reports(on); }

int fiber_watchdog_start(const fiber_watchdog_t* options, size_t size) {
    // Refuses a size that ends within a member: half of the address of a function would be used.
    if (!options || !size || size % sizeof(void*)) return -EINVAL;
    fiber_watchdog_t known = {};
    memcpy(&known, options, size < sizeof known ? size : sizeof known);
    const auto* given = reinterpret_cast<const unsigned char*>(options);
    for (size_t i = sizeof known; i < size; i++) {
        if (given[i]) return -ENOTSUP;
    }
    return watchdog_start(known);
}

int fiber_watchdog_stop(void) { return watchdog_stop(); }

int fiber_agent_start(const char* path) { return path && *path ? agent_start(path) : -EINVAL; }

int fiber_agent_stop(void) { return agent_stop(); }
