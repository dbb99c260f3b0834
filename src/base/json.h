// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes JSON (RFC 8259) by a Report: it neither allocates nor takes a lock.
#pragma once

#include "base/report.h"

#include <stdint.h>

namespace fiberrt {

class Json {
public:
    explicit Json(Report& report) : out_(report) {}

    // Begin and end an object or an array. key null: it is an element of an array, or the whole text.
    void object(const char* key = nullptr) { open(key, '{'); }
    void end_object() { close('}'); }
    void array(const char* key = nullptr) { open(key, '['); }
    void end_array() { close(']'); }

    // Put a member of an object, or, if key is null, an element of an array.
    void number(const char* key, uint64_t n) {
        begin(key);
        out_.number(n);
    }
    void signed_number(const char* key, int64_t n) {
        begin(key);
        if (n < 0) out_.put('-');
        out_.number(n < 0 ? -uint64_t(n) : uint64_t(n));
    }
    void boolean(const char* key, bool yes) {
        begin(key);
        out_.put(yes ? "true" : "false");
    }
    void null(const char* key) {
        begin(key);
        out_.put("null");
    }
    // The text of the program may have any bytes: those that are not UTF-8 become U+FFFD.
    void string(const char* key, const char* text);
    // A handle's id as a string of decimal digits: readers of JSON round numbers above 2^53.
    void id(const char* key, uint64_t id) {
        begin(key);
        out_.put('"');
        out_.number(id);
        out_.put('"');
    }
    // An address, as a string "0x…".
    void address(const char* key, uint64_t address) {
        begin(key);
        out_.put("\"0x");
        out_.number(address, 16);
        out_.put('"');
    }

private:
    void begin(const char* key);
    void open(const char* key, char bracket) {
        begin(key);
        out_.put(bracket);
        follows_ = false;
    }
    void close(char bracket) {
        out_.put(bracket);
        follows_ = true;
    }
    void quoted(const char* text);

    Report& out_;
    bool follows_ = false; // a member or an element stands before the next one
};

} // namespace fiberrt
