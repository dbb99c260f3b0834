#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# tool_pages.sh SOURCE PROGRAM... - each program has a manual page that mandoc finds nothing wrong with, and that names
# the options that --help names, and no others.
set -eu
pages=$1/docs/man1
shift
command -v mandoc >/dev/null || { echo 'NOT CHECKED: there is no mandoc (package mandoc)' && exit 77; }
for program; do
    page=$pages/${program##*/}.1
    mandoc -Tlint -Wwarning "$page"
    in_help=$("$program" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort)
    in_page=$(sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p' "$page" | sort)
    [ -n "$in_help" ] || { echo "FAILED: $program --help names no options" && exit 1; }
    if [ "$in_help" != "$in_page" ]; then
        printf 'FAILED: --help of %s has\n%s\nand its page has\n%s\n' "$program" "$in_help" "$in_page"
        exit 1
    fi
done
[ "$(find "$pages" -name '*.1' | wc -l)" -eq $# ] || { echo "FAILED: a page in $pages has no program" && exit 1; }
echo 'ok'
