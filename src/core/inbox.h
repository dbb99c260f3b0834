// SPDX-License-Identifier: MIT OR Apache-2.0
// A cord's inbox: the messages that other threads have sent to it, in one word.
//
//   0            the cord runs, or is about to look; there is no message
//   asleep_on_*  the cord sleeps: a producer that replaces this value must ring, in the way that the value tells
//   closed       the cord has ended: the inbox takes no more messages
//   else         a list of messages, the last one first
//
// Producers add their messages by compare-and-swap. The cord takes all by exchange, and goes to sleep by
// compare-and-swap from 0. Every change is a read-modify-write of the one word, so the cord cannot sleep on a message
// that it has not seen, and exactly one producer rings. tests/models/inbox.pml checks this.
//
// The sender supplies the memory of a message; it is the sender's again when the cord has received the message.
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
        asleep_on_word = 1,    // the cord sleeps on the word itself, by futex: in the thread, or by the ring
        asleep_on_eventfd = 2, // the cord sleeps on a ring that reads its eventfd
        closed = 3,
    };

    // Adds a message. Returns the word's old value: `closed`: the message was not taken; asleep_on_*: the caller must
    // ring.
    uintptr_t push(Message* message) {
        uintptr_t old = word_.load(std::memory_order_relaxed);
        do {
            if (old == closed) return closed;
            message->next = old > closed ? reinterpret_cast<Message*>(old) : nullptr;
            // Release: the cord that takes the message sees its members. Acquire: the producer that replaces
            // asleep_on_eventfd sees the descriptor that the cord stored before it.
        } while (!word_.compare_exchange_weak(old, reinterpret_cast<uintptr_t>(message), std::memory_order_acq_rel,
                                              std::memory_order_relaxed));
        return old;
    }

    bool has_message() const { return word_.load(std::memory_order_relaxed) > closed; }

    // Takes all messages, the first one first; null if there is none. The cord calls it while it runs, and to wake
    // after mark_asleep(): then a message means that a producer has replaced asleep_on_*, and rings. Acquire: pairs
    // with push().
    Message* take() { return in_order(word_.exchange(empty, std::memory_order_acq_rel)); }

    // Marks the cord as asleep, when it is about to sleep. False: it must not, there is a message. Release: see push().
    bool mark_asleep(uintptr_t asleep) {
        uintptr_t expected = empty;
        return word_.compare_exchange_strong(expected, asleep, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

    // For other threads: whether the cord has ended, or is about to. Acquire: values that the caller reads later are
    // not older than the answer.
    bool is_closed() const { return word_.load(std::memory_order_acquire) == closed; }

    // For other threads, as a guess: whether the cord sleeps.
    bool is_asleep() const {
        uintptr_t word = word_.load(std::memory_order_relaxed);
        return word == asleep_on_word || word == asleep_on_eventfd;
    }

    void open() { word_.store(empty, std::memory_order_release); }

    // Closes the inbox. False: there is a message, and nothing has changed.
    bool close_if_empty() {
        uintptr_t expected = empty;
        return word_.compare_exchange_strong(expected, closed, std::memory_order_acq_rel, std::memory_order_relaxed);
    }

    // Closes the inbox and returns the messages in it.
    Message* close() { return in_order(word_.exchange(closed, std::memory_order_acq_rel)); }

    void close_unread() { word_.store(closed, std::memory_order_relaxed); } // in the child of a fork

    // The word for a futex: the low half, in which the three small values differ from any pointer.
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

// Receives all messages in the cord's inbox; false if there is none.
bool receive_all(Cord& cord);

// Marks the cord as asleep: from here on senders must ring, until mark_awake() has received their messages. False:
// there were messages, which it has received, and the cord is not marked.
bool mark_asleep(Cord& cord);
void mark_awake(Cord& cord);

// Closes the inbox of a cord that ends, and receives the last messages.
void receive_last(Cord& cord);

// Count the cords that are awake: spin_before_sleep() decides by their number whether spinning is worth it.
void cord_awake();
void cord_asleep();
void awake_forked(int awake); // sets the number in the child of a fork

// Sleeps until a message comes, one of the cord's I/O operations is done, or the deadline has passed. False: a message
// made a fiber runnable so soon that a look at the clock, timers and I/O would take longer; the next poll does that.
bool sleep(Cord& cord, int64_t deadline);

// Spins before sleep(), while that is worth it: until a message comes, I/O makes a fiber runnable, or
// else_come(argument) returns true. False: none of these happened.
bool spin_before_sleep(Cord& cord, int64_t deadline, bool (*else_come)(void*), void* argument);

} // namespace fiberrt
