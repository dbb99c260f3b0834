// SPDX-License-Identifier: MIT OR Apache-2.0
// The program fiberrt-doctor: doctor.cc.
#include "doctor.h"

int main(int argc, char** argv) { return doctor(argc, argv, ""); }
