#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds consumer.cc with a sanitizer against a library that was built without, and runs it: the sanitizer reports each
# mistake, and no correct part.
# Usage: run.sh SOURCE_DIR FOLDER COMPILER address|thread LIBRARY...
# LIBRARY...: the linker's arguments, which are the shared library, or the archive and the libraries that it needs.
# LAUNCHER: the command, if any, that starts the program.
# Shell, because it compiles a program, runs it once per mistake, and greps.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$1
folder=$2
compiler=$3
sanitizer=$4
shift 4

fail() {
    echo "FAILED: $*"
    exit 1
}

command -v "$compiler" >/dev/null || fail "there is no $compiler here"
rm -rf "$folder"
mkdir -p "$folder"
program=$folder/consumer
"$compiler" -std=c++17 -O1 -g -Wall -Wextra -Werror "-fsanitize=$sanitizer" -I"$source/include" "$here/consumer.cc" \
    -o "$program" "$@" -pthread || fail "$compiler does not build it with -fsanitize=$sanitizer"

# The sanitizer reports by its own exit status.
export ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=1:exitcode=66
export TSAN_OPTIONS=halt_on_error=1:exitcode=66
# shellcheck disable=SC2086 # it is words
run() { timeout 250 ${LAUNCHER-} "$program" "$@"; }

# By the backend that the machine offers, and by libev.
for backend in '' ev; do
    status=0
    FIBERRT_BACKEND=$backend run >"$folder/right" 2>&1 || status=$?
    cat "$folder/right"
    if [ "$status" != 0 ] || ! grep -qx 'all is well' "$folder/right"; then
        fail "status $status; its actions are right, on backend '$backend'"
    fi
done

# reported MISTAKE TEXT: it is made, and reported so.
reported() {
    status=0
    run "$1" >"$folder/$1" 2>&1 || status=$?
    if [ "$status" != 66 ] || ! grep -q "Sanitizer: $2" "$folder/$1"; then
        cat "$folder/$1"
        fail "status $status; $1 is a mistake, which must be reported as: $2"
    fi
    echo "reported: $1"
}
case $sanitizer in
    address)
        reported heap-use-after-free heap-use-after-free
        reported stack-buffer-overflow stack-buffer-overflow
        reported stack-use-after-return stack-use-after-return
        reported leak 'detected memory leaks'
        ;;
    thread)
        reported race-of-cords 'data race'
        reported race-with-a-task 'data race'
        reported race-beside-a-lock 'data race'
        ;;
    *) fail "there is no test of $sanitizer" ;;
esac
