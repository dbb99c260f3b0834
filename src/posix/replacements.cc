// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of the replacements: the functions of posix/calls.h, and in a simulation those of posix/simulated.h.
#include "posix/replacements.h"

#include "posix/simulated_transfer.h"
#include "posix/wait.h"

#include <string.h>

namespace fiberrt::posix {

namespace {

struct Row {
    Replacement plain; // without a function: the import is replaced in a simulation only
    Replacement simulated;
};

template <class Function>
void* address(Function* function) {
    return reinterpret_cast<void*>(function);
}

// The table is made at run time: the addresses would need relocations, and the library has no constructors.
const Row (&rows())[replacements_most] {
#define ROW(name, plain, simulated) {{#name, plain}, {#name, simulated}},
#define TRANSFER(function, name) \
    ROW(name, address(posix::function), address(simulated::Transfer<#function, posix::function>::call))
#define POLL(function, name) \
    ROW(name, address(posix::function), address(simulated::Poll<#function, posix::function>::call))
#define OTHER(function, name) ROW(name, address(posix::function), address(simulated::function))
#define ONLY(function, name) ROW(name, nullptr, address(simulated::function))
    static const Row table[] = {FIBERRT_POSIX_TRANSFERS(TRANSFER) FIBERRT_POSIX_POLLS(POLL) FIBERRT_POSIX_OTHERS(OTHER)
                                    FIBERRT_POSIX_SIMULATED_ONLY(ONLY)};
#undef ROW
#undef TRANSFER
#undef POLL
#undef OTHER
#undef ONLY
    return table;
}

} // namespace

void choose_replacements() {
    if (!simulation_wanted()) return;
    simulated::process = true;
    looks_sooner = calls_between_looks - 1;
}

const Replacement* find_replacement(const char* name) {
    for (const Row& row : rows()) {
        if (*row.plain.name != *name || strcmp(row.plain.name, name) != 0) continue;
        const Replacement& one = simulated::process ? row.simulated : row.plain;
        return one.function ? &one : nullptr;
    }
    return nullptr;
}

const Replacement* find_load(const char* name) {
#define X(function, name) {#name, address(posix::function)},
    static const Replacement table[] = {FIBERRT_POSIX_LOADS(X)};
#undef X
    for (const Replacement& one : table)
        if (!strcmp(one.name, name)) return &one;
    return nullptr;
}

const char* name_of(const void* function) {
    for (const Row& row : rows())
        if (function && row.plain.function == function) return row.plain.name;
    return nullptr;
}

} // namespace fiberrt::posix
