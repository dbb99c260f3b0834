# SPDX-License-Identifier: MIT OR Apache-2.0
# Says which functions of fiberrt.h the library's objects lack, and ends with 1 if there are any. The build runs this
# before it links the library, since the linker tells of a missing function only by the name of its symbol, behind a
# command line of many objects.
# Usage: nm -g @OBJECTS | awk -v symbols=FILE -f all_defined.awk; FILE has the symbols that must be there, a line each.

NF == 3 && $2 ~ /^[TtWi]$/ { defined[$3]; count++ }

END {
    # Objects that the compiler optimises only when it links have no symbols that nm reads: then the linker has to tell.
    if (!count) exit
    while ((getline symbol < symbols) > 0) {
        if (symbol in defined) continue
        print "fiberrt.h declares " substr(symbol, length("fiberrt_") + 1) ", and no file of src/api defines it."
        missing = 1
    }
    exit missing
}
