// SPDX-License-Identifier: MIT OR Apache-2.0
// What fiberrt-doctor has found out, one finding for each thing that it looks at, and how it is shown: to people, or as
// JSON.
#pragma once

#include <stdint.h>
#include <string>
#include <utility>
#include <vector>

struct Finding {
    const char* name;      // for programs
    bool limited = false;  // the library could do more, or with less, if this were otherwise
    std::string text = {}; // what is so, and what the library does about it
    std::vector<std::pair<const char*, std::string>> facts = {}; // the same for programs: names and JSON values

    Finding& fact(const char* fact, const std::string& value);
    Finding& fact(const char* fact, const char* value) { return this->fact(fact, std::string(value)); }
    Finding& fact(const char* fact, int64_t value);
    Finding& fact(const char* fact, bool value);
};

using Findings = std::vector<Finding>;

std::string as_text(const Findings& findings, const char* version, const std::string& verdict);
std::string as_json(const Findings& findings, const char* version, const std::string& verdict);
