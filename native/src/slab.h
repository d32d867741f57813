// Rows of one kind, column by column, in the arena.
#pragma once

#include "arena.h"
#include "names.h"

namespace smartpubsub {

using Key = int64_t;
using SlabId = uint32_t;
using NodeId = uint32_t;

// The form of a row depends on what is left to check of its filter at its node.
enum class Kind : uint8_t {
    plain, // nothing: the key alone
    loose, // ranges, where a node has few such rows: a Rest of the first
    range, // one range: bounds and key
    pair,  // more ranges: bounds of the first, and a Rest of the second
    mixed, // topics, and perhaps ranges: signature and record
};

struct Slab {
    Kind kind;
    NodeId node = none;
    NameId attribute = none; // of the range whose bounds are columns
    uint32_t size = 0;
    uint32_t capacity = 0;
    uint64_t offset = 0;

    static uint64_t row_bytes(Kind kind) {
        constexpr uint64_t bytes[] = {8, 32, 24, 48, 12};
        return bytes[static_cast<size_t>(kind)];
    }
    uint64_t bytes() const { return row_bytes(kind) * capacity; }
};

// A range of a filter, and the filter's record if it has ranges after this one (otherwise 0).
struct Rest {
    double lo;
    double hi;
    Key key;
    NameId name;
    uint32_t record;
};

inline bool has_bounds(Kind kind) {
    return kind == Kind::range || kind == Kind::pair;
}
inline bool has_rests(Kind kind) {
    return kind == Kind::loose || kind == Kind::pair;
}

// One row in transit; which fields mean something depends on the kind of slab.
struct Row {
    Rest rest;
    double lo;
    double hi;
    uint64_t signature;
};

// The columns of a slab, the widest first so that all are aligned. Those that its kind does not
// have point somewhere into it and are not used.
struct Columns {
    Columns(const Arena &arena, const Slab &slab) : kind(slab.kind) {
        const uint64_t rows = slab.capacity;
        los = arena.at<double>(slab.offset);
        his = los + rows;
        keys = arena.at<Key>(slab.offset + (kind == Kind::range ? 16 * rows : 0));
        rests = arena.at<Rest>(slab.offset + (kind == Kind::pair ? 16 * rows : 0));
        signatures = arena.at<uint64_t>(slab.offset);
        records = arena.at<uint32_t>(slab.offset + 8 * rows);
    }

    Row row(uint32_t at) const {
        Row row{};
        switch (kind) {
        case Kind::plain:
            row.rest.key = keys[at];
            break;
        case Kind::loose:
            row.rest = rests[at];
            break;
        case Kind::range:
            row.rest.key = keys[at];
            row.lo = los[at];
            row.hi = his[at];
            break;
        case Kind::pair:
            row.rest = rests[at];
            row.lo = los[at];
            row.hi = his[at];
            break;
        case Kind::mixed:
            row.rest.record = records[at];
            row.signature = signatures[at];
            break;
        }
        return row;
    }

    void put(uint32_t at, const Row &row) {
        switch (kind) {
        case Kind::plain:
            keys[at] = row.rest.key;
            break;
        case Kind::loose:
            rests[at] = row.rest;
            break;
        case Kind::range:
            keys[at] = row.rest.key;
            los[at] = row.lo;
            his[at] = row.hi;
            break;
        case Kind::pair:
            rests[at] = row.rest;
            los[at] = row.lo;
            his[at] = row.hi;
            break;
        case Kind::mixed:
            records[at] = row.rest.record;
            signatures[at] = row.signature;
            break;
        }
    }

    uint32_t record(uint32_t at) const {
        return kind == Kind::mixed ? records[at] : has_rests(kind) ? rests[at].record : 0;
    }

    Key *keys;
    double *los;
    double *his;
    Rest *rests;
    uint64_t *signatures;
    uint32_t *records;
    Kind kind;
};

} // namespace smartpubsub
