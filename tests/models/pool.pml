/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A pool, for Spin: how tasks come into queues, how workers are called, search, steal, sleep and leave, and how the
 * pool is closed (pool/worker.cc and pool/pool.cc, whose names these are). run.sh checks every interleaving within its
 * bounds, and that each of the bugs planted below (-DBUG_...) is found.
 *
 * What is checked: assertions (who says that all is over is right, and it stays so; only a pool that is closing
 * refuses), and no dead end (Spin's invalid end states: somebody waits for ever). So each task that was accepted runs,
 * and the close returns. With LASTS a task ends only when no other waits beside a worker that has none: so one that
 * sleeps on for ever beside a task is a dead end, too. With NEVER_CLOSED, when nothing happens any more, all tasks have
 * ended, nobody is counted as searching, and each worker sleeps and can be called. What could go on for ever is not
 * looked for.
 *
 * How much of that, run.sh says. Seen to hold, to the end: of 2 workers that sleep, 3 tasks from outside, closed at any
 * time, or never; 3 tasks, each submitted by the one before, closed when all are submitted; 2 tasks from two threads,
 * closed at any time. Of 2 that start, 2 tasks. Of 3 workers: one task that submits two, never closed.
 *
 * What is left out:
 *   - A queue and the batch that a worker has taken from it are one number: tasks have no names. That each is taken
 *     once is a matter of the lock, under which queues are changed; tests/tasks_test.cc.
 *   - What is done under a lock is one step. But who puts a task in from outside, while the pool may be closed, keeps
 *     the lock between its look at that flag, which is set without the lock, and the rest.
 *   - The inbox: a message is under way from when it is to be sent until it is received, which may be late. inbox.pml
 *     is about the rest.
 *   - own_tasks; memory that is refused; children; handles of pools that are gone; records that are used again; threads
 *     that end while they are bound; foreign loops; polls within a task (worker_looks).
 *   - Pool::idlers, which is never 0 while there is a bit: while there is none, it may be anything here.
 *   - What was accepted and what has ended before one may add up: the difference alone counts, and is `open`.
 *   - Task fibers that end as fibers do (left_state), as if none fetched; submits by other fibers of a member.
 *   - The order of memory: Spin assumes sequential consistency. */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef BOUND               /* so many of these are threads that are bound: they leave at any time */
#define BOUND 0
#endif
#ifndef SUBMITTERS          /* threads outside, */
#define SUBMITTERS 1
#endif
#ifndef EACH                /* each of which submits so many tasks */
#define EACH 1
#endif
#ifndef BY_TASKS            /* tasks that are submitted by tasks, */
#define BY_TASKS 0
#endif
#ifndef NEXT                /* at most so many by each */
#define NEXT 1
#endif
#ifndef WAKES               /* how often a worker wakes for another fiber, which then runs */
#define WAKES 0
#endif
#ifndef WAITS               /* how often a task waits, so that its worker goes on without it */
#define WAITS 0
#endif
/* LASTS: see above.
 * ASLEEP: the workers sleep when all begins; else they are about to start, which makes many more states.
 * CLOSED_LAST: the pool is closed when the submitters have ended; else at any time.
 * NEVER_CLOSED: not at all: then few states come after the last task. */

#ifdef NEVER_CLOSED
#define CLOSED_LAST
#endif

#define BIT(w) (1 << (w))
#define ALL_BITS (BIT(WORKERS) - 1)
#define OWN_PLACES (WORKERS - BOUND)
#define TAKING_PLACES (OWN_PLACES > 0 -> OWN_PLACES : WORKERS)
#define MOST_SEARCHING ((WORKERS) / 2 > 0 -> (WORKERS) / 2 : 1)
#define IS_BOUND(w) ((w) >= WORKERS - BOUND)

/* Worker */
bool locked[WORKERS];       /* by who puts a task in from outside */
byte tasks[WORKERS];        /* tasks and batch */
bool under_way[WORKERS];    /* message_under_way: to be sent, or in the inbox, and not received yet */
bool asked[WORKERS];        /* search_asked */
bool idle[WORKERS];
bool leaving[WORKERS];
bool serves[WORKERS];
bool begun[WORKERS];        /* it has its cord */
byte accepted[WORKERS];     /* since MAY_END, */
byte finished[WORKERS];     /* and ended since */

/* Pool */
bool closing, may_end, over;
byte bits;                  /* Pool::idle */
byte searching;
byte open;                  /* tasks that had not ended when MAY_END came to be; until then, that have not */
byte members = WORKERS;
bool closer_waits;          /* in Pool::waiters */

byte by_tasks = BY_TASKS;   /* still to be submitted */
byte wakes = WAKES;
byte waits = WAITS;
byte submitters = SUBMITTERS; /* that have not ended */
byte busy;                  /* workers in a task, or in another fiber that may last */

#if WORKERS == 1
#define ALL(what) (what[0])
#elif WORKERS == 2
#define ALL(what) (what[0] + what[1])
#else
#define ALL(what) (what[0] + what[1] + what[2])
#endif

#ifdef BUG_MAY_END_NOT_AWAITED
#define MAY_END closing
#else
#define MAY_END may_end
#endif

#define ALL_ENDED (ALL(finished) == ALL(accepted) + open)

#ifdef LASTS
#define MAY_GO_ON (ALL(tasks) == 0 || busy == WORKERS)
#else
#define MAY_GO_ON true
#endif

/* What the inlines below use of each process that uses them. They leave all of it 0. */
#define LOCALS     \
    byte step;     /* in call_searcher: a worker's number + 1, or one of these */ \
    byte seen;     /* of whom the bit is still to be looked at */ \
    byte at;       \
    short sum;     \
    bool yes

#define START 0
#define NOBODY (WORKERS + 1)    /* taken so far */
#define LOOK (WORKERS + 2)
#define LEFT (WORKERS + 3)      /* something is */

/* Under the worker's lock: calls it. Its message is sent after that, and may come late: who receives may wait. */
inline call(w) { under_way[w] = true }

/* One look at the bits of those in `seen`, where all are at first: takes a bit that is set, and `out` is base + its
 * worker then; or else leaves in `seen` those whose bit is set, which others may take before the next look. So each who
 * is left out had no bit at some time, as if all had been looked at first and then tried, in any order, as which is
 * nearest is a guess. */
inline take_any(out, base) {
    if
    :: seen & bits & BIT(0) -> bits = bits & ~BIT(0); seen = 0; out = base
#if WORKERS > 1
    :: seen & bits & BIT(1) -> bits = bits & ~BIT(1); seen = 0; out = base + 1
#endif
#if WORKERS > 2
    :: seen & bits & BIT(2) -> bits = bits & ~BIT(2); seen = 0; out = base + 2
#endif
    :: seen & ~bits -> seen = seen & bits
    fi
}

#define W (step - 1)

inline call_searcher() {
    do
    :: atomic { step == START -> /* Pool::idlers may be anything */
           if
           :: bits == 0 || searching != 0 -> break
           :: searching == 0 -> searching = 1; seen = ALL_BITS; step = NOBODY
           fi
       }
    :: atomic { step == NOBODY && seen != 0 -> take_any(step, 1) }
    :: atomic { step > 0 && step <= WORKERS && !yes && !locked[W] -> /* worker_call */
           if
           :: serves[W] && begun[W] && idle[W] && !asked[W] ->
              asked[W] = true;
              call(W);
              step = START;
              break
           :: else -> yes = true
           fi
       }
    :: atomic { step > 0 && step <= WORKERS && yes && !locked[W] -> /* worker_wake */
           if
           :: serves[W] && begun[W] -> call(W)
           :: else
           fi;
           step = NOBODY;
           seen = ALL_BITS;
           yes = false
       }
    :: atomic { step == NOBODY && seen == 0 -> searching--; step = LOOK }
    :: atomic { step == LOOK && !locked[at] ->
           if
           :: tasks[at] > 0 -> at = 0; step = LEFT
           :: else ->
              at++;
              if
              :: at == WORKERS -> at = 0; step = START; break
              :: else
              fi
           fi
       }
    :: atomic { step == LEFT ->
           step = START;
           if
           :: bits == 0 -> break
           :: else
           fi
       }
    od
}

/* ---- The end */

#ifdef BUG_SUMS_IN_THE_WRONG_ORDER
#define FIRST accepted
#define THEN finished
#define SUM (sum + open)
#else
#define FIRST finished
#define THEN accepted
#define SUM (sum - open)
#endif

/* `sum` is 0 if so. */
inline all_ended() {
    do
    :: atomic { sum = sum + FIRST[at]; at++;
           if
           :: at == WORKERS -> at = 0; break
           :: else
           fi
       }
    od;
    do
    :: atomic { sum = sum - THEN[at]; at++;
           if
           :: at == WORKERS -> at = 0; sum = SUM; break
           :: else
           fi
       }
    od
}

inline tell_waiters() { closer_waits = false }

inline pool_add_up() {
    all_ended();
    if
    :: atomic { sum == 0 -> yes = !over; over = true; assert(ALL_ENDED) };
       if
       :: yes ->
          yes = false;
          do
          :: atomic { at < OWN_PLACES && !locked[at] ->
                 if
                 :: serves[at] && begun[at] -> call(at)
                 :: else
                 fi;
                 at++
             }
          :: atomic { at == OWN_PLACES -> at = 0; tell_waiters(); break }
          od
       :: else
       fi
    :: sum != 0 -> sum = 0
    fi
}

/* That closing is looked at first changes nothing: may_end comes later. */
inline pool_look_whether_over() {
    if
    :: over || !MAY_END
    :: !over && MAY_END -> pool_add_up()
    fi
}

/* ---- Submitting */

inline push(w) {
    assert(!over);
    tasks[w]++;
    if
    :: MAY_END -> accepted[w]++
    :: else -> open++
    fi
}

/* Of the submitter: the next task, if there is any. */
inline next_submit() {
    whom = 0;
    left--;
    if
    :: left == 0 -> submitters--; goto done
    :: else -> seen = ALL_BITS; goto idle_one
    fi
}

/* Of the submitter, under the lock of `whom`: it has seen that the pool is not being closed, and puts its task there. It
 * may stand still between the two, with the lock; which is another order only if the pool is closed meanwhile, so it
 * stands there until that. What others do meanwhile might as well be done before it takes the lock: with one submitter
 * it takes it at the moment when the pool is closed. */
#ifdef CLOSED_LAST
#define MAY_STAND_STILL false
#define STANDS_STILL
#elif SUBMITTERS == 1
#define MAY_STAND_STILL true
#define STANDS_STILL closing = true
#else
#define MAY_STAND_STILL true
#define STANDS_STILL
#endif

proctype submitter() {
    LOCALS;
    byte left = EACH;
    byte whom;
    bool refused;

    seen = ALL_BITS;

    /* submit_from_outside */
idle_one:
    atomic {
        if
        :: closing -> seen = 0; goto somewhere
        :: searching > 0 && seen == ALL_BITS -> seen = 0; goto somewhere
        :: whom = WORKERS; /* also while it is closing, which may have come since that look */
           take_any(whom, 0);
           if
           :: whom < WORKERS -> goto taken
           :: whom == WORKERS && seen == 0 -> whom = 0; goto somewhere
           :: else -> whom = 0; goto idle_one
           fi
        fi
    };
taken:
    atomic { !locked[whom] -> /* worker_put */
        if
        :: !serves[whom] || leaving[whom] || !idle[whom] || under_way[whom] -> goto wake
        :: else ->
           if
           :: closing -> refused = true; goto wake
           :: !closing -> push(whom); call(whom); next_submit()
           :: !closing && MAY_STAND_STILL -> locked[whom] = true; STANDS_STILL
           fi
        fi
    };
    atomic { closing -> push(whom); call(whom); locked[whom] = false; next_submit() };
wake:
    atomic { !locked[whom] ->
#ifndef BUG_TAKEN_AND_NOT_CALLED
        if
        :: serves[whom] -> call(whom)
        :: else
        fi;
#endif
        if
        :: refused -> refused = false; next_submit()
        :: else -> whom = 0; seen = ALL_BITS; goto idle_one
        fi
    };

    /* put_somewhere: from the round's on, which may be anything */
somewhere:
    atomic {
        if
        :: whom = 0
#if WORKERS - BOUND > 1 || (WORKERS == BOUND && WORKERS > 1)
        :: whom = 1
#endif
#if WORKERS - BOUND > 2 || (WORKERS == BOUND && WORKERS > 2)
        :: whom = 2
#endif
        fi
    };
    do
    :: atomic { !locked[whom] ->
           if
           :: !serves[whom] || leaving[whom] ->
              whom = (whom + 1) % TAKING_PLACES;
              at++;
              if
              :: at == TAKING_PLACES -> at = 0; assert(BOUND > 0 || closing); next_submit()
              :: else
              fi
           :: else ->
              at = 0;
              if
              :: closing -> next_submit()
              :: !closing -> push(whom); whom = 0; break
              :: !closing && MAY_STAND_STILL -> locked[whom] = true; STANDS_STILL; goto stands_still
              fi
           fi
       }
    od;
    goto put;
stands_still:
    atomic { closing -> push(whom); locked[whom] = false; whom = 0 };
put:
#ifndef BUG_PUT_IN_SILENCE
    call_searcher();
#endif
    atomic { next_submit() };
done:
    skip
}

/* ---- Working: each label is one step that others may see, and all that the thread does alone up to the next. */

/* The cord takes the next of those that are runnable, which may be any. */
#define TURN       \
    if \
    :: main_runs -> goto main_fiber \
    :: resumed -> goto resume \
    :: other -> goto other_fiber \
    :: fetching -> goto next_task \
    :: !main_runs && !resumed && !other && !fetching -> goto goes_idle \
    :: under_way[me] -> goto called /* by a poll */ \
    fi

/* From end_search and call_searcher. */
#define RETURN     \
    if \
    :: back == TO_TURN -> back = 0; TURN \
    :: back == TO_PASS_ON -> back = 0; goto pass_on \
    :: back == TO_TASK -> back = 0; goto task \
    :: back == TO_ENDS -> back = 0; fetching = false; main_runs = main_runs || (waiting == 0 && leaves); TURN \
    :: back == TO_SUBMIT -> back = 0; goto submit \
    fi

#define TO_TURN 0
#define TO_PASS_ON 1
#define TO_TASK 2
#define TO_ENDS 3
#define TO_SUBMIT 4

/* The two steps in which a worker ceases to be idle: its bit first, if that is there, and nobody else sets it. */
#define HAS_BIT (bits & BIT(me))
#define CLEAR_BIT bits = bits & ~BIT(me)

inline rise() {
    yes = asked[me];
    asked[me] = false;
    idle[me] = false;
    is_idle = false
}

#ifdef BUG_MESSAGE_FREE_TOO_LATE
#define RECEIVED rise(); goto sees_whether_over
#else
#define RECEIVED under_way[me] = false; rise(); goto sees_whether_over
#endif

inline risen() {
    rise();
    if
    :: yes ->
       yes = false;
       back = TO_PASS_ON;
       goto ends_search
    :: else -> goto pass_on
    fi
}

inline steal(from) {
    sum = (tasks[from] + 1) / 2;
    tasks[from] = tasks[from] - sum;
    tasks[me] = tasks[me] + sum;
    if
    :: sum > 0 -> sum = 0; at = 0; goto next_task
    :: else
    fi
}

/* Looks at the queues under their locks, one after the other. */
inline look(w, found) {
    if
    :: tasks[w] > 0 -> w = 0; found = true; break
    :: else ->
       w++;
       if
       :: w == WORKERS -> w = 0; break
       :: else
       fi
    fi
}

proctype worker(byte me) {
    LOCALS;
    bool is_idle;           /* idle[me] */
    bool leaves;            /* leaving[me] */
    bool searches, must_search;
    bool fetching;          /* the fetching fiber is runnable */
    bool main_runs;         /* the main fiber is */
    bool other;             /* another fiber is */
    bool resumed;           /* one is whose task has waited, */
    bool late;              /* or its task runs */
    byte waiting;           /* fibers whose tasks wait */
    byte next;
    byte back;

#ifdef ASLEEP
    is_idle = true;
    goto sleeps;
#endif
    /* worker_begin; work() then looks whether it is over */
    atomic { begun[me] = true; main_runs = !IS_BOUND(me); TURN };

goes_idle:
    atomic {
        if
        :: tasks[me] > 0 -> fetching = true; goto next_task
        :: tasks[me] == 0 && leaves -> main_runs = (waiting == 0); goto rested
        :: tasks[me] == 0 && !leaves
        fi
    };
    atomic { !locked[me] -> idle[me] = true; is_idle = true }; /* become_idle */
    bits = bits | BIT(me);
#ifndef BUG_NO_LOOK_BEFORE_SLEEP
    do
    :: atomic { !locked[at] -> look(at, yes) }
    od;
    if
    :: yes -> yes = false; must_search = true; fetching = true; goto leaves_idle
    :: else
    fi;
#endif
rested:
    pool_look_whether_over();
    if
    :: main_runs -> goto leaves_idle
    :: else
    fi;

sleeps:
#ifdef NEVER_CLOSED
end_asleep:
#endif
    if
    :: atomic { under_way[me] && HAS_BIT -> CLEAR_BIT; goto called }
    :: atomic { under_way[me] && !HAS_BIT && !locked[me] -> RECEIVED }
    :: atomic { waiting > 0 -> waiting--; resumed = true }
    :: atomic { IS_BOUND(me) && !leaves -> main_runs = true }
    :: atomic { wakes > 0 -> wakes--;
           if
           :: other = true
           :: true
           fi
       }
    fi;
    if
    :: under_way[me] -> goto called
    :: true
    fi;

leaves_idle:
    if
    :: atomic { !is_idle -> TURN }
    :: atomic { is_idle && HAS_BIT -> CLEAR_BIT }
    :: atomic { is_idle && !HAS_BIT && !locked[me] -> risen() }
    fi;
    atomic { !locked[me] -> risen() };

called:
    if
    :: atomic { HAS_BIT -> CLEAR_BIT; goto called }
    :: atomic { !HAS_BIT && !locked[me] -> RECEIVED }
    fi;
sees_whether_over:
    main_runs = main_runs || over;
#ifdef BUG_MESSAGE_FREE_TOO_LATE
    under_way[me] = false;
#endif
    atomic {
        if
        :: other || resumed || main_runs || fetching -> back = TO_PASS_ON
        :: !other && !resumed && !main_runs -> back = TO_TURN /* if one fetches, it runs, or its task does */
        fi;
        if
        :: !fetching && (yes || tasks[me] > 0) ->
           fetching = true;
           if
           :: yes && back == TO_TURN && !searches -> yes = false; searches = true
           :: else
           fi
        :: else
        fi;
        if
        :: yes -> yes = false; goto ends_search
        :: !yes && back == TO_TURN -> TURN
        :: !yes && back == TO_PASS_ON -> back = 0
        fi
    };

    /* What has come with a call need not wait for what runs first. */
pass_on:
    atomic {
        if
#ifndef BUG_TASKS_NOT_PASSED_ON
        :: tasks[me] > 0 -> back = TO_TURN; goto calls
#endif
        :: else -> TURN
        fi
    };

ends_search:
    /* end_search */
    atomic { searching--;
        if
#ifdef BUG_LAST_SEARCHER_CALLS_NOBODY
        :: true -> RETURN
#endif
        :: searching > 0 -> RETURN
        :: else
        fi
    };
    do
    :: atomic { at == 0 && bits == 0 -> RETURN }
    :: atomic { !locked[at] -> look(at, yes) } /* Pool::idlers may be anything */
    od;
    atomic {
        if
        :: yes -> yes = false
        :: else -> RETURN
        fi
    };
calls:
    call_searcher();
    atomic { RETURN };

next_task:
    atomic {
        if
        :: tasks[me] > 0 && !locked[me] ->
           tasks[me]--;
           if
           :: searches -> searches = false; back = TO_TASK; goto ends_search
           :: !searches && by_tasks == 0 -> busy++; goto lasts
           :: else -> goto task
           fi
        :: tasks[me] == 0 ->
           if
           :: leaves ->
              back = TO_ENDS;
              if
              :: searches -> searches = false; goto ends_search
              :: else -> RETURN
              fi
           :: else ->
              if
              :: searches -> must_search = false; goto steals
              :: else
              fi
           fi
        fi
    };
    /* search */
count:
    atomic {
        if
        :: searching >= MOST_SEARCHING && !must_search -> back = TO_ENDS; RETURN
        :: searching++; searches = true; must_search = false /* also if there are more since that look */
        fi
    };
steals:
#if WORKERS > 2
    if
    :: at = 1
    :: at = 2
    fi;
    atomic { !locked[me] && !locked[(me + at) % WORKERS] -> steal((me + at) % WORKERS); at = 3 - at };
    atomic { !locked[me] && !locked[(me + at) % WORKERS] -> steal((me + at) % WORKERS); at = 0 };
#elif WORKERS > 1
    atomic { !locked[me] && !locked[1 - me] -> steal(1 - me) };
#endif
    atomic { searching--; searches = false };
    do
    :: atomic { !locked[at] -> look(at, yes) }
    od;
    atomic {
        if
        :: yes -> yes = false; must_search = true
        :: else -> back = TO_ENDS; RETURN
        fi
    };
    atomic {
        if
        :: tasks[me] == 0 -> goto count
        :: else
        fi
    };
    atomic { searching++; searches = true };
    goto next_task;

task:
    next = NEXT;
submit:
    atomic {
        if
        :: next > 0 && by_tasks > 0 && !locked[me] ->
           next--;
           by_tasks--;
           push(me);
           back = TO_SUBMIT;
           goto calls
        :: next == 0 || by_tasks == 0 -> next = 0; busy++; goto lasts
        fi
    };
lasts:
    atomic { MAY_GO_ON -> busy--;
        if
        :: waits > 0 && !late -> waits--; waiting++; fetching = false; TURN
        :: true
        fi;
        /* task_ended */
        if
        :: MAY_END -> finished[me]++
        :: else -> open--
        fi
    };
    atomic {
        if
        :: !MAY_END || tasks[me] != 0 || over -> goto ended
        :: else
        fi
    };
    pool_add_up();
ended:
    atomic {
        if
        :: late && fetching -> late = false /* the other one fetches: this fiber ends */
        :: else -> late = false; fetching = true
        fi;
        TURN
    };

resume:
    atomic { resumed = false; late = true; busy++; goto lasts };

other_fiber:
    atomic { other = false; busy++ };
    atomic { MAY_GO_ON -> busy--; TURN };

main_fiber:
    atomic {
        if
        :: leaves -> goto emptied
        :: !leaves && (IS_BOUND(me) || over)
        :: else -> main_runs = false; TURN
        fi
    };
    /* worker_leave */
    atomic { !locked[me] -> leaving[me] = true; leaves = true; goto leaves_idle };
emptied:
    atomic {
        if
        :: fetching || waiting > 0 -> main_runs = false; TURN
        :: else
        fi;
        !locked[me] ->
        if
#ifndef BUG_LEAVES_WITH_TASKS
        :: tasks[me] > 0 -> main_runs = false; TURN
#endif
        :: else -> serves[me] = false
        fi
    };
    pool_look_whether_over();
    /* pool_member_left. What comes now is message_undelivered: no call to search is among it. */
    atomic {
        assert(!searches && !asked[me] && !idle[me]);
        members--;
        if
        :: members == 0 -> tell_waiters()
        :: else
        fi;
        main_runs = false; must_search = false; other = false; leaves = false
    }
}

/* ---- Closing */

proctype closer() {
    LOCALS;
    /* begin_to_close */
#ifdef CLOSED_LAST
    atomic { submitters == 0 -> closing = true };
#else
    closing = true; /* or it has come at the moment when a submitter stands still */
#endif
    /* From here on nobody keeps a lock longer than a step but who has it now. So to wait for each at once is to wait for
     * one after the other. */
#ifdef BUG_NO_PASS_THROUGH_THE_LOCKS
    may_end = true;
#else
    atomic { ALL(locked) == 0 -> may_end = true };
#endif
    /* await_end */
    pool_look_whether_over();
    do
    :: over -> break
    :: !over ->
       if
       :: atomic { !over && members > 0 -> closer_waits = true }; !closer_waits
       :: over || members == 0
       fi;
       assert(members > 0 || ALL_ENDED); /* else tasks are dropped that nobody is there for */
       pool_look_whether_over()
    od;
    do
    :: members == 0 -> break
    :: atomic { members > 0 -> closer_waits = true }; !closer_waits
    od
}

init {
    byte i;
    atomic {
        for (i : 0 .. WORKERS - 1) {
            serves[i] = true;
#ifdef ASLEEP
            begun[i] = true;
            idle[i] = true;
            bits = bits | BIT(i)
#endif
        };
        for (i : 0 .. WORKERS - 1) { run worker(i) };
        for (i : 1 .. SUBMITTERS) { run submitter() };
#ifndef NEVER_CLOSED
        run closer();
#endif
        i = 0
    };
#ifdef NEVER_CLOSED
    timeout; /* nobody does anything any more */
    assert(submitters == 0 && bits == ALL_BITS); /* all can be called */
#else
    _nr_pr == 1;
    assert(over && bits == 0);
#endif
    assert(ALL_ENDED && ALL(tasks) == 0 && searching == 0 && busy == 0);
#if defined CLOSED_LAST && BOUND == 0
    assert(by_tasks == 0)
#endif
}
