#include "index.h"

#include <algorithm>

namespace smartpubsub {

namespace {

constexpr NodeId root = 0;

// Scanning this many rows costs less than looking in several places.
constexpr uint32_t loose_rows_max = 128;
constexpr uint32_t mixed_rows_max = 4096;
constexpr uint32_t block_rows_max = 512;

uint64_t slot_of(SlabId slab, uint32_t row) {
    return (uint64_t{slab} << 32) | row;
}
SlabId slab_of(uint64_t slot) {
    return static_cast<SlabId>(slot >> 32);
}
uint32_t row_of(uint64_t slot) {
    return static_cast<uint32_t>(slot);
}

// Capacities are multiples of eight rows, so that a scan may read past the last row.
uint32_t grown(uint32_t capacity) {
    return capacity < 32 ? capacity + 8 : (capacity + capacity / 4 + 7) & ~7u;
}

uint64_t signature_of(const Filter &filter) {
    uint64_t signature = 0;
    for (NameId topic : filter.topics) {
        signature |= topic_bits(topic);
    }
    for (const Range &range : filter.ranges) {
        signature |= range_bit(range.name);
    }
    return signature;
}

template <class T> uint32_t take_free(std::vector<T> &items, std::vector<uint32_t> &free) {
    if (free.empty()) {
        items.emplace_back();
        return static_cast<uint32_t>(items.size() - 1);
    }
    const uint32_t id = free.back();
    free.pop_back();
    items[id] = T{};
    return id;
}

} // namespace

Index::Index() : nodes_(1) {
    nodes_[root].by_name = true;
}

auto Index::slot_hash() const {
    return [this](uint64_t slot) {
        return mix(static_cast<uint64_t>(key_at(slabs_[slab_of(slot)], row_of(slot))));
    };
}

uint64_t *Index::find(Key key) {
    return where_.find(mix(static_cast<uint64_t>(key)), [&](uint64_t slot) {
        return key_at(slabs_[slab_of(slot)], row_of(slot)) == key;
    });
}

// --- filters ---

void Index::add(Key key, Filter filter) {
    arena_.blob().make_writable();
    count_uses(filter, 1);
    sort_by_narrowness(filter.ranges);
    if (has_postings_) {
        post(key, filter);
    }
    insert(root, key, std::move(filter));
}

bool Index::remove(Key key) {
    const uint64_t *slot = find(key);
    if (slot == nullptr) {
        return false;
    }
    arena_.blob().make_writable();
    const SlabId slab = slab_of(*slot);
    const uint32_t row = row_of(*slot);
    const Filter filter = filter_at(slabs_[slab], row);
    const NodeId node = slabs_[slab].node;
    erase(slab, row);
    if (slabs_[slab].size == 0) {
        drop_slab(slab);
    }
    drop_if_empty(node);
    count_uses(filter, -1);
    return true;
}

Filter Index::filter(Key key) {
    const uint64_t slot = *find(key);
    return filter_at(slabs_[slab_of(slot)], row_of(slot));
}

void Index::count_uses(const Filter &filter, int by) {
    for (NameId topic : filter.topics) {
        names_[topic].topic_uses += static_cast<uint32_t>(by);
    }
    for (const Range &range : filter.ranges) {
        Name &name = names_[range.name];
        name.range_uses += static_cast<uint32_t>(by);
        for (double bound : {range.lo, range.hi}) {
            if (by > 0 && std::isfinite(bound)) {
                name.lowest = std::min(name.lowest, bound);
                name.highest = std::max(name.highest, bound);
            }
        }
    }
    if (by > 0) {
        return;
    }
    const auto release = [this](NameId name) {
        if (has_postings_) {
            sweep_postings(name);
        }
        names_.release_if_unused(name);
    };
    std::for_each(filter.topics.begin(), filter.topics.end(), release);
    for (const Range &range : filter.ranges) {
        release(range.name);
    }
}

// The narrowest range is the most selective. Widths are relative to the span of their name.
void Index::sort_by_narrowness(std::vector<Range> &ranges) const {
    const auto width = [this](const Range &range) {
        const Name &name = names_[range.name];
        const double share = (range.hi - range.lo) / (name.highest - name.lowest);
        return std::isfinite(share) ? share : std::numeric_limits<double>::max();
    };
    std::stable_sort(ranges.begin(), ranges.end(), [&](const Range &one, const Range &other) {
        return width(one) < width(other);
    });
}

Key Index::key_at(const Slab &slab, uint32_t row) const {
    const Columns columns(arena_, slab);
    if (slab.kind == Kind::mixed) {
        return Record(arena_, columns.records[row]).key();
    }
    return has_rests(slab.kind) ? columns.rests[row].key : columns.keys[row];
}

Filter Index::filter_at(const Slab &slab, uint32_t row) const {
    const Columns columns(arena_, slab);
    if (columns.record(row) != 0) {
        return Record(arena_, columns.record(row)).filter();
    }
    Filter filter;
    for (NodeId node = slab.node; nodes_[node].depth > 0; node = nodes_[node].parent) {
        filter.topics.push_back(nodes_[node].name);
    }
    if (has_bounds(slab.kind)) {
        filter.ranges.push_back(Range{slab.attribute, columns.los[row], columns.his[row]});
    }
    if (has_rests(slab.kind)) {
        const Rest &rest = columns.rests[row];
        filter.ranges.push_back(Range{rest.name, rest.lo, rest.hi});
    }
    return filter;
}

// --- the tree ---

// Insert at a node or below it; the filter's first topics are those on the path to the node.
void Index::insert(NodeId from, Key key, Filter filter) {
    const NodeId node = descend(from, filter);
    Row row{};
    row.rest.key = key;
    const std::vector<Range> &ranges = filter.ranges;
    // A range as in a row, with the record if more ranges follow.
    const auto rest = [&](size_t index) {
        const bool more = ranges.size() > index + 1;
        return Rest{ranges[index].lo, ranges[index].hi, key, ranges[index].name,
                    more ? Record::write(arena_, key, filter) : 0};
    };
    if (filter.topics.size() > nodes_[node].depth) {
        row.signature = signature_of(filter);
        row.rest.record = Record::write(arena_, key, filter);
        append_to(&Node::mixed, Kind::mixed, node, row);
        if (slabs_[nodes_[node].mixed].size >= mixed_rows_max) {
            nodes_[node].by_name = true;
            spread(nodes_[node].mixed);
        }
    } else if (ranges.empty()) {
        append_to(&Node::plain, Kind::plain, node, row);
    } else if (!nodes_[node].by_range) {
        row.rest = rest(0);
        append_to(&Node::loose, Kind::loose, node, row);
        if (slabs_[nodes_[node].loose].size >= loose_rows_max) {
            nodes_[node].by_range = true;
            spread(nodes_[node].loose);
        }
    } else {
        row.lo = ranges[0].lo;
        row.hi = ranges[0].hi;
        if (ranges.size() == 1) {
            insert_range(nodes_[node].ranges, Kind::range, node, ranges[0].name, row);
        } else {
            row.rest = rest(1);
            insert_range(nodes_[node].pairs, Kind::pair, node, ranges[0].name, row);
        }
    }
}

// The node for a filter; its topics are put into the order of the path.
NodeId Index::descend(NodeId node, Filter &filter) {
    if (node == root && filter.topics.empty()) {
        return make_child(root, filter.ranges[0].name, By::range);
    }
    for (size_t depth = nodes_[node].depth; depth < filter.topics.size() && nodes_[node].by_name;
         ++depth) {
        const auto crowd = [&](NameId topic) {
            const NodeId next = child(node, topic);
            return next == none ? 0 : nodes_[next].rows;
        };
        const auto rarest = std::min_element(
            filter.topics.begin() + static_cast<ptrdiff_t>(depth), filter.topics.end(),
            [&](NameId one, NameId other) { return crowd(one) < crowd(other); });
        std::iter_swap(filter.topics.begin() + static_cast<ptrdiff_t>(depth), rarest);
        node = make_child(node, filter.topics[depth]);
    }
    return node;
}

NodeId Index::child(NodeId parent, NameId name, By by) const {
    if (parent == root) {
        const size_t at = entrance(name, by);
        return at < entrances_.size() ? entrances_[at] : none;
    }
    const auto found = children_.find(edge(parent, name));
    return found == children_.end() ? none : found->second;
}

NodeId Index::make_child(NodeId parent, NameId name, By by) {
    const NodeId known = child(parent, name, by);
    if (known != none) {
        return known;
    }
    const NodeId id = take_free(nodes_, free_nodes_);
    Node &node = nodes_[id];
    node.name = name;
    node.parent = parent;
    node.depth = by == By::topic ? nodes_[parent].depth + 1 : 0;
    node.by_range = by == By::range;
    ++nodes_[parent].children;
    if (parent == root) {
        entrance_of(node) = id;
    } else {
        children_[edge(parent, name)] = id;
    }
    return id;
}

// The entry of a node directly below the root.
NodeId &Index::entrance_of(const Node &node) {
    const size_t at = entrance(node.name, node.depth > 0 ? By::topic : By::range);
    if (at >= entrances_.size()) {
        entrances_.resize(at + 1, none);
    }
    return entrances_[at];
}

void Index::drop_if_empty(NodeId id) {
    while (id != root && nodes_[id].rows == 0) {
        const NodeId parent = nodes_[id].parent;
        if (parent == root) {
            entrance_of(nodes_[id]) = none;
        } else {
            children_.erase(edge(parent, nodes_[id].name));
        }
        --nodes_[parent].children;
        nodes_[id] = Node{};
        free_nodes_.push_back(id);
        id = parent;
    }
}

void Index::insert_range(std::vector<Block> &blocks, Kind kind, NodeId node, NameId attribute,
                         const Row &row) {
    // The last block that begins at or below the row, or else the first of this attribute.
    auto block = std::upper_bound(
        blocks.begin(), blocks.end(), row.lo, [attribute](double lo, const Block &one) {
            return one.attribute != attribute ? attribute < one.attribute : lo < one.lowest;
        });
    if (block != blocks.begin() && (block - 1)->attribute == attribute) {
        --block;
    } else if (block == blocks.end() || block->attribute != attribute) {
        block = blocks.insert(block, Block{attribute, make_slab(kind, node, attribute)});
    }
    const auto put = [this](Block &into, const Row &one) {
        append(into.slab, one);
        into.lowest = std::min(into.lowest, one.lo);
        into.highest = std::max(into.highest, one.hi);
    };
    put(*block, row);
    if (slabs_[block->slab].size < block_rows_max) {
        return;
    }
    const std::vector<Row> rows = take_sorted(block->slab);
    *block = Block{attribute, block->slab};
    block = blocks.insert(block + 1, Block{attribute, make_slab(kind, node, attribute)});
    for (size_t at = 0; at < rows.size(); ++at) {
        put(at < rows.size() / 2 ? *(block - 1) : *block, rows[at]);
    }
}

// Take all rows out of a crowded slab and insert them again, now that their node divides.
void Index::spread(SlabId id) {
    const NodeId node = slabs_[id].node;
    std::vector<std::pair<Key, Filter>> filters;
    while (slabs_[id].size > 0) {
        const uint32_t last = slabs_[id].size - 1;
        filters.emplace_back(key_at(slabs_[id], last), filter_at(slabs_[id], last));
        erase(id, last);
    }
    drop_slab(id);
    for (auto &[key, filter] : filters) {
        insert(node, key, std::move(filter));
    }
}

// --- slabs ---

void Index::append_to(SlabId Node::*slab, Kind kind, NodeId node, const Row &row) {
    if (nodes_[node].*slab == none) {
        const SlabId made = make_slab(kind, node, none);
        nodes_[node].*slab = made;
    }
    append(nodes_[node].*slab, row);
}

SlabId Index::make_slab(Kind kind, NodeId node, NameId attribute) {
    const SlabId id = take_free(slabs_, free_slabs_);
    slabs_[id].kind = kind;
    slabs_[id].node = node;
    slabs_[id].attribute = attribute;
    return id;
}

void Index::drop_slab(SlabId id) {
    Slab &slab = slabs_[id];
    Node &node = nodes_[slab.node];
    for (SlabId Node::*place : {&Node::plain, &Node::loose, &Node::mixed}) {
        if (node.*place == id) {
            node.*place = none;
        }
    }
    for (std::vector<Block> Node::*blocks : {&Node::ranges, &Node::pairs}) {
        std::erase_if(node.*blocks, [id](const Block &block) { return block.slab == id; });
    }
    arena_.free(slab.offset, slab.bytes());
    slab = Slab{};
    free_slabs_.push_back(id);
}

void Index::append(SlabId id, const Row &row) {
    Slab &slab = slabs_[id];
    if (slab.size == slab.capacity) {
        Slab larger = slab;
        larger.capacity = grown(slab.capacity);
        larger.offset = arena_.allocate(larger.bytes());
        const Columns from(arena_, slab);
        Columns to(arena_, larger);
        for (uint32_t at = 0; at < slab.size; ++at) {
            to.put(at, from.row(at));
        }
        if (slab.capacity > 0) {
            arena_.free(slab.offset, slab.bytes());
        }
        slab = larger;
    }
    Columns(arena_, slab).put(slab.size, row);
    const uint64_t slot = slot_of(id, slab.size++);
    where_.insert(slot, slot_hash()(slot), slot_hash());
    for (NodeId node = slab.node; node != none; node = nodes_[node].parent) {
        ++nodes_[node].rows;
    }
}

void Index::erase(SlabId id, uint32_t at) {
    Slab &slab = slabs_[id];
    Columns columns(arena_, slab);
    const uint32_t record = columns.record(at);
    // The table reads keys from the slabs: first forget the row, then overwrite it.
    where_.erase(find(key_at(slab, at)), slot_hash());
    if (record != 0) {
        arena_.free(uint64_t{record} * Arena::alignment, Record(arena_, record).bytes());
    }
    const uint32_t last = slab.size - 1;
    if (at != last) {
        uint64_t *moved = find(key_at(slab, last));
        columns.put(at, columns.row(last));
        *moved = slot_of(id, at);
    }
    slab.size = last;
    for (NodeId node = slab.node; node != none; node = nodes_[node].parent) {
        --nodes_[node].rows;
    }
}

// Take all rows of a slab of ranges, in order, with their records; the slab is left empty.
std::vector<Row> Index::take_sorted(SlabId id) {
    std::vector<Row> rows;
    while (slabs_[id].size > 0) {
        const uint32_t last = slabs_[id].size - 1;
        Columns columns(arena_, slabs_[id]);
        rows.push_back(columns.row(last));
        if (has_rests(columns.kind)) {
            columns.rests[last].record = 0;
        }
        erase(id, last);
    }
    std::sort(rows.begin(), rows.end(), [](const Row &one, const Row &other) {
        return one.lo != other.lo ? one.lo < other.lo : one.hi < other.hi;
    });
    return rows;
}

// --- what a filter covers ---

std::vector<Key> Index::covered_by(const Filter &filter) {
    make_postings();
    const std::vector<Key> *fewest = nullptr;
    const auto consider = [&](NameId name) {
        if (fewest == nullptr || postings_[name].size() < fewest->size()) {
            fewest = &postings_[name];
        }
    };
    std::for_each(filter.topics.begin(), filter.topics.end(), consider);
    for (const Range &range : filter.ranges) {
        consider(range.name);
    }
    std::vector<Key> keys;
    for (Key key : *fewest) {
        if (!contains(key)) {
            continue;
        }
        const Filter stored = this->filter(key);
        const auto ranged = [&](NameId name) {
            return std::find_if(stored.ranges.begin(), stored.ranges.end(),
                                [&](const Range &range) { return range.name == name; });
        };
        const bool topics_met =
            std::all_of(filter.topics.begin(), filter.topics.end(), [&](NameId topic) {
                return ranged(topic) != stored.ranges.end() ||
                       std::find(stored.topics.begin(), stored.topics.end(), topic) !=
                           stored.topics.end();
            });
        const bool ranges_met =
            std::all_of(filter.ranges.begin(), filter.ranges.end(), [&](const Range &wanted) {
                const auto got = ranged(wanted.name);
                return got != stored.ranges.end() && wanted.lo <= got->lo && got->hi <= wanted.hi;
            });
        if (topics_met && ranges_met) {
            keys.push_back(key);
        }
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
}

void Index::make_postings() {
    if (!has_postings_) {
        has_postings_ = true;
        each([this](Key key, const Filter &filter) { post(key, filter); });
    }
    postings_.resize(names_.size());
}

void Index::post(Key key, const Filter &filter) {
    postings_.resize(names_.size());
    for (NameId topic : filter.topics) {
        postings_[topic].push_back(key);
    }
    for (const Range &range : filter.ranges) {
        postings_[range.name].push_back(key);
    }
}

// Removed keys stay until they outnumber the others.
void Index::sweep_postings(NameId name) {
    std::vector<Key> &keys = postings_[name];
    const size_t uses = size_t{names_[name].topic_uses} + names_[name].range_uses;
    if (uses > 0 && keys.size() <= 2 * uses + 16) {
        return;
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::erase_if(keys,
                  [&](Key key) { return uses == 0 || !contains(key) || !uses_name(key, name); });
    keys.shrink_to_fit();
}

// A key may have been added again with another filter.
bool Index::uses_name(Key key, NameId name) {
    const Filter filter = this->filter(key);
    return std::find(filter.topics.begin(), filter.topics.end(), name) != filter.topics.end() ||
           std::any_of(filter.ranges.begin(), filter.ranges.end(),
                       [name](const Range &range) { return range.name == name; });
}

uint64_t Index::memory_bytes() const {
    uint64_t bytes = arena_.blob().capacity() + where_.blob().capacity() + names_.memory_bytes() +
                     nodes_.capacity() * sizeof(Node) + slabs_.capacity() * sizeof(Slab) +
                     entrances_.capacity() * sizeof(NodeId) + children_.size() * 40;
    for (const Node &node : nodes_) {
        bytes += (node.ranges.capacity() + node.pairs.capacity()) * sizeof(Block);
    }
    for (const auto &keys : postings_) {
        bytes += sizeof keys + keys.capacity() * sizeof(Key);
    }
    return bytes;
}

} // namespace smartpubsub
