# SPDX-License-Identifier: MIT OR Apache-2.0
# Prints which functions of fiberrt.h the library's objects do not define, and exits with 1 if there are any. The build
# runs it before it links the library, because the linker reports a missing function only by its symbol, after a command
# line of many objects.
# Usage: nm -g @OBJECTS | awk -v symbols=FILE -f all_defined.awk; FILE has the symbols that must be there, a line each.

NF == 3 && $2 ~ /^[TtWi]$/ { defined[$3]; count++ }

END {
    # With link-time optimization, objects have no symbols that nm reads. Then the linker reports missing functions.
    if (!count) exit
    while ((getline symbol < symbols) > 0) {
        if (symbol in defined) continue
        print "fiberrt.h declares " substr(symbol, length("fiberrt_") + 1) ", and no file of src/api defines it."
        missing = 1
    }
    exit missing
}
