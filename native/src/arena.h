// Memory addressed by offset, so that it means the same in a file, and freed by size.
#pragma once

#include "blob.h"

#include <unordered_map>
#include <vector>

namespace smartpubsub {

class Arena {
public:
    // Offset 0 is never handed out: it stands for "nothing there".
    Arena() {
        blob_.resize(alignment);
        std::memset(blob_.data(), 0, alignment);
    }

    uint64_t allocate(uint64_t bytes) {
        bytes = rounded(bytes);
        auto spare = free_.find(bytes);
        if (spare != free_.end() && !spare->second.empty()) {
            const uint64_t offset = spare->second.back();
            spare->second.pop_back();
            return offset;
        }
        const uint64_t offset = blob_.size();
        blob_.resize(offset + bytes);
        // Unused bytes are saved as well, and must be the same each time.
        std::memset(blob_.data() + offset, 0, bytes);
        return offset;
    }

    void free(uint64_t offset, uint64_t bytes) { free_[rounded(bytes)].push_back(offset); }

    template <class T> T *at(uint64_t offset) const {
        return reinterpret_cast<T *>(blob_.data() + offset);
    }

    Blob &blob() { return blob_; }
    const Blob &blob() const { return blob_; }

    static constexpr uint64_t alignment = 8;

private:
    static uint64_t rounded(uint64_t bytes) { return (bytes + alignment - 1) & ~(alignment - 1); }

    Blob blob_;
    std::unordered_map<uint64_t, std::vector<uint64_t>> free_;
};

} // namespace smartpubsub
