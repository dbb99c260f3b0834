#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# under_qemu.sh QEMU SYSROOT PROGRAM ARGUMENT... - runs a program of a cross build by qemu's user mode.
#
# A program that executes itself anew, as GoogleTest's death tests do, executes its argv[0]. That is this script, which
# then finds QEMU, SYSROOT and PROGRAM in its environment: the kernel could not run PROGRAM itself.
set -eu
if [ -z "${FIBERRT_UNDER_QEMU-}" ]; then
    FIBERRT_UNDER_QEMU=yes
    FIBERRT_QEMU=$1 FIBERRT_QEMU_SYSROOT=$2 FIBERRT_QEMU_PROGRAM=$3
    export FIBERRT_UNDER_QEMU FIBERRT_QEMU FIBERRT_QEMU_SYSROOT FIBERRT_QEMU_PROGRAM
    shift 3
fi
exec "$FIBERRT_QEMU" -L "$FIBERRT_QEMU_SYSROOT" -0 "$0" "$FIBERRT_QEMU_PROGRAM" "$@"
