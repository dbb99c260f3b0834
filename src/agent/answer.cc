// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/answer.h"

#include "agent/metrics.h"
#include "base/report.h"
#include "debug/dump.h"
#include "fiberrt.h"
#include "record/recorder.h"

#include <errno.h>

namespace fiberrt {

namespace {

// Says whether the request has changed something, or it was so already.
void answer_change(int fd, int error, int64_t timeout_ns) {
    if (error && error != -EALREADY) return answer_error(fd, "there is no memory", timeout_ns);
    Report report(fd, timeout_ns);
    report.put(error ? "already\n" : "ok\n");
    report.end();
}

} // namespace

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
    case Command::times_on: return answer_change(fd, recorder_want(Consumer::accounting, nullptr), timeout_ns);
    case Command::times_off: return answer_change(fd, recorder_want_no_more(Consumer::accounting), timeout_ns);
    }
    if (error == -ENOMEM) answer_error(fd, "there is no memory", timeout_ns); // before the first byte
}

void answer_error(int fd, const char* why, int64_t timeout_ns) {
    Report report(fd, timeout_ns);
    report.put("error: ");
    report.put(why);
    report.put('\n');
    report.end();
}

} // namespace fiberrt
