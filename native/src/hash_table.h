// Linear probing over plain slots. A slot refers to its key, so the key is stored once.
#pragma once

#include "blob.h"

#include <cstdint>

namespace smartpubsub {

inline uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

template <class Slot> class HashTable {
public:
    static constexpr Slot empty = static_cast<Slot>(-1);

    size_t size() const { return size_; }
    Blob &blob() { return blob_; }
    const Blob &blob() const { return blob_; }
    void view(const uint8_t *bytes, size_t length, size_t size) {
        blob_.view(bytes, length);
        size_ = size;
    }

    // The slot whose key has this hash and is accepted by `same`, or null.
    template <class Same> Slot *find(uint64_t hash, Same same) {
        if (size_ == 0) {
            return nullptr;
        }
        for (size_t at = hash & mask(); slots()[at] != empty; at = (at + 1) & mask()) {
            if (same(slots()[at])) {
                return &slots()[at];
            }
        }
        return nullptr;
    }

    template <class HashOf> void insert(Slot slot, uint64_t hash, HashOf hash_of) {
        if ((size_ + 1) * 8 > capacity() * 7) {
            rehash(capacity() == 0 ? 16 : capacity() * 2, hash_of);
        }
        blob_.make_writable();
        place(slot, hash);
        ++size_;
    }

    // Later slots of the same run move back, so no tombstone is needed.
    template <class HashOf> void erase(Slot *slot, HashOf hash_of) {
        size_t hole = static_cast<size_t>(slot - slots());
        blob_.make_writable();
        Slot *table = slots();
        for (size_t at = (hole + 1) & mask(); table[at] != empty; at = (at + 1) & mask()) {
            const size_t home = hash_of(table[at]) & mask();
            if (((at - home) & mask()) >= ((at - hole) & mask())) {
                table[hole] = table[at];
                hole = at;
            }
        }
        table[hole] = empty;
        --size_;
    }

private:
    size_t capacity() const { return blob_.size() / sizeof(Slot); }
    size_t mask() const { return capacity() - 1; }
    Slot *slots() { return reinterpret_cast<Slot *>(blob_.data()); }

    void place(Slot slot, uint64_t hash) {
        size_t at = hash & mask();
        while (slots()[at] != empty) {
            at = (at + 1) & mask();
        }
        slots()[at] = slot;
    }

    template <class HashOf> void rehash(size_t slot_count, HashOf hash_of) {
        Blob old;
        const size_t old_count = capacity();
        if (old_count > 0) {
            old.resize(blob_.size());
            std::memcpy(old.data(), blob_.data(), blob_.size());
        }
        blob_.resize(slot_count * sizeof(Slot));
        std::memset(blob_.data(), 0xff, blob_.size());
        const auto *moved = reinterpret_cast<const Slot *>(old.data());
        for (size_t at = 0; at < old_count; ++at) {
            if (moved[at] != empty) {
                place(moved[at], hash_of(moved[at]));
            }
        }
    }

    Blob blob_;
    size_t size_ = 0;
};

} // namespace smartpubsub
