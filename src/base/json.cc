// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the strings of JSON.
#include "base/json.h"

namespace fiberrt {

namespace {

// The bytes of the UTF-8 character that begins at `text`; 0: none begins there. (The Unicode standard, table 3-7.)
int bytes_of_character(const uint8_t* text) {
    uint8_t first = text[0];
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    int bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < bytes; i++) {
        if (text[i] < low || text[i] > high) return 0; // the end of the text among them
        low = 0x80;
        high = 0xbf;
    }
    return bytes;
}

} // namespace

void Json::begin(const char* key) {
    if (follows_) out_.put(',');
    follows_ = true;
    if (!key) return;
    quoted(key);
    out_.put(':');
}

void Json::string(const char* key, const char* text) {
    begin(key);
    quoted(text);
}

void Json::quoted(const char* text) {
    out_.put('"');
    for (auto* at = reinterpret_cast<const uint8_t*>(text); *at;) {
        int bytes = bytes_of_character(at);
        if (*at == '"' || *at == '\\') out_.put('\\');
        if (*at < 0x20 || *at == 0x7f || !bytes) {
            out_.put("\\u");
            out_.number(bytes ? *at : 0xfffd, 16, 4);
            at++;
            continue;
        }
        while (bytes--) out_.put(char(*at++));
    }
    out_.put('"');
}

} // namespace fiberrt
