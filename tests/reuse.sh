#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# reuse.sh SOURCE - checks that a tool can tell the copyright holder and the licence of every file, and that
# debian/copyright and the Python package's NOTICE agree.
set -eu
cd "$1"
command -v reuse >/dev/null || { echo 'NOT CHECKED: there is no reuse (package reuse)' && exit 77; }
# Without git it would read all that was built, too.
git rev-parse --git-dir >/dev/null 2>&1 || { echo 'NOT CHECKED: these sources are not in git' && exit 77; }
status=0
said=$(reuse lint 2>&1) || status=$?
if [ "$status" -ne 0 ] || printf '%s\n' "$said" | grep -q ERROR; then
    printf '%s\n' "$said"
    exit 1
fi

# The files that name a licence are all under the one that is promised.
tag='SPDX-License-''Identifier: ' # in two parts, as it is no licence here
others=$(git grep -I -h -o "$tag[^\"<>*]*[A-Za-z0-9.]" -- . ':!LICENSES' | grep -vxF "${tag}MIT OR Apache-2.0" || :)
[ -z "$others" ] || { printf 'FAILED: other licences: %s\n' "$others" && exit 1; }
for file in .reuse/dep5 debian/copyright; do
    stanza=$(sed -n '/^Files: \*$/,/^License:/p' "$file")
    case $stanza in
        *'libfiberrt authors'*'License: MIT '[oO][rR]' Apache-2.0') ;;
        *) echo "FAILED: $file says: $stanza" && exit 1 ;;
    esac
done
# A copy, because a source distribution of the Python package would have a link to a file that it lacks.
cmp NOTICE bindings/python/NOTICE || { echo 'FAILED: the Python package has another NOTICE' && exit 1; }
echo 'ok'
