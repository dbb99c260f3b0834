// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-doctor with a first argument: the root of the /proc and /sys that it reads.
#include "doctor.h"

int main(int argc, char **argv) { return argc > 1 ? doctor(argc - 1, argv + 1, argv[1]) : 2; }
