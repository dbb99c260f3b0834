#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# gdb_fibers.sh GDB SCRIPT LIBRARY PROGRAM STATIC_PROGRAM WAY... - checks the output of gdb/fiberrt-gdb.py for
# gdb_fibers.c in each of these ways: live, core, stripped, stripped_core, archive, archive_core, copies, idle,
# idle_core, hosted, none, smashed. Exits with 77 if gdb may not trace anything here.
# Shell, because it is command lines of gdb, and patterns in its output.
set -u
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
gdb=$1
script=$2
library=$3
shared=$4
static=$5
shift 5

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
output=
wanted=$work/wanted

fail() {
    printf '%s\nFAILED (%s): %s\n' "$output" "$way" "$1"
    exit 1
}

# debug [VARIABLE=VALUE...] -- PROGRAM... : runs the commands of $wanted in gdb on the program that stops; or, in the
# ways that use core files, on the core file that the program leaves. Returns false if there is none.
debug() {
    commands=$work/commands
    {
        printf 'set %s\n' 'confirm off' 'debuginfod enabled off' 'width 0' 'height 0' 'startup-with-shell off'
        printf 'source %s\n' "$script"
    } >"$commands"
    variables=
    while [ "$1" != -- ]; do
        variables="$variables $1"
        printf 'set environment %s %s\n' "${1%%=*}" "${1#*=}" >>"$commands"
        shift
    done
    shift
    case $way in
    *core)
        rm -rf "$work/core" && mkdir "$work/core"
        # shellcheck disable=SC2086 # they are words
        (cd "$work/core" && ulimit -c unlimited && exec env $variables "$@") >"$work/log" 2>&1
        core=$(find "$work/core" -type f)
        if [ -z "$core" ]; then
            echo "LEFT OUT: $way: the system writes no core files here"
            return 1
        fi
        cat "$wanted" >>"$commands"
        output=$("$gdb" -nx -batch -x "$commands" "$1" "$core" </dev/null 2>&1)
        ;;
    *)
        printf 'run\n' >>"$commands"
        cat "$wanted" >>"$commands"
        printf 'echo \\n@end\\n\ncontinue\n' >>"$commands"
        output=$("$gdb" -nx -batch -x "$commands" --args "$@" </dev/null 2>&1)
        case $output in
        *'ptrace: Operation not permitted'* | *'Could not trace the inferior'* | *'Cannot PTRACE'*)
            printf '%s\nSKIPPED: gdb may not trace a process here.\n' "$output"
            exit 77
            ;;
        *'exited normally'*) ;;
        *) fail 'the program did not run to its end, as if there had been no debugger' ;;
        esac
        ;;
    esac
    for complaint in 'corrupt stack' 'previous frame inner' 'previous frame identical' 'Cannot access memory' \
        'Traceback' 'Python Exception' 'fiberrt: ' 'Error occurred'; do
        case $output in
        *"$complaint"*) fail "gdb complains: $complaint" ;;
        esac
    done
}

# part NAME: the output between `echo \n@NAME\n` and the next such line.
part() { printf '%s\n' "$output" | awk -v name="@$1" '/^@/ { on = $0 == name; next } on'; }

# shows PART PATTERN, hides PART PATTERN
shows() { part "$1" | grep -Eq -- "$2" || fail "$1 does not show: $2"; }
hides() { part "$1" | grep -Eq -- "$2" && fail "$1 shows: $2"; }

# backtrace_of PART FIBER: the part of `fiber apply all backtrace` about one fiber.
backtrace_of() { part "$1" | awk -v name="\"$2\"" '/^Fiber / { on = index($0, name) } on && /^#/'; }

for way; do
    first_stop='
echo \n@fibers\n
info fibers
echo \n@before\n
print $pc
print $sp
echo \n@sleeper\n
fiber sleeper
backtrace
echo \n@which\n
fiber
info fibers
echo \n@all\n
fiber apply all backtrace
echo \n@still\n
backtrace
echo \n@thread\n
fiber thread
echo \n@after\n
print $pc
print $sp'
    case $way in
    live | core)
        {
            printf '%s\necho \\n@local\\n\nfiber sleeper\nframe function sleeper_function\ninfo locals\n' "$first_stop"
            printf 'echo \\n@several\\n\npython number = {f.name: f.index for f in look()[1]}\n'
            printf 'python gdb.execute("fiber apply %%d %%d backtrace" %% (number["fresh"], number["sleeper"]))\n'
            printf 'echo \\n@expression\\n\nfiber *&sleeper\nfiber joiner.id\n'
            [ $way = core ] || cat <<'EOF'
echo \n@resumed\n
python
try:
    gdb.execute("fiber apply all stepi")
except gdb.error as error:
    print(str(error).split("fiberrt")[1])
end
fiber
EOF
        } >"$wanted"
        debug -- "$shared" || continue
        ;;
    stripped | stripped_core)
        strip -o "$work/libfiberrt.so.1" "$library" && strip -o "$work/stripped" "$shared" || fail 'strip'
        printf '%s\n' "$first_stop" >"$wanted"
        debug "LD_PRELOAD=$work/libfiberrt.so.1" -- "$work/stripped" || continue
        ;;
    archive | archive_core)
        strip -o "$work/static" "$static" || fail 'strip'
        printf '%s\n' "$first_stop" >"$wanted"
        debug -- "$work/static" || continue
        ;;
    copies)
        cp "$library" "$work/copy.so" || fail 'cp'
        printf '%s\necho \\n@other\\n\nfiber of the copy\nbacktrace\n' "$first_stop" >"$wanted"
        debug -- "$shared" "$work/copy.so" || continue
        ;;
    idle | idle_core)
        printf 'echo \\n@fibers\\n\ninfo fibers\necho \\n@all\\n\nfiber apply all backtrace\n' >"$wanted"
        debug FIBERS_STOP=2 -- "$shared" || continue
        ;;
    hosted)
        printf 'echo \\n@fibers\\n\ninfo fibers\necho \\n@all\\n\nfiber apply all backtrace\n' >"$wanted"
        debug FIBERS_STOP=3 -- "$shared" || continue
        ;;
    smashed)
        # A fiber's wait, its stack pointer and the pointer to more fibers have been overwritten; the script restores
        # them, because the program must run to its end.
        cat >"$wanted" <<'EOF'
python
several, fibers, _ = look()
one = find("sleeper", fibers, several)
memory = gdb.selected_inferior()
places = one.address + one.copy["fiber_wait"], one.address + one.copy["fiber_sp"], one.copy.fibers + 8
before = [read(place, 8) for place in places]
for place in places:
    memory.write_memory(place, b"\xf8" + b"\xff" * 7)
end
echo \n@fibers\n
info fibers
echo \n@all\n
fiber apply all backtrace
echo \n@end\n
python
for place, was in zip(places, before):
    memory.write_memory(place, was)
end
EOF
        debug -- "$shared"
        shows fibers 'Some fibers are left out'
        shows fibers '"sleeper"\): .*cannot be read'
        shows fibers '"yielder"\): waits for a wakeup$'
        part all | grep -A 1 '^Fiber .*"sleeper"' | grep -q 'has no frames: its saved registers' ||
            fail 'it is not said why sleeper has no frames'
        backtrace_of all yielder | grep -q yielder_function || fail 'yielder is not shown any more'
        continue
        ;;
    none)
        printf 'echo \\n@fibers\\n\ninfo fibers\necho \\n@all\\n\nfiber apply all backtrace\n' >"$wanted"
        debug FIBERS_STOP=4 -- "$shared"
        shows fibers '^There are no fibers\.$'
        [ -z "$(part all)" ] || fail 'there are backtraces of no fibers'
        continue
        ;;
    *) fail 'there is no such way' ;;
    esac

    # A fiber in the same state stops.
    shows fibers '^Cord 0x02[0-9a-f]{14}.*, thread [0-9]+ \(LWP [0-9]+\): [0-9]+ fibers$'
    shows fibers '"sleeper"\): sleeps$'
    shows fibers '"joiner"\): joins fiber 0x[0-9a-f]{16}$'
    joined=$(part fibers | sed -n 's/.*"joiner".*joins fiber \(0x[0-9a-f]*\).*/\1/p')
    shows fibers "\\($joined \"sleeper\"\\)"
    shows fibers '"reader"\): waits for (read|poll) on descriptor [0-9]+$'
    shows fibers '"yielder"\): waits for a wakeup$'
    shows fibers '"fresh"\): new$'
    shows fibers '"ender"\): ended, not joined$'
    shows fibers '"hosted"\): waits for a wakeup; hosted$'
    for fiber in sleeper joiner reader yielder; do
        backtrace_of all $fiber | grep -q "${fiber}_function" ||
            fail "the backtrace of $fiber does not show its function"
        last=$(backtrace_of all $fiber | tail -n 1)
        case $way,$last in
        stripped*,* | archive*,*) ;; # it has no name there
        *fiberrt_entry*) ;;
        *) fail "the backtrace of $fiber does not end at its entry: $last" ;;
        esac
        [ "$(backtrace_of all $fiber | wc -l)" -le 15 ] || fail "the backtrace of $fiber goes on below its entry"
    done
    for fiber in fresh ender hosted; do
        [ -z "$(backtrace_of all $fiber)" ] || fail "$fiber has a backtrace, and no stack"
    done
    case $way in
    idle*)
        # The thread of each cord polls on the stack of the fiber that was the last to give way, which looks parked.
        shows fibers '^Cord 0x[0-9a-f]* "second", thread [0-9]+ \(LWP [0-9]+\): 2 fibers$'
        shows fibers '"there"\): sleeps$'
        backtrace_of all there | grep -q there_function || fail 'the backtrace of there does not show its function'
        part fibers | grep -c '^+ ' | grep -qx 2 || fail 'not two fibers are on threads'
        part all | grep -q second_main || fail 'the main flow of the second cord is not shown'
        continue
        ;;
    hosted)
        shows fibers '"stopping"\): running; hosted$'
        shows fibers "^\\* Fiber .*; the library's own\$"
        part all | grep -q stopping_step || fail 'no backtrace shows the step'
        continue
        ;;
    esac
    shows fibers '^\* Fiber [0-9.]+ \(0x[0-9a-f]+ "stopper"\): running$'
    shows fibers 'main flow$'
    backtrace_of all stopper | grep -q '^#0' || fail 'the backtrace of stopper does not begin where it is'
    # A shown fiber stays selected until the thread is asked for; and the registers are unchanged.
    shows sleeper 'sleeper_function'
    hides sleeper '^#0'
    shows which '^Fiber [0-9.]+ \(0x[0-9a-f]+\) is shown'
    shows which '^\* Fiber .*"sleeper"'
    shows which '^\+ Fiber .*"stopper"'
    shows still 'sleeper_function'
    hides still 'stopper'
    shows thread '^#0'
    [ "$(part before | sed 's/^[^=]*=//')" = "$(part after | sed 's/^[^=]*=//' | head -n 2)" ] ||
        fail 'the registers have changed'
    case $way in
    live | core)
        shows local '^marker = 4711$'
        shows several ' has no frames: it has not begun$'
        shows expression '^Fiber .* "sleeper"\): '
        shows expression '^Fiber .* "joiner"\): '
        if [ $way = live ]; then
            shows resumed '^: the program has gone on'
            shows resumed '^The thread itself is shown'
            [ "$(part resumed | grep -c '^Fiber ')" = 1 ] || fail 'fiber apply has gone on after its program has'
        fi
        backtrace_of several sleeper | grep -q sleeper_function || fail 'one without frames ends fiber apply'
        backtrace_of all stopper | grep -q stopper_function ||
            fail 'the backtrace of stopper does not show its function'
        ;;
    copies)
        shows fibers ' of copy 1, '
        shows fibers ' of copy 2, '
        shows fibers ' Fiber [12]\.1 \(0x[0-9a-f]+ "of the copy"\): waits for a wakeup$'
        shows other '^#[0-9]+ .* fiberrt_entry '
        ;;
    esac
done
echo "gdb shows fibers: $*"
