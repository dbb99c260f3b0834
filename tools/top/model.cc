// SPDX-License-Identifier: MIT OR Apache-2.0
#include "model.h"

#include "columns.h"

#include <algorithm>

namespace top {

namespace {

// The slot of the handle: a short number for people (core/slots.h). Two fibers that live at one time have different
// ones.
uint64_t slot_of(uint64_t id) { return id >> 32 & 0xffffff; }

std::optional<double> rate(uint64_t now, uint64_t before, double seconds) {
    if (seconds <= 0 || now < before) return std::nullopt;
    return double(now - before) / seconds;
}

std::optional<double> percent(uint64_t now_ns, uint64_t before_ns, double seconds) {
    std::optional<double> share = rate(now_ns, before_ns, seconds);
    if (share) *share = std::min(*share / 1e9 * 100, 100.0); // the two samples' times are not exactly the fiber's
    return share;
}

std::string without_prefix(const std::string& text) {
    for (const char* prefix : {"waits for ", "waits at "}) {
        if (text.starts_with(prefix)) return text.substr(std::string(prefix).size());
    }
    return text;
}

} // namespace

void Model::add(Sample sample) {
    bool same_process = sample.pid == now_.pid;
    before_ = same_process ? std::move(now_) : Sample();
    places_before_ = same_process ? std::move(places_) : decltype(places_)();
    now_ = std::move(sample);
    places_.clear();
    dead_locked_.clear();
    keeps_times_ = false;
    for (size_t i = 0; i < now_.fibers.size(); i++) {
        places_[now_.fibers[i].id] = i;
        keeps_times_ = keeps_times_ || now_.fibers[i].times;
    }
    for (const auto& circle : now_.dead_locks) {
        for (uint64_t id : circle) dead_locked_[id] = true;
    }
}

void Model::add_frames(Sample sample) { frames_ = std::move(sample); }

const Fiber* Model::with_frames(uint64_t id) const {
    const Fiber* newest = fiber(id);
    if (newest && !newest->frames.empty()) return newest;
    bool same = frames_.pid == now_.pid && frames_.fibers.size() == 1 && frames_.fibers[0].id == id;
    return same && newest ? &frames_.fibers[0] : newest;
}

const Fiber* Model::fiber(uint64_t id) const {
    auto found = places_.find(id);
    return found == places_.end() ? nullptr : &now_.fibers[found->second];
}

const Cord* Model::cord(uint64_t id) const {
    for (const Cord& cord : now_.cords) {
        if (cord.id == id) return &cord;
    }
    return nullptr;
}

const Cord* Model::cord_before(uint64_t id) const {
    for (const Cord& cord : before_.cords) {
        if (cord.id == id) return &cord;
    }
    return nullptr;
}

// Whether the cord has begun to count times since the first look. A cord begins at its next poll, so it may begin after
// that look although the request came before it.
bool Model::began_to_count(uint64_t id) const {
    const Cord* now = cord(id);
    const Cord* before = cord_before(id);
    return now && before && now->elapsed_ns && !before->elapsed_ns;
}

// The processor time of a fiber that had its thread from one sample to the next, if the process counts no times: that
// of the thread.
std::optional<double> Model::cpu_of_lone(const Fiber& fiber, const Fiber& before) const {
    const Cord* its = cord(fiber.cord);
    if (!its || fiber.state != "running" || before.state != "running") return std::nullopt;
    CordRates rates_of_cord = rates(*its);
    bool alone = rates_of_cord.switches == 0.0 && rates_of_cord.polls == 0.0;
    return alone ? rates_of_cord.cpu : std::nullopt;
}

FiberRates Model::rates(const Fiber& fiber) const {
    auto found = places_before_.find(fiber.id);
    if (found == places_before_.end()) return {};
    const Fiber& before = before_.fibers[found->second];
    bool began = fiber.times && !before.times && began_to_count(fiber.cord);
    if (!fiber.times || (!before.times && !began)) return {cpu_of_lone(fiber, before), {}, {}};
    const Cord* its = cord(fiber.cord);
    Times from = began ? Times() : *before.times;
    double passed = began ? double(*its->elapsed_ns) / 1e9 : seconds();
    std::optional<double> cpu = percent(fiber.times->run_ns, from.run_ns, passed);
    // The run time goes on while the fiber blocks its thread, or the kernel runs others.
    if (std::optional<double> most = its ? rates(*its).cpu : std::nullopt; cpu && most) cpu = std::min(*cpu, *most);
    return {cpu, percent(fiber.times->wait_ns, from.wait_ns, passed), rate(fiber.times->turns, from.turns, passed)};
}

CordRates Model::rates(const Cord& cord) const {
    const Cord* before = cord_before(cord.id);
    if (!before) return {};
    CordRates rates = {{},
                       rate(cord.switches, before->switches, seconds()),
                       rate(cord.polls, before->polls, seconds()),
                       rate(cord.ops, before->ops, seconds())};
    if (cord.cpu_ns && before->cpu_ns) rates.cpu = percent(*cord.cpu_ns, *before->cpu_ns, seconds());
    return rates;
}

std::string Model::name(const Fiber& fiber) const {
    if (!fiber.name.empty()) return fiber.name;
    if (fiber.main_flow) return "(main flow)";
    return fiber.function.empty() ? "" : fiber.function + "()";
}

std::string Model::name_of_fiber(uint64_t id) const {
    const Fiber* found = fiber(id);
    std::string its_name = found ? name(*found) : "";
    if (found && found->main_flow && found->name.empty()) return "main flow of cord " + name_of_cord(found->cord);
    return its_name.empty() ? "fiber " + std::to_string(slot_of(id)) : its_name;
}

std::string Model::name_of_cord(uint64_t id) const {
    const Cord* found = cord(id);
    return found && !found->name.empty() ? found->name : std::to_string(slot_of(id));
}

std::string Model::wait(const Fiber& fiber) const {
    if (fiber.state != "waiting") return "";
    if (!fiber.still) return "?";
    std::string text = without_prefix(fiber.wait);
    // The text may end with the id of the fiber.
    size_t id_at = fiber.wait_fiber ? text.find(hexadecimal(fiber.wait_fiber)) : std::string::npos;
    if (id_at != std::string::npos) {
        std::string before = text.substr(0, id_at);
        if (before.ends_with("fiber ")) before.resize(before.size() - 6);
        text = before + name_of_fiber(fiber.wait_fiber);
    } else if (fiber.wait_fiber) {
        text += ", held by " + name_of_fiber(fiber.wait_fiber);
    }
    if (fiber.wait_left_ns) text += ", " + short_time(*fiber.wait_left_ns) + " left";
    return text;
}

std::vector<const Fiber*> Model::fibers(Sort sort, bool backwards, const std::string& filter) const {
    struct Entry {
        const Fiber* fiber;
        double key;
        std::string text;
    };
    std::vector<Entry> entries;
    for (const Fiber& fiber : now_.fibers) {
        if (!filter.empty()) {
            bool shown = false;
            for (const std::string& text : {name(fiber), fiber.function, wait(fiber), fiber.state})
                shown = shown || text.find(filter) != std::string::npos;
            if (!shown) continue;
        }
        Entry entry = {&fiber, 0, ""};
        switch (sort) {
        case Sort::cpu: entry.key = rates(fiber).cpu.value_or(fiber.state == "running" ? 100 : -1); break;
        case Sort::waits:
            // Deadlocked ones first, then waiting ones; the longer a fiber has waited, the earlier.
            entry.key = is_dead_locked(fiber.id)   ? 300
                        : fiber.state == "waiting" ? 150 + rates(fiber).wait.value_or(0)
                                                   : rates(fiber).wait.value_or(0);
            entry.text = wait(fiber);
            break;
        case Sort::stack: entry.key = double(fiber.stack_touched); break;
        case Sort::name: entry.text = name(fiber); break;
        case Sort::id: break;
        }
        entries.push_back(std::move(entry));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& one, const Entry& other) {
        return one.key != other.key ? one.key > other.key : one.text < other.text;
    });
    if (backwards) std::reverse(entries.begin(), entries.end());
    std::vector<const Fiber*> sorted;
    for (const Entry& entry : entries) sorted.push_back(entry.fiber);
    return sorted;
}

} // namespace top
