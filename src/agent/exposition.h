// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the syntax of OpenMetrics text: families of metrics, samples, labels.
#pragma once

#include "base/report.h"

#include <stdint.h>

namespace fiberrt {

class Exposition {
public:
    explicit Exposition(Report& report) : report_(report) {}

    // Begins a family of metrics. unit: null, or the last word of the name.
    void family(const char* name, const char* type, const char* help, const char* unit = nullptr);

    // One sample of the family: begin(), its labels, value(). suffix is "_total" for a counter.
    Exposition& begin(const char* suffix = "");
    Exposition& label(const char* name, const char* value); // nothing if value is empty
    Exposition& label_id(const char* name, uint64_t id);
    void value(uint64_t n);
    void seconds(uint64_t ns);

    void end(); // of the whole text

private:
    void open_label(const char* name);
    void close_labels();

    Report& report_;
    const char* family_ = "";
    bool in_labels_ = false;
};

} // namespace fiberrt
