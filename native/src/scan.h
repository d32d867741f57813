// The inner loops: which rows of a slab may match. Everything else is bookkeeping.
#pragma once

#include <cstdint>
#include <vector>

namespace smartpubsub {

// Columns may be read up to the next multiple of `lanes` rows, and outputs be written as far.
constexpr uint32_t lanes = 8;

struct Bounds {
    const double *los;
    const double *his;
    uint32_t count;
};

// Each function writes a value for every row that passes, and returns their number.
struct Scanner {
    const char *instructions;
    // The values of rows whose signature has no bit in `outside`.
    uint32_t (*subset)(const uint64_t *signatures, const uint32_t *values, uint32_t count,
                       uint64_t outside, uint32_t *passed);
    // The values of rows whose range contains [lo, hi].
    uint32_t (*containing)(const Bounds &bounds, double lo, double hi, const int64_t *values,
                           int64_t *passed);
    // The same, with the numbers of the rows as values.
    uint32_t (*rows_containing)(const Bounds &bounds, double lo, double hi, uint32_t *passed);
};

// The variants that this processor can run, the best first. Only these functions are compiled for
// special instructions, so that what was built on one machine runs on another.
const std::vector<const Scanner *> &scanners();

// The variant in use: the best, unless another was chosen.
const Scanner &scanner();
void use_scanner(const Scanner &chosen);

} // namespace smartpubsub
