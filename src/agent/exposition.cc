// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/exposition.h"

#include "base/utf8.h"

namespace fiberrt {

namespace {

// A program's name may have any bytes. A byte that is no character of UTF-8, or a control character, becomes \xNN, and
// so does a backslash in front of an x: so different names stay different, as two samples must not have equal labels.
void put_label_value(Report& r, const char* value) {
    for (const auto* at = reinterpret_cast<const uint8_t*>(value); *at;) {
        int bytes = bytes_of_character(at);
        bool looks_like_an_escape = at[0] == '\\' && at[1] == 'x';
        if (!bytes || *at < 0x20 || *at == 0x7f || looks_like_an_escape) {
            r.put("\\\\x"); // in OpenMetrics a backslash is written as two
            r.number(*at++, 16, 2);
            continue;
        }
        if (*at == '"' || *at == '\\') r.put('\\');
        while (bytes--) r.put(char(*at++));
    }
}

} // namespace

void Exposition::family(const char* name, const char* type, const char* help, const char* unit) {
    family_ = name;
    const struct {
        const char* what;
        const char* text;
    } lines[] = {{"# TYPE ", type}, {"# UNIT ", unit}, {"# HELP ", help}};
    for (const auto& line : lines) {
        if (!line.text) continue;
        report_.put(line.what);
        report_.put(name);
        report_.put(' ');
        report_.put(line.text);
        report_.put('\n');
    }
}

Exposition& Exposition::begin(const char* suffix) {
    report_.put(family_);
    report_.put(suffix);
    in_labels_ = false;
    return *this;
}

void Exposition::open_label(const char* name) {
    report_.put(in_labels_ ? ',' : '{');
    in_labels_ = true;
    report_.put(name);
    report_.put("=\"");
}

Exposition& Exposition::label(const char* name, const char* value) {
    if (!*value) return *this;
    open_label(name);
    put_label_value(report_, value);
    report_.put('"');
    return *this;
}

Exposition& Exposition::label_id(const char* name, uint64_t id) {
    open_label(name);
    report_.id(id);
    report_.put('"');
    return *this;
}

void Exposition::close_labels() {
    if (in_labels_) report_.put('}');
    report_.put(' ');
}

void Exposition::value(uint64_t n) {
    close_labels();
    report_.number(n);
    report_.put('\n');
}

void Exposition::seconds(uint64_t ns) {
    close_labels();
    report_.number(ns / 1'000'000'000);
    report_.put('.');
    report_.number(ns % 1'000'000'000, 10, 9);
    report_.put('\n');
}

void Exposition::end() { report_.put("# EOF\n"); }

} // namespace fiberrt
