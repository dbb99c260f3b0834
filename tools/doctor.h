// SPDX-License-Identifier: MIT OR Apache-2.0
// fiberrt-doctor, but for main: its tests give it a system of their own.
#pragma once

// root: what comes before the names of the files of /proc and /sys that it reads; empty for those of this system.
int doctor(int argc, char** argv, const char* root);
