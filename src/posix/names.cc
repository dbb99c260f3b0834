// SPDX-License-Identifier: MIT OR Apache-2.0
// getaddrinfo and getnameinfo. Another thread looks a name up, because the C library blocks while it reads files and
// asks name servers. Numbers need no other thread.
#include "posix/calls.h"
#include "posix/off_thread.h"

#include <string.h>

namespace fiberrt::posix {

namespace {

size_t size_of(const char* text) { return text ? strlen(text) + 1 : 0; }

const char* put(char*& end, const char* text) {
    if (!text) return nullptr;
    const char* copy = end;
    end = stpcpy(end, text) + 1;
    return copy;
}

// A lookup, and its texts behind it.
struct Lookup : Shared {
    addrinfo hints = {};
    bool has_hints = false;
    const char* node = nullptr;
    const char* service = nullptr;
    addrinfo* found = nullptr;
    int answer = EAI_FAIL;
    int error = 0; // errno, for EAI_SYSTEM

    ~Lookup() {
        if (found) freeaddrinfo(found);
    }
    void run() {
        answer = ::getaddrinfo(node, service, has_hints ? &hints : nullptr, &found);
        error = errno;
        if (answer) found = nullptr;
    }
};

Lookup* new_lookup(const char* node, const char* service, const addrinfo* hints) {
    auto* lookup = new_job<Lookup>(size_of(node) + size_of(service));
    if (!lookup) return nullptr;
    char* end = reinterpret_cast<char*>(lookup + 1);
    lookup->node = put(end, node);
    lookup->service = put(end, service);
    lookup->has_hints = hints;
    if (hints) {
        lookup->hints.ai_flags = hints->ai_flags;
        lookup->hints.ai_family = hints->ai_family;
        lookup->hints.ai_socktype = hints->ai_socktype;
        lookup->hints.ai_protocol = hints->ai_protocol;
    }
    return lookup;
}

// Whether the flags make the C library load another library, for which a fiber's stack is too small.
bool loads_library(const addrinfo* hints) { return hints && (hints->ai_flags & (AI_IDN | AI_CANONIDN)); }

// Looks up numbers only. EAI_NONAME: a text is no number.
int look_up_numbers(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
    constexpr int numbers = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo numeric = {};
    numeric.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG; // without hints
    if (hints) numeric = *hints;
    numeric.ai_flags |= numbers;
    return ::getaddrinfo(node, service, &numeric, found);
}

constexpr size_t longest_name = size_t(64) * 1024; // longer buffers are not needed

struct ReverseLookup : Shared {
    sockaddr_storage address = {};
    socklen_t address_length = 0;
    size_t host_size = 0;
    size_t service_size = 0;
    char* host = nullptr; // both behind the job
    char* service = nullptr;
    int flags = 0;
    int answer = EAI_FAIL;
    int error = 0;

    void run() {
        answer = ::getnameinfo(reinterpret_cast<sockaddr*>(&address), address_length, host, socklen_t(host_size),
                               service, socklen_t(service_size), flags);
        error = errno;
    }
};

} // namespace

int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** out) {
    if (!may_wait() || (!node && !service)) return ::getaddrinfo(node, service, hints, out);
    if (!loads_library(hints)) {
        int answer = look_up_numbers(node, service, hints, out);
        bool numbers_asked = hints && (hints->ai_flags & AI_NUMERICHOST) && (hints->ai_flags & AI_NUMERICSERV);
        if ((answer != EAI_NONAME && answer != EAI_SERVICE) || numbers_asked) {
            done_at_once();
            return answer;
        }
    }
    Lookup* made = new_lookup(node, service, hints);
    if (!made) return EAI_MEMORY;
    Share lookup(made);
    switch (run_off_thread(*lookup)) {
    case Next::block: return ::getaddrinfo(node, service, hints, out);
    case Next::fail: return EAI_SYSTEM;
    default: break;
    }
    if (lookup->answer == 0) {
        *out = lookup->found;
        lookup->found = nullptr;
    }
    if (lookup->answer == EAI_SYSTEM) errno = lookup->error;
    return lookup->answer;
}

int getnameinfo(const sockaddr* address, socklen_t address_length, char* host, socklen_t host_size, char* service,
                socklen_t service_size, int flags) {
    auto block = [&] { return ::getnameinfo(address, address_length, host, host_size, service, service_size, flags); };
    if (!may_wait() || !address || address_length > sizeof(sockaddr_storage)) return block();
    bool asks_host = host && host_size && !(flags & NI_NUMERICHOST);
    bool asks_service = service && service_size && !(flags & NI_NUMERICSERV);
    if (!asks_host && !asks_service) {
        done_at_once();
        return block();
    }
    size_t host_room = host_size < longest_name ? host_size : longest_name;
    size_t service_room = service_size < longest_name ? service_size : longest_name;
    auto* made = new_job<ReverseLookup>(host_room + service_room);
    if (!made) return EAI_MEMORY;
    Share lookup(made);
    memcpy(&lookup->address, address, address_length);
    lookup->address_length = address_length;
    lookup->flags = flags;
    char* behind = reinterpret_cast<char*>(&*lookup + 1);
    lookup->host_size = host ? host_room : 0;
    lookup->service_size = service ? service_room : 0;
    lookup->host = host ? behind : nullptr;
    lookup->service = service ? behind + host_room : nullptr;
    switch (run_off_thread(*lookup)) {
    case Next::block: return block();
    case Next::fail: return EAI_SYSTEM;
    default: break;
    }
    if (lookup->answer == EAI_SYSTEM) errno = lookup->error;
    if (lookup->answer) return lookup->answer;
    if (host && host_size) memcpy(host, lookup->host, strlen(lookup->host) + 1);
    if (service && service_size) memcpy(service, lookup->service, strlen(lookup->service) + 1);
    return 0;
}

} // namespace fiberrt::posix
