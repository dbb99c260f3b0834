// SPDX-License-Identifier: MIT OR Apache-2.0
// Prints findings as text or as JSON.
#include "findings.h"

#include <stdio.h>

namespace {

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            char code[8];
            snprintf(code, sizeof code, "\\u%04x", unsigned(c));
            out += code;
        } else {
            out += c;
        }
    }
    return out + '"';
}

// Breaks the text into lines between words, and indents each line except the first.
std::string wrapped(const std::string& text, size_t margin) {
    constexpr size_t width = 100;
    std::string out;
    size_t column = margin;
    for (size_t at = 0; at < text.size();) {
        size_t end = text.find(' ', at);
        if (end == std::string::npos) end = text.size();
        if (column > margin && column + 1 + (end - at) > width) {
            out += '\n' + std::string(margin, ' ');
            column = margin;
        } else if (column > margin) {
            out += ' ';
            column++;
        }
        out.append(text, at, end - at);
        column += end - at;
        at = end + 1;
    }
    return out;
}

} // namespace

Finding& Finding::fact(const char* fact, const std::string& value) {
    facts.emplace_back(fact, quoted(value));
    return *this;
}

Finding& Finding::fact(const char* fact, int64_t value) {
    facts.emplace_back(fact, std::to_string(value));
    return *this;
}

Finding& Finding::fact(const char* fact, bool value) {
    facts.emplace_back(fact, value ? "true" : "false");
    return *this;
}

std::string as_text(const Findings& findings, const char* version, const std::string& verdict) {
    std::string out = "fiberrt-doctor " + std::string(version) + ": how libfiberrt works on this machine\n\n";
    for (const Finding& finding : findings) {
        std::string head = std::string(finding.limited ? "limited  " : "ok       ") + finding.name;
        head.resize(head.size() < 26 ? 26 : head.size() + 1, ' ');
        out += head + wrapped(finding.text, head.size()) + '\n';
    }
    return out + '\n' + wrapped(verdict, 0) + '\n';
}

std::string as_json(const Findings& findings, const char* version, const std::string& verdict) {
    std::string out =
        "{\n  \"version\": " + quoted(version) + ",\n  \"verdict\": " + quoted(verdict) + ",\n  \"findings\": [";
    const char* between = "\n";
    for (const Finding& finding : findings) {
        out += between;
        out += "    {\"name\": " + quoted(finding.name) + ", \"limited\": " + (finding.limited ? "true" : "false");
        for (const auto& [name, value] : finding.facts) out += ", " + quoted(name) + ": " + value;
        out += ", \"text\": " + quoted(finding.text) + "}";
        between = ",\n";
    }
    return out + "\n  ]\n}\n";
}
