#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests a release as a new user would, in newly made systems, by the commands of docs/install.md and README:
# - installs the packages, compiles README's program and runs it; loads a plugin that uses the library into a program
#   that does not; installs the wheel and runs the Python package's README's example;
# - builds from sources;
# - with Go and a compiler alone, gets the Go module and runs the program in the module's README;
# - with a compiler and liburing, compiles README's program with the amalgamation.
# Usage: release.sh FOLDER DEBS WHEELS ARCHIVES: an empty work folder, the folders of the packages, of the wheel, and of
# the amalgamation's archive. Needs root, for the chroots. A step that cannot run is a failure.
# Shell, because it runs in chroots the commands that a user types.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname "$here")
. "$here/chroot.sh"
fail() {
    echo "release.sh: FAILED: $1" >&2
    exit 1
}
if [ "${5-}" != in-own-mounts ]; then
    can_chroot || fail 'it needs root, and mount'
    mkdir -p "$1"
    in_own_mounts "$here/release.sh" "$(cd "$1" && pwd)" "$(cd "$2" && pwd)" "$(cd "$3" && pwd)" \
        "$(cd "$4" && pwd)" in-own-mounts
    exit # with the status of the command above
fi
folder=$1 debs=$2 wheels=$3 archives=$4
promised='debian packages readme plugin-host dlopen wheel from-sources go one-file'
kept=
keep() {
    echo "release.sh: passed: $1: $2"
    kept="$kept $1"
}

# logged NAME COMMAND...
logged() {
    log=$folder/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 40 "$log"
        fail "$*; see $log"
    }
}

# install SYSTEM ARGUMENT...: installs packages by apt, as README says.
install() {
    of=$1
    shift
    logged "$(basename "$of")-apt" inside "$of" apt-get install -y --no-install-recommends "$@"
}

# new_system NAME: makes a system in $system, with the packages and the files to test in /root.
new_system() {
    system=$folder/$1
    make_chroot "$system" "$folder/$1-mmdebstrap.log" || fail "there is no system to try it in"
    cp "$debs"/*.deb "$system/root/"
    rm -f "$system"/root/*-dbgsym_*.deb
}

end_system() {
    umount "$system/proc"
    rm -rf --one-file-system "$system"
}

# block LANGUAGE: prints the first code block of that language in README.md.
block() {
    awk -v fence='```'"$1" '
        !found && $0 == fence { on = found = 1; next }
        on && $0 == "```" { exit }
        on
    ' "$root/README.md"
}

# commands SECTION NUMBER: prints the block with that number in a section of docs/install.md.
commands() {
    awk -v heading="## $1" -v wanted="$2" '
        /^## / { inside = $0 == heading; at = 0 }
        inside && /^    / { if (!on) at++; on = 1; if (at == wanted) print substr($0, 5); next }
        { on = 0 }
    ' "$root/docs/install.md" | sed 's/^apt install /apt-get install -y --no-install-recommends /' | grep . ||
        fail "docs/install.md has no commands for $1"
}

new_system plain
# Installs these two alone first, so that no other package hides a missing dependency.
from_debs=$(commands "C and C++: Debian's packages" 1)
logged debian inside "$system" sh -ec "cd /root
$from_debs"
keep debian "$from_debs"
# shellcheck disable=SC2016 # for the shell in there
install "$system" $(cd "$system" && ls root/*.deb | sed 's|^|/|') gcc libc6-dev pkg-config python3-venv
inside "$system" fiberrt-doctor >"$folder/doctor.log" || [ $? -eq 1 ] || fail 'fiberrt-doctor'
inside "$system" fiberrt-sim --help >/dev/null || fail 'fiberrt-sim'
inside "$system" python3 -c 'import fiberrt; assert fiberrt.spawn(lambda: 7).result() == 7' || fail 'python3-fiberrt'
[ -e "$system/usr/share/doc/fiberrt-doc/docs/simulation.md" ] || fail 'fiberrt-doc'
keep packages "$(inside "$system" dpkg-query -W '*fiberrt*' | tr '\t\n' ' ,' | sed 's/,$//; s/,/, /g')"

block c >"$system/root/greet.c"
# The command for installed packages is the one without a run path.
# shellcheck disable=SC2016
line=$(grep -F 'cc greet.c -o greet $(pkg-config' "$root/README.md" | grep -vF rpath | sed 's/^ *//')
[ -n "$line" ] && [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "README.md has not one line that compiles greet.c"
logged readme inside "$system" sh -c "cd /root && $line && ./greet >greet.raw && sort greet.raw >greet.out"
[ "$(cat "$system/root/greet.out")" = 'hello from another
hello from one fiber' ] || fail "greet printed: $(cat "$system/root/greet.out")"
keep readme "$line"

cp "$root"/tests/abi/host.c "$root"/tests/abi/plugin.c "$root"/tests/abi/dlopen_only.c "$system/root/"
# shellcheck disable=SC2016
logged plugin-host inside "$system" sh -ec 'cd /root
    cc -D_GNU_SOURCE -fPIC -shared plugin.c -o plugin.so $(pkg-config --cflags --libs fiberrt)
    cc -D_GNU_SOURCE -rdynamic host.c -o host
    if ldd host | grep fiberrt; then exit 1; fi
    ./host ./plugin.so >host.out
    grep -x "host: fine" host.out'
keep plugin-host 'a host that has a fiber_new of its own, and a plugin that uses the library'
logged dlopen inside "$system" sh -ec 'cd /root
    cc -D_GNU_SOURCE dlopen_only.c -o dlopen_only
    if ldd dlopen_only | grep fiberrt; then exit 1; fi
    ./dlopen_only libfiberrt.so.1 >dlopen.out
    grep -x "dlopen: fine" dlopen.out'
keep dlopen 'libfiberrt.so.1, by its name alone'

wheel=$(ls "$wheels"/fiberrt-*.whl) || fail "there is no wheel in $wheels"
cp $wheel "$system/root/"
cp "$here/readme_python.py" "$root/bindings/python/README.md" "$system/root/"
# In a venv without the system's packages, and without any package index.
logged wheel inside "$system" sh -ec 'cd /root
    python3 -m venv fresh
    fresh/bin/pip install --no-index --disable-pip-version-check ./fiberrt-*.whl
    fresh/bin/python -c "import fiberrt; assert \"/root/fresh/\" in fiberrt.__file__, fiberrt.__file__"
    fresh/bin/python readme_python.py README.md'
keep wheel "$(basename "$wheel"), and the example of bindings/python/README.md"
end_system

# From the sources as they are, committed or not, without the files that git ignores.
new_system from-sources
mkdir "$system/root/fiberrt"
(
    cd "$root"
    git ls-files -z --cached --others --exclude-standard >"$folder/files"
    tar --null --files-from="$folder/files" --ignore-failed-read -cf "$folder/sources.tar" 2>/dev/null
)
tar -xf "$folder/sources.tar" --no-same-owner -C "$system/root/fiberrt"
block c >"$system/root/fiberrt/greet.c"
block sh >"$system/root/greet.sh"
needed=$(commands 'C and C++: the sources' 1)
build=$(commands 'C and C++: the sources' 2)
logged from-sources inside "$system" sh -ec "cd /root/fiberrt
$needed
$build
sh -e /root/greet.sh | sort >/root/greet.out"
[ "$(cat "$system/root/greet.out")" = 'hello from another
hello from one fiber' ] || fail "greet from sources printed: $(cat "$system/root/greet.out")"
keep from-sources "the commands of docs/install.md"
end_system

# The Go module, with the library in it, in a system that has Go and the compilers; then with the installed library.
mkdir -p "$folder/go"
goroot=$("$root/bindings/go/toolchain.sh" "$folder/go") || fail "$goroot"
path=go.other.example/of/fiberrt
"$root/bindings/go/module.sh" $path "$folder/go/module" "$folder/go/downloads" || fail 'there is no Go module to publish'
new_system with-go
install "$system" g++
mkdir -p "$system/usr/local" "$system/root/own"
cp -R "$goroot" "$system/usr/local/go"
at=$(python3 -B "$root/bindings/go/proxy.py" "$folder/go/module" "$system/root/proxy")
cp "$root/README.md" "$system/root/"
awk '/^```go$/ && !found { on = found = 1; next } /^```$/ { on = 0 } on' "$folder/go/module/README.md" \
    >"$system/root/own/main.go"
commands=$(sed -n '/^    go mod init /,/^$/s/^    //p' "$folder/go/module/README.md")
case $commands in *'go run .') ;; *) fail "bindings/go/README.md has no commands for a new module" ;; esac
go_environment='export PATH=/usr/local/go/bin:$PATH GOTOOLCHAIN=local GOPROXY=file:///root/proxy GONOSUMDB=go.other.example; go version'
logged go inside "$system" sh -ec "$go_environment; cd /root/own; $commands"
[ "$(tail -n 1 "$folder/go.log")" = 99990000 ] || fail "the Go program printed: $(cat "$folder/go.log")"
logged go-example inside "$system" sh -ec "$go_environment; cd /root/own
    go run $path/examples/pipeline fiber /root/README.md >/root/pipeline.out"
# The result must be the count that grep finds.
count=$(grep -o fiber "$root/README.md" | wc -l)
grep -qx "$count in all" "$system/root/pipeline.out" || fail "the Go example counts: $(cat "$system/root/pipeline.out")"
install "$system" $(cd "$system" && ls root/libfiberrt*.deb | sed 's|^|/|') pkg-config
logged go-installed inside "$system" sh -ec "$go_environment; cd /root/own
    go build -tags fiberrt_system
    ldd ./user | grep libfiberrt.so.1
    ./user"
[ "$(tail -n 1 "$folder/go-installed.log")" = 99990000 ] || fail "it printed: $(cat "$folder/go-installed.log")"
keep go "$(sed -n 's/^go version //p' "$folder/go.log"): $at, with the library in it and with the installed one"
end_system

# The commands of the amalgamation's README for a C program, in a system that has only a compiler and liburing.
archive=$(ls "$archives"/fiberrt-amalgamation-*.tar.gz) || fail "there is no amalgamation in $archives"
[ "$(printf '%s\n' "$archive" | wc -l)" -eq 1 ] || fail "$archives has several amalgamations: $archive"
new_system one-file
install "$system" g++ liburing-dev
tar -xzf "$archive" -C "$system/root"
one=$(basename "$archive" .tar.gz)
block c >"$system/root/$one/program.c"
for first in 'c++ .* -c fiberrt.cc' 'gcc .* program.c fiberrt.cc'; do
    # With the folder as a place of headers: the program includes <fiberrt.h>.
    commands=$(sed -n "/^    $first/,/^\$/s/^    //p" "$system/root/$one/README.md" |
        sed 's/ program\.c/ -I. program.c/')
    case $commands in *'-o program') ;; *) fail "the amalgamation's README has no commands for $first" ;; esac
    logged one-file inside "$system" sh -ec "cd /root/$one
$commands
./program >raw && sort raw >program.out && rm program"
    [ "$(cat "$system/root/$one/program.out")" = 'hello from another
hello from one fiber' ] || fail "with the amalgamation greet printed: $(cat "$system/root/$one/program.out")"
done
keep one-file "$(basename "$archive"), by its README's commands"
end_system

for promise in $promised; do
    case " $kept " in *" $promise "*) ;; *) fail "$promise DID NOT RUN" ;; esac
done
echo 'release.sh: all of it passed'
