// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `handles`: no handle but a fiber's own ever reaches it.
//
// Slots by themselves (core/slots.h): tables so small that they are used up, and large enough that one cord has too
// many free ones; several cords that take and give back; generations that come to their end; no memory; the child of
// a fork. The target compares them with its record of every slot: its generation, its owner, whether it is free.
//
// Fibers through fiberrt.h: handles that are good, stale, of other kinds, and forged by changing bits, given to every
// function that takes one. Each fiber has its handle as its tag; one that was not meant must be as it was before.
#include "check.h"

#include "core/slots.h"
#include "fiberrt.h"

#include <map>
#include <memory>
#include <string.h>
#include <vector>

using namespace fiberrt;

// A function of LeakSanitizer, if present: the library has told it of the slots, which are never freed.
extern "C" __attribute__((weak)) void __lsan_unregister_root_region(const void* memory, size_t size);

static bool refuse_mmap;

extern "C" void* __real_mmap(void* address, size_t size, int rights, int flags, int fd, off_t offset);
static std::vector<std::pair<void*, size_t>> mapped; // for slots of the present input, which the table never unmaps
static bool note_mappings;
extern "C" void* __wrap_mmap(void* address, size_t size, int rights, int flags, int fd, off_t offset) {
    if (refuse_mmap) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void* memory = __real_mmap(address, size, rights, flags, fd, offset);
    if (note_mappings && memory != MAP_FAILED) mapped.push_back({memory, size});
    return memory;
}

namespace {

// ---- slots ----------------------------------------------------------------------------------------------------------

struct Thing {
    std::atomic<uint32_t> generation;
    uint32_t index;
    Thing* next_free;
    Thing() = default;
};

template <uint32_t index_bits, uint32_t chunk_bits>
class SlotsTrial {
    using Table = SlotTable<Thing, Tag::fiber, index_bits, chunk_bits>;
    static constexpr unsigned cords = 3;

public:
    SlotsTrial() : table_(new Table), notes_(Table::most) { note_mappings = true; }
    ~SlotsTrial() {
        for (auto [memory, size] : mapped) {
            if (__lsan_unregister_root_region) __lsan_unregister_root_region(memory, size); // each makes its end slower
            munmap(memory, size);
        }
        mapped.clear();
        note_mappings = false;
    }

    void run(Input& input) {
        while (!input.done()) {
            uint8_t op = input.byte();
            unsigned few = op >> 4;
            unsigned cord = few % cords;
            switch (op & 15) {
            case 0: take(cord, 1, false); break;
            case 1: take(cord, 1, true); break;
            case 2: take(cord, Table::most / 16 * (few + 1), false); break;
            case 3: give_back(cord, input.byte(), 1); break;
            case 4: give_back(cord, input.byte(), Table::most / 16 * (few + 1)); break;
            case 5: leave(cord); break;
            case 6: age(input.byte(), few); break;
            case 7: try_old(input.byte() | input.byte() << 8); break;
            case 8: { // any number
                uint64_t id = 0;
                for (int i = 0; i < 8; i++) id = id << 8 | input.byte();
                try_id(id);
                break;
            }
            case 9: try_id(make_id(Tag(few & 7), input.byte() & (Table::most - 1), input.byte())); break;
            case 10: try_id(old(input.byte()) ^ uint64_t(1) << (input.byte() & 63)); break;
            case 11: try_id(old(input.byte()) + (uint64_t(few) << (8 * (input.byte() & 7)))); break;
            case 12: fork(few); break;
            default: try_old(few); break;
            }
        }
        for (unsigned cord = 0; cord < cords; cord++) leave(cord);
        budget_ = Table::most;
        take(0, Table::most, false); // all that can still be had
        for (uint64_t id : given_out_) try_id(id);
    }

private:
    struct Note {
        Thing* slot = nullptr; // it exists
        uint32_t generation = 0;
        int taken_by = -1;
    };

    bool usable(const Note& note) const { return note.taken_by < 0 && note.generation != UINT32_MAX - 1; }

    unsigned made() const {
        unsigned count = 0;
        for (uint32_t i = 0; i < Table::most; i++) count += table_->at(i) != nullptr;
        return count;
    }

    void take(unsigned cord, unsigned count, bool without_memory) {
        for (unsigned i = 0; i < count && budget_; i++, budget_--) {
            Thing* slot = nullptr;
            bool had_some = free_[cord].head;
            refuse_mmap = without_memory;
            int error = table_->take(free_[cord], &slot);
            refuse_mmap = false;
            if (error) {
                FUZZ_CHECK(!had_some && !slot);
                FUZZ_CHECK(error == -ENOMEM ? without_memory && made() < Table::most
                                            : error == -EAGAIN && made() == Table::most);
                return;
            }
            FUZZ_CHECK(slot->index < Table::most);
            Note& note = notes_[slot->index];
            if (!note.slot) note.slot = slot;
            FUZZ_CHECK(note.slot == slot && table_->at(slot->index) == slot);
            FUZZ_CHECK(usable(note)); // no owner, and its generations are not used up
            note.generation++;
            note.taken_by = int(cord);
            FUZZ_CHECK_EQ(slot->generation.load(), note.generation);
            uint64_t id = Table::id_of(slot);
            given_out_.push_back(id);
            taken_.push_back(slot->index);
            try_id(id);
        }
    }

    void give_back(unsigned cord, unsigned from, unsigned count) {
        for (unsigned i = 0; i < count && !taken_.empty(); i++) {
            size_t which = from % taken_.size();
            Note& note = notes_[taken_[which]];
            taken_[which] = taken_.back();
            taken_.pop_back();
            uint64_t id = Table::id_of(note.slot);
            Table::end_use(note.slot);
            note.generation++;
            try_id(id);
            note.taken_by = -1;
            table_->give_back(free_[cord], note.slot); // whichever cord ends it
            try_id(id);
        }
    }

    void leave(unsigned cord) {
        table_->give_back_all(free_[cord]);
        FUZZ_CHECK(!free_[cord].head && !free_[cord].count);
    }

    // One that is taken has been used very often.
    void age(unsigned which, unsigned before_the_end) {
        if (taken_.empty()) return;
        Note& note = notes_[taken_[which % taken_.size()]];
        note.generation = UINT32_MAX - 2 - 2 * (before_the_end & 3);
        note.slot->generation = note.generation;
        given_out_.push_back(Table::id_of(note.slot));
    }

    uint64_t old(unsigned which) const { return given_out_.empty() ? 0 : given_out_[which % given_out_.size()]; }
    void try_old(unsigned which) { try_id(old(which)); }

    // Finds what the handle names, or nothing.
    void try_id(uint64_t id) {
        Thing mark, *slot = &mark;
        int error = table_->resolve(id, &slot);
        uint32_t index = id_index(id), generation = id_generation(id);
        int expected = -EINVAL;
        if (id >> 56 == uint64_t(Tag::fiber) && index < Table::most && (generation & 1)) {
            Thing* there = table_->at(index);
            uint32_t present = there ? there->generation.load() : 0;
            if (notes_[index].slot) FUZZ_CHECK_EQ(present, notes_[index].generation);
            if (there && generation < present) expected = -ESRCH;
            if (there && generation == present) expected = 0;
        }
        FUZZ_CHECK_EQ(error, expected);
        FUZZ_CHECK(slot == (error ? &mark : notes_[index].slot));
        if (!error) FUZZ_CHECK(notes_[index].taken_by >= 0 && Table::id_of(slot) == id);
    }

    // In the child, of all that are taken a few remain.
    void fork(unsigned keep_one_in) {
        auto kept = [&](Thing* slot) { return notes_[slot->index].taken_by >= 0 && slot->index % 16 == keep_one_in; };
        table_->reclaim(kept);
        for (FreeSlots<Thing>& free : free_) free = {};
        taken_.clear();
        for (unsigned i = 0; i < Table::most; i++) {
            Note& note = notes_[i];
            if (note.taken_by < 0) continue;
            if (i % 16 == keep_one_in) {
                taken_.push_back(i);
            } else {
                note.taken_by = -1;
                note.generation++;
            }
        }
    }

    std::unique_ptr<Table> table_;
    FreeSlots<Thing> free_[cords];
    std::vector<Note> notes_;
    std::vector<unsigned> taken_;
    std::vector<uint64_t> given_out_;
    unsigned budget_ = 10000; // slots that are taken: an input is to take milliseconds
};

// ---- fibers ---------------------------------------------------------------------------------------------------------

// A record of what a fiber has seen and was told; the functions below may change it.
struct Seen {
    fiber_t handle = {};
    bool ended = false; // its function has returned
    bool detached = false;
    unsigned woken = 0;    // by wakeups
    unsigned expected = 0; // wakeups that were meant for it
    bool cancelled = false;
    unsigned interrupts = 0, interrupts_expected = 0;
    char name[8] = {};
};

void* wait_for_wakeups(void* arg) {
    auto& seen = *static_cast<Seen*>(arg);
    for (;;) {
        int result = fiber_yield();
        if (result == 0) seen.woken++;
        if (result == -EINTR) seen.interrupts++;
        if (result == -ECANCELED) break;
    }
    seen.ended = true;
    return arg;
}

class FibersTrial {
public:
    void run(Input& input) {
        while (!input.done()) {
            uint8_t op = input.byte();
            unsigned few = op >> 4;
            switch (op & 15) {
            case 0:
            case 1: begin(); break;
            case 2: call(good(few), input); break;
            case 3: end(few); break;
            case 4: call(stale(input.byte()), input); break;
            case 5: call(good(few) ^ uint64_t(1) << (input.byte() & 63), input); break;
            case 6: call(stale(few) ^ uint64_t(1) << (input.byte() & 63), input); break;
            case 7: call(good(few) + (uint64_t(input.byte()) << (8 * (input.byte() & 7))), input); break;
            case 8: call((good(few) & ~(uint64_t(255) << 56)) | uint64_t(input.byte()) << 56, input); break;
            case 9: call(of_another_kind(few), input); break;
            case 10: {
                uint64_t id = 0;
                for (int i = 0; i < 8; i++) id = id << 8 | input.byte();
                call(id, input);
                break;
            }
            default: call(few & 1 ? good(few / 2) : stale(few / 2), input); break;
            }
            look_at_all();
        }
        while (!live_.empty()) end(0);
    }

private:
    uint64_t good(unsigned which) const {
        return live_.empty() ? 0 : std::next(live_.begin(), int(which % live_.size()))->first;
    }
    uint64_t stale(unsigned which) const { return stale_.empty() ? 0 : stale_[which % stale_.size()]; }

    void begin() {
        if (live_.size() == 12) return;
        auto seen = std::make_unique<Seen>();
        fiber_t handle = {};
        FUZZ_CHECK_EQ(fiber_new(&handle, nullptr, wait_for_wakeups, seen.get()), 0);
        seen->handle = handle;
        FUZZ_CHECK(!live_.count(handle.id));
        for (uint64_t id : stale_) FUZZ_CHECK(id != handle.id);
        FUZZ_CHECK_EQ(fiber_tag_set(handle, (fiber_tag_t){seen.get(), 1}), 0);
        FUZZ_CHECK_EQ(fiber_start(handle), 0);
        live_[handle.id] = std::move(seen);
    }

    // Its function returns, and it is joined.
    void end(unsigned which) {
        uint64_t id = good(which);
        if (!id) return;
        Seen& seen = *live_[id];
        FUZZ_CHECK_EQ(fiber_cancel(fiber_t{id}, nullptr), 0);
        if (seen.detached) {
            while (!seen.ended) FUZZ_CHECK_EQ(fiber_reschedule(), 0);
        } else {
            void* result = nullptr;
            FUZZ_CHECK_EQ(fiber_join(fiber_t{id}, &result), 0);
            FUZZ_CHECK(result == &seen);
        }
        FUZZ_CHECK(seen.ended);
        stale_.push_back(id);
        live_.erase(id);
    }

    // A handle of something else, with the numbers of a fiber's.
    uint64_t of_another_kind(unsigned which) {
        if (which % 3 == 0) {
            fiber_cord_t cord = {};
            FUZZ_CHECK_EQ(fiber_cord_self(&cord), 0);
            return cord.id;
        }
        fiber_chan_t channel = {};
        FUZZ_CHECK_EQ(fiber_chan_create(&channel, sizeof(int), 1), 0);
        FUZZ_CHECK_EQ(fiber_chan_destroy(channel), 0);
        return channel.id;
    }

    // One of the functions that take a fiber.
    void call(uint64_t id, Input& input) {
        fiber_t handle = {id};
        auto at = live_.find(id);
        Seen* meant = at == live_.end() ? nullptr : at->second.get();
        fiber_t own = {};
        FUZZ_CHECK_EQ(fiber_self(&own), 0);
        if (id == own.id) return; // forged well enough to be the caller's own
        int error = 1;
        unsigned which = input.byte();
        errno = 77;
        switch (which % 12) {
        case 0: error = fiber_state(handle); break;
        case 1: {
            fiber_info_t info;
            memset(&info, 0, sizeof info);
            error = fiber_info(handle, &info, sizeof info);
            break;
        }
        case 2:
            error = fiber_wakeup(handle);
            if (meant) {
                meant->expected++;
                FUZZ_CHECK_EQ(fiber_reschedule(), 0);
            }
            break;
        case 3:
            error = fiber_interrupt(handle, nullptr);
            if (meant) {
                meant->interrupts_expected++;
                FUZZ_CHECK_EQ(fiber_reschedule(), 0);
            }
            break;
        case 4: { // one that is alive does not end meanwhile
            void* result = nullptr;
            error = fiber_join_timeout(handle, &result, 0);
            if (meant) {
                FUZZ_CHECK_EQ(error, meant->detached ? -EINVAL : -ETIMEDOUT);
                error = 0;
            }
            break;
        }
        case 5: {
            char name[FIBER_NAME_MAX] = "?";
            error = fiber_name(handle, name, sizeof name);
            if (meant) FUZZ_CHECK(strcmp(name, meant->name) == 0);
            break;
        }
        case 6: {
            char name[2] = {char('a' + which / 12), 0};
            error = fiber_set_name(handle, name);
            if (meant) strcpy(meant->name, name);
            break;
        }
        case 7: {
            fiber_tag_t tag = {};
            error = fiber_tag_get(handle, &tag);
            if (meant) FUZZ_CHECK(tag.pointer == meant && tag.kind == 1);
            break;
        }
        case 8:
            if (meant && meant->detached) return;
            error = fiber_detach(handle);
            if (meant) meant->detached = true;
            break;
        case 9: error = meant ? 0 : fiber_tag_set(handle, (fiber_tag_t){nullptr, 0}); break;
        case 10: error = meant ? 0 : fiber_start(handle); break;
        case 11: error = meant ? 0 : fiber_cancel(handle, nullptr); break;
        }
        FUZZ_CHECK_EQ(errno, 77);
        if (meant) {
            FUZZ_CHECK(error >= 0);
        } else {
            FUZZ_CHECK(error == -EINVAL || error == -ESRCH);
            bool was = false;
            for (uint64_t old : stale_) was |= old == id;
            if (was) FUZZ_CHECK_EQ(error, -ESRCH);
            // Of a kind, a slot or a generation that there is not.
            if (id >> 56 != uint64_t(Tag::fiber) || !(id & 1)) FUZZ_CHECK_EQ(error, -EINVAL);
        }
    }

    void look_at_all() {
        for (auto& [id, seen] : live_) {
            fiber_tag_t tag = {};
            FUZZ_CHECK_EQ(fiber_tag_get(fiber_t{id}, &tag), 0);
            FUZZ_CHECK(tag.pointer == seen.get());
            FUZZ_CHECK(!seen->ended);
            FUZZ_CHECK_EQ(seen->woken, seen->expected);
            FUZZ_CHECK_EQ(seen->interrupts, seen->interrupts_expected);
            char name[FIBER_NAME_MAX] = "?";
            FUZZ_CHECK_EQ(fiber_name(fiber_t{id}, name, sizeof name), strlen(seen->name));
            FUZZ_CHECK(strcmp(name, seen->name) == 0);
        }
    }

    std::map<uint64_t, std::unique_ptr<Seen>> live_;
    std::vector<uint64_t> stale_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    switch (input.byte() % 4) {
    case 0: SlotsTrial<4, 2>().run(input); break;
    case 1: SlotsTrial<13, 6>().run(input); break;
    default: FibersTrial().run(input); break;
    }
    return 0;
}
