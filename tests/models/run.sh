#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks a model by Spin: exhaustively within the bounds below, and that each planted bug is found.
# Usage: run.sh MODEL DIRECTORY-FOR-WHAT-IS-MADE, where MODEL is inbox or pool; or pool-soak: larger bounds, which take
# minutes. Ends with 1 if anything is not as it must be, or could not be checked.
set -u

failures=0

fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

for tool in spin gcc; do
    command -v "$tool" >/dev/null 2>&1 || { fail "$tool is not here, so nothing was checked" && exit 1; }
done
[ $# -eq 2 ] || { fail 'usage: run.sh inbox|pool|pool-soak DIRECTORY' && exit 1; }
bounds=$1
model=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/${bounds%-soak}.pml
[ -f "$model" ] || { fail "there is no model $bounds" && exit 1; }
mkdir -p "$2" && cd "$2" || exit 1

# search OPTIMISATION KIND [-D...]: one search; its report goes to ./report. KIND `safety` looks for assertions and dead
# ends, `cycles` for anything that goes on for ever. At most so many MB and seconds.
memory=2000 seconds=600 table=22 compress=
search() {
    optimisation=$1 kind=$2
    shift 2
    rm -f pan pan.* report ./*.trail
    case $kind in
        safety) compile=-DSAFETY search= ;;
        cycles) compile=-DNP search=-l ;;
    esac
    spin -a "$@" "$model" >report 2>&1 || return 1
    gcc "$optimisation" -w "$compile" $compress -DMEMLIM=$memory -o pan pan.c >>report 2>&1 || return 1
    # The search is by depth, at most so many steps deep; the table is of 2^$table entries, and lists.
    timeout $seconds ./pan $search -m100000 -w$table >>report 2>&1 || return 1
}

errors() { sed -n 's/^State-vector.*errors: \([0-9]*\)$/\1/p' report; }

# A search that was cut short by memory, depth or time proves nothing.
must_hold() {
    what=$1
    shift
    if search -O2 "$@" && [ "$(errors)" = 0 ] && ! grep -qE 'not completed|too small|reached -DMEMLIM' report; then
        printf 'holds:  %s (%s states)\n' "$what" "$(awk '/states, stored/ { print $1; exit }' report)"
    else
        fail "$what"
        cat report
    fi
}

must_be_found() {
    bug=$1
    shift
    search -O0 "$@" "-DBUG_$bug"
    if [ "$(errors)" = 1 ] && grep -qE '^pan:1: (assertion violated|invalid end state|non-progress cycle)' report; then
        printf 'found:  %s: %s\n' "$bug" "$(sed -n 's/^pan:1: //p' report)"
    else
        fail "the planted bug $bug was not found"
        cat report
    fi
}

# Each name that the model knows, so that none is forgotten.
bugs() { grep -o 'BUG_[A-Z][A-Z_]*' "$model" | sort -u; }

# About half a minute of a processor's time.
check_inbox() {
    must_hold '2 producers of 2 messages, 3 cords in turn' safety -DLIVES=3
    must_hold '2 producers of 3 messages in one node each, 2 cords in turn' safety -DMESSAGES=3 -DNODES=1
    must_hold '3 producers of 1 message, 2 cords in turn' safety -DPRODUCERS=3 -DMESSAGES=1
    must_hold '2 producers and the own thread of an embedded cord, 1 message each, 2 cords in turn, woken otherwise twice' \
        safety -DMESSAGES=1 -DOWN=1 -DWAKES=2
    must_hold '1 producer and the own thread of an embedded cord, 2 messages each, 2 cords in turn, woken otherwise twice' \
        safety -DPRODUCERS=1 -DOWN=2 -DWAKES=2
    must_hold '2 producers and the own thread of an embedded cord, 1 message each, 2 cords in turn: it ends' \
        cycles -DMESSAGES=1 -DOWN=1
    for bug in $(bugs); do
        case $bug in
            BUG_RELEASE_FIRST) must_be_found "${bug#BUG_}" safety -DNODES=1 ;;
            BUG_COUNTER_LEFT_UNREAD) must_be_found "${bug#BUG_}" cycles ;;
            BUG_DOORBELL_CLOSED_WHILE_PARKED | BUG_END_FORGETS_PARKED | BUG_LEFT_UNARMED | BUG_RING_DROPPED_ON_LEAVING | \
                BUG_TAKEN_UP_IN_SILENCE) must_be_found "${bug#BUG_}" safety -DMESSAGES=1 -DOWN=1 ;;
            *) must_be_found "${bug#BUG_}" safety ;;
        esac
    done
}

# About a minute and a quarter of a processor's time.
check_pool() {
    compress=-DCOLLAPSE
    must_hold '1 task from outside, closed at any time' safety -DASLEEP
    must_hold '1 task from outside, while the workers start' safety -DCLOSED_LAST
    must_hold '2 tasks from outside' safety -DASLEEP -DCLOSED_LAST -DEACH=2
    must_hold '2 tasks, none of which waits beside a worker that sleeps' \
        safety -DASLEEP -DLASTS -DCLOSED_LAST -DCLOSED_WHEN_DONE -DSUMS_AT_ONCE -DEACH=2
    must_hold '3 tasks, each submitted by the one before' safety -DASLEEP -DCLOSED_LAST -DBY_TASKS=2
    must_hold '1 task, and a worker that is bound and leaves at any time' safety -DASLEEP -DCLOSED_LAST -DBOUND=1
    for bug in $(bugs); do
        case $bug in
            BUG_LAST_SEARCHER_CALLS_NOBODY) ;; # see below: three workers are many
            BUG_LEAVES_WITH_TASKS) must_be_found "${bug#BUG_}" safety -DASLEEP -DCLOSED_LAST -DBOUND=2 ;;
            BUG_MAY_END_NOT_AWAITED) must_be_found "${bug#BUG_}" safety -DASLEEP -DWAKES=1 ;;
            BUG_NO_LOOK_BEFORE_SLEEP) must_be_found "${bug#BUG_}" safety -DCLOSED_LAST -DEACH=2 ;;
            BUG_NO_PASS_THROUGH_THE_LOCKS) must_be_found "${bug#BUG_}" safety -DASLEEP ;;
            BUG_PUT_IN_SILENCE) must_be_found "${bug#BUG_}" safety -DLASTS -DCLOSED_LAST -DEACH=2 ;;
            BUG_SUMS_IN_THE_WRONG_ORDER) must_be_found "${bug#BUG_}" safety -DCLOSED_LAST -DBY_TASKS=2 -DNEXT=2 ;;
            BUG_TAKEN_AND_NOT_CALLED) must_be_found "${bug#BUG_}" safety -DASLEEP -DLASTS -DEACH=2 -DBY_TASKS=1 ;;
            BUG_TASKS_NOT_PASSED_ON) must_be_found "${bug#BUG_}" safety -DASLEEP -DLASTS -DCLOSED_LAST -DWAKES=1 ;;
            *) must_be_found "${bug#BUG_}" safety -DCLOSED_LAST ;;
        esac
    done
}

# Minutes, and up to 12 GiB.
check_pool_soak() {
    compress=-DCOLLAPSE memory=12000 seconds=3000 table=26
    must_be_found LAST_SEARCHER_CALLS_NOBODY safety -DASLEEP -DLASTS -DCLOSED_LAST -DCLOSED_WHEN_DONE -DSUMS_AT_ONCE \
        -DWORKERS=3 -DBY_TASKS=2 -DNEXT=2
    must_hold '3 tasks from outside' safety -DASLEEP -DCLOSED_LAST -DEACH=3
    must_hold '3 tasks, none of which waits beside a worker that sleeps' \
        safety -DASLEEP -DLASTS -DCLOSED_LAST -DCLOSED_WHEN_DONE -DSUMS_AT_ONCE -DEACH=3
    must_hold '3 tasks, of which one submits two' safety -DASLEEP -DCLOSED_LAST -DBY_TASKS=2 -DNEXT=2
    must_hold '2 tasks from 2 threads, closed at any time' safety -DASLEEP -DSUBMITTERS=2
    must_hold '1 task, and two workers that are bound and leave at any time' safety -DASLEEP -DCLOSED_LAST -DBOUND=2
}

case $bounds in
    inbox) check_inbox ;;
    pool) check_pool ;;
    pool-soak) check_pool_soak ;;
    *) fail "nothing is known of $bounds" ;;
esac

[ "$failures" -eq 0 ] || { printf '%s failed\n' "$failures" && exit 1; }
