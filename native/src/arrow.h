// The part of the Arrow C data interface that a batch of events needs.
#pragma once

#include <cstdint>
#include <string_view>

namespace smartpubsub {

// The layout is fixed by the Arrow specification.
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    ArrowArray **children;
    ArrowArray *dictionary;
    void (*release)(ArrowArray *);
    void *private_data;
};

class Column {
public:
    explicit Column(const ArrowArray &array, int64_t parent_offset = 0)
        : array_(array), offset_(array.offset + parent_offset) {}

    bool is_null(int64_t row) const {
        const auto *valid = static_cast<const uint8_t *>(array_.buffers[0]);
        const int64_t at = row + offset_;
        return valid != nullptr && ((valid[at >> 3] >> (at & 7)) & 1) == 0;
    }
    std::string_view text(int64_t row) const {
        const auto [begin, end] = bounds(row);
        return {static_cast<const char *>(array_.buffers[2]) + begin,
                static_cast<size_t>(end - begin)};
    }
    double number(int64_t row) const {
        return static_cast<const double *>(array_.buffers[1])[row + offset_];
    }
    // The positions of a list's elements in its child.
    struct Bounds {
        int64_t begin;
        int64_t end;
    };
    Bounds bounds(int64_t row) const {
        const auto *offsets = static_cast<const int32_t *>(array_.buffers[1]);
        return {offsets[row + offset_], offsets[row + offset_ + 1]};
    }
    // A field of a struct shares the struct's offset; the values of a list do not.
    Column field(int64_t index) const { return Column(*array_.children[index], offset_); }
    Column values() const { return Column(*array_.children[0]); }

private:
    const ArrowArray &array_;
    int64_t offset_;
};

} // namespace smartpubsub
