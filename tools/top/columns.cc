// SPDX-License-Identifier: MIT OR Apache-2.0
#include "columns.h"

#include <cstdio>
#include <cstring>
#include <cwchar>

namespace top {

namespace {

// The character at the front of the text: its bytes, and its columns; -1: it cannot be shown.
struct Character {
    size_t bytes;
    int columns;
};

Character first_of(std::string_view text) {
    mbstate_t state{};
    wchar_t wide;
    size_t bytes = mbrtowc(&wide, text.data(), text.size(), &state);
    if (bytes == 0 || bytes > text.size()) return {1, -1}; // a zero, or no character of this character set
    return {bytes, wcwidth(wide)};
}

std::string formatted(const char* format, double n, const char* unit) {
    char text[32];
    snprintf(text, sizeof text, format, n, unit);
    return text;
}

std::string scaled(double n, double step, const char* const* units) {
    int unit = 0;
    for (; n >= step && units[unit + 1]; unit++) n /= step;
    return formatted(unit == 0 || n >= 100 ? "%.0f%s" : "%.1f%s", n, units[unit]);
}

} // namespace

std::string plain(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        auto [bytes, columns] = first_of(text);
        if (columns < 0) {
            // If this character set lacks a character, its following bytes belong to the same '?'.
            bool follows = (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80;
            if (!follows) out += '?';
        } else {
            out += text.substr(0, bytes);
        }
        text.remove_prefix(bytes);
    }
    return out;
}

int width_of(std::string_view text) {
    int width = 0;
    while (!text.empty()) {
        auto [bytes, columns] = first_of(text);
        width += columns < 0 ? 1 : columns;
        text.remove_prefix(bytes);
    }
    return width;
}

std::string fit(std::string_view text, int width, bool right) {
    if (width <= 0) return "";
    std::string whole = plain(text);
    int columns = width_of(whole);
    if (columns <= width) {
        std::string blanks(size_t(width - columns), ' ');
        return right ? blanks + whole : whole + blanks;
    }
    std::string out;
    int used = 0;
    for (std::string_view rest = whole; !rest.empty();) {
        auto [bytes, wide] = first_of(rest);
        if (used + wide > width - 1) break;
        out += rest.substr(0, bytes);
        used += wide;
        rest.remove_prefix(bytes);
    }
    return out + '~' + std::string(size_t(width - 1 - used), ' ');
}

std::string short_number(double n) {
    static const char* const units[] = {"", "k", "M", "G", "T", nullptr};
    return scaled(n, 1000, units);
}

std::string short_bytes(uint64_t n) {
    static const char* const units[] = {"", "K", "M", "G", "T", nullptr};
    return scaled(double(n), 1024, units);
}

std::string short_time(uint64_t ns) {
    double seconds = double(ns) / 1e9;
    if (seconds >= 3600) return formatted("%.1f%s", seconds / 3600, " h");
    if (seconds >= 60) return formatted("%.1f%s", seconds / 60, " min");
    if (seconds >= 1) return formatted("%.1f%s", seconds, " s");
    if (seconds >= 0.001) return formatted("%.1f%s", seconds * 1e3, " ms");
    return formatted("%.0f%s", double(ns) / 1e3, " us");
}

std::string hexadecimal(uint64_t id) {
    char text[32];
    snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(id));
    return text;
}

} // namespace top
