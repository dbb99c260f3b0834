// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/request.h"

#include "base/parse_number.h"

#include <errno.h>
#include <string.h>

namespace fiberrt {

namespace {

struct KnownRequest {
    Command command;
    const char* words;
};

constexpr KnownRequest known_requests[] = {
#define FIBERRT_REQUEST(name, words) {Command::name, words},
    FIBERRT_REQUESTS(FIBERRT_REQUEST)
#undef FIBERRT_REQUEST
};

} // namespace

int parse_request(const char* line, size_t length, Request* out) {
    char text[request_most + 1];
    if (length > request_most || memchr(line, '\0', length)) return -EINVAL;
    memcpy(text, line, length);
    text[length] = '\0';
    for (const KnownRequest& request : known_requests) {
        size_t words = strlen(request.words);
        bool has_id = request.words[words - 1] == ' ';
        *out = {request.command, 0};
        if (!has_id && strcmp(text, request.words) == 0) return 0;
        if (!has_id || strncmp(text, request.words, words) != 0) continue;
        const char* at = text + words;
        return parse_decimal(&at, &out->id) && !*at ? 0 : -EINVAL;
    }
    return -EINVAL;
}

} // namespace fiberrt
