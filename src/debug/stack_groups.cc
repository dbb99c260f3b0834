// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/stack_groups.h"

#include "debug/describe.h"
#include "debug/wait_text.h"

#include <string.h>

namespace fiberrt {

namespace {

// The part of a frame that is compared. All places in one public function of the library are equal.
uintptr_t key_of(const Frame& frame) { return is_public_frame(frame) ? frame.pc - frame.symbol->offset : frame.pc; }

bool are_equal(const CodeFrames& one, const CodeFrames& other) {
    if (one.count != other.count || strcmp(one.language, other.language) != 0) return false;
    for (int i = 0; i < one.count; i++) {
        const fiber_code_frame_t& a = one.frames[i];
        const fiber_code_frame_t& b = other.frames[i];
        if (a.line != b.line || strcmp(a.function, b.function) != 0 || strcmp(a.file, b.file) != 0) return false;
    }
    return true;
}

uint64_t hash_text(uint64_t hash, const char* text) {
    for (; *text; text++) hash = hash_step(hash, uint8_t(*text));
    return hash;
}

// Fibers with frames of interpreted code are equal by these alone: the interpreter's own frames differ for reasons of
// its own, such as an instruction that it has specialised.
uint64_t hash_of(const Frames& frames) {
    uint64_t hash = 0;
    for (int i = 0; i < frames.code.count; i++) {
        const fiber_code_frame_t& frame = frames.code.frames[i];
        hash = hash_step(hash_text(hash_text(hash, frame.function), frame.file), uint64_t(frame.line));
    }
    if (frames.code.count) return hash;
    for (int i = 0; i < frames.count; i++) hash = hash_step(hash, key_of(frames.at[i]));
    return hash_step(hash, uint64_t(frames.end));
}

bool are_equal(const Frames& one, const Frames& other) {
    if (one.code.count || other.code.count) return are_equal(one.code, other.code);
    if (one.count != other.count || one.end != other.end) return false;
    for (int i = 0; i < one.count; i++) {
        if (key_of(one.at[i]) != key_of(other.at[i])) return false;
    }
    return true;
}

// Merges two sorted lists. Of groups of the same size, the first list's comes first.
StackGroup* merge(StackGroup* one, StackGroup* other) {
    StackGroup* first = nullptr;
    StackGroup** end = &first;
    while (one && other) {
        StackGroup*& larger = one->count >= other->count ? one : other;
        *end = larger;
        end = &larger->next;
        larger = larger->next;
    }
    *end = one ? one : other;
    return first;
}

} // namespace

bool is_public_frame(const Frame& frame) { return frame.symbol && frame.symbol->is_public; }

void StackGroups::add(const Snapshot& seen, const Frames& frames) {
    int state = public_state(seen.state);
    char wait[sizeof(Snapshot::wait.text) + 64];
    Report text(-1);
    put_wait_kind(text, seen);
    if (frames.none) {
        text.put("; ");
        text.put(frames.none);
    }
    text.take(wait, sizeof wait);
    uint64_t hash = hash_step(hash_text(hash_of(frames), wait), uint64_t(state));
    StackGroup** place = trie_place(&root_, hash, [&](const StackGroup& group) {
        return group.state == state && !strcmp(group.wait, wait) && are_equal(group.frames, frames);
    });
    if (!*place) {
        auto* group = arena_.make<StackGroup>();
        auto* kept_frames = arena_.make<Frame>(size_t(frames.count));
        auto* kept_wait = arena_.make<char>(strlen(wait) + 1);
        auto* kept_code = arena_.make<fiber_code_frame_t>(size_t(frames.code.count));
        if (!group || !kept_frames || !kept_wait || !kept_code) {
            left_out_++;
            return;
        }
        if (frames.count) memcpy(kept_frames, frames.at, size_t(frames.count) * sizeof *kept_frames);
        if (frames.code.count) memcpy(kept_code, frames.code.frames, size_t(frames.code.count) * sizeof *kept_code);
        memcpy(kept_wait, wait, strlen(wait) + 1);
        group->hash = hash;
        group->state = state;
        group->wait = kept_wait;
        group->frames = frames;
        group->frames.at = kept_frames;
        group->frames.code.frames = kept_code;
        group->next = list_;
        *place = list_ = group;
    }
    StackGroup& group = **place;
    if (group.count < StackGroup::ids_most) group.ids[group.count] = seen.id;
    group.count++;
}

// A merge sort from below: lists[n] is null or a sorted list of 2 to the power of n groups.
StackGroup* StackGroups::sorted() {
    StackGroup* lists[64] = {};
    while (StackGroup* group = list_) {
        list_ = group->next;
        group->next = nullptr;
        int n = 0;
        for (; lists[n]; n++) {
            group = merge(group, lists[n]); // list_ has the last groups first, so the later ones are the older ones
            lists[n] = nullptr;
        }
        lists[n] = group;
    }
    StackGroup* all = nullptr;
    for (StackGroup* list : lists) all = merge(list, all);
    return list_ = all;
}

} // namespace fiberrt
