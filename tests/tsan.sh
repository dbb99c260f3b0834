#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a program that is built with ThreadSanitizer, at addresses that it can live with: gcc 12's knows only those that
# kernels give at 28 bits of randomness, and newer kernels use up to 32. Containers may forbid the change; then it is
# tried without, and says itself if that does not work.
if setarch -R true 2>/dev/null; then exec setarch -R "$@"; fi
exec "$@"
