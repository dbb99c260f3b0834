#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# dev_link.sh SOURCE FOLDER - ./dev finds the sources also when it is called by a symbolic link from elsewhere.
set -eu
rm -rf "$2"
mkdir -p "$2"
ln -s "$1/dev" "$2/straight"
ln -s straight "$2/twice"
cd "$2"
for name in straight ./twice "$2/twice"; do
    PATH=$2:$PATH sh -c 'sh -x "$(command -v "$0")" help' "$name" >out 2>trace || { cat trace; exit 1; }
    grep -qxF "+ cd $1" trace || { grep '^+ cd' trace; echo "FAILED: $name looks elsewhere"; exit 1; }
done
echo 'ok'
