#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# toolchain.sh FOLDER - prints the GOROOT of a Go that is at least as new as go.mod requires: the installed Go, or else
# one that the script fetches. FOLDER is for a log. If there is no such Go, prints the reason and exits with 77.
set -eu
folder=$1
oldest=1.24.0 # required by go.mod

not_to_be_had() {
    echo "$1"
    exit 77
}

command -v go >/dev/null || not_to_be_had 'there is no Go'
case $(GOTOOLCHAIN=local go env GOVERSION) in
    go1.2[4-9]* | go1.[3-9][0-9]* | go[2-9]*) goroot=$(GOTOOLCHAIN=local go env GOROOT) ;;
    go1.2[1-3]*) # these fetch a newer Go themselves
        goroot=$(GOTOOLCHAIN=go$oldest go env GOROOT 2>"$folder/toolchain.log") ||
            not_to_be_had "Go is older than $oldest, and that could not be fetched"
        ;;
    *) # Debian 12's Go does not know toolchains, but can fetch them as modules.
        toolchain=golang.org/toolchain@v0.0.1-go$oldest.$(go env GOOS)-$(go env GOARCH)
        goroot=$(cd "$folder" && GOFLAGS=-mod=mod GONOSUMDB=golang.org/toolchain go mod download -json "$toolchain" \
            2>"$folder/toolchain.log" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
        [ -n "$goroot" ] || not_to_be_had "Go is older than $oldest, and that could not be fetched"
        chmod -R u+w "$goroot" && chmod +x "$goroot"/bin/* "$goroot"/pkg/tool/*/*
        ;;
esac
GOTOOLCHAIN=local GOROOT=$goroot "$goroot/bin/go" version >"$folder/toolchain.log" 2>&1 ||
    not_to_be_had "no Go $oldest or later is available"
printf '%s\n' "$goroot"
