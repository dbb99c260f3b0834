// SPDX-License-Identifier: MIT OR Apache-2.0
// Parses the texts of addresses, and orders resolved addresses.
#include "io/address.h"

#include "base/parse_number.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

namespace fiberrt {

namespace {

// Returns the first address from `at` on whose family is `family`, or, if of_it is false, another family.
const addrinfo* find(const addrinfo* at, int family, bool of_it) {
    while (at && (at->ai_family == family) != of_it) at = at->ai_next;
    return at;
}

// Whether the text may be a port. Numbers above 65,535 are refused because the C library would cut them, port 0 because
// no socket listens on it. A text that is not a number is the name of a service.
bool is_port(const char* text) {
    if (strspn(text, "+- \t\n\v\f\r")) return false; // strtol would accept these, here and in the C library
    if (text[strspn(text, "0123456789")]) return true;
    uint64_t number;
    return parse_decimal(&text, &number) && number > 0 && number <= 65535;
}

} // namespace

int split_address(const char* address, char* host, size_t size, const char** port) {
    const char* colon = strrchr(address, ':');
    if (!colon || !colon[1] || !is_port(colon + 1)) return -EINVAL;
    const char* begin = address;
    const char* end = colon;
    if (*begin == '[') {
        if (end[-1] != ']') return -EINVAL;
        begin++;
        end--;
    } else if (memchr(begin, ':', size_t(end - begin))) {
        return -EINVAL; // an IPv6 address without brackets: where the port begins is unclear
    }
    if (end <= begin) return -EINVAL;
    auto length = size_t(end - begin);
    if (memchr(begin, '[', length) || memchr(begin, ']', length)) return -EINVAL;
    if (length >= size) return -ENAMETOOLONG;
    memcpy(host, begin, length);
    host[length] = '\0';
    *port = colon + 1;
    return 0;
}

int unix_address(const char* path, sockaddr_un* out, socklen_t* length_out) {
    *out = {};
    out->sun_family = AF_UNIX;
    bool abstract = path[0] == '@';
    size_t length = strlen(path);
    if (length <= abstract) return -EINVAL;
    if (length >= sizeof out->sun_path) return -ENAMETOOLONG;
    memcpy(out->sun_path, path, length);
    if (abstract) out->sun_path[0] = '\0';
    // For an abstract name the length counts exactly the name's bytes; a path also has its final 0.
    *length_out = socklen_t(offsetof(sockaddr_un, sun_path) + length + !abstract);
    return 0;
}

void interleave(const addrinfo* list, const addrinfo** out) {
    int family = list->ai_family;
    const addrinfo* one = list;
    const addrinfo* other = find(list, family, false);
    while (one || other) {
        if (one) *out++ = one;
        if (other) *out++ = other;
        if (one) one = find(one->ai_next, family, true);
        if (other) other = find(other->ai_next, family, false);
    }
}

} // namespace fiberrt
