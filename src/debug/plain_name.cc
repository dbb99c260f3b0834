// SPDX-License-Identifier: MIT OR Apache-2.0
// The Itanium C++ ABI describes the names: "_Z" and one part, or "_ZN", parts and "E". A part is its length and its
// text.
#include "debug/plain_name.h"

#include "base/parse_number.h"

#include <string.h>

namespace fiberrt {

namespace {

class Text {
public:
    Text(char* out, size_t size) : out_(out), left_(size) {}

    bool put(const char* text, size_t length) {
        if (length >= left_) return false;
        memcpy(out_, text, length);
        out_ += length;
        left_ -= length;
        *out_ = '\0';
        return true;
    }

private:
    char* out_;
    size_t left_;
};

// Puts the part at *at, and moves *at behind it.
bool put_part(const char** at, Text& text) {
    constexpr char without_a_name[] = "_GLOBAL__N_1";
    constexpr char for_people[] = "(anonymous namespace)";
    if (**at == 'L') ++*at; // it is local to its file
    uint64_t length;
    if (!parse_decimal(at, &length) || !length || strnlen(*at, length) < length) return false;
    bool has_no_name = length == sizeof without_a_name - 1 && memcmp(*at, without_a_name, length) == 0;
    bool had_room = has_no_name ? text.put(for_people, sizeof for_people - 1) : text.put(*at, length);
    *at += length;
    return had_room;
}

} // namespace

bool plain_name(const char* linkers_name, char* out, size_t size) {
    const char* at = linkers_name;
    if (strncmp(at, "_Z", 2) != 0) return false;
    at += 2;
    Text text(out, size);
    bool nested = *at == 'N';
    // A part that is followed by I is a template's.
    if (!nested) return put_part(&at, text) && *at != 'I';
    at++;
    at += strspn(at, "rVKRO"); // of a member function: const and the like
    for (bool first = true; *at != 'E'; first = false) {
        if (!first && !text.put("::", 2)) return false;
        if (!put_part(&at, text)) return false;
    }
    return true;
}

} // namespace fiberrt
