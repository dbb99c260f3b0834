// SPDX-License-Identifier: MIT OR Apache-2.0
// The oracle that the simulation asks whenever something could go one way or another, and the trace of what happened.
//
// Every choice is pick(n, site): a number below n, where 0 is what happens when nothing special does. So a run is its
// list of choices; all that are 0 need not be told. The oracle draws them from a generator of its own, which a seed
// begins, the same on every machine and with every compiler; or it repeats a list, and picks 0 when that is at its end.
//
// A list is "position:choice,position:choice,...", the positions counted from 0 and in order; or "@path" of a file that
// holds such. Of the choices of a run, those that may be drawn from one possibility alone are not counted.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// What is chosen. Names for the trace are in oracle.cc.
enum class Site : uint8_t {
    how_many,      // of the operations that could be done now, how many are not
    which,         // of those is done next
    report_later,  // how many that are done are not told of yet
    cancel,        // 1: an operation that was asked to end early ends so, though it could be done
    timer,         // which of the timers of the same time fires next
    poll_interval, // how many switches lie between two polls
    time_slice,    // 1: a fiber that asks whether its time is over is told no
    cord,          // which cord goes on, counted from the one after that which had the thread
    in_between,    // not 0: another cord goes on in the middle of what this one does
    victim,        // from whom of a pool a worker without tasks tries to take some first
    short_transfer,
    again,
    signal,
    no_room,
    overflow,
    doorbell,
    reset,
    no_space,
    memory,
    stack, // faults
};

class Trace {
public:
    bool open(const char* path); // false: it cannot be written
    void close();
    bool wanted() const { return fd_ >= 0; }
    // One line, after the time. Neither addresses nor descriptors nor a real time may be in it.
    [[gnu::format(printf, 3, 4)]] void line(int64_t now, const char* format, ...);

private:
    int fd_ = -1;
};

class Oracle {
public:
    void seed(uint64_t seed);
    bool replay(const char* list); // false: it is no such list

    // 0 .. n-1. one_in: not 0, and not by a list: anything but 0 is picked once in so many times.
    uint32_t pick(uint32_t n, Site site, uint32_t one_in = 0);

    const char* name_of(Site site) const;

private:
    uint32_t drawn(uint32_t n, uint32_t one_in);
    uint32_t listed(uint32_t n);
    bool next_entry();
    uint64_t random();

    uint64_t state_ = 0;
    uint64_t position_ = 0;
    uint32_t calm_ = 0;          // of so many choices, one is drawn, the others are 0
    const char* list_ = nullptr; // what remains of it
    bool listed_ = false;
    uint64_t entry_position_ = UINT64_MAX; // of its next entry
    uint64_t entry_choice_ = 0;
};

} // namespace fiberrt
