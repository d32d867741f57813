// An event as the index sees it: the names that some filter uses, and their intervals.
#pragma once

#include "names.h"

#include <cmath>
#include <vector>

namespace smartpubsub {

struct Range {
    NameId name;
    double lo;
    double hi;
};

// 48 bits for topics, two of them each, and 16 for ranges: an event carries many numbers and few
// topics, and mixing them would let most signatures pass.
inline uint64_t topic_bits(NameId name) {
    const uint64_t hash = mix(name);
    return (uint64_t{1} << ((hash & 0xffffffff) * 48 >> 32)) |
           (uint64_t{1} << ((hash >> 32) * 48 >> 32));
}
inline uint64_t range_bit(NameId name) {
    return uint64_t{1} << (48 + ((name * 0x9e3779b1u) >> 28));
}

class Event {
public:
    struct Value {
        double lo;
        double hi;
    };

    // Clear the last event name by name: the tables are far larger than an event.
    void clear(size_t name_count) {
        for (NameId id : all_) {
            present_[id] = 0;
            values_[id] = absent;
        }
        if (present_.size() < name_count) {
            present_.resize(name_count, 0);
            values_.resize(name_count, absent);
        }
        all_.clear();
        topics_.clear();
        ranged_.clear();
        signature_ = 0;
    }

    // Returns false if the event already has this name.
    bool add_topic(NameId id, const Name &name) {
        if (present_[id] != 0) {
            return false;
        }
        present_[id] = 1;
        all_.push_back(id);
        if (name.topic_uses > 0) {
            topics_.push_back(id);
            signature_ |= topic_bits(id);
        }
        return true;
    }

    bool add_range(NameId id, const Name &name, double lo, double hi) {
        if (!add_topic(id, name)) {
            return false;
        }
        values_[id] = Value{lo, hi};
        if (name.range_uses > 0) {
            ranged_.push_back(id);
            signature_ |= range_bit(id);
        }
        return true;
    }

    bool has(NameId id) const { return present_[id] != 0; }
    bool within(const Range &range) const {
        const Value &value = values_[range.name];
        return (range.lo <= value.lo) & (value.hi <= range.hi);
    }

    const Value &operator[](NameId id) const { return values_[id]; }
    // The names that are topics of some filter.
    const std::vector<NameId> &topics() const { return topics_; }
    // The names with an interval that are ranges of some filter.
    const std::vector<NameId> &ranged() const { return ranged_; }
    uint64_t signature() const { return signature_; }

private:
    // No range contains NaN, so a name without an interval needs no test of its own.
    static constexpr Value absent{std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::quiet_NaN()};

    std::vector<uint8_t> present_;
    std::vector<Value> values_;
    std::vector<NameId> all_;
    std::vector<NameId> topics_;
    std::vector<NameId> ranged_;
    uint64_t signature_ = 0;
};

} // namespace smartpubsub
