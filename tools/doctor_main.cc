// SPDX-License-Identifier: MIT OR Apache-2.0
// main() of fiberrt-doctor; the program itself is in doctor.cc.
#include "doctor.h"

int main(int argc, char** argv) { return doctor(argc, argv, ""); }
