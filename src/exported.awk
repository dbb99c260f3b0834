# SPDX-License-Identifier: MIT OR Apache-2.0
# awk -f exported.awk [-v form=FORM] fiberrt.h - prints the functions that the shared library exports. The header is
# their only list: each declaration marked FIBERRT_API. The release of a function stands after "Since:" in its comment,
# or in the banner of its section (for x_timeout: in the comment of x).
#
#   form=names   a line for each function, "fiber_new 0.1" (the default)
#   form=map     the linker's version script: a node for each release, with the plain and the linker name of each
#                function; with -v more=NAME, the first node has this name, too
#   form=linker  only the linker names, for the archive
#   form=symbols Debian's symbols file of libfiberrt1; -v version=VERSION is the version in debian/changelog, and must
#                be the header's
#   form=plain   options for the linker that give each function its plain name in addition to its linker name
#
# Exits with 1 if a function has no release, or the linker name of another function.

function wrong(text) {
    print FILENAME ": " text >"/dev/stderr"
    failed = 1
}

function release_in(text) {
    gsub(/[ *]+/, " ", text)
    return match(text, /Since: [0-9]+\.[0-9]+/) ? substr(text, RSTART + 7, RLENGTH - 7) : ""
}

function declared(text,   name, base, linked) {
    gsub(/\/\*[^*]*\*\//, "", text)
    if (!match(text, /FIBERRT_LINKNAME\([a-z0-9_]+\)/)) {
        wrong("a declaration has no FIBERRT_LINKNAME: " text)
        return
    }
    linked = substr(text, RSTART + 17, RLENGTH - 18)
    match(text, /fiber_[a-z0-9_]+\(/)
    name = substr(text, RSTART, RLENGTH - 1)
    if (name != linked) wrong(name " is declared with the linker name of " linked)
    if (name in release) wrong(name " is declared twice")
    base = name
    sub(/_timeout$/, "", base)
    release[name] = own ? own : base != name && base in release ? release[base] : of_section
    if (!release[name]) wrong(name ": no \"Since:\" says which release it comes with")
    names[++count] = name
    own = ""
}

function newer(a, b,   as, bs) { # whether release a comes after b
    split(a, as, ".")
    split(b, bs, ".")
    return as[1] + 0 != bs[1] + 0 ? as[1] + 0 > bs[1] + 0 : as[2] + 0 > bs[2] + 0
}

function node(of, older,   i) {
    print "FIBERRT_" of " {"
    print "global:"
    if (!older && more) print "    " more ";"
    for (i = 1; i <= count; i++) if (release[names[i]] == of) {
        print "    " names[i] ";"
        print "    fiberrt_" names[i] ";"
    }
    if (!older) print "local:\n    *;"
    print "}" (older ? " FIBERRT_" older : "") ";"
}

/^\/\*/ { comment = "" }
/^\/\*/, /\*\// {
    comment = comment " " $0
    if ($0 !~ /\*\//) next
    if (comment ~ /^ \/\* ---/) of_section = release_in(comment)
    own = comment ~ /^ \/\*\*/ ? release_in(comment) : own
    next
}
$1 == "#define" && $2 ~ /^FIBERRT_VERSION_(MAJOR|MINOR|PATCH)$/ { header_version = header_version dot $3; dot = "." }
/^FIBERRT_API / { statement = " " }
statement {
    statement = statement " " $0
    if ($0 !~ /;/) next
    declared(statement)
    statement = ""
}

END {
    if (!count) wrong("no function was found")
    sub(/[~+].*/, "", version) # 0.1.0 of 0.1.0~rc1
    if (form == "symbols" && version != header_version)
        wrong("it is of " header_version ", and debian/changelog of " version)
    if (failed) exit 1
    if (form == "symbols") {
        # Until 1.0 a package needs exactly the 0.y that it was built with (docs/abi.md).
        split(header_version, part, ".")
        if (part[1] == 0) least = "0." part[2]
        below = part[1] == 0 ? ", libfiberrt1 (<< 0." (part[2] + 1) "~)" : ""
        print "libfiberrt.so.1 libfiberrt1 #MINVER#" below "\n* Build-Depends-Package: libfiberrt-dev"
        for (i = 1; i <= count; i++) {
            of = release[names[i]]
            at = "@FIBERRT_" of " " (least ? least : of) ".0"
            if (!(of in seen)) print " FIBERRT_" of at
            seen[of] = 1
            print " " names[i] at "\n fiberrt_" names[i] at
        }
        exit
    }
    if (form == "map") {
        for (name in release) if (!(release[name] in seen)) { # sorted as they are put in
            seen[release[name]] = 1
            for (i = ++releases; i > 1 && newer(order[i - 1], release[name]); i--) order[i] = order[i - 1]
            order[i] = release[name]
        }
        print "/* What the shared library exports, by release: made of fiberrt.h by src/exported.awk. */"
        for (i = 1; i <= releases; i++) node(order[i], i > 1 ? order[i - 1] : "")
        exit
    }
    for (i = 1; i <= count; i++) {
        if (form == "linker") print "fiberrt_" names[i]
        else if (form == "plain") print "--defsym=" names[i] "=fiberrt_" names[i]
        else print names[i] " " release[names[i]]
    }
}
