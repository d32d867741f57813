#include "matcher.h"

#include "scan.h"

#include <algorithm>

namespace smartpubsub {

constexpr uint64_t cache_line = 64;

void Matcher::begin(const Tree &tree, const Event &event) {
    tree_ = &tree;
    event_ = &event;
    ranged_count_ = mixed_count_ = 0;
    nodes_.clear();
    slabs_.clear();
    for (NameId name : event.topics()) {
        enter(entrance(name, By::topic));
    }
    for (NameId name : event.ranged()) {
        enter(entrance(name, By::range));
    }
    for (size_t at = 0; at < nodes_.size(); ++at) {
        collect(nodes_[at]);
    }
}

void Matcher::enter(size_t entrance) {
    const NodeId child = entrance < tree_->entrances.size() ? tree_->entrances[entrance] : none;
    if (child != none) {
        const auto *node = reinterpret_cast<const char *>(&tree_->nodes[child]);
        __builtin_prefetch(node);
        __builtin_prefetch(node + sizeof(Node) - 1);
        nodes_.push_back(child);
    }
}

void Matcher::finish(KeyBuffer &keys, Matcher *next) {
    keys_ = &keys;
    const size_t ahead = next == nullptr ? 0 : next->slabs_.size();
    size_t asked = 0;
    for (size_t at = 0; at < slabs_.size(); ++at) {
        for (; asked * slabs_.size() < ahead * (at + 1); ++asked) {
            next->prefetch(next->slabs_[asked]);
        }
        scan(tree_->slabs[slabs_[at]]);
    }
    check_candidates();
}

bool Matcher::finish_any(KeyBuffer &keys) {
    keys_ = &keys;
    for (size_t at = 0; at < slabs_.size() && keys.size() == 0; ++at) {
        scan(tree_->slabs[slabs_[at]]);
    }
    if (keys.size() == 0) {
        check_candidates();
    }
    return keys.size() > 0;
}

uint64_t Matcher::bytes_read() const {
    uint64_t bytes = cache_line * (ranged_count_ + mixed_count_);
    for (SlabId id : slabs_) {
        const Slab &slab = tree_->slabs[id];
        bytes += slab.size * Slab::row_bytes(slab.kind);
    }
    return bytes;
}

void Matcher::prefetch(SlabId id) const {
    constexpr uint64_t bytes_max = 8192; // Beyond this the hardware prefetcher follows.
    const Slab &slab = tree_->slabs[id];
    const auto *bytes = tree_->arena.at<char>(slab.offset);
    const uint64_t wanted = std::min(bytes_max, slab.capacity * slab.row_bytes(slab.kind));
    for (uint64_t at = 0; at < wanted; at += cache_line) {
        __builtin_prefetch(bytes + at, 0, 2);
    }
}

// Collect the slabs of a node to compare the event with, and the nodes below.
void Matcher::collect(NodeId id) {
    const Node &node = tree_->nodes[id];
    look_into(node.plain);
    look_into(node.loose);
    look_into(node.mixed);
    look_into(node.ranges);
    look_into(node.pairs);
    if (node.children > 0) {
        for (NameId name : event_->topics()) {
            const auto child = tree_->children.find(edge(id, name));
            if (child != tree_->children.end()) {
                nodes_.push_back(child->second);
            }
        }
    }
}

void Matcher::look_into(SlabId slab) {
    if (slab != none) {
        __builtin_prefetch(&tree_->slabs[slab]);
        slabs_.push_back(slab);
    }
}

void Matcher::look_into(const std::vector<Block> &blocks) {
    for (const Block &block : blocks) {
        if (event_->within(Range{block.attribute, block.lowest, block.highest})) {
            look_into(block.slab);
        }
    }
}

void Matcher::scan(const Slab &slab) {
    const Columns columns(tree_->arena, slab);
    switch (slab.kind) {
    case Kind::plain:
        keys_->append(columns.keys, slab.size);
        break;
    case Kind::loose:
        check_rests(columns.rests, slab.size, [](uint32_t at) { return at; });
        break;
    case Kind::range:
        scan_range(slab, columns);
        break;
    case Kind::pair:
        scan_pairs(slab, columns);
        break;
    case Kind::mixed:
        scan_mixed(slab, columns);
        break;
    }
}

void Matcher::scan_range(const Slab &slab, const Columns &columns) {
    const Event::Value &value = (*event_)[slab.attribute];
    const Bounds bounds{columns.los, columns.his, slab.size};
    keys_->commit(scanner().containing(bounds, value.lo, value.hi, columns.keys,
                                       keys_->room(slab.capacity + lanes)));
}

void Matcher::scan_pairs(const Slab &slab, const Columns &columns) {
    const Event::Value &value = (*event_)[slab.attribute];
    uint32_t *rows = room_for(passed_, slab.capacity);
    const Bounds bounds{columns.los, columns.his, slab.size};
    const uint32_t count = scanner().rows_containing(bounds, value.lo, value.hi, rows);
    check_rests(columns.rests, count, [rows](uint32_t at) { return rows[at]; });
}

void Matcher::scan_mixed(const Slab &slab, const Columns &columns) {
    uint32_t *records = room_for(mixed_, mixed_count_ + slab.capacity) + mixed_count_;
    const uint32_t count = scanner().subset(columns.signatures, columns.records, slab.size,
                                            ~event_->signature(), records);
    for (uint32_t at = 0; at < count; ++at) {
        __builtin_prefetch(tree_->arena.at<char>(uint64_t{records[at]} * Arena::alignment));
    }
    mixed_count_ += count;
}

template <class RowOf> void Matcher::check_rests(const Rest *rests, uint32_t count, RowOf row_of) {
    uint32_t *records = room_for(ranged_, ranged_count_ + count) + ranged_count_;
    Key *found = keys_->room(count + 1);
    size_t complete = 0;
    size_t unsettled = 0;
    for (uint32_t at = 0; at < count; ++at) {
        const Rest &rest = rests[row_of(at)];
        const bool met = event_->within(Range{rest.name, rest.lo, rest.hi});
        found[complete] = rest.key;
        complete += met & (rest.record == 0);
        records[unsettled] = rest.record;
        unsettled += met & (rest.record != 0);
    }
    for (size_t at = 0; at < unsettled; ++at) {
        __builtin_prefetch(tree_->arena.at<char>(uint64_t{records[at]} * Arena::alignment));
    }
    keys_->commit(complete);
    ranged_count_ += unsettled;
}

void Matcher::check_candidates() {
    Key *found = keys_->room(ranged_count_ + mixed_count_ + 1);
    size_t count = 0;
    for (size_t at = 0; at < ranged_count_; ++at) {
        const Record record(tree_->arena, ranged_[at]);
        found[count] = record.key();
        // The first range was checked with the row, and perhaps the second.
        count += record.ranges_met(*event_, 1);
    }
    for (size_t at = 0; at < mixed_count_; ++at) {
        const Record record(tree_->arena, mixed_[at]);
        found[count] = record.key();
        count += record.topics_met(*event_) && record.ranges_met(*event_, 0);
    }
    keys_->commit(count);
}

// Eight values are written at a time, so the last ones may need room that they do not fill.
uint32_t *Matcher::room_for(std::vector<uint32_t> &values, size_t count) {
    if (values.size() < count + lanes) {
        values.resize(2 * (count + lanes));
    }
    return values.data();
}

} // namespace smartpubsub
