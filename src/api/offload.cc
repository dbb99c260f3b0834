// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocking functions on helper threads, and getaddrinfo, which runs on them.
#include "api/api.h"
#include "io/lookup.h"
#include "io/offload.h"
#include "io/offload_call.h"

#include <netdb.h>

using namespace fiberrt;

namespace {

void free_nothing(void*) {}

} // namespace

int fiber_offload(int64_t (*fn)(void*), void* arg, int64_t* result) {
    if (!fn) return -EINVAL;
    int64_t ignored;
    return offload_call(fn, arg, result ? result : &ignored);
}

int fiber_offload_detached(int64_t (*fn)(void*), void* arg, void (*free_arg)(void*), int64_t* result) {
    if (!fn) return -EINVAL;
    int64_t ignored;
    if (!free_arg) free_arg = free_nothing;
    int error = offload_detached(fn, arg, free_arg, result ? result : &ignored);
    if (error == 0) free_arg(arg);
    return error;
}

int fiber_offload_set_limit(int threads) {
    if (threads < 1 || threads > offload_limit_most) return -EINVAL;
    offload_set_limit(threads);
    return 0;
}

int fiber_getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** out) {
    if (!out) return -EINVAL;
    *out = nullptr;
    if (!node && !service) return -EINVAL;
    return lookup(node, service, hints, out);
}
