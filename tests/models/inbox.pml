/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The inbox of a cord, for Spin: what other threads post to it, how it parks, how it is rung, how it ends, and how its
 * record serves the next cord. run.sh checks that each of the bugs planted below (-DBUG_...) is found, and every
 * interleaving within these bounds (one wakeup that is no ring, where nothing else is said):
 *     2 producers of 2 messages each, 3 cords in turn
 *     3 producers of 1 message each, 2 cords in turn
 *     2 producers of 3 messages each in one node each, which is used again at once, 2 cords in turn
 *     2 producers of 1 message each and 1 of an embedded cord's own thread, 2 cords in turn, 2 wakeups that are no rings
 *     1 producer of 2 messages and 2 of an embedded cord's own thread, 2 cords in turn, 2 wakeups that are no rings
 *
 * The word of a cord is NULL (awake, nothing there), PARKED_FUTEX, PARKED_EVENTFD, CLOSED, or the newest node of a list.
 *   push    links the node before what is there and puts it in by compare-and-swap; fails on CLOSED. Who replaced a
 *           PARKED value, and nobody else, rings, at any later time: FUTEX_WAKE on the word, or a write to the eventfd.
 *   park    swaps NULL for a PARKED value; the cord then sleeps until it is rung or something else wakes it.
 *   unpark  swaps whatever is there for NULL. If that was a list, one ring is under way; on an eventfd it is owed, and
 *           reading the counter tells how many came.
 *   end     takes itself out of PARKED if it is that, waits for owed rings, closes the eventfd, swaps whatever is there for
 *           CLOSED and handles that. A cord that was started and whose last fiber has ended swaps NULL for CLOSED before, so
 *           that what comes in the last moment is either refused or still done.
 *
 * Three doorbells. A cord begins with FUTEX, and may open a backend between any two parks: from then on it is EVENTFD or,
 * where the ring can wait on a futex, RING: the word is PARKED_FUTEX and an operation of the ring waits on it. That stays
 * armed if something else wakes the cord, and is armed anew after it fired.
 * A cord embedded in a foreign loop stays parked between its runs. First it arms the doorbell; if that has fired at once, it
 * does not leave. In the loop its thread may push to it, as others do, and ring itself; or take it up: out of PARKED, and with
 * a timer expired, since nobody rings from then on. The loop sleeps until the doorbell or the timer makes it run the cord.
 *
 * What is checked: assertions (each message is received once or its push failed; per producer in order; no write to an
 * eventfd that is closed or another cord's), no dead end (Spin's invalid end states: asleep with messages and no ring under
 * way), and, in one run of run.sh, that there is no cycle of states at all, so that everything ends.
 *
 * One word, and all else that is shared lives in the kernel: sequential consistency, which Spin assumes, takes nothing
 * away, but that a node's contents must be visible with the word (release and acquire), which ThreadSanitizer checks. */

#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef MESSAGES            /* that each producer pushes */
#define MESSAGES 2
#endif
#ifndef NODES               /* of each producer; with fewer than MESSAGES it waits until one has been taken out */
#define NODES MESSAGES
#endif
#ifndef OWN                 /* messages that an embedded cord's own thread pushes; 0: none is embedded */
#define OWN 0
#endif
#ifndef WAKES               /* how often a timer or a completion wakes the cord, in all its lives together */
#define WAKES 1
#endif
#ifndef LIVES               /* how many cords use the record, one after the other */
#define LIVES 2
#endif

#define NULL 0
#define PARKED_FUTEX 253
#define PARKED_EVENTFD 254
#define CLOSED 255
#define RETRY 252
#define IS_LIST(w) ((w) != NULL && (w) < RETRY)

#define FUTEX 0
#define EVENTFD 1
#define RING 2

#define SOURCES (PRODUCERS + 1)         /* the last is the cord's own thread */
#define NODE(source, i) ((source) * NODES + (i) + 1)
#define SOURCE_OF(node) (((node) - 1) / NODES)

byte word = NULL;
byte next[SOURCES * NODES + 1];         /* of a node: the one pushed before it */
byte carries[SOURCES * NODES + 1];      /* which message, from 1; 0: the node is free */

byte last[SOURCES];                     /* the last message received of each source */
byte received[SOURCES];
byte failed[SOURCES];

byte life;                              /* whose the record is */
bool asleep;                            /* a thread sleeps on the word by futex */
bool armed;                             /* a ring waits on the word */
bool fired;                             /* the completion of that lies in the ring */
bool eventfd_open;
byte eventfd_count;
byte wakes_left = WAKES;
byte own_pushed;
byte takes_left = OWN;                  /* how often the own thread may take its cord up */
byte finished;                          /* producers that have pushed and rung all they had to */

/* Any one of those that wait on the word, as FUTEX_WAKE does with a count of 1. */
inline futex_wake() {
    atomic {
        if
        :: asleep -> asleep = false
        :: armed -> armed = false; fired = true
        :: !asleep && !armed
        fi
    }
}

inline eventfd_write(whose) {
    d_step {
        assert(eventfd_open && life == whose);
        eventfd_count++
    }
}

inline ring(old, whose) {
    if
    :: old == PARKED_FUTEX -> futex_wake()
    :: old == PARKED_EVENTFD -> eventfd_write(whose)
    :: else
    fi
}

/* Puts a node in, and rings if that is this pusher's duty. `old` and `whose` are the caller's. */
inline push(source, node, message) {
    carries[node] = message;
    do
    :: d_step {
           old = word;
#ifdef BUG_EARLY_EVENTFD
           whose = life /* the descriptor is read from the record before the push, not after */
#endif
       };
       if
       :: old == CLOSED ->
          d_step { failed[source]++; carries[node] = 0; old = 0; whose = 0 };
          break
       :: else
       fi;
#ifdef BUG_RING_BEFORE_LINKING
       ring(old, life);
#endif
       d_step {
           if
           :: word == old ->
              next[node] = (IS_LIST(old) -> old : NULL);
              word = node;
#ifndef BUG_EARLY_EVENTFD
              whose = life
#endif
           :: else -> old = RETRY
           fi
       };
       if
       :: old == RETRY -> d_step { old = 0; whose = 0 }
       :: else ->
#ifdef BUG_RING_BEFORE_LINKING
          skip;
#elif defined BUG_RING_IF_EMPTY
          if
          :: old == NULL -> futex_wake()
          :: else
          fi;
#else
          ring(old, whose);
#endif
          d_step { old = 0; whose = 0 };
          break
       fi
    od
}

proctype producer(byte me) {
    byte message, old, whose;
    for (message : 1 .. MESSAGES) {
        carries[NODE(me, message % NODES)] == 0; /* a node in an inbox is not used again */
        push(me, NODE(me, message % NODES), message)
    };
    finished++
}

/* Hands over what a swap took out, oldest first. The list is the cord's alone, but each node is its owner's again as
 * soon as it is released. */
inline handle() {
    d_step {
        /* reverse */
        do
        :: IS_LIST(taken) -> node = next[taken]; next[taken] = head; head = taken; taken = node
        :: else -> break
        od;
        taken = NULL;
        node = NULL
    };
    do
    :: head != NULL ->
#ifdef BUG_RELEASE_FIRST
       d_step { receive(head); carries[head] = 0 };
       head = next[head]
#else
       d_step { receive(head); node = head; head = next[node]; carries[node] = 0; node = NULL }
#endif
    :: else -> break
    od
}

inline receive(n) {
    assert(carries[n] > last[SOURCE_OF(n)]); /* once, and in order */
    last[SOURCE_OF(n)] = carries[n];
    received[SOURCE_OF(n)]++
}

/* The counter is read when the backend reports it, which may be later than another reason to wake, and before the swap
 * tells of the ring or after it. */
inline read_eventfd() {
    d_step {
        owed = owed - eventfd_count;
        eventfd_count = 0
    }
}

#ifdef BUG_OLD_DOORBELL
#define PARKED PARKED_FUTEX
#else
#define PARKED (doorbell == EVENTFD -> PARKED_EVENTFD : PARKED_FUTEX)
#endif

/* A list in the place of PARKED_EVENTFD: whoever put it there owes a ring. */
inline count_owed() {
    if
    :: parked && IS_LIST(taken) && doorbell == EVENTFD -> owed++
    :: else
    fi;
    parked = false
}

/* Out of PARKED. */
inline unpark() {
    if
    :: eventfd_count > 0 -> read_eventfd(); reported = false
    :: true
    fi;
#ifdef BUG_UNPARK_BY_STORE
    taken = word;
    word = NULL;
#else
    d_step { taken = word; word = NULL };
#endif
    d_step { count_owed() };
    if
    :: eventfd_count > 0 -> read_eventfd()
#ifdef BUG_COUNTER_LEFT_UNREAD
    :: true
#else
    :: !reported
#endif
    fi;
    reported = false;
    assert(owed >= 0); /* no ring came that nobody owed */
    handle()
}

/* The sleeps. Each ends by a ring, or by something else, which happens often enough that Spin looks at all its moments,
 * and seldom enough that it helps nobody out whose ring never comes. Or there will be nothing more: a cord without messages
 * may sleep then, and is dismissed. */
#define ALL_RUNG (finished == PRODUCERS && !IS_LIST(word))

inline sleep_on_futex() {
    d_step {
        if
#ifdef BUG_SLEEP_WITHOUT_COMPARING
        :: true -> asleep = true
#else
        :: word == PARKED_FUTEX -> asleep = true
        :: else
#endif
        fi
    };
    if
    :: !asleep
    :: d_step { asleep && wakes_left > 0 -> wakes_left--; asleep = false }
    :: d_step { asleep && ALL_RUNG -> dismissed = true; asleep = false }
    fi
}

inline sleep_on_eventfd() {
    if
    :: eventfd_count > 0 -> reported = true
    :: d_step { wakes_left > 0 -> wakes_left-- }
    :: d_step { ALL_RUNG -> dismissed = true }
    fi
}

inline arm() {
    d_step {
        if
#ifdef BUG_ARM_ONCE
        :: !ever_armed ->
           ever_armed = true;
#else
        :: !armed && !fired ->
#endif
           if
           :: word == PARKED_FUTEX -> armed = true
           :: else -> fired = true /* -EAGAIN is a completion, too */
           fi
        :: else
        fi
    }
}

inline sleep_on_ring() {
    arm();
    if
    :: d_step { fired -> fired = false }
    :: d_step { wakes_left > 0 -> wakes_left-- }
    :: d_step { ALL_RUNG -> dismissed = true }
    fi
}

inline sleep() {
    if
    :: doorbell == FUTEX -> sleep_on_futex()
    :: doorbell == EVENTFD -> sleep_on_eventfd()
    :: doorbell == RING -> sleep_on_ring()
    fi
}

inline open_backend() {
    if
    :: doorbell = EVENTFD; eventfd_open = true
    :: doorbell = RING
    fi;
    embedded = (OWN > 0)
}

/* Parked, the thread of an embedded cord runs on in the foreign loop, and may push to its own inbox, or take the cord up. */
inline run_callbacks() {
    do
    :: parked && own_pushed < OWN && carries[NODE(PRODUCERS, (own_pushed + 1) % NODES)] == 0 ->
       own_pushed++;
       push(PRODUCERS, NODE(PRODUCERS, own_pushed % NODES), own_pushed)
    :: parked && takes_left > 0 -> /* takes it up */
       takes_left--;
       unpark();
#ifndef BUG_TAKEN_UP_IN_SILENCE
       expired = true
#endif
    :: break
    od
}

inline sleep_in_loop() {
    if
    :: expired
    :: doorbell == RING && fired -> fired = false
    :: eventfd_count > 0 -> reported = true
    :: d_step { wakes_left > 0 -> wakes_left-- }
    :: d_step { ALL_RUNG -> dismissed = true }
    fi;
    expired = false
}

/* The run that follows. */
inline run_embedded() {
    if
    :: parked -> unpark()
    :: !parked && reported -> read_eventfd(); reported = false
    :: else
    fi
}

/* No producer may ring after this, but by FUTEX_WAKE on the word, which is harmless at any time. */
inline close_doorbell() {
#ifndef BUG_CLOSE_WITH_RINGS_OWED
    do
    :: owed > 0 && eventfd_count > 0 -> read_eventfd()
    :: owed == 0 -> break
    od;
#endif
    atomic {
        assert(eventfd_count == 0 || owed > 0);
        eventfd_open = false;
        eventfd_count = 0;
        owed = 0;
#ifndef BUG_LEFT_ARMED
        armed = false; /* cancelled, and seen to be: it would take the next cord's wake */
#endif
        fired = false;
        doorbell = FUTEX;
        embedded = false;
        expired = false;
        reported = false;
        dismissed = false
    }
}

proctype cord() {
    byte taken, head, node, old, whose, doorbell;
    short owed;
    bool parked, reported, dismissed, embedded, expired;
#ifdef BUG_ARM_ONCE
    bool ever_armed;
#endif
    do
    :: word != NULL -> /* awake, it looks into its inbox now and then, and always before it parks */
       d_step { taken = word; word = NULL };
       handle()
    :: doorbell == FUTEX -> open_backend()
#ifdef BUG_PARK_BY_STORE
    :: word == NULL && !dismissed -> word = PARKED;
#else
    :: d_step { word == NULL && !dismissed -> word = PARKED };
#endif
       parked = true;
       if
       :: true -> sleep(); unpark()
       :: embedded ->
#ifndef BUG_LEFT_UNARMED
          if
          :: doorbell == RING -> arm()
          :: else
          fi;
#endif
#ifdef BUG_RING_DROPPED_ON_LEAVING
          fired = false;
#endif
          if
          :: doorbell == RING && fired -> fired = false; unpark() /* somebody has rung: it does not leave */
          :: else ->
             run_callbacks();
             if
             :: true -> sleep_in_loop(); run_embedded()
             :: goto ends /* the thread leaves the foreign loop and exits */
             fi
          fi
       fi
#ifdef BUG_CLOSE_IF_EMPTY_BY_STORE
    :: word == NULL -> word = CLOSED; goto ends
#else
    :: d_step { word == NULL -> word = CLOSED }; goto ends /* nothing is left to be done on a cord that was started */
#endif
    :: true -> /* its thread exits */
ends:
#ifdef BUG_DOORBELL_CLOSED_WHILE_PARKED
       close_doorbell();
#endif
       if
#ifdef BUG_END_FORGETS_PARKED
       :: parked -> d_step { taken = word; word = NULL; parked = false }; handle()
#else
       :: parked -> unpark()
#endif
       :: else
       fi;
       close_doorbell();
       d_step { taken = word; word = CLOSED };
#ifdef BUG_CLOSE_WITHOUT_TAKING
       taken = NULL;
#endif
       handle();
       life++;
       if
       :: life == LIVES -> break
       :: else -> word = NULL /* the next cord */
       fi
    od
}

init {
    byte i;
    atomic {
        run cord();
        for (i : 0 .. PRODUCERS - 1) { run producer(i) }
    };
    _nr_pr == 1;
    d_step {
        for (i : 0 .. PRODUCERS - 1) { assert(received[i] + failed[i] == MESSAGES) };
        assert(received[PRODUCERS] == own_pushed)
    }
}
