// Matching one event against the tree.
//
// An event touches some hundred places all over memory, so most of the time would be spent waiting.
// Matching therefore has two halves: the first finds the slabs to scan, the second scans them,
// while the slabs of the next event are prefetched.
#pragma once

#include "index.h"
#include "key_buffer.h"

namespace smartpubsub {

class Matcher {
public:
    // The first half. The second half needs the event again.
    void begin(const Tree &tree, const Event &event);
    // The second half: append the keys of the filters that match.
    void finish(KeyBuffer &keys, Matcher *next = nullptr);
    // Like `match`, but only returns whether there is one.
    bool finish_any(KeyBuffer &keys);
    // An upper bound of the memory that the two halves have read, for benchmarks.
    uint64_t bytes_read() const;

private:
    void prefetch(SlabId slab) const;
    void enter(size_t entrance);
    void collect(NodeId id);
    void look_into(SlabId slab);
    void look_into(const std::vector<Block> &blocks);
    void scan(const Slab &slab);
    void scan_mixed(const Slab &slab, const Columns &columns);
    void scan_range(const Slab &slab, const Columns &columns);
    void scan_pairs(const Slab &slab, const Columns &columns);
    template <class RowOf> void check_rests(const Rest *rests, uint32_t count, RowOf row_of);
    void check_candidates();
    uint32_t *room_for(std::vector<uint32_t> &values, size_t count);

    const Tree *tree_ = nullptr;
    const Event *event_ = nullptr;
    KeyBuffer *keys_ = nullptr;
    std::vector<NodeId> nodes_;
    std::vector<SlabId> slabs_;
    std::vector<uint32_t> passed_;
    // Records still to be read: of rows with ranges only, and of rows whose signature passed.
    std::vector<uint32_t> ranged_;
    std::vector<uint32_t> mixed_;
    size_t ranged_count_ = 0;
    size_t mixed_count_ = 0;
};

} // namespace smartpubsub
