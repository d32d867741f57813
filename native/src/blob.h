// A growable run of bytes that either belongs to this process or is a view of a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace smartpubsub {

class Blob {
public:
    Blob() = default;
    ~Blob() { release(); }
    Blob(const Blob &) = delete;
    Blob &operator=(const Blob &) = delete;

    uint8_t *data() const { return data_; }
    size_t size() const { return size_; }
    size_t capacity() const { return owned_ ? capacity_ : 0; }

    // The bytes stay in place, shared with other processes that map them, until one is changed.
    void view(const uint8_t *bytes, size_t size) {
        release();
        data_ = const_cast<uint8_t *>(bytes);
        size_ = size;
        owned_ = false;
    }

    void resize(size_t size) {
        if (!owned_ || size > capacity_) {
            grow(size);
        }
        size_ = size;
    }

    void make_writable() {
        if (!owned_) {
            grow(size_);
        }
    }

private:
    void grow(size_t size) {
        const size_t wanted = owned_ ? size + size / 8 + 64 : size + 64;
        uint8_t *bytes = allocate(wanted);
        if (size_ > 0) {
            std::memcpy(bytes, data_, size_);
        }
        const size_t kept = size_;
        release();
        data_ = bytes;
        size_ = kept;
        capacity_ = wanted;
    }

    // Reads are random: with small pages most of them would also miss the TLB.
    static uint8_t *allocate(size_t bytes) {
        constexpr size_t huge = size_t{1} << 21;
        const size_t alignment = bytes >= 2 * huge ? huge : 64;
        void *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
        if (memory == nullptr) {
            throw std::bad_alloc();
        }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (alignment == huge) {
            madvise(memory, bytes, MADV_HUGEPAGE);
        }
#endif
        return static_cast<uint8_t *>(memory);
    }

    void release() {
        if (owned_) {
            std::free(data_);
        }
        data_ = nullptr;
        size_ = capacity_ = 0;
        owned_ = true;
    }

    uint8_t *data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
    bool owned_ = true;
};

} // namespace smartpubsub
