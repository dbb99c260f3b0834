// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/answer.h"

#include "agent/metrics.h"
#include "base/report.h"
#include "debug/dump.h"
#include "fiberrt.h"

#include <errno.h>

namespace fiberrt {

void answer(const Request& request, int fd, int64_t timeout_ns) {
    auto dump_as = [&](unsigned flags, uint64_t only = 0) { return dump(fd, {flags, nullptr, timeout_ns, only}); };
    int error = 0;
    switch (request.command) {
    case Command::dump_text: error = dump_as(FIBER_DUMP_FRAMES); break;
    case Command::dump_json: error = dump_as(FIBER_DUMP_JSON | FIBER_DUMP_FRAMES); break;
    case Command::list: error = dump_as(FIBER_DUMP_JSON); break;
    case Command::fiber: error = dump_as(FIBER_DUMP_JSON | FIBER_DUMP_FRAMES, request.id); break;
    case Command::stacks: error = dump_as(FIBER_DUMP_GROUPED); break;
    case Command::stacks_json: error = dump_as(FIBER_DUMP_GROUPED | FIBER_DUMP_JSON); break;
    case Command::metrics: error = write_metrics(fd, timeout_ns); break;
    case Command::times_on:
    case Command::times_off: error = -ENOTSUP; break;
    }
    if (error == -ENOMEM) answer_error(fd, "there is no memory", timeout_ns); // before the first byte
    if (error == -ENOTSUP) answer_error(fd, "this library keeps no times", timeout_ns);
}

void answer_error(int fd, const char* why, int64_t timeout_ns) {
    Report report(fd, timeout_ns);
    report.put("error: ");
    report.put(why);
    report.put('\n');
    report.end();
}

} // namespace fiberrt
