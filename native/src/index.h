// The index: a tree of names over slabs of rows.
//
// A filter lies below the rarest of its topics, or below its most selective range if it has no
// topic. A node keeps filters without further conditions as bare keys, filters with only ranges
// left together with the first range, and filters with further topics under a signature. Many rows
// with only ranges left move into blocks, by the name and in the order of their most selective
// range; many rows with further topics move to child nodes. So an event looks at few rows, in long
// runs.
#pragma once

#include "hash_table.h"
#include "record.h"
#include "slab.h"

#include <span>

namespace smartpubsub {

// A slab of ranges of one name, with bounds of all its rows: none begins below `lowest`, none ends
// above `highest`. Removal leaves both unchanged.
struct Block {
    NameId attribute;
    SlabId slab;
    double lowest = std::numeric_limits<double>::infinity();
    double highest = -std::numeric_limits<double>::infinity();
};

struct Node {
    NameId name = none;
    NodeId parent = none;
    uint32_t depth = 0; // number of topics on the path to here
    uint32_t rows = 0;  // here and below
    uint32_t children = 0;
    SlabId plain = none;
    SlabId loose = none;
    SlabId mixed = none;
    bool by_name = false;
    bool by_range = false;
    std::vector<Block> ranges; // of one range each, by attribute and lowest bound
    std::vector<Block> pairs;  // of several ranges each, in the same order
};

// What an event is matched against, with any instruction set.
struct Tree {
    const Arena &arena;
    const std::vector<Node> &nodes;
    const std::vector<Slab> &slabs;
    const std::vector<NodeId> &entrances;                 // by `entrance`
    const std::unordered_map<uint64_t, NodeId> &children; // by `edge`, below the root
};

// The entrance of filters with topics, and of filters with ranges only.
enum class By : size_t { topic, range };

inline size_t entrance(NameId name, By by) {
    return 2 * size_t{name} + static_cast<size_t>(by);
}

inline uint64_t edge(NodeId node, NameId name) {
    return (uint64_t{node} << 32) | name;
}

class Index {
public:
    Index();

    size_t size() const { return where_.size(); }
    bool contains(Key key) { return find(key) != nullptr; }
    Names &names() { return names_; }

    // The filter's names are interned, not yet counted as used.
    void add(Key key, Filter filter);
    bool remove(Key key);
    Filter filter(Key key);

    Tree tree() const { return Tree{arena_, nodes_, slabs_, entrances_, children_}; }
    // The stored filters that the given one covers.
    std::vector<Key> covered_by(const Filter &filter);

    // Call `visit(key, filter)` for every filter, neighbours in the tree together.
    template <class Visit> void each(Visit visit) const {
        for (const Slab &slab : slabs_) {
            for (uint32_t row = 0; row < slab.size; ++row) {
                visit(key_at(slab, row), filter_at(slab, row));
            }
        }
    }

    // A frozen index: the tree is small and deserialised, the other two can be in a mapped file.
    std::string frozen_tree() const;
    const Blob &frozen_arena() const { return arena_.blob(); }
    const Blob &frozen_where() const { return where_.blob(); }
    void thaw(std::string_view tree, std::span<const uint8_t> arena,
              std::span<const uint8_t> where);
    // The same filters in new memory, placed with knowledge of all of them.
    void copy_to(Index &fresh) const;

    uint64_t memory_bytes() const;

private:
    void count_uses(const Filter &filter, int by);
    void sort_by_narrowness(std::vector<Range> &ranges) const;

    void insert(NodeId from, Key key, Filter filter);
    NodeId descend(NodeId node, Filter &filter);
    NodeId child(NodeId parent, NameId name, By by = By::topic) const;
    NodeId make_child(NodeId parent, NameId name, By by = By::topic);
    NodeId &entrance_of(const Node &node);
    void drop_if_empty(NodeId node);
    void insert_range(std::vector<Block> &blocks, Kind kind, NodeId node, NameId attribute,
                      const Row &row);
    void append_to(SlabId Node::*slab, Kind kind, NodeId node, const Row &row);
    void spread(SlabId slab);

    SlabId make_slab(Kind kind, NodeId node, NameId attribute);
    void drop_slab(SlabId slab);
    void append(SlabId slab, const Row &row);
    // Remove a row, its record and its entry in `where_`; the last row takes its place.
    void erase(SlabId slab, uint32_t row);
    std::vector<Row> take_sorted(SlabId slab);

    uint64_t *find(Key key);
    auto slot_hash() const;
    Key key_at(const Slab &slab, uint32_t row) const;
    Filter filter_at(const Slab &slab, uint32_t row) const;

    // The lookup structure of covered_by; built on its first call, because most indexes never need
    // it.
    void make_postings();
    void post(Key key, const Filter &filter);
    void sweep_postings(NameId name);
    bool uses_name(Key key, NameId name);

    Arena arena_;
    Names names_;
    std::vector<Node> nodes_;
    std::vector<NodeId> free_nodes_;
    std::vector<Slab> slabs_;
    std::vector<SlabId> free_slabs_;
    std::vector<NodeId> entrances_;
    std::unordered_map<uint64_t, NodeId> children_;
    HashTable<uint64_t> where_; // key -> (slab, row)
    bool has_postings_ = false;
    std::vector<std::vector<Key>> postings_; // by name; may hold removed keys
};

} // namespace smartpubsub
