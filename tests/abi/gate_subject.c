/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A small library for gate.sh: something for the record to be about. */
#include "fiberrt.h"

struct fiber_attr {
    size_t bytes;
};

int fiber_new(fiber_t *out, const fiber_attr_t *attr, fiber_function_t function) {
    out->id = attr->bytes;
    return function(out);
}

int fiber_attr_set_size(fiber_attr_t *attr, size_t bytes) {
    attr->bytes = bytes;
    return 0;
}

int fiber_info(fiber_t fiber, fiber_info_t *out, size_t size) {
    out->state = (uint32_t)(fiber.id + size);
    return 0;
}
