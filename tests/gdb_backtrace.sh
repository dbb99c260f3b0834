#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# gdb_backtrace.sh GDB PROGRAM - the backtraces that gdb shows at the three stops of gdb_backtrace.c, and of the first
# in a core file that the kernel wrote, end at the fiber's entry, and gdb does not complain. Exits with 77 if gdb may
# not trace anything here. (A core file by gdb's own generate-core-file breaks off at a guard page and lacks the stack.)
# Shell, because it is one command line of gdb, and patterns in its output.
set -u
# A process under a debugger cannot be searched for leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
gdb=$1
program=$2

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

output=$("$gdb" -nx -batch \
    -ex 'set confirm off' -ex 'set debuginfod enabled off' -ex 'set width 0' -ex 'set backtrace limit 60' \
    -ex 'run' -ex 'echo \n@stop 1\n' -ex 'backtrace' \
    -ex 'continue' -ex 'echo \n@stop 2\n' -ex 'backtrace' \
    -ex 'continue' -ex 'echo \n@stop 3\n' -ex 'backtrace' \
    -ex 'echo \n@end\n' -ex 'continue' "$program" </dev/null 2>&1)

# Without a debugger the first stop ends the program, with a core file if the system writes them where it runs.
(cd "$work" && ulimit -c unlimited && exec "$program") >"$work/log" 2>&1
core=$(find "$work" -name 'core*')
if [ -n "$core" ]; then
    stops='1 2 3 core'
    output="$output
$("$gdb" -nx -batch -ex 'set debuginfod enabled off' -ex 'set width 0' -ex 'set backtrace limit 60' \
        -ex 'echo \n@stop core\n' -ex 'backtrace' -ex 'echo \n@end\n' "$program" "$core" </dev/null 2>&1)"
else
    stops='1 2 3'
    echo 'LEFT OUT: the backtrace in a core file: the system writes none here'
fi

fail() {
    printf '%s\nFAILED: %s\n' "$output" "$1"
    exit 1
}

case $output in
*'ptrace: Operation not permitted'* | *'Could not trace the inferior'* | *'Cannot PTRACE'*)
    printf '%s\nSKIPPED: gdb may not trace a process here.\n' "$output"
    exit 77
    ;;
esac

case $output in
*'exited normally'*) ;;
*) fail 'the program did not run to its end' ;;
esac

for complaint in 'corrupt stack' 'previous frame inner' 'previous frame identical' 'Cannot access memory' \
    'Backtrace limit'; do
    case $output in
    *"$complaint"*) fail "gdb complains: $complaint" ;;
    esac
done

# stop_frames N: the lines of the backtrace at a stop.
stop_frames() {
    printf '%s\n' "$output" | awk -v stop="@stop $1" '/^@/ { on = $0 == stop } on && /^#/'
}

for stop in $stops; do
    frames=$(stop_frames "$stop")
    count=$(printf '%s\n' "$frames" | grep -c '^#')
    [ "$count" -ge 3 ] || fail "stop $stop shows $count frames"
    [ "$count" -le 20 ] || fail "stop $stop shows $count frames: it goes on below the entry"
    # A frame without a name at the end would be the unwinder reading whatever lies above the stack.
    last=$(printf '%s\n' "$frames" | tail -n 1)
    case $last in
    *' ?? '*) fail "stop $stop ends in nowhere: $last" ;;
    esac
    case $frames in
    *' main '*) fail "stop $stop runs over into the main flow" ;;
    esac
done
for stop in $stops; do
    name=fiber_function_to_find
    [ "$stop" = 3 ] && name=destructor_of_the_value
    stop_frames "$stop" | grep -q $name || fail "stop $stop does not show $name"
done

echo 'gdb ends each backtrace at the entry of the fiber:'
for stop in $stops; do
    echo "stop $stop"
    stop_frames "$stop"
done
