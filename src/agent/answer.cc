// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/answer.h"

#include "agent/metrics.h"
#include "base/report.h"
#include "debug/dump.h"

namespace fiberrt {

void answer(const Request& request, int fd, int64_t timeout_ns) {
    switch (request.command) {
    case Command::dump_text: dump(fd); break;
    case Command::metrics: write_metrics(fd, timeout_ns); break;
    default: answer_error(fd, "not yet", timeout_ns);
    }
}

void answer_error(int fd, const char* why, int64_t timeout_ns) {
    Report report(fd, timeout_ns);
    report.put("error: ");
    report.put(why);
    report.put('\n');
    report.end();
}

} // namespace fiberrt
