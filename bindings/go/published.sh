#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# published.sh FOLDER [--all] - tests the module that module.sh has made in FOLDER/module, with the library in it, as a
# user gets it: `go get` from a module proxy, and `go run`, where the PATH has Go, the compilers, cp and nothing else. Then
# runs the module's own tests there. --all: also with the race detector and cgo's checks.
# Shell, because it runs the commands that a user types.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
folder=$1 all=${2:-}
module=$folder/module
at=$(python3 -B "$here/proxy.py" "$module" "$folder/proxy") # PATH@VERSION
path=${at%@*}

fail() {
    echo "published.sh: FAILED: $*" >&2
    exit 1
}

rm -rf "$folder/user" "$folder/bin" "$folder/modules/$at" "$folder/modules/cache/download/$path"
mkdir -p "$folder/user" "$folder/bin"
for tool in go gcc g++ as ld cp; do
    ln -s "$(command -v $tool)" "$folder/bin/$tool"
done
GOCACHE=$(go env GOCACHE) GOROOT=$(go env GOROOT)
# A plain environment, except that Go compiles the library once for all these tests.
bare() {
    env -i HOME="$folder/user" PATH="$folder/bin" GOROOT="$GOROOT" GOCACHE="$GOCACHE" GOMODCACHE="$folder/modules" \
        GOTOOLCHAIN=local GOPROXY="file://$folder/proxy" GONOSUMDB='*' GOFLAGS=-modcacherw "$@"
}
# answers WORDS COMMAND...: the command fails, and names its reason in the first line that is no name of a package.
answers() {
    words=$1
    shift
    if bare "$@" >"$folder/answer" 2>&1; then fail "$* did not fail"; fi
    grep -v '^#' "$folder/answer" | head -n 1 | grep -qF -- "$words" ||
        fail "$* does not begin with '$words': $(cat "$folder/answer")"
    echo "ok: $*: $words"
}

cd "$folder/user"
awk '/^```go$/ && !found { on = found = 1; next } /^```$/ { on = 0 } on' "$module/README.md" >main.go
commands=$(sed -n '/^    go mod init /,/^$/s/^    //p' "$module/README.md")
case $commands in
    *"go get $path/fiberrt
"*"
go run .") ;;
    *) fail "README.md has no commands for a new module: $commands" ;;
esac
begun=$(date +%s)
bare /bin/sh -ec "$commands" >printed 2>log || fail "$commands: $(cat log)"
[ "$(cat printed)" = 99990000 ] || fail "$commands printed: $(cat printed)"
if grep -v '^go: \|^	go mod tidy$' log; then fail "$commands printed that"; fi
got=$(date +%s)
bare go run . >again
cmp printed again
echo "ok: go get and go run in $((got - begun)) s, again in $(($(date +%s) - got)) s"

answers '"no-such-c++": executable file not found' CXX=no-such-c++ go build .
printf '#!/bin/sh\nfor word; do shift; set -- "$@" "$(echo "$word" | /bin/sed s/=c++20/=c++17/)"; done\nexec g++ "$@"\n' \
    >"$folder/bin/old-c++"
chmod +x "$folder/bin/old-c++"
answers 'fiberrt needs C++20: gcc 12, clang 14 or newer' CXX=old-c++ go build .
answers '"pkg-config": executable file not found' go build -tags fiberrt_system .

bare go vet "$path/..."
bare go test -count=1 "$path/..."
bare FIBERRT_BACKEND=ev go test -count=1 -run 'Conn|Echo|Listen' "$path/fiberrt"
[ -n "$all" ] || exit 0
bare go test -count=1 -race "$path/..."
bare GODEBUG=cgocheck=1 GOEXPERIMENT=cgocheck2 go test -count=1 "$path/..."
