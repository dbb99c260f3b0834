// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trace/names.h"

#include <string.h>

namespace fiberrt::trace {

namespace {

uint32_t hash_of(const char* name, size_t length) { // FNV-1a
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ uint8_t(name[i])) * 16777619u;
    return hash;
}

// The length of the UTF-8 character at this place; 0: there is none.
size_t character_at(const char* text, size_t left) {
    auto byte = [&](size_t i) { return uint8_t(text[i]); };
    auto more = [&](size_t i) { return i < left && (byte(i) & 0xc0) == 0x80; };
    uint8_t first = byte(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    if (first >= 0xc2 && first < 0xe0) return more(1) ? 2 : 0;
    if (first >= 0xe0 && first < 0xf0) {
        if (!more(1) || !more(2)) return 0;
        bool overlong = first == 0xe0 && byte(1) < 0xa0;
        bool surrogate = first == 0xed && byte(1) >= 0xa0;
        return overlong || surrogate ? 0 : 3;
    }
    if (first >= 0xf0 && first < 0xf5) {
        if (!more(1) || !more(2) || !more(3)) return 0;
        bool overlong = first == 0xf0 && byte(1) < 0x90;
        bool beyond = first == 0xf4 && byte(1) >= 0x90;
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

} // namespace

uint32_t Names::number_of(const char* name, size_t length, bool& fresh) {
    uint32_t hash = hash_of(name, length);
    uint32_t place = hash % places;
    for (; uint32_t number = number_at_[place]; place = (place + 1) % places) {
        const auto& known = names_[number];
        if (known.hash == hash && known.length == length && memcmp(bytes_ + known.begin, name, length) == 0) {
            fresh = false;
            return number;
        }
    }
    if (count_ == most || length > bytes_most - used_) return 0;
    fresh = true;
    memcpy(bytes_ + used_, name, length);
    names_[++count_] = {hash, used_, uint32_t(length)};
    used_ += uint32_t(length);
    return number_at_[place] = count_;
}

void Names::empty() {
    memset(number_at_, 0, sizeof number_at_);
    count_ = used_ = 0;
}

size_t clean_text(char* out, size_t most, const char* text, size_t length) {
    size_t used = 0;
    for (size_t at = 0; at < length;) {
        size_t size = character_at(text + at, length - at);
        if (used + (size ? size : 1) > most) break;
        if (size) {
            memcpy(out + used, text + at, size);
        } else {
            out[used] = '?';
        }
        used += size ? size : 1;
        at += size ? size : 1;
    }
    return used;
}

} // namespace fiberrt::trace
