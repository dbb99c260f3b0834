// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's inbox: what other threads have to say to it, in one word.
//
//   0            the cord runs, or is about to look; nothing has come
//   parked_on_*  the cord sleeps: who replaces this must ring, in the way it tells
//   closed       the cord has ended: nothing is taken any more
//   else         the messages that have come, the last one first
//
// Producers put themselves in by compare-and-swap, the cord takes all by exchange and goes to sleep by compare-and-swap
// from 0: every change is a read-modify-write of the one word, so the cord cannot sleep on a message it has not seen,
// and exactly one producer rings. tests/models/inbox.pml checks this.
//
// A message lives in memory of whoever sends it and is theirs again when it has been received.
#pragma once

#include <atomic>
#include <stdint.h>

namespace fiberrt {

struct Cord;

struct Message {
    Message* next;
    void (*receive)(Cord& cord, Message* message); // called on the receiving cord
};

class Inbox {
public:
    enum : uintptr_t {
        empty = 0,
        parked_on_word = 1,    // it sleeps on the word itself, by futex: in the thread, or by the ring
        parked_on_eventfd = 2, // it sleeps on a ring that reads its eventfd
        closed = 3,
    };

    // Puts a message in. What was there before: `closed`, and it was not taken; or parked_on_*, and the caller is to
    // ring.
    uintptr_t push(Message* message) {
        uintptr_t old = word_.load(std::memory_order_relaxed);
        do {
            if (old == closed) return closed;
            message->next = old > closed ? reinterpret_cast<Message*>(old) : nullptr;
            // Release: the cord that takes the message sees what it says. Acquire: whoever replaces parked_on_eventfd
            // sees the descriptor that was stored before it.
        } while (!word_.compare_exchange_weak(old, reinterpret_cast<uintptr_t>(message), std::memory_order_acq_rel,
                                              std::memory_order_relaxed));
        return old;
    }

    bool has_mail() const { return word_.load(std::memory_order_relaxed) > closed; }

    // What has come, the first one first; null if nothing has. For the cord while it runs, and to wake after park():
    // then something means that somebody has replaced `parked`, and rings. Acquire: pairs with push().
    Message* take() { return in_order(word_.exchange(empty, std::memory_order_acq_rel)); }

    // The cord is about to sleep; false: it must not, something has come. Release: see push().
    bool park(uintptr_t parked) {
        uintptr_t expected = empty;
        return word_.compare_exchange_strong(expected, parked, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

    // For others: it has ended, or is about to. Acquire: what they read before this is not newer than the answer.
    bool is_closed() const { return word_.load(std::memory_order_acquire) == closed; }

    // For others, as a guess: it sleeps.
    bool is_parked() const {
        uintptr_t word = word_.load(std::memory_order_relaxed);
        return word == parked_on_word || word == parked_on_eventfd;
    }

    void open() { word_.store(empty, std::memory_order_release); }

    // Nothing is taken any more; false: something has come, and nothing has changed.
    bool close_if_empty() {
        uintptr_t expected = empty;
        return word_.compare_exchange_strong(expected, closed, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

    // Nothing is taken any more; returns what had come.
    Message* close() { return in_order(word_.exchange(closed, std::memory_order_acq_rel)); }

    void close_unread() { word_.store(closed, std::memory_order_relaxed); } // in the child of a fork

    // Where a futex finds the word: its low half, in which the three small values differ from any pointer.
    uint32_t* futex() { return reinterpret_cast<uint32_t*>(&word_); }

private:
    static Message* in_order(uintptr_t list) {
        if (list <= closed) return nullptr;
        Message* last_first = reinterpret_cast<Message*>(list);
        Message* first = nullptr;
        while (last_first) {
            Message* next = last_first->next;
            last_first->next = first;
            first = last_first;
            last_first = next;
        }
        return first;
    }

    std::atomic<uintptr_t> word_ = closed;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the futex is the low half of the word");

// Sends a message to a cord and wakes it if it sleeps; false: the cord has ended, and the message was not taken.
bool send(Cord& to, Message* message);

// Receives what has come; false if nothing has.
bool receive_all(Cord& cord);

// From here on who sends something must ring, until unpark() has received what came. False: something has come, which
// is received now, and the cord is not parked.
bool park(Cord& cord);
void unpark(Cord& cord);

// The cord ends: receives the last messages, and no more are taken.
void receive_last(Cord& cord);

// How many cords are not asleep decides whether it is worth looking out for a message.
void cord_awake();
void cord_asleep();
void awake_forked(int awake); // so many are, in the child of a fork

// Sleeps until a message comes, something of the cord's own I/O is done, or the deadline has passed. False: a message
// made a fiber runnable so soon that to look at the clock, timers and I/O would take longer; that is left to the next
// poll in turn.
bool sleep(Cord& cord, int64_t deadline);

// Looks out before that, while it is worth it: for a message, I/O, and what else_come(argument) tells of. False: in vain.
bool look_out(Cord& cord, int64_t deadline, bool (*else_come)(void*), void* argument);

} // namespace fiberrt
