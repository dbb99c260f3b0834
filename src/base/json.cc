// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the strings of JSON.
#include "base/json.h"

#include "base/utf8.h"

namespace fiberrt {

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
    for (const auto* at = reinterpret_cast<const uint8_t*>(text); *at;) {
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
