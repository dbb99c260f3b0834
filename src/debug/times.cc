// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the times of fibers and cords.
#include "debug/times.h"

#include "base/keep_errno.h"
#include "core/child_scope.h"
#include "core/handles.h"
#include "debug/describe.h"
#include "debug/look.h"
#include "record/accounting.h"
#include "record/clock.h"
#include "record/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

const CordRecord* record_in_use(const Cord& cord, uint32_t generation) {
    const CordRecord* record = cord_record_if_any(cord);
    if (!record || record->generation.load(std::memory_order_acquire) != generation) return nullptr;
    bool current = record->key.load(std::memory_order_acquire) == record_key(recording_number(), 0);
    return current && (record->consumers & uint8_t(Consumer::accounting)) ? record : nullptr;
}

namespace {

fiber_times_t in_ns(const Times& times, uint64_t count) {
    fiber_times_t out = {};
    out.fibers = count;
    out.turns = times.turns;
    out.run_ns = ns_of_ticks(times.run);
    out.runnable_ns = ns_of_ticks(times.runnable);
    for (int i = 0; i < wait_kinds; i++) out.wait_ns[i] = ns_of_ticks(times.waits[i]);
    return out;
}

// The times of a fiber that the recorder has not seen since the recording began: since then, the fiber has done what it
// does now.
int read_unseen(Fiber* fiber, fiber_t handle, uint64_t begun, uint64_t now, Times& out) {
    Snapshot seen;
    if (int error = look(fiber, handle, seen)) return error;
    uint64_t passed = now > begun ? now - begun : 0;
    switch (seen.state) {
    case State::created:
    case State::dead: return 0;
    case State::yielding:
    case State::transferring: out.waits[FIBER_WAIT_WAKEUP] = passed; return 0;
    case State::waiting:
        if (!seen.still || !seen.has_wait) return -EAGAIN;
        out.waits[int(doing_of(seen.wait.what)) - int(first_wait)] = passed;
        return 0;
    case State::scheduled:
    case State::awaiting_stack:
    case State::queued:
    case State::woken:
    case State::offered: // it has become runnable just now: its cord notes it at its next switch
    case State::running:
    case State::handed_out: return seen.sp || seen.state == State::running ? -EAGAIN : 0;
    }
    return 0; // coverage: never
}

// 1: the record has the fiber's times, and its function; 0: the recorder has not seen the fiber; -EAGAIN.
int read_seen(const FiberRecord* its, uint64_t key, uint64_t now, Times& out, Doing& doing, void** function) {
    if (!its || its->key.load(std::memory_order_acquire) != key) return 0;
    if (!times_of(*its, now, out, doing)) return -EAGAIN; // coverage: race
    *function = its->function.load(std::memory_order_acquire);
    return its->key.load(std::memory_order_relaxed) == key; // a value of the next fiber comes with its key, or with 0
}

fiber_spread_t spread_of(const Histogram& histogram) {
    uint64_t counts[Histogram::buckets];
    fiber_spread_t out = {};
    for (uint32_t i = 0; i < Histogram::buckets; i++) {
        counts[i] = histogram.count_in(i);
        out.count += counts[i];
        if (counts[i]) out.most_ns = ns_of_ticks(Histogram::greatest_in(i));
    }
    struct {
        int64_t* out;
        uint64_t per_mille;
    } wanted[] = {{&out.p50_ns, 500}, {&out.p90_ns, 900}, {&out.p99_ns, 990}, {&out.p999_ns, 999}};
    for (auto& each : wanted) {
        // At least this many are not longer.
        auto rank = uint64_t((__extension__(unsigned __int128)(out.count) * each.per_mille + 999) / 1000);
        uint64_t so_far = 0;
        for (uint32_t i = 0; i < Histogram::buckets && so_far < rank; i++) {
            so_far += counts[i];
            if (so_far >= rank) *each.out = ns_of_ticks(Histogram::greatest_in(i));
        }
    }
    return out;
}

// A hash table of sums.
class Sums {
public:
    Sums() = default;
    ~Sums() { free(places_); }
    Sums(const Sums&) = delete;
    Sums& operator=(const Sums&) = delete;

    // False: no memory.
    bool add(const Sum& sum) {
        if (2 * count_ >= room_ && !grow()) return false;
        Place& place = place_of(sum.key);
        if (!place.used) {
            place = {{sum.key, 0, {}}, true};
            count_++;
        }
        place.sum.fibers += sum.fibers;
        place.sum.times.add(sum.times);
        return true;
    }

    // Puts the sums in order, the longest run time first, and returns how many there are. No sum can be added then.
    size_t sort() {
        size_t count = 0;
        for (size_t i = 0; i < room_; i++) {
            if (places_[i].used) places_[count++] = places_[i];
        }
        if (count) qsort(places_, count, sizeof(Place), compare);
        return count;
    }
    const Sum& operator[](size_t index) const { return places_[index].sum; }

private:
    struct Place {
        Sum sum;
        bool used;
    };

    static int compare(const void* one, const void* other) {
        uint64_t a = static_cast<const Place*>(one)->sum.times.run;
        uint64_t b = static_cast<const Place*>(other)->sum.times.run;
        return a < b ? 1 : a > b ? -1 : 0;
    }

    Place& place_of(const SumKey& key) {
        auto at = size_t(key.number * 0x9e3779b97f4a7c15 >> 32); // as in record/sums.cc
        while (places_[at & (room_ - 1)].used && !(places_[at & (room_ - 1)].sum.key == key)) at++;
        return places_[at & (room_ - 1)];
    }

    bool grow() {
        Place* before = places_;
        size_t room = room_;
        size_t larger = room ? 2 * room : 256;
        auto* places = static_cast<Place*>(calloc(larger, sizeof(Place)));
        if (!places) return false;
        places_ = places;
        room_ = larger;
        for (size_t i = 0; i < room; i++) {
            if (before[i].used) place_of(before[i].sum.key) = before[i];
        }
        free(before);
        return true;
    }

    Place* places_ = nullptr;
    size_t room_ = 0; // a power of two
    size_t count_ = 0;
};

SumKey key_of(Fiber* fiber, void* function, int by) {
    if (by == FIBER_BY_FUNCTION) return key_by_function(function);
    Locked locked(fiber->remote.lock);
    if (by == FIBER_BY_NAME) return key_by_name(fiber->name);
    uint64_t parent;
    return key_by_scope(scope_of_child(fiber, &parent));
}

// Adds the times of the fibers that have not ended. False: no memory.
bool add_living(int by, Sums& sums) {
    bool enough = true;
    fibers.each([&](Fiber* fiber) {
        const Cord* cord = cord_of(fiber);
        const FiberRecord* its = record_if_any(fiber);
        if (!cord || !its || !enough) return;
        uint64_t key = record_key(recording_number(), fiber->generation.load(std::memory_order_relaxed));
        Sum sum = {{}, 1, {}};
        Doing doing;
        void* function;
        if (read_seen(its, key, ticks_now(), sum.times, doing, &function) != 1 || doing == Doing::ended) return;
        sum.key = key_of(fiber, function, by);
        if (its->key.load(std::memory_order_relaxed) != key) return; // coverage: race
        enough = sums.add(sum);
    });
    return enough;
}

// Adds the sums of the fibers that have ended.
bool add_ended(int by, Sums& sums, Sum& others) {
    bool enough = true;
    cords.each([&](Cord* cord) {
        const CordRecord* record = cord_record_if_any(*cord);
        if (!record || record->key.load(std::memory_order_acquire) != record_key(recording_number(), 0)) return;
        record->sums[by].each([&](const Sum& sum, bool is_others) {
            if (is_others) {
                others.fibers += sum.fibers;
                others.times.add(sum.times);
            } else {
                enough = enough && sums.add(sum);
            }
        });
    });
    return enough;
}

fiber_times_sum_t in_ns(const Sum& sum, int by, bool others) {
    fiber_times_sum_t out = {};
    out.times = in_ns(sum.times, sum.fibers);
    out.others = others;
    if (by == FIBER_BY_FUNCTION) out.function = sum.key.number;
    if (by == FIBER_BY_SCOPE) out.scope = sum.key.number;
    if (by == FIBER_BY_NAME) memcpy(out.name, sum.key.name, sizeof out.name);
    return out;
}

} // namespace

int read_times(Fiber* fiber, fiber_t handle, fiber_times_t* out) {
    if (!recorder_wanted(Consumer::accounting)) return -ENODATA;
    const Cord* cord = cord_of(fiber);
    if (!cord) return -ESRCH;
    const CordRecord* record = record_in_use(*cord, cord->generation.load(std::memory_order_acquire));
    if (!record) return -EAGAIN;
    uint64_t key = record->key.load(std::memory_order_relaxed) | id_generation(handle.id);
    const FiberRecord* its = record_if_any(fiber);
    uint64_t now = ticks_now();
    Times times = {};
    Doing doing;
    void* function;
    int seen = read_seen(its, key, now, times, doing, &function);
    if (!seen && record_memory_lacks()) return -ENOMEM; // coverage: no memory
    if (!seen) seen = read_unseen(fiber, handle, record->begun.load(std::memory_order_relaxed), now, times);
    if (seen < 0) return seen;
    *out = in_ns(times, 1);
    return check_unchanged(fiber, handle);
}

int read_times(Cord& cord, uint32_t generation, fiber_cord_times_t* out) {
    if (!recorder_wanted(Consumer::accounting)) return -ENODATA;
    const CordRecord* record = record_in_use(cord, generation);
    CordTimes times;
    if (!record || !times_of(*record, ticks_now(), times)) {
        CordSnapshot seen;
        bool ended = !describe_cord(&cord, seen) || id_generation(seen.id) != generation || seen.ended;
        return ended ? -ESRCH : -EAGAIN;
    }
    *out = {};
    out->run_ns = ns_of_ticks(times.run);
    out->poll_ns = ns_of_ticks(times.poll);
    out->sleep_ns = ns_of_ticks(times.sleep);
    out->elapsed_ns = out->run_ns + out->poll_ns + out->sleep_ns;
    out->slice = spread_of(record->slices);
    out->lag = spread_of(record->lags);
    out->poll = spread_of(record->polls);
    return is_in_the_same_use(cord, generation) ? 0 : -ESRCH;
}

int each_sum(int by, int (*visit)(const fiber_times_sum_t* sum, void* arg), void* arg) {
    KeepErrno keep;
    if (!recorder_wanted(Consumer::accounting)) return -ENODATA;
    Sums sums;
    Sum others = {};
    if (!add_ended(by, sums, others) || !add_living(by, sums)) return -ENOMEM; // coverage: no memory
    size_t count = sums.sort();
    int result = 0;
    for (size_t i = 0; i < count && !result; i++) {
        fiber_times_sum_t sum = in_ns(sums[i], by, false);
        result = visit(&sum, arg);
    }
    if (others.fibers && !result) {
        fiber_times_sum_t sum = in_ns(others, by, true);
        result = visit(&sum, arg);
    }
    return result;
}

} // namespace fiberrt
