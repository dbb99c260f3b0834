#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the Rust crates: with the library's single file compiled in, and with an installed library.
# Usage: test.sh FOLDER [--all | ARGUMENT-OF-CARGO-TEST...]; --all: also by miri, by the oldest Rust that they support,
# and from the packed crates; with arguments only these tests.
# FIBERRT_BUILD: a built tree of the library, build/release for example; without it the installed library is left out.
# FOLDER may be kept. The tests that could not run are listed at the end and in FOLDER/left_out: in each line a name, a
# tab and the reason. Exit status 77: no test ran.
# Shell, because it runs the commands of a Rust developer in a prepared environment.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
all=
shift
if [ "${1:-}" = --all ]; then all=yes && shift; fi
rm -f "$folder/left_out"

cannot_run() {
    echo "test.sh: DID NOT RUN: the Rust crates' tests: $1"
    exit 77
}

leave_out() { printf '%s\t%s\n' "$1" "$2" >>"$folder/left_out"; }

logged() { # NAME COMMAND...
    log=$folder/$1.log
    shift
    "$@" >"$log" 2>&1 || { cat "$log" && echo "test.sh: failed: $*" && exit 1; }
}

oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/fiberrt/Cargo.toml")
new_enough() { # FOLDER
    version=$("$1/rustc" --version 2>"$folder/toolchain.log" | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" = "$oldest" ]
}

PATH=$PATH:${CARGO_HOME:-${HOME:-/}/.cargo}/bin
command -v cargo >/dev/null || cannot_run 'there is no cargo'
if ! new_enough "$(dirname "$(command -v cargo)")"; then
    rustup toolchain install stable --profile minimal --component clippy,rustfmt >"$folder/toolchain.log" 2>&1 ||
        cannot_run "Rust is older than $oldest, and no newer one could be fetched"
    PATH=$(dirname "$(rustup which --toolchain stable cargo)"):$PATH
fi
cd "$here"
cargo fetch >"$folder/fetch.log" 2>&1 || cannot_run "their dependencies could not be fetched: see $folder/fetch.log"
CARGO_TARGET_DIR=$folder/target
FIBERRT_AMALGAMATION=$folder/amalgamation
CARGO_PROFILE_DEV_DEBUG=0 # saves half of the time
CXXFLAGS="${CXXFLAGS:-} -O1"
RUST_BACKTRACE=0
export CARGO_TARGET_DIR FIBERRT_AMALGAMATION CARGO_PROFILE_DEV_DEBUG CXXFLAGS RUST_BACKTRACE
python3 -B ../../tools/amalgamate "$folder/made" >"$folder/amalgamate.log"
if ! diff -rq "$folder/made" "$FIBERRT_AMALGAMATION" >/dev/null 2>&1; then # otherwise cargo keeps what it has built
    rm -rf "$FIBERRT_AMALGAMATION"
    mv "$folder/made" "$FIBERRT_AMALGAMATION"
fi

if [ $# -gt 0 ]; then
    exec cargo test --workspace "$@"
fi
if cargo fmt --version >/dev/null 2>&1; then
    ./bindings.py --check
    cargo fmt --check
else
    leave_out "the format of the Rust sources, and bindings.py" 'there is no rustfmt'
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy -q --workspace --all-targets -- -D warnings
else
    leave_out "clippy on the Rust crates" 'there is no clippy'
fi
RUSTDOCFLAGS='-D warnings' logged doc cargo doc --workspace --no-deps
logged tests cargo test --workspace
sed -n 's/^test result: ok/test.sh: ok/p' "$folder/tests.log"
on_the_main_thread='--test fibers --test channels --test net'
# shellcheck disable=SC2086 # a list
FIBERRT_BACKEND=ev logged ev cargo test --workspace $on_the_main_thread --test threads
for seed in 1 2 3 4 5; do
    # shellcheck disable=SC2086 # a list
    FIBERRT_BACKEND=sim FIBERRT_SEED=$seed logged "sim_$seed" cargo test --workspace $on_the_main_thread
done
served=$(cargo run -q --example echo)
[ "$served" = '3 clients were served' ] || { echo "test.sh: the example echo said '$served'" && exit 1; }

status=0
./package.py "$folder/packed" "$folder/downloads" >"$folder/package.log" 2>&1 || status=$?
case $status in
    0) ;;
    77) leave_out "the packed Rust crates" "$(sed -n 's/.*DID NOT RUN: //p' "$folder/package.log")" ;;
    *) cat "$folder/package.log" && exit 1 ;;
esac

if [ -n "${FIBERRT_BUILD:-}" ] && command -v pkg-config >/dev/null; then
    rm -rf "$folder/root"
    DESTDIR=$folder/root logged install cmake --install "$FIBERRT_BUILD/src" --prefix /usr
    (
        PKG_CONFIG_PATH=$(dirname "$(find "$folder/root" -name fiberrt.pc)")
        LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
        export PKG_CONFIG_PATH LD_LIBRARY_PATH PKG_CONFIG_SYSROOT_DIR="$folder/root"
        logged system cargo test --workspace --features system --test fibers --test threads
        grep -q "^cargo:include=$folder/root/.*include$" "$CARGO_TARGET_DIR"/debug/build/fiberrt-sys-*/output ||
            { echo "test.sh: with the feature system, fiberrt-sys does not say where fiberrt.h is" && exit 1; }
    )
else
    leave_out "the Rust crates with an installed library" 'FIBERRT_BUILD is not set, or there is no pkg-config'
fi

if [ -n "$all" ]; then
    # One sentence names the thing that the build lacks.
    lacks() { # SENTENCE [VARIABLE=VALUE]...
        sentence=$1
        shift
        if env CARGO_TARGET_DIR="$folder/lacks" "$@" cargo check -p fiberrt-sys >"$folder/lacks.log" 2>&1; then
            echo "test.sh: it builds with $*" && exit 1
        fi
        grep -q "^ *fiberrt-sys: $sentence" "$folder/lacks.log" ||
            { cat "$folder/lacks.log" && echo "test.sh: with $* it did not say '$sentence'" && exit 1; }
    }
    lacks 'FIBERRT_AMALGAMATION: there is no fiberrt.cc' FIBERRT_AMALGAMATION=/nowhere
    lacks 'the feature `uring` needs the header liburing.h: install it' CFLAGS=-nostdinc
    if cargo +nightly miri --version >/dev/null 2>&1 ||
        rustup toolchain install nightly --profile minimal --component miri,rust-src >"$folder/miri.log" 2>&1; then
        CARGO_TARGET_DIR=$folder/miri logged miri cargo +nightly miri test -p fiberrt --lib
    else
        leave_out "the Rust crates under miri" 'there is no nightly Rust with miri, and none could be fetched'
    fi
    if rustup toolchain install "$oldest" --profile minimal >"$folder/oldest.log" 2>&1; then
        # Its cargo cannot fetch from today's registry, so the dependencies lie next to the crates.
        rm -rf "$folder/oldest"
        mkdir -p "$folder/oldest/.cargo"
        cp -R Cargo.toml fiberrt fiberrt-sys "$folder/oldest"
        (
            cd "$folder/oldest"
            cargo vendor -q >/dev/null
            rm -f Cargo.lock
            printf '[source.crates-io]\nreplace-with = "here"\n[source.here]\ndirectory = "vendor"\n' >.cargo/config.toml
            CARGO_TARGET_DIR=$folder/oldest/target logged oldest_tests cargo "+$oldest" test --offline -p fiberrt
        )
    else
        leave_out "the Rust crates by Rust $oldest" 'it could not be fetched'
    fi
    if [ "$status" = 0 ]; then # a program of a stranger, with the packed crates and nothing else of this project
        rm -rf "$folder/stranger"
        mkdir -p "$folder/stranger/src"
        for crate in "$folder"/packed/*.crate; do tar -xzf "$crate" -C "$folder/stranger"; done
        (
            cd "$folder/stranger"
            unset FIBERRT_AMALGAMATION
            cp "$here/fiberrt/examples/echo.rs" src/main.rs
            printf '[package]\nname = "stranger"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nfiberrt = "0.1"\n' \
                >Cargo.toml
            printf '[patch.crates-io]\nfiberrt = { path = "%s" }\nfiberrt-sys = { path = "%s" }\n[workspace]\n' \
                "$(echo fiberrt-[0-9]*)" "$(echo fiberrt-sys-[0-9]*)" >>Cargo.toml
            served=$(CARGO_TARGET_DIR=$folder/stranger/target cargo run -q --release)
            ldd target/release/stranger >"$folder/stranger.libraries"
            ! grep -E 'liburing|libev' "$folder/stranger.libraries" ||
                { echo "test.sh: a stranger's program needs these" && exit 1; }
            [ "$served" = '3 clients were served' ] || { echo "test.sh: a stranger's program said '$served'" && exit 1; }
        )
    fi
fi
[ ! -e "$folder/left_out" ] || sed 's/\t/: /; s/^/test.sh: DID NOT RUN: /' "$folder/left_out"
