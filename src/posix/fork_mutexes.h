// SPDX-License-Identifier: MIT OR Apache-2.0
// The mutexes of this folder. fork() takes them all first, so that in the child they are free, and the records that they
// guard are whole.
#pragma once

#include "base/mutex.h"

namespace fiberrt::posix {

enum class Guarded {
    list_of_objects, // the dynamic linker's, while this library reads it
    laters,
    records,
    openssl_copies,
    count,
};

pthread_mutex_t& mutex_of(Guarded what);

// Registers the handlers of fork, once for the process. false: there is no memory. The first adoption calls it.
bool take_part_in_forks();

} // namespace fiberrt::posix
