// Matching one event against the tree.
//
// An event touches some hundred places all over memory, so most of the time would go by waiting.
// Matching therefore has two halves: the first finds out which slabs have to be looked at, the
// second looks at them, and meanwhile asks for those of the next event.
#pragma once

#include "index.h"
#include "key_buffer.h"

namespace smartpubsub {

class Matcher {
public:
    // The first half. The event is looked at again in the second.
    void begin(const Tree &tree, const Event &event);
    // The second half: append the keys of the filters that match.
    void finish(KeyBuffer &keys, Matcher *next = nullptr);
    // The same for whoever wants to know only whether there is one.
    bool finish_any(KeyBuffer &keys);
    // At most how much memory the two halves have read, for benchmarks.
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
