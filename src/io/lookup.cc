// SPDX-License-Identifier: MIT OR Apache-2.0
// Resolves names to addresses.
//
// Numeric addresses need no thread. For names the C library reads files and asks name servers, for as long as these
// take, and nothing ends that early; a caller whose wait ends early leaves the lookup behind.
#include "io/lookup.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/scheduler.h"
#include "io/offload.h"
#include "io/offload_call.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int plain_numbers = AI_NUMERICHOST | AI_NUMERICSERV;

// Flags for which the C library loads another library, even for numeric addresses; a fiber's stack and thread are too
// small for that.
#ifdef AI_IDN
constexpr int converted = AI_IDN | AI_CANONIDN;
#else
constexpr int converted = 0;
#endif

// A question, the copies of the texts behind it, and the answer.
struct LookupQuestion {
    addrinfo hints = {};
    const char* node;
    const char* service;
    addrinfo* found = nullptr;
};

// Turns an errno of the resolver into the result. Errors that would seem to be about the caller (EINTR, ECANCELED, …)
// become -EAGAIN.
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
    default: return -EIO; // EAI_FAIL, and errors that C libraries may add
    }
}

// Whether the C library could open no file, since none was left: then it reports "no such name", as if the files said
// nothing. Several parts of it may have tried, each with its own errno, so this tries, too.
int none_left(int error) {
    if (error == EMFILE || error == ENFILE) return -error;
    int fd = ::open("/", O_PATH | O_CLOEXEC);
    if (fd < 0) return errno == EMFILE || errno == ENFILE ? -errno : 0;
    ::close(fd);
    return 0;
}

int ask(const LookupQuestion& question, int more_flags, addrinfo** found) {
    KeepErrno keep;
    addrinfo hints = question.hints;
    hints.ai_flags |= more_flags;
    errno = 0;
    int answer = getaddrinfo(question.node, question.service, &hints, found);
    if (!answer) return 0;
    int error = errno_of(answer);                 // reads errno
    int none = more_flags ? 0 : none_left(errno); // numbers need no file
    return none ? none : error;
}

int64_t ask_on_thread(void* arg) {
    auto* question = static_cast<LookupQuestion*>(arg);
    return ask(*question, 0, &question->found);
}

void free_question(void* arg) {
    KeepErrno keep;
    auto* question = static_cast<LookupQuestion*>(arg);
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

// Returns a copy of the question for the pool's thread; null: no memory.
LookupQuestion* copy_of(const LookupQuestion& question) {
    KeepErrno keep;
    void* memory = malloc(sizeof(LookupQuestion) + size_of(question.node) + size_of(question.service));
    if (!memory) return nullptr;
    auto* copy = static_cast<LookupQuestion*>(memory);
    *copy = question;
    char* end = reinterpret_cast<char*>(copy + 1);
    copy->node = put(end, question.node);
    copy->service = put(end, question.service);
    return copy;
}

// The question, with only the hints' members that have a meaning. Without hints: the C library's defaults.
LookupQuestion question_of(const char* node, const char* service, const addrinfo* hints) {
    LookupQuestion question;
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
    LookupQuestion question = question_of(node, service, hints);
    Cord* cord;
    if (int error = offload_begin(&cord)) return error;
    int error = question.hints.ai_flags & converted ? -ENOENT : ask(question, plain_numbers, out);
    bool only_numbers = (question.hints.ai_flags & (plain_numbers | converted)) == plain_numbers;
    if (error != -ENOENT || only_numbers) {
        if (!on_offload_thread) charge_and_poll(*cord);
        return error;
    }
    if (simulated()) return -ENOTSUP; // a simulation has no name servers
    LookupQuestion* asked = copy_of(question);
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
