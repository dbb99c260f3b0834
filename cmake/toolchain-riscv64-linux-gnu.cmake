# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds for RISC-V 64 by Debian's cross compiler (package g++-riscv64-linux-gnu); runs the
# tests by qemu (package qemu-user).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
# cross_libev.cmake installs libev in the second folder.
set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu ${CMAKE_CURRENT_LIST_DIR}/../build/cross/riscv64)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR
    ${CMAKE_CURRENT_LIST_DIR}/../tests/under_qemu.sh qemu-riscv64 /usr/riscv64-linux-gnu)
