// Attribute names as small numbers, kept while a filter uses them.
#pragma once

#include "hash_table.h"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace smartpubsub {

using NameId = uint32_t;
constexpr uint32_t none = std::numeric_limits<uint32_t>::max();

struct Name {
    std::string text;
    uint32_t topic_uses = 0;
    uint32_t range_uses = 0;
    // The span of its ranges so far, relative to which a range is narrow or wide.
    double lowest = std::numeric_limits<double>::infinity();
    double highest = -std::numeric_limits<double>::infinity();
};

// Texts of up to eight bytes as one word, longer ones by overlapping words: every name of every
// event is hashed and compared, and most are short.
inline uint64_t end_word(const char *text, size_t size) {
    uint64_t word = 0;
    if (size >= 8) {
        std::memcpy(&word, text + size - 8, 8);
    } else if (size >= 4) {
        uint32_t halves[2];
        std::memcpy(&halves[0], text, 4);
        std::memcpy(&halves[1], text + size - 4, 4);
        word = halves[0] | (uint64_t{halves[1]} << 32);
    } else if (size > 0) {
        const auto byte = [text](size_t at) {
            return static_cast<uint64_t>(static_cast<unsigned char>(text[at]));
        };
        word = byte(0) | (byte(size / 2) << 8) | (byte(size - 1) << 16);
    }
    return word;
}

inline bool same_text(std::string_view one, std::string_view other) {
    return one.size() == other.size() &&
           end_word(one.data(), one.size()) == end_word(other.data(), other.size()) &&
           (one.size() <= 8 || std::memcmp(one.data(), other.data(), one.size() - 8) == 0);
}

class Names {
    static uint64_t hash(std::string_view text) {
        uint64_t state = text.size();
        for (size_t at = 0; at + 8 < text.size(); at += 8) {
            uint64_t word;
            std::memcpy(&word, text.data() + at, 8);
            state = mix(state ^ word);
        }
        return mix(state ^ end_word(text.data(), text.size()));
    }
    auto hash_of() const {
        return [this](NameId id) { return hash(names_[id].text); };
    }

public:
    NameId find(std::string_view text) {
        const uint32_t *slot =
            table_.find(hash(text), [&](NameId id) { return same_text(names_[id].text, text); });
        return slot == nullptr ? none : *slot;
    }

    NameId intern(std::string_view text) {
        const NameId known = find(text);
        if (known != none) {
            return known;
        }
        NameId id;
        if (free_.empty()) {
            id = static_cast<NameId>(names_.size());
            names_.emplace_back();
        } else {
            id = free_.back();
            free_.pop_back();
        }
        names_[id] = Name{std::string(text)};
        table_.insert(id, hash(text), hash_of());
        return id;
    }

    void release_if_unused(NameId id) {
        Name &name = names_[id];
        if (name.topic_uses + name.range_uses > 0) {
            return;
        }
        table_.erase(table_.find(hash(name.text), [&](NameId other) { return other == id; }),
                     hash_of());
        name = Name{};
        free_.push_back(id);
    }

    Name &operator[](NameId id) { return names_[id]; }
    const Name &operator[](NameId id) const { return names_[id]; }
    size_t size() const { return names_.size(); }

    // The names of a file: an unused entry has an empty text.
    void restore(std::vector<Name> names) {
        names_ = std::move(names);
        for (NameId id = 0; id < names_.size(); ++id) {
            if (names_[id].text.empty()) {
                free_.push_back(id);
            } else {
                table_.insert(id, hash(names_[id].text), hash_of());
            }
        }
    }

    size_t memory_bytes() const {
        size_t bytes = table_.blob().capacity() + names_.capacity() * sizeof(Name);
        for (const Name &name : names_) {
            bytes += name.text.capacity() > 15 ? name.text.capacity() : 0;
        }
        return bytes;
    }

private:
    std::vector<Name> names_;
    std::vector<NameId> free_;
    HashTable<NameId> table_;
};

} // namespace smartpubsub
