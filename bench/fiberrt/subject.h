// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers for the files of our subject: every result is checked, as a program has to.
#pragma once

#include "../bench.h"

#include <fiberrt.h>

#include <stdexcept>
#include <string>

namespace subject {

inline void check(int result, const char *what) {
    if (result < 0) {
        throw std::runtime_error(std::string(what) + ": " + fiber_strerror(result));
    }
}

// The attributes of a fiber with a stack of that size.
class Attr {
public:
    explicit Attr(size_t stack) {
        check(fiber_attr_create(&attr_), "fiber_attr_create");
        check(fiber_attr_set_stack_size(attr_, stack), "fiber_attr_set_stack_size");
    }
    Attr(const Attr &) = delete;
    Attr &operator=(const Attr &) = delete;
    ~Attr() { fiber_attr_destroy(attr_); }

    void detach() { check(fiber_attr_set_detached(attr_, 1), "fiber_attr_set_detached"); }
    const fiber_attr_t *get() const { return attr_; }

private:
    fiber_attr_t *attr_;
};

// Each registers the benchmarks of one file.
void add_switches();
void add_primitives();
void add_tasks();
void add_hosted();
void add_hooks();
void add_cords();
void add_simulation();
void add_posix();
void add_observe();

} // namespace subject
