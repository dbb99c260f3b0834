// SPDX-License-Identifier: MIT OR Apache-2.0
// The findings of fiberrt-doctor, one for each thing that it checks, and their form as text and as JSON.
#pragma once

#include <stdint.h>
#include <string>
#include <utility>
#include <vector>

struct Finding {
    const char* name;      // stable: programs may compare it
    bool limited = false;  // the library could do more, or the same at less cost, with another setting or kernel
    std::string text = {}; // the state of the machine, and how the library deals with it
    std::vector<std::pair<const char*, std::string>> facts = {}; // for programs: names and JSON values

    Finding& fact(const char* fact, const std::string& value);
    Finding& fact(const char* fact, const char* value) { return this->fact(fact, std::string(value)); }
    Finding& fact(const char* fact, int64_t value);
    Finding& fact(const char* fact, bool value);
};

using Findings = std::vector<Finding>;

std::string as_text(const Findings& findings, const char* version, const std::string& verdict);
std::string as_json(const Findings& findings, const char* version, const std::string& verdict);
