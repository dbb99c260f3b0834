/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The header of a small library that gate.sh changes in every way that it is to notice; there it is fiberrt.h. */
#ifndef GATE_SUBJECT_H
#define GATE_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#define FIBER_LIMIT 32

typedef struct {
    uint64_t id;
} fiber_t;
typedef struct fiber_attr fiber_attr_t;

typedef struct {
    uint32_t state;
    uint32_t flags;
    uint64_t reserved[2];
} fiber_info_t;

typedef int (*fiber_function_t)(void *);

int fiber_new(fiber_t *out, const fiber_attr_t *attr, fiber_function_t function);
int fiber_attr_set_size(fiber_attr_t *attr, size_t bytes);
int fiber_info(fiber_t fiber, fiber_info_t *out, size_t size);
#endif
