#include "scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace smartpubsub {

namespace {

namespace baseline {

// Every row is written, and kept by advancing the count: no branch to mispredict.
uint32_t subset(const uint64_t *signatures, const uint32_t *values, uint32_t count,
                uint64_t outside, uint32_t *passed) {
    uint32_t found = 0;
    for (uint32_t row = 0; row < count; ++row) {
        passed[found] = values[row];
        found += (signatures[row] & outside) == 0;
    }
    return found;
}

uint32_t containing(const Bounds &bounds, double lo, double hi, const int64_t *values,
                    int64_t *passed) {
    uint32_t found = 0;
    for (uint32_t row = 0; row < bounds.count; ++row) {
        passed[found] = values[row];
        found += (bounds.los[row] <= lo) & (hi <= bounds.his[row]);
    }
    return found;
}

uint32_t rows_containing(const Bounds &bounds, double lo, double hi, uint32_t *passed) {
    uint32_t found = 0;
    for (uint32_t row = 0; row < bounds.count; ++row) {
        passed[found] = row;
        found += (bounds.los[row] <= lo) & (hi <= bounds.his[row]);
    }
    return found;
}

constexpr Scanner variant{"baseline", subset, containing, rows_containing};

} // namespace baseline

#if defined(__x86_64__)

#define SMARTPUBSUB_AVX2 __attribute__((target("avx2,bmi")))
#define SMARTPUBSUB_AVX512 __attribute__((target("avx512f,avx512vl,popcnt")))

inline uint32_t tail(uint32_t left) {
    return left >= lanes ? 0xffu : (1u << left) - 1;
}

namespace avx2 {

SMARTPUBSUB_AVX2 inline uint32_t subset_mask(const uint64_t *signatures, uint64_t outside) {
    const __m256i wrong = _mm256_set1_epi64x(static_cast<long long>(outside));
    uint32_t mask = 0;
    for (uint32_t half = 0; half < lanes; half += 4) {
        const auto *at = reinterpret_cast<const __m256i *>(signatures + half);
        const __m256i bad = _mm256_and_si256(_mm256_loadu_si256(at), wrong);
        const __m256i good = _mm256_cmpeq_epi64(bad, _mm256_setzero_si256());
        mask |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(good))) << half;
    }
    return mask;
}

SMARTPUBSUB_AVX2 inline uint32_t containing_mask(const double *los, const double *his, double lo,
                                                 double hi) {
    uint32_t mask = 0;
    for (uint32_t half = 0; half < lanes; half += 4) {
        const __m256d below =
            _mm256_cmp_pd(_mm256_loadu_pd(los + half), _mm256_set1_pd(lo), _CMP_LE_OQ);
        const __m256d above =
            _mm256_cmp_pd(_mm256_set1_pd(hi), _mm256_loadu_pd(his + half), _CMP_LE_OQ);
        mask |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_and_pd(below, above))) << half;
    }
    return mask;
}

inline uint32_t lowest(uint32_t mask) {
    return static_cast<uint32_t>(__builtin_ctz(mask));
}

SMARTPUBSUB_AVX2 uint32_t subset(const uint64_t *signatures, const uint32_t *values, uint32_t count,
                                 uint64_t outside, uint32_t *passed) {
    uint32_t found = 0;
    for (uint32_t base = 0; base < count; base += lanes) {
        uint32_t mask = subset_mask(signatures + base, outside) & tail(count - base);
        for (; mask != 0; mask &= mask - 1) {
            passed[found++] = values[base + lowest(mask)];
        }
    }
    return found;
}

SMARTPUBSUB_AVX2 uint32_t containing(const Bounds &bounds, double lo, double hi,
                                     const int64_t *values, int64_t *passed) {
    uint32_t found = 0;
    for (uint32_t base = 0; base < bounds.count; base += lanes) {
        uint32_t mask = containing_mask(bounds.los + base, bounds.his + base, lo, hi) &
                        tail(bounds.count - base);
        for (; mask != 0; mask &= mask - 1) {
            passed[found++] = values[base + lowest(mask)];
        }
    }
    return found;
}

SMARTPUBSUB_AVX2 uint32_t rows_containing(const Bounds &bounds, double lo, double hi,
                                          uint32_t *passed) {
    uint32_t found = 0;
    for (uint32_t base = 0; base < bounds.count; base += lanes) {
        uint32_t mask = containing_mask(bounds.los + base, bounds.his + base, lo, hi) &
                        tail(bounds.count - base);
        for (; mask != 0; mask &= mask - 1) {
            passed[found++] = base + lowest(mask);
        }
    }
    return found;
}

constexpr Scanner variant{"avx2", subset, containing, rows_containing};

} // namespace avx2

namespace avx512 {

SMARTPUBSUB_AVX512 inline __mmask8 containing_mask(const double *los, const double *his, double lo,
                                                   double hi) {
    const __mmask8 below = _mm512_cmp_pd_mask(_mm512_loadu_pd(los), _mm512_set1_pd(lo), _CMP_LE_OQ);
    return _mm512_mask_cmp_pd_mask(below, _mm512_set1_pd(hi), _mm512_loadu_pd(his), _CMP_LE_OQ);
}

// Packed in a register and stored whole: storing a packed part directly is far slower.
SMARTPUBSUB_AVX512 inline uint32_t keep(__m256i values, uint32_t mask, uint32_t *passed) {
    const __m256i kept = _mm256_maskz_compress_epi32(static_cast<__mmask8>(mask), values);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(passed), kept);
    return static_cast<uint32_t>(__builtin_popcount(mask));
}

SMARTPUBSUB_AVX512 uint32_t subset(const uint64_t *signatures, const uint32_t *values,
                                   uint32_t count, uint64_t outside, uint32_t *passed) {
    const __m512i wrong = _mm512_set1_epi64(static_cast<long long>(outside));
    uint32_t found = 0;
    for (uint32_t base = 0; base < count; base += lanes) {
        const uint32_t mask =
            _mm512_testn_epi64_mask(_mm512_loadu_si512(signatures + base), wrong) &
            tail(count - base);
        if (mask != 0) {
            const auto *at = reinterpret_cast<const __m256i *>(values + base);
            found += keep(_mm256_loadu_si256(at), mask, passed + found);
        }
    }
    return found;
}

SMARTPUBSUB_AVX512 uint32_t containing(const Bounds &bounds, double lo, double hi,
                                       const int64_t *values, int64_t *passed) {
    uint32_t found = 0;
    for (uint32_t base = 0; base < bounds.count; base += lanes) {
        const uint32_t mask = containing_mask(bounds.los + base, bounds.his + base, lo, hi) &
                              tail(bounds.count - base);
        const __m512i kept = _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask),
                                                         _mm512_loadu_si512(values + base));
        _mm512_storeu_si512(passed + found, kept);
        found += static_cast<uint32_t>(__builtin_popcount(mask));
    }
    return found;
}

SMARTPUBSUB_AVX512 uint32_t rows_containing(const Bounds &bounds, double lo, double hi,
                                            uint32_t *passed) {
    const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    uint32_t found = 0;
    for (uint32_t base = 0; base < bounds.count; base += lanes) {
        const uint32_t mask = containing_mask(bounds.los + base, bounds.his + base, lo, hi) &
                              tail(bounds.count - base);
        const __m256i rows = _mm256_add_epi32(steps, _mm256_set1_epi32(static_cast<int>(base)));
        found += keep(rows, mask, passed + found);
    }
    return found;
}

constexpr Scanner variant{"avx512", subset, containing, rows_containing};

} // namespace avx512

#endif

std::vector<const Scanner *> runnable() {
    std::vector<const Scanner *> found;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
        found.push_back(&avx512::variant);
    }
    if (__builtin_cpu_supports("avx2")) {
        found.push_back(&avx2::variant);
    }
#endif
    found.push_back(&baseline::variant);
    return found;
}

const Scanner *in_use = scanners().front();

} // namespace

const std::vector<const Scanner *> &scanners() {
    static const std::vector<const Scanner *> found = runnable();
    return found;
}

const Scanner &scanner() {
    return *in_use;
}

void use_scanner(const Scanner &chosen) {
    in_use = &chosen;
}

} // namespace smartpubsub
