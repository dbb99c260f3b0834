// SPDX-License-Identifier: MIT OR Apache-2.0
// The newest sample, with the rates that follow from it and the sample before.
#pragma once

#include "sample.h"

#include <optional>
#include <unordered_map>

namespace top {

// Figures of the time between the two samples. Without a value: one of the samples lacks the members for it.
struct FiberRates {
    std::optional<double> cpu;   // of one processor, in percent
    std::optional<double> wait;  // the part of the time, in percent
    std::optional<double> turns; // per second
};
struct CordRates {
    std::optional<double> cpu;
    std::optional<double> switches, polls, ops; // per second
};

enum class Sort { cpu, waits, stack, name, id };

class Model {
public:
    // Takes the newest sample.
    void add(Sample sample);

    // Takes the frames of one fiber, from a sample that was made for this.
    void add_frames(Sample sample);

    const Sample& sample() const { return now_; }
    bool keeps_times() const { return keeps_times_; } // the process tells the fibers' times

    const Fiber* fiber(uint64_t id) const;       // null: there is none
    const Fiber* with_frames(uint64_t id) const; // the one with frames, if there are any
    const Cord* cord(uint64_t id) const;
    FiberRates rates(const Fiber& fiber) const;
    CordRates rates(const Cord& cord) const;
    bool is_dead_locked(uint64_t id) const { return dead_locked_.contains(id); }

    // The name that people see: its own, or a substitute.
    std::string name(const Fiber& fiber) const;
    std::string name_of_fiber(uint64_t id) const;
    std::string name_of_cord(uint64_t id) const;

    // Why the fiber waits, with the fiber that it waits for.
    std::string wait(const Fiber& fiber) const;

    // The fibers whose name, function or wait has this text, in this order.
    std::vector<const Fiber*> fibers(Sort sort, bool backwards, const std::string& filter) const;

private:
    const Cord* cord_before(uint64_t id) const;
    bool began_to_count(uint64_t cord) const;
    std::optional<double> cpu_of_lone(const Fiber& fiber, const Fiber& before) const;
    double seconds() const { return (double(now_.now_ns) - double(before_.now_ns)) / 1e9; } // any numbers

    Sample now_, before_;
    Sample frames_;
    bool keeps_times_ = false;
    std::unordered_map<uint64_t, size_t> places_, places_before_; // of fibers, by their ids
    std::unordered_map<uint64_t, bool> dead_locked_;
};

} // namespace top
