// A filter in the arena: its key, its ranges with the most selective first, its topics.
#pragma once

#include "event.h"
#include "slab.h"

#include <cstring>

namespace smartpubsub {

struct Filter {
    std::vector<NameId> topics;
    std::vector<Range> ranges;
};

class Record {
public:
    Record(const Arena &arena, uint32_t reference)
        : words_(arena.at<uint32_t>(uint64_t{reference} * Arena::alignment)) {}

    Key key() const {
        Key key;
        std::memcpy(&key, words_, sizeof key);
        return key;
    }
    uint32_t topic_count() const { return words_[2] & 0xffff; }
    uint32_t range_count() const { return words_[2] >> 16; }
    NameId topic(uint32_t index) const { return words_[3 + range_words * range_count() + index]; }
    Range range(uint32_t index) const {
        const uint32_t *at = words_ + 3 + range_words * index;
        Range range;
        range.name = at[0];
        std::memcpy(&range.lo, at + 1, sizeof range.lo);
        std::memcpy(&range.hi, at + 3, sizeof range.hi);
        return range;
    }
    Filter filter() const {
        Filter filter;
        for (uint32_t index = 0; index < topic_count(); ++index) {
            filter.topics.push_back(topic(index));
        }
        for (uint32_t index = 0; index < range_count(); ++index) {
            filter.ranges.push_back(range(index));
        }
        return filter;
    }

    bool topics_met(const Event &event) const {
        for (uint32_t index = 0; index < topic_count(); ++index) {
            if (!event.has(topic(index))) {
                return false;
            }
        }
        return true;
    }
    bool ranges_met(const Event &event, uint32_t first) const {
        const uint32_t count = range_count();
        for (uint32_t index = first; index < count; ++index) {
            if (!event.within(range(index))) {
                return false;
            }
        }
        return true;
    }

    uint64_t bytes() const { return bytes(topic_count(), range_count()); }

    static uint32_t write(Arena &arena, Key key, const Filter &filter) {
        const uint64_t offset = arena.allocate(bytes(filter.topics.size(), filter.ranges.size()));
        if (offset / Arena::alignment >= none) {
            throw std::bad_alloc();
        }
        auto *words = arena.at<uint32_t>(offset);
        std::memcpy(words, &key, sizeof key);
        words[2] = static_cast<uint32_t>(filter.topics.size() | (filter.ranges.size() << 16));
        words += 3;
        for (const Range &range : filter.ranges) {
            words[0] = range.name;
            std::memcpy(words + 1, &range.lo, sizeof range.lo);
            std::memcpy(words + 3, &range.hi, sizeof range.hi);
            words += range_words;
        }
        for (NameId topic : filter.topics) {
            *words++ = topic;
        }
        return static_cast<uint32_t>(offset / Arena::alignment);
    }

    static constexpr uint32_t count_max = 0xffff;

private:
    static uint64_t bytes(uint64_t topics, uint64_t ranges) {
        return 4 * (3 + topics + range_words * ranges);
    }
    static constexpr uint32_t range_words = 5;
    const uint32_t *words_;
};

} // namespace smartpubsub
