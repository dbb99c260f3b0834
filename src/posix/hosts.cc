// SPDX-License-Identifier: MIT OR Apache-2.0
// gethostbyname and similar functions, on another thread. The functions whose result is static memory of the C library
// give each fiber its own result, valid until the fiber's next such call or its end.
#include "posix/calls.h"
#include "posix/off_thread.h"
#include "posix/plain.h"

#include <arpa/inet.h>
#include <string.h>

namespace fiberrt::posix {

namespace {

constexpr size_t first_size = 1024;
constexpr size_t largest_size = size_t(1) << 20;

// A question by name (address_length is 0) or by address, and the answer.
struct HostQuestion : Shared {
    int family = AF_UNSPEC; // by name: AF_UNSPEC asks as gethostbyname does
    socklen_t address_length = 0;
    in6_addr address = {};
    const char* name = nullptr; // behind the job
    char* buffer = nullptr;     // the answer's memory, malloc's
    hostent host = {};
    bool found = false;
    int answer = 0; // as gethostbyname_r
    int error = 0;  // h_errno

    ~HostQuestion() { free(buffer); }

    void run() {
        for (size_t size = first_size; size <= largest_size; size *= 2) {
            char* larger = static_cast<char*>(realloc(buffer, size));
            if (!larger) break;
            buffer = larger;
            hostent* result = nullptr;
            answer = ask(size, &result);
            found = answer == 0 && result;
            if (answer != ERANGE) return;
        }
        answer = ENOMEM;
        error = NETDB_INTERNAL;
    }

private:
    int ask(size_t size, hostent** result) {
        if (address_length)
            return plain.gethostbyaddr_r(&address, address_length, family, &host, buffer, size, result, &error);
        if (family == AF_UNSPEC) return plain.gethostbyname_r(name, &host, buffer, size, result, &error);
        return plain.gethostbyname2_r(name, family, &host, buffer, size, result, &error);
    }
};

HostQuestion* by_name(const char* name, int family) {
    size_t size = strlen(name) + 1;
    auto* question = new_job<HostQuestion>(size);
    if (!question) return nullptr;
    auto* copy = reinterpret_cast<char*>(question + 1);
    memcpy(copy, name, size);
    question->name = copy;
    question->family = family;
    return question;
}

HostQuestion* by_address(const void* address, socklen_t length, int family) {
    auto* question = new_job<HostQuestion>(0);
    if (!question) return nullptr;
    memcpy(&question->address, address, length);
    question->address_length = length;
    question->family = family;
    return question;
}

bool is_number(const char* name) {
    in6_addr any;
    return inet_aton(name, reinterpret_cast<in_addr*>(&any)) || inet_pton(AF_INET6, name, &any) == 1;
}

// Answers the question: a number here, a name on another thread. block: there was no other thread, so this thread has
// answered it.
Next answer(HostQuestion& question) {
    if (question.name && is_number(question.name)) {
        question.run();
        done_at_once();
        return Next::retry;
    }
    Next next = run_off_thread(question);
    if (next == Next::block) question.run();
    return next;
}

// A refused question is like one that no name server has answered.
int refused() { return TRY_AGAIN; }

// ---- The caller's buffer

class Packing {
public:
    Packing(char* buffer, size_t size) : at_(buffer), left_(size) {}

    // Null: there is no room.
    void* take(size_t bytes, size_t alignment) {
        size_t skipped = -reinterpret_cast<uintptr_t>(at_) & (alignment - 1);
        if (left_ < skipped || left_ - skipped < bytes) return nullptr;
        char* place = at_ + skipped;
        at_ = place + bytes;
        left_ -= skipped + bytes;
        return place;
    }
    char* copy(const void* from, size_t bytes, size_t alignment) {
        void* to = take(bytes, alignment);
        if (to) memcpy(to, from, bytes);
        return static_cast<char*>(to);
    }

private:
    char* at_;
    size_t left_;
};

// Copies a list that ends with null. bytes: of each item; 0: items are texts. Null: there is no room.
char** pack_list(Packing& packing, char* const* items, size_t bytes) {
    size_t count = 0;
    while (items && items[count]) count++;
    auto* list = static_cast<char**>(packing.take((count + 1) * sizeof(char*), alignof(char*)));
    if (!list) return nullptr;
    for (size_t i = 0; i < count; i++) {
        list[i] = packing.copy(items[i], bytes ? bytes : strlen(items[i]) + 1, bytes ? alignof(in6_addr) : 1);
        if (!list[i]) return nullptr;
    }
    list[count] = nullptr;
    return list;
}

bool pack(const hostent& from, hostent* to, char* buffer, size_t size) {
    Packing packing(buffer, size);
    to->h_addrtype = from.h_addrtype;
    to->h_length = from.h_length;
    to->h_addr_list = pack_list(packing, from.h_addr_list, size_t(from.h_length));
    to->h_aliases = to->h_addr_list ? pack_list(packing, from.h_aliases, 0) : nullptr;
    to->h_name = to->h_aliases ? packing.copy(from.h_name, strlen(from.h_name) + 1, 1) : nullptr;
    return to->h_name;
}

int answer_into(HostQuestion* made, hostent* host, char* buffer, size_t size, hostent** result, int* host_error) {
    *result = nullptr;
    if (!made) {
        *host_error = NETDB_INTERNAL;
        return errno = ENOMEM;
    }
    Share question(made);
    if (answer(*question) == Next::fail) {
        *host_error = refused();
        return errno;
    }
    *host_error = question->error;
    if (question->answer) return errno = question->answer;
    if (!question->found) return 0;
    if (!pack(question->host, host, buffer, size)) {
        *host_error = NETDB_INTERNAL;
        return errno = ERANGE;
    }
    *result = host;
    return 0;
}

// ---- The fiber's own result

// The key of each fiber's last answer, a HostQuestion. Zero: it could not be made.
fiber_key_t answers_key() {
    static constinit std::atomic<uint64_t> made = 0;
    fiber_key_t key{made.load(std::memory_order_relaxed)};
    if (key.id) return key;
    if (fiber_key_create(&key, [](void* value) { give_up_share(static_cast<HostQuestion*>(value)); })) return {};
    uint64_t none = 0;
    // Relaxed: the handle is all that a thread needs of the key.
    if (made.compare_exchange_strong(none, key.id, std::memory_order_relaxed)) return key;
    (void)fiber_key_delete(key);
    return {none};
}

hostent* answer_of_fiber(HostQuestion* made) {
    if (!made) {
        h_errno = NETDB_INTERNAL;
        errno = ENOMEM;
        return nullptr;
    }
    if (answer(*made) == Next::fail) {
        h_errno = refused();
        give_up_share(made);
        return nullptr;
    }
    h_errno = made->error;
    if (made->answer) errno = made->answer;
    Entered entered;
    fiber_key_t key = entered ? answers_key() : fiber_key_t{};
    if (!made->found || !key.id) {
        if (made->found) h_errno = NETDB_INTERNAL;
        give_up_share(made);
        return nullptr;
    }
    auto* last = static_cast<HostQuestion*>(fiber_key_get(key));
    if (fiber_key_set(key, made)) {
        h_errno = NETDB_INTERNAL;
        give_up_share(made);
        return nullptr;
    }
    if (last) give_up_share(last);
    return &made->host;
}

} // namespace

hostent* gethostbyname(const char* name) {
    return may_wait() ? answer_of_fiber(by_name(name, AF_UNSPEC)) : plain.gethostbyname(name);
}

hostent* gethostbyname2(const char* name, int family) {
    return may_wait() ? answer_of_fiber(by_name(name, family)) : plain.gethostbyname2(name, family);
}

hostent* gethostbyaddr(const void* address, socklen_t length, int family) {
    if (!may_wait() || !length || length > sizeof(in6_addr)) return plain.gethostbyaddr(address, length, family);
    return answer_of_fiber(by_address(address, length, family));
}

int gethostbyname_r(const char* name, hostent* host, char* buffer, size_t size, hostent** result, int* host_error) {
    if (!may_wait()) return plain.gethostbyname_r(name, host, buffer, size, result, host_error);
    return answer_into(by_name(name, AF_UNSPEC), host, buffer, size, result, host_error);
}

int gethostbyname2_r(const char* name, int family, hostent* host, char* buffer, size_t size, hostent** result,
                     int* host_error) {
    if (!may_wait()) return plain.gethostbyname2_r(name, family, host, buffer, size, result, host_error);
    return answer_into(by_name(name, family), host, buffer, size, result, host_error);
}

int gethostbyaddr_r(const void* address, socklen_t length, int family, hostent* host, char* buffer, size_t size,
                    hostent** result, int* host_error) {
    if (!may_wait() || !length || length > sizeof(in6_addr))
        return plain.gethostbyaddr_r(address, length, family, host, buffer, size, result, host_error);
    return answer_into(by_address(address, length, family), host, buffer, size, result, host_error);
}

} // namespace fiberrt::posix
