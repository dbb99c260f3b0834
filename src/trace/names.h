// SPDX-License-Identifier: MIT OR Apache-2.0
// The names that a trace has already: the writer writes such a name as its number. When the table is full, the writer
// empties it, and the trace says that all numbers are void.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt::trace {

class Names {
public:
    // The number of a name, from 1 on. fresh: this call has given the number. 0: the table is full.
    uint32_t number_of(const char* name, size_t length, bool& fresh);
    void empty();

    static constexpr uint32_t most = 8192;

private:
    static constexpr uint32_t places = 2 * most;
    static constexpr uint32_t bytes_most = 1u << 19;

    uint32_t count_ = 0;
    uint32_t used_ = 0;
    uint32_t number_at_[places]; // 0: the place is free. A name lies at the first free place from its hash on
    struct {
        uint32_t hash, begin, length;
    } names_[most + 1];
    char bytes_[bytes_most];
};

// Copies text, with a '?' for each control character and for bytes that are not UTF-8. Cuts it to `most` bytes, not
// within a character. Returns the length.
size_t clean_text(char* out, size_t most, const char* text, size_t length);

} // namespace fiberrt::trace
