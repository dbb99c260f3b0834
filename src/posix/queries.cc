// SPDX-License-Identifier: MIT OR Apache-2.0
// res_query and similar functions, on another thread. That thread does not share the resolver's state. It gets a copy
// of the settings that a program may change (options, name servers, times, search domain), and returns only the answer
// and the error. So RES_STAYOPEN and hooks have no effect.
#include "posix/calls.h"
#include "posix/off_thread.h"

#include <resolv.h>
#include <string.h>

namespace fiberrt::posix {

namespace {

using State = struct __res_state;

constexpr int largest_answer = 64 * 1024; // of the protocol

enum class Form { query, search, in_domain, message };

// The settings of a state that a program has initialised.
struct Settings {
    bool given = false;
    int retrans = 0;
    int retry = 0;
    unsigned long options = 0;
    int servers = 0;
    sockaddr_in server[MAXNS] = {};
    unsigned dots = 0;
    char domain[sizeof(State::defdname)] = {};

    explicit Settings(const State& state) {
        if (!(state.options & RES_INIT)) return;
        given = true;
        retrans = state.retrans;
        retry = state.retry;
        options = state.options;
        servers = state.nscount;
        memcpy(server, state.nsaddr_list, sizeof server);
        dots = state.ndots;
        memcpy(domain, state.defdname, sizeof domain);
    }

    void apply(State& state) const {
        if (!given) return;
        state.retrans = retrans;
        state.retry = retry;
        state.options = options & ~RES_STAYOPEN;
        state.ndots = dots & 15;
        // The C library gives up its own list of servers if this one differs.
        if (servers != state.nscount || memcmp(server, state.nsaddr_list, sizeof server) != 0) {
            state.nscount = servers;
            memcpy(state.nsaddr_list, server, sizeof server);
        }
        if (memcmp(domain, state.defdname, sizeof domain) != 0) {
            memcpy(state.defdname, domain, sizeof domain);
            state.dnsrch[0] = state.defdname;
            state.dnsrch[1] = nullptr;
        }
    }
};

struct Query : Shared {
    explicit Query(const State& state) : settings(state) {}
    Settings settings;
    Form form = Form::query;
    int record_class = 0;
    int type = 0;
    const char* name = nullptr; // the texts, the message and the answer are behind the job
    const char* domain = nullptr;
    const unsigned char* message = nullptr;
    int message_size = 0;
    unsigned char* answer = nullptr;
    int answer_size = 0;
    int result = -1;
    int error = 0;      // errno
    int host_error = 0; // h_errno

    void run() {
        State state = {};
        if (res_ninit(&state)) {
            error = errno;
            host_error = NETDB_INTERNAL;
            return;
        }
        settings.apply(state);
        result = ask(state);
        error = errno;
        host_error = state.res_h_errno;
        res_nclose(&state);
    }

private:
    int ask(State& state) const {
        switch (form) {
        case Form::query: return ::res_nquery(&state, name, record_class, type, answer, answer_size);
        case Form::search: return ::res_nsearch(&state, name, record_class, type, answer, answer_size);
        case Form::in_domain: return ::res_nquerydomain(&state, name, domain, record_class, type, answer, answer_size);
        case Form::message: break;
        }
        return ::res_nsend(&state, message, message_size, answer, answer_size);
    }
};

struct Question {
    Form form;
    const char* name;
    const char* domain;
    int record_class;
    int type;
    const unsigned char* message;
    int message_size;
};

Query* new_query(const State& state, const Question& question, int answer_size) {
    KeepErrno keep;
    size_t name_size = question.name ? strlen(question.name) + 1 : 0;
    size_t domain_size = question.domain ? strlen(question.domain) + 1 : 0;
    size_t message_size = question.message ? size_t(question.message_size) : 0;
    size_t behind = name_size + domain_size + message_size + size_t(answer_size);
    void* memory = malloc(sizeof(Query) + behind);
    if (!memory) return nullptr;
    auto* query = new (memory) Query(state);
    query->form = question.form;
    query->record_class = question.record_class;
    query->type = question.type;
    char* at = reinterpret_cast<char*>(query + 1);
    auto put = [&](const void* from, size_t size) {
        char* copy = at;
        if (size) memcpy(copy, from, size);
        at += size;
        return size ? copy : nullptr;
    };
    query->name = put(question.name, name_size);
    query->domain = put(question.domain, domain_size);
    query->message = reinterpret_cast<unsigned char*>(put(question.message, message_size));
    query->message_size = question.message_size;
    query->answer = reinterpret_cast<unsigned char*>(at);
    query->answer_size = answer_size;
    return query;
}

// state: has the settings, and gets the error. of_thread: it is the thread's state, so the call sets h_errno, too.
template <class Block>
int ask(State& state, bool of_thread, const Question& question, unsigned char* answer, int size, Block block) {
    if (!may_wait() || size <= 0 || !answer || question.message_size < 0) return block();
    int room = size < largest_answer ? size : largest_answer;
    Query* made = new_query(state, question, room);
    if (!made) return block();
    Share query(made);
    switch (run_off_thread(*query)) {
    case Next::block: return block();
    case Next::fail:
        state.res_h_errno = TRY_AGAIN;
        if (of_thread) h_errno = TRY_AGAIN;
        return -1;
    default: break;
    }
    state.res_h_errno = query->host_error;
    if (of_thread) h_errno = query->host_error;
    if (query->result < 0) {
        errno = query->error;
        return -1;
    }
    memcpy(answer, query->answer, size_t(query->result < room ? query->result : room));
    return query->result;
}

} // namespace

int query(const char* name, int record_class, int type, unsigned char* answer, int size) noexcept {
    return ask(_res, true, {Form::query, name, nullptr, record_class, type, nullptr, 0}, answer, size,
               [&] { return ::res_query(name, record_class, type, answer, size); });
}

int search(const char* name, int record_class, int type, unsigned char* answer, int size) noexcept {
    return ask(_res, true, {Form::search, name, nullptr, record_class, type, nullptr, 0}, answer, size,
               [&] { return ::res_search(name, record_class, type, answer, size); });
}

int querydomain(const char* name, const char* domain, int record_class, int type, unsigned char* answer,
                int size) noexcept {
    return ask(_res, true, {Form::in_domain, name, domain, record_class, type, nullptr, 0}, answer, size,
               [&] { return ::res_querydomain(name, domain, record_class, type, answer, size); });
}

int send_query(const unsigned char* message, int message_size, unsigned char* answer, int size) noexcept {
    return ask(_res, true, {Form::message, nullptr, nullptr, 0, 0, message, message_size}, answer, size,
               [&] { return ::res_send(message, message_size, answer, size); });
}

int nquery(res_state state, const char* name, int record_class, int type, unsigned char* answer, int size) noexcept {
    return ask(*state, false, {Form::query, name, nullptr, record_class, type, nullptr, 0}, answer, size,
               [&] { return ::res_nquery(state, name, record_class, type, answer, size); });
}

int nsearch(res_state state, const char* name, int record_class, int type, unsigned char* answer, int size) noexcept {
    return ask(*state, false, {Form::search, name, nullptr, record_class, type, nullptr, 0}, answer, size,
               [&] { return ::res_nsearch(state, name, record_class, type, answer, size); });
}

int nquerydomain(res_state state, const char* name, const char* domain, int record_class, int type,
                 unsigned char* answer, int size) noexcept {
    return ask(*state, false, {Form::in_domain, name, domain, record_class, type, nullptr, 0}, answer, size,
               [&] { return ::res_nquerydomain(state, name, domain, record_class, type, answer, size); });
}

int nsend_query(res_state state, const unsigned char* message, int message_size, unsigned char* answer,
                int size) noexcept {
    return ask(*state, false, {Form::message, nullptr, nullptr, 0, 0, message, message_size}, answer, size,
               [&] { return ::res_nsend(state, message, message_size, answer, size); });
}

} // namespace fiberrt::posix
