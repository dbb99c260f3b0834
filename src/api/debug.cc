// SPDX-License-Identifier: MIT OR Apache-2.0
// Help with mistakes that a program can turn on: reports of stack overflows and of fibers that keep their threads for too
// long, dumps by a signal, and the agent, which answers other programs.
#include "agent/agent.h"
#include "api/api.h"
#include "debug/creation.h"
#include "debug/dump.h"
#include "debug/dump_signal.h"
#include "debug/overflow.h"
#include "debug/running_frames.h"
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

int fiber_dump_on_signal(int signal, int fd, unsigned flags) {
    if (flags & ~dump_flags_known) return -EINVAL;
    return dump_on_signal(signal, fd, flags);
}

int fiber_record_creation(int on) { return record_creation(on); }

int fiber_dump_running_signal(int signal) { return dump_running_signal(signal); }
