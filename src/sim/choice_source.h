// SPDX-License-Identifier: MIT OR Apache-2.0
// The choice source, which makes every choice of a simulation, and the trace, which records the run.
//
// Every choice is pick(n, site): a number below n, where 0 means that nothing special happens. So a run is fully
// described by its list of choices, in which zeros can be left out. The choice source draws the choices from its random
// generator, which a seed starts and which gives the same numbers on every machine and with every compiler. Or it
// repeats a list, and picks 0 when the list has ended.
//
// A list is "position:choice,position:choice,...", in order of the positions, which count from 0; or "@path", a file
// that holds such a list. Choices with only one possibility are not counted.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fiberrt {

// The kinds of choices. choice_source.cc has their names for the trace.
enum class Site : uint8_t {
    how_many,      // how many of the operations that could be done now are not done
    which,         // which of them is done next
    report_later,  // how many of the operations that are done are not reported yet
    cancel,        // 1: an operation that was asked to end early does, though it could be done
    timer,         // which of the timers that are due at one time fires next
    poll_interval, // how many switches lie between two polls
    time_slice,    // 1: a fiber that asks whether its time slice is over gets the answer no
    cord,          // which cord runs next, counted from the one after the present cord
    in_between,    // not 0: another cord runs in the middle of this cord's action
    victim,        // which worker of a pool an idle worker tries to steal from first
    after_call,    // 1: other fibers run before a call of an adopted library returns
    program,       // a choice of the program, by fiber_sim_pick
    short_transfer,
    again,
    signal,
    no_room,
    overflow,
    doorbell,
    reset,
    no_space,
    memory,
    stack, // short_transfer to stack: faults
};

class Trace {
public:
    bool open(const char* path); // false: the file cannot be written
    void close();
    bool wanted() const { return fd_ >= 0; }
    // Writes one line, which begins with the time. It may hold no address, descriptor or real time, as these differ
    // between runs.
    [[gnu::format(printf, 3, 4)]] void line(int64_t now, const char* format, ...);

private:
    int fd_ = -1;
};

class ChoiceSource {
public:
    void seed(uint64_t seed);
    int replay(const char* list); // 0; -EINVAL: the list is malformed; or why its file cannot be read

    // Returns the next choice, 0 to n-1. one_in: if not 0 and no list is repeated, the choice is not 0 once in so many
    // times.
    uint32_t pick(uint32_t n, Site site, uint32_t one_in = 0);

    const char* name_of(Site site) const;

private:
    uint32_t draw(uint32_t n, uint32_t one_in);
    uint32_t listed(uint32_t n);
    bool next_entry();
    uint64_t random();

    uint64_t state_ = 0;
    uint64_t position_ = 0;
    uint32_t rarity_ = 0;        // one of so many choices is drawn, the others are 0
    const char* list_ = nullptr; // the rest of the list
    bool listed_ = false;
    uint64_t entry_position_ = UINT64_MAX; // the position of the next entry
    uint64_t entry_choice_ = 0;
};

} // namespace fiberrt
