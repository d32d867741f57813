// Filters as text, in the notation that the Python package reads.
#pragma once

#include "record.h"

#include <charconv>
#include <string>

namespace smartpubsub {

inline void append_bound(std::string &text, double bound) {
    if (std::isfinite(bound)) {
        char digits[32];
        // Plain notation would write all digits of a large float, not its shortest decimal.
        const auto written =
            std::to_chars(digits, digits + sizeof digits, bound, std::chars_format::scientific);
        text.append(digits, written.ptr);
    }
}

// `written(name)` gives a name as it is written in a predicate.
template <class Written>
void append_filter(std::string &text, const Filter &filter, Written written) {
    const char *separator = "";
    for (NameId topic : filter.topics) {
        text.append(separator).append(written(topic));
        separator = "/";
    }
    for (const Range &range : filter.ranges) {
        text.append(separator).append(written(range.name)).push_back('[');
        append_bound(text, range.lo);
        text.push_back(',');
        append_bound(text, range.hi);
        text.push_back(']');
        separator = "/";
    }
}

} // namespace smartpubsub
