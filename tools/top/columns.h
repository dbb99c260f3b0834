// SPDX-License-Identifier: MIT OR Apache-2.0
// Text in columns of a terminal. The texts come from another process: control characters become '?'.
#pragma once

#include <stdint.h>
#include <string>
#include <string_view>

namespace top {

// Makes the text exactly `width` columns wide: cuts it, with '~' at the end, or fills it with blanks. right: the blanks
// stand in front of it.
std::string fit(std::string_view text, int width, bool right = false);

// The text without control characters, and with '?' for characters that the terminal's character set lacks.
std::string plain(std::string_view text);

int width_of(std::string_view plain_text); // in columns

// At most five characters: 12345 is "12.3k". A number of bytes: 262144 is "256K".
std::string short_number(double n);
std::string short_bytes(uint64_t n);
std::string short_time(uint64_t ns); // "1.5 s"
std::string hexadecimal(uint64_t id);

} // namespace top
