// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads JSON (RFC 8259) from front to back, without a tree: the caller asks for the values in the order of the text,
// and skips those that it does not know. After a mistake in the text every call returns false; failed() tells.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string>
#include <string_view>

namespace top {

class JsonReader {
public:
    explicit JsonReader(std::string_view text) : text_(text) {}

    // An object: if (begin_object()) while (next_member(key)) ... one value each. An array works in the same way.
    bool begin_object() { return begin('{'); }
    bool next_member(std::string& key);
    bool begin_array() { return begin('['); }
    bool next_element();

    // The next value, if it has this type; another type is a mistake.
    bool read(std::string& out);
    bool read(uint64_t& out); // a number without a fraction, or a string of decimal digits
    bool read(int64_t& out);
    bool read(bool& out);
    bool read_null(); // whether the next value is null, which it then takes
    char kind();      // of the next value: '{' '[' '"' 't' 'f' 'n' '0' (a number), or 0

    bool skip(); // takes the next value, of any type

    // Whether nothing but blanks is left.
    bool at_end();

    bool failed() const { return failed_; }
    size_t position() const { return at_; }

private:
    static constexpr int depth_most = 64;

    bool fail() {
        failed_ = true;
        return false;
    }
    bool begin(char bracket);
    bool next(char bracket);
    void skip_blanks();
    bool take(std::string_view word);
    bool string(std::string& out);
    bool escape(std::string& out);
    bool code_unit(unsigned& out);
    bool number(std::string_view& out);

    std::string_view text_;
    size_t at_ = 0;
    int depth_ = 0;
    bool first_ = false; // the next member or element is the first one
    bool failed_ = false;
};

} // namespace top
