// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-doctor without main(): its tests call doctor() with a made-up /proc and /sys.
#pragma once

// Prints the report and returns the exit status. root is a prefix for the paths below /proc and /sys that it reads:
// empty for the files of this system.
int doctor(int argc, char** argv, const char* root);
