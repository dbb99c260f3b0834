// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory for one piece of work, from the kernel: malloc may be what hangs or is broken when a program is looked at.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

namespace fiberrt {

class Arena {
public:
    Arena() = default;
    ~Arena() {
        while (Chunk* chunk = newest_) {
            newest_ = chunk->before;
            munmap(chunk, chunk->size);
        }
    }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Memory full of zeros, aligned for any object, until the arena ends. Null: there is none.
    void* take(size_t bytes) {
        constexpr size_t alignment = 16;
        bytes = (bytes + alignment - 1) / alignment * alignment;
        if (size_t(end_ - at_) < bytes && !grow(bytes)) return nullptr;
        char* memory = at_;
        at_ += bytes;
        return memory;
    }
    template <class T>
    T* make(size_t count = 1) {
        return static_cast<T*>(take(count * sizeof(T)));
    }

private:
    struct alignas(16) Chunk {
        Chunk* before;
        size_t size;
    };

    bool grow(size_t bytes) {
        constexpr size_t least = size_t(256) * 1024;
        size_t size = sizeof(Chunk) + bytes > least ? sizeof(Chunk) + bytes : least;
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return false;
        auto* chunk = static_cast<Chunk*>(memory);
        *chunk = {newest_, size};
        newest_ = chunk;
        at_ = static_cast<char*>(memory) + sizeof(Chunk);
        end_ = static_cast<char*>(memory) + size;
        return true;
    }

    Chunk* newest_ = nullptr;
    char* at_ = nullptr;
    char* end_ = nullptr;
};

// A map without a fixed size, in an arena: a trie whose nodes have four children each, chosen by two bits of the hash
// after another. Node has the members uint64_t hash and Node* child[4]. Finds the place of the node with this hash for
// which equal(node) holds; if the place is null, there is no such node, and the caller may put one there.
template <class Node, class Equal>
Node** trie_place(Node** at, uint64_t hash, Equal equal) {
    for (uint64_t bits = hash; *at && ((*at)->hash != hash || !equal(**at)); bits <<= 2) at = &(*at)->child[bits >> 62];
    return at;
}

constexpr uint64_t hash_step(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

} // namespace fiberrt
