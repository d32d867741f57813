// Keys found so far. Unlike a vector it does not initialise memory.
#pragma once

#include "slab.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace smartpubsub {

class KeyBuffer {
public:
    KeyBuffer() = default;
    ~KeyBuffer() { std::free(data_); }
    KeyBuffer(const KeyBuffer &) = delete;
    KeyBuffer &operator=(const KeyBuffer &) = delete;

    Key *data() { return data_; }
    size_t size() const { return size_; }
    void clear() { size_ = 0; }

    // Room for `count` more; the caller passes the number that it has written to `commit`.
    Key *room(size_t count) {
        if (size_ + count > capacity_) {
            capacity_ = size_ + count + (size_ + count) / 2 + 1024;
            auto *grown = static_cast<Key *>(std::realloc(data_, capacity_ * sizeof(Key)));
            if (grown == nullptr) {
                throw std::bad_alloc();
            }
            data_ = grown;
        }
        return data_ + size_;
    }
    void commit(size_t count) { size_ += count; }

    void append(const Key *keys, size_t count) {
        std::memcpy(room(count), keys, count * sizeof(Key));
        commit(count);
    }

    // Hands over the memory; the receiver frees it.
    Key *release() {
        Key *data = data_;
        data_ = nullptr;
        size_ = capacity_ = 0;
        return data;
    }

private:
    Key *data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

} // namespace smartpubsub
