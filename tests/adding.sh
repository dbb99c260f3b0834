#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Adds a primitive, a turnstile, to a copy of the sources by the list in CONTRIBUTING.md, "Adding a primitive", builds
# it and uses it: so the list is complete, and no other file has to change. The build reports each forgotten step in one
# sentence.
# (No real primitive may be called so: then this script would break.)
# Usage: adding.sh SOURCE_DIR FOLDER, with the compilers in CC and CXX.
# Shell, because it does what a contributor types, and edits a copy by awk and here documents.
set -eu
LC_ALL=C
export LC_ALL
source=$(cd "$1" && pwd)
folder=$2
: "${CC:=cc}" "${CXX:=c++}"

fail() {
    echo "FAILED: $*"
    exit 1
}
# told TEXT COMMAND...: the command fails and says this.
told() {
    text=$1
    shift
    if "$@" >"$folder/told" 2>&1; then fail "this should have failed: $*"; fi
    grep -qF "$text" "$folder/told" || fail "instead of '$text' it said: $(cat "$folder/told")"
    echo "told: $text"
}

rm -rf "$folder"
mkdir -p "$folder/copy"
(cd "$source" && tar -cf - --exclude=./build --exclude=./.git --exclude=./fuzz/corpus --exclude=./bindings .) |
    tar -C "$folder/copy" -xf -
folder=$(cd "$folder" && pwd)
cd "$folder/copy"
find . -type f -exec cksum {} + | sort >"$folder/before"

# 1. The header.
awk '
    /^\/\* -+$/ { banner = $0; next }
    banner != "" && $0 == " * Channels" {
        print "/** Makes a turnstile that opens after count calls of fiber_turnstile_open. Switches: no. */"
        print "FIBERRT_API int fiber_turnstile_init(fiber_turnstile_t *turnstile, int64_t count)"
        print "    FIBERRT_LINKNAME(fiber_turnstile_init);"
        print "/** Counts one down. Switches: no. Errors: -EINVAL the turnstile is open. */"
        print "FIBERRT_API int fiber_turnstile_open(fiber_turnstile_t *turnstile)"
        print "    FIBERRT_LINKNAME(fiber_turnstile_open);"
        print "/** Waits until the turnstile is open. Switches: yes. */"
        print "FIBERRT_API int fiber_turnstile_wait(fiber_turnstile_t *turnstile)"
        print "    FIBERRT_LINKNAME(fiber_turnstile_wait);"
        print ""
    }
    banner != "" { print banner; banner = "" }
    { print }
    / fiber_wg_t; / { print "typedef struct { uint64_t opaque[8]; } fiber_turnstile_t; /* a turnstile */" }
' "$source/include/fiberrt.h" >include/fiberrt.h
grep -q 'FIBERRT_LINKNAME(fiber_turnstile_wait)' include/fiberrt.h || fail 'the header has no section on channels'

# 2. The code.
cat >src/sync/turnstile.h <<'EOF'
// SPDX-License-Identifier: MIT OR Apache-2.0
// A turnstile: a count, and the callers that wait until it is zero.
#pragma once

#include "sync/waiting.h"

namespace fiberrt {

struct Turnstile : Waiters {
    int64_t count = 0;
};

int turnstile_open(Turnstile& turnstile);
int turnstile_wait(Turnstile& turnstile, Caller caller);

} // namespace fiberrt
EOF
cat >src/sync/turnstile.cc <<'EOF'
// SPDX-License-Identifier: MIT OR Apache-2.0
// Turnstiles.
#include "sync/turnstile.h"

#include "sync/one_wait.h"

namespace fiberrt {

int turnstile_open(Turnstile& turnstile) {
    LockedList locked(turnstile);
    if (!turnstile.count) return -EINVAL;
    if (--turnstile.count == 0) locked.claim_all(turnstile, 0);
    return 0;
}

constexpr WaiterKind turnstile_waiter = {"for a turnstile", nullptr, nullptr};

int turnstile_wait(Turnstile& turnstile, Caller caller) {
    return wait_unless(turnstile, caller, FIBER_FOREVER, turnstile_waiter, 0,
                       [&] { return turnstile.count ? -EAGAIN : 0; });
}

} // namespace fiberrt
EOF

# 3. The boundary. Without it the build says which function is missing, and where it belongs.
built() {
    cmake --build "$folder/build" --target fiberrt
}
cmake -S . -B "$folder/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
    -DFIBERRT_UNITY=ON -DFIBERRT_TESTS=OFF -DFIBERRT_TOOLS=OFF -DFIBERRT_EXAMPLES=OFF \
    -DFIBERRT_MANUAL=OFF >"$folder/log" 2>&1 ||
    fail "$(cat "$folder/log")"
told 'fiberrt.h declares fiber_turnstile_init, and no file of src/api defines it.' built
cat >src/api/turnstile.cc <<'EOF'
// SPDX-License-Identifier: MIT OR Apache-2.0
// Turnstiles: the C functions.
#include "sync/turnstile.h"

#include "api/api.h"
#include "api/in_place.h"

using namespace fiberrt;
using api::in_place;

int fiber_turnstile_init(fiber_turnstile_t* turnstile, int64_t count) {
    if (!turnstile || count < 0) return -EINVAL;
    (new (turnstile) Turnstile)->count = count;
    return 0;
}
int fiber_turnstile_open(fiber_turnstile_t* turnstile) {
    return turnstile ? turnstile_open(in_place<Turnstile>(turnstile)) : -EINVAL;
}
int fiber_turnstile_wait(fiber_turnstile_t* turnstile) {
    return turnstile ? turnstile_wait(in_place<Turnstile>(turnstile), Caller::here()) : -EINVAL;
}
EOF
built >"$folder/log" 2>&1 || fail "$(cat "$folder/log")"

# A program that uses it, also by its plain name and through the table of fiberrt_dl.h, and the dump's line about its
# waiter.
cat >"$folder/use.c" <<'EOF'
#include <dlfcn.h>
#include <fiberrt_dl.h>

static fiber_turnstile_t turnstile;
static void *waits(void *unused) { return fiber_turnstile_wait(&turnstile) == 0 ? unused : &turnstile; }
int main(void) {
    fiberrt_dl_t table;
    fiber_t fiber;
    void *result;
    if (fiberrt_dl_load(RTLD_DEFAULT, &table, NULL, 0) != 0) return 1;
    if (table.fiber_turnstile_init(&turnstile, 1) != 0 || fiber_spawn(&fiber, waits, NULL) != 0) return 2;
    if (fiber_reschedule() != 0 || fiber_dump(1) != 0 || fiber_turnstile_open(&turnstile) != 0) return 3;
    return fiber_join(fiber, &result) != 0 || result != NULL || !dlsym(RTLD_DEFAULT, "fiber_turnstile_wait");
}
EOF
"$CC" -std=gnu99 -Wall -Werror -Iinclude -I"$folder/build/include" "$folder/use.c" -o "$folder/use" \
    -L"$folder/build" -lfiberrt -Wl,-rpath,"$folder/build" -ldl
"$folder/use" >"$folder/dump" || fail "the program ended with $?"
grep -q 'waits for a turnstile' "$folder/dump" || fail "the dump does not tell of the turnstile: $(cat "$folder/dump")"

# 4. The fuzz target that calls everything.
told 'does not call fiber_turnstile_wait' sh fuzz/api_complete.sh . fuzz/api.cc
awk '{ print }
    /^void call_primitives\(\) \{/ { here = 1 }
    here && /= byte\(\);/ {
        here = 0
        print "    static fiber_turnstile_t turnstile;"
        print "    if (which == 247) CALL(fiber_turnstile_init, &turnstile, large());"
        print "    if (which == 246) CALL(fiber_turnstile_open, maybe(&turnstile));"
        print "    if (which == 245) CALL(fiber_turnstile_wait, maybe(&turnstile));"
    }' "$source/fuzz/api.cc" >fuzz/api.cc
sh fuzz/api_complete.sh . fuzz/api.cc

# 5. The sweep of all calls that may wait.
sweep() {
    "$CXX" -std=c++20 -O0 -Iinclude tests/sim_sweep.cc -o "$folder/sim_sweep" -L"$folder/build" -lfiberrt \
        -Wl,-rpath,"$folder/build" && "$folder/sim_sweep" --header include/fiberrt.h
}
told fiber_turnstile_wait sweep
awk '/^struct WaitGroup : Subject/ {
        print "struct Turnstile : Subject {"
        print "    fiber_turnstile_t turnstile{};"
        print "    Turnstile() { EXPECT_IS(fiber_turnstile_init(&turnstile, 1), 0); }"
        print "    int64_t call(int64_t) override { return fiber_turnstile_wait(&turnstile); }"
        print "    void allow() override { fiber_turnstile_open(&turnstile); }"
        print "};"
    }
    /"fiber_wg_wait",/ { print "    {\"fiber_turnstile_wait\", FOR_ALL, of<Turnstile>()}," }
    { print }' "$source/tests/sim_sweep.cc" >tests/sim_sweep.cc
sweep || fail 'the sweep'
FIBERRT_BACKEND=sim FIBERRT_SIM_REPLAY='' "$folder/sim_sweep" >"$folder/log" 2>&1 || fail "$(tail -n 20 "$folder/log")"

# The manual has a page about it, without a word more.
if command -v python3 >"$folder/where" && command -v mandoc >"$folder/where"; then
    python3 docs/manual/manual.py check include/fiberrt.h
    python3 docs/manual/manual.py pages include/fiberrt.h "$folder/man"
    grep -q '^\.Nd turnstiles$' "$folder/man/man3/fiber_turnstile_init.3" || fail 'the page is not about turnstiles'
else
    echo 'LEFT OUT: the page of the manual is not made: python3 or mandoc is missing'
fi

# 6. is the record of the binary interface. No other file has changed; and CONTRIBUTING's list names each of these.
find . -type f -exec cksum {} + | sort | comm -13 "$folder/before" - | cut -d ' ' -f 3- | sed 's|^\./||' |
    grep -v __pycache__ | sort >"$folder/changed"
sed -n '/^### Adding a primitive/,/^By convention/s/^[0-9]\. `\([^`]*\)`.*/\1/p' CONTRIBUTING.md |
    sed 's/NAME/turnstile/' | sort >"$folder/listed"
printf '%s\n' abi/libfiberrt-x86_64.abi >>"$folder/changed"
sort -o "$folder/changed" "$folder/changed"
diff "$folder/listed" "$folder/changed" ||
    fail 'CONTRIBUTING.md, "Adding a primitive", lists other files (<) than changed (>)'
[ "$(wc -l <"$folder/changed")" -le 7 ] || fail 'more than seven files have to change'
echo "ok: a turnstile in $(wc -l <"$folder/changed") files"
