// dag-cbor: a canonical encoding, which has exactly one form for each value.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>

namespace smartpubsub {

// A value without a form in dag-cbor, or bytes that are not the canonical encoding of a value.
// The pure-Python module says what is wrong with them.
struct CborError : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// `link` is the type of links: a tuple of the bytes of a content id.
nanobind::object encode_cbor(nanobind::handle value, nanobind::handle link);
nanobind::object decode_cbor(nanobind::handle data, nanobind::handle link, Py_ssize_t depth_max,
                             Py_ssize_t item_count_max);

// Bytes in lower case of base 32 (RFC 4648), without padding, as content ids are written.
nanobind::object base32(nanobind::bytes data);

} // namespace smartpubsub
