// SPDX-License-Identifier: MIT OR Apache-2.0
// Names to addresses. What is written in numbers needs no thread; for the rest the C library reads files and asks name
// servers, for as long as these take, and nothing ends that early: a caller who does not want to wait any more leaves
// without it.
#include "io/lookup.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/relay.h"
#include "io/offload.h"
#include "io/offload_call.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

namespace {

constexpr int plain_numbers = AI_NUMERICHOST | AI_NUMERICSERV;

// For which the C library loads another one, even of what is written in numbers: too much for a fiber's stack and
// thread.
#ifdef AI_IDN
constexpr int converted = AI_IDN | AI_CANONIDN;
#else
constexpr int converted = 0;
#endif

// What is asked, with the texts behind it, and what came of it.
struct Question {
    addrinfo hints = {};
    const char* node;
    const char* service;
    addrinfo* found = nullptr;
};

// Some errors would speak of the caller.
int errno_of_system(int error) {
    bool of_caller = error == EINTR || error == ECANCELED || error == ETIMEDOUT || error == EPERM;
    return of_caller || error <= 0 ? -EAGAIN : -error;
}

int errno_of(int answer) {
    switch (answer) {
    case 0: return 0;
    case EAI_NONAME:
    case EAI_SERVICE: return -ENOENT;
    case EAI_NODATA:
    case EAI_ADDRFAMILY: return -ENODATA;
    case EAI_AGAIN: return -EAGAIN;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_FAMILY: return -EAFNOSUPPORT;
    case EAI_SOCKTYPE: return -ESOCKTNOSUPPORT;
    case EAI_BADFLAGS: return -EINVAL;
    case EAI_OVERFLOW: return -EOVERFLOW;
    case EAI_SYSTEM: return errno_of_system(errno);
    default: return -EIO; // EAI_FAIL, and what C libraries may add
    }
}

int ask(const Question& question, int more_flags, addrinfo** found) {
    KeepErrno keep;
    addrinfo hints = question.hints;
    hints.ai_flags |= more_flags;
    errno = 0;
    int answer = getaddrinfo(question.node, question.service, &hints, found);
    // The C library takes what it could not open for what says nothing: "no such name". (Numbers need no descriptor.)
    bool none_left = errno == EMFILE || errno == ENFILE;
    return answer && none_left && !more_flags ? -errno : errno_of(answer);
}

int64_t ask_on_thread(void* arg) {
    auto* question = static_cast<Question*>(arg);
    return ask(*question, 0, &question->found);
}

void free_question(void* arg) {
    KeepErrno keep;
    auto* question = static_cast<Question*>(arg);
    if (question->found) freeaddrinfo(question->found);
    free(question);
}

size_t size_of(const char* text) { return text ? strlen(text) + 1 : 0; }

const char* put(char*& end, const char* text) {
    if (!text) return nullptr;
    const char* copy = end;
    end = stpcpy(end, text) + 1;
    return copy;
}

// Null: no memory.
Question* copy_of(const Question& question) {
    KeepErrno keep;
    void* memory = malloc(sizeof(Question) + size_of(question.node) + size_of(question.service));
    if (!memory) return nullptr;
    auto* copy = static_cast<Question*>(memory);
    *copy = question;
    char* end = reinterpret_cast<char*>(copy + 1);
    copy->node = put(end, question.node);
    copy->service = put(end, question.service);
    return copy;
}

// The question, without the hints' other members, which mean nothing. None: what the C library takes for none.
Question question_of(const char* node, const char* service, const addrinfo* hints) {
    Question question;
    question.node = node;
    question.service = service;
    question.hints.ai_flags = hints ? hints->ai_flags : AI_V4MAPPED | AI_ADDRCONFIG;
    if (hints) {
        question.hints.ai_family = hints->ai_family;
        question.hints.ai_socktype = hints->ai_socktype;
        question.hints.ai_protocol = hints->ai_protocol;
    }
    return question;
}

} // namespace

int lookup(const char* node, const char* service, const addrinfo* hints, addrinfo** out) {
    Question question = question_of(node, service, hints);
    Cord* cord;
    if (int error = offload_begin(&cord)) return error;
    int error = question.hints.ai_flags & converted ? -ENOENT : ask(question, plain_numbers, out);
    bool only_numbers = (question.hints.ai_flags & (plain_numbers | converted)) == plain_numbers;
    if (error != -ENOENT || only_numbers) {
        if (!on_offload_thread) turn_taken(*cord);
        return error;
    }
    if (simulated()) return -ENOTSUP; // names belong to the world outside
    Question* asked = copy_of(question);
    if (!asked) return -ENOMEM;
    int64_t answer;
    error = offload_detached(ask_on_thread, asked, free_question, &answer);
    if (error) return error;
    if (answer == 0) {
        *out = asked->found;
        asked->found = nullptr;
    }
    free_question(asked);
    return int(answer);
}

} // namespace fiberrt
