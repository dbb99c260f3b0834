// SPDX-License-Identifier: MIT OR Apache-2.0
#include "agent/metrics_of_times.h"

#include "core/handles.h"
#include "debug/times.h"
#include "record/clock.h"
#include "record/records.h"

namespace fiberrt {

namespace {

// ---- Of cords

constexpr struct {
    const char* name;
    const char* help;
    int64_t fiber_cord_times_t::*member;
} cord_times[] = {
    {"fiberrt_cord_run_seconds", "Time in which fibers of the cord had the thread.", &fiber_cord_times_t::run_ns},
    {"fiberrt_cord_poll_seconds", "Time in which the cord looked for messages, operations and timers.",
     &fiber_cord_times_t::poll_ns},
    {"fiberrt_cord_sleep_seconds", "Time in which the cord's thread slept.", &fiber_cord_times_t::sleep_ns},
};

// Bounds of buckets; Histogram's own ones are narrower.
constexpr struct {
    const char* text; // in seconds
    int64_t ns;
} bounds[] = {{"0.000001", 1'000},    {"0.000003", 3'000},    {"0.00001", 10'000},      {"0.00003", 30'000},
              {"0.0001", 100'000},    {"0.0003", 300'000},    {"0.001", 1'000'000},     {"0.003", 3'000'000},
              {"0.01", 10'000'000},   {"0.03", 30'000'000},   {"0.1", 100'000'000},     {"0.3", 300'000'000},
              {"1.0", 1'000'000'000}, {"3.0", 3'000'000'000}, {"10.0", 10'000'000'000}, {"+Inf", INT64_MAX}};

constexpr struct {
    const char* name;
    const char* help;
    Histogram CordRecord::*member;
} histograms[] = {
    {"fiberrt_cord_slice_seconds", "How long a fiber has the thread until it gives way or the cord polls.",
     &CordRecord::slices},
    {"fiberrt_cord_lag_seconds", "From the end of a poll to the beginning of the next one.", &CordRecord::lags},
    {"fiberrt_cord_poll_length_seconds", "How long polls take, without sleeps.", &CordRecord::polls},
};

Cord* cord_of_figures(const CordFigures& figures) {
    Cord* cord;
    return cords.resolve(figures.id, &cord) == 0 ? cord : nullptr;
}

void put_times_of_cords(Exposition& out, const Figures& figures) {
    for (const auto& each : cord_times) {
        out.family(each.name, "counter", each.help, "seconds");
        figures.each_cord([&](const CordFigures& cord) {
            Cord* its = cord_of_figures(cord);
            fiber_cord_times_t times;
            if (!its || read_times(*its, id_generation(cord.id), &times) != 0) return;
            out.begin("_total")
                .label_id("cord", cord.id)
                .label("name", cord.name)
                .seconds(uint64_t(times.*each.member));
        });
    }
}

// The counts grow while this reads each of them once, so no sum is less than in an earlier text.
void put_histogram(Exposition& out, const CordFigures& cord, const Histogram& histogram) {
    uint64_t so_far = 0;
    uint32_t bucket = 0;
    for (const auto& bound : bounds) {
        while (bucket < Histogram::buckets && ns_of_ticks(Histogram::greatest_in(bucket)) <= bound.ns)
            so_far += histogram.count_in(bucket++);
        out.begin("_bucket").label_id("cord", cord.id).label("name", cord.name).label("le", bound.text).value(so_far);
    }
}

void put_histograms(Exposition& out, const Figures& figures) {
    for (const auto& each : histograms) {
        out.family(each.name, "histogram", each.help, "seconds");
        figures.each_cord([&](const CordFigures& cord) {
            Cord* its = cord_of_figures(cord);
            const CordRecord* record = its ? record_in_use(*its, id_generation(cord.id)) : nullptr;
            if (record) put_histogram(out, cord, record->*each.member);
        });
    }
}

// ---- Of fibers, by name

// The sums of the names with the longest run times, and of all others together.
struct Named {
    fiber_times_sum_t sums[names_most + 1];
    int count;
};

int add_sum(const fiber_times_sum_t* sum, void* arg) {
    auto& named = *static_cast<Named*>(arg);
    if (named.count < names_most && !sum->others) {
        named.sums[named.count++] = *sum;
        return 0;
    }
    fiber_times_t& others = named.sums[names_most].times;
    others.fibers += sum->times.fibers;
    others.turns += sum->times.turns;
    others.run_ns += sum->times.run_ns;
    others.runnable_ns += sum->times.runnable_ns;
    for (int kind = 0; kind < FIBER_WAIT_KINDS; kind++) others.wait_ns[kind] += sum->times.wait_ns[kind];
    return 0;
}

template <class Visit>
void each_named(const Named& named, Visit visit) {
    for (int i = 0; i < named.count; i++) visit(named.sums[i], "");
    if (named.sums[names_most].times.fibers) visit(named.sums[names_most], "1");
}

void put_times_of_names(Exposition& out, const Named& named) {
    auto begin = [&](const fiber_times_sum_t& sum, const char* others) -> Exposition& {
        return out.begin("_total").label("name", sum.name).label("others", others);
    };
    out.family("fiberrt_named_run_seconds", "counter", "Time in which fibers of this name had a thread.", "seconds");
    each_named(named, [&](const auto& sum, auto others) { begin(sum, others).seconds(uint64_t(sum.times.run_ns)); });
    out.family("fiberrt_named_runnable_seconds", "counter", "Time in which they were runnable and did not run.",
               "seconds");
    each_named(named,
               [&](const auto& sum, auto others) { begin(sum, others).seconds(uint64_t(sum.times.runnable_ns)); });
    out.family("fiberrt_named_wait_seconds", "counter", "Time in which they waited, by the kind of wait.", "seconds");
    each_named(named, [&](const auto& sum, auto others) {
        for (int kind = 0; kind < FIBER_WAIT_KINDS; kind++) {
            uint64_t ns = uint64_t(sum.times.wait_ns[kind]);
            if (ns) begin(sum, others).label("kind", wait_kind_names[kind]).seconds(ns);
        }
    });
    out.family("fiberrt_named_turns", "counter", "How often they got a thread.");
    each_named(named, [&](const auto& sum, auto others) { begin(sum, others).value(sum.times.turns); });
}

} // namespace

void put_times(Exposition& out, const Figures& figures) {
    Arena arena;
    auto* named = arena.make<Named>();
    if (!named || each_sum(FIBER_BY_NAME, add_sum, named) < 0) return; // accounting is off, or there is no memory
    put_times_of_cords(out, figures);
    put_histograms(out, figures);
    put_times_of_names(out, *named);
}

} // namespace fiberrt
