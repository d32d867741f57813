#include "cbor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace smartpubsub {

namespace {

enum Major : unsigned char { unsigned_, negative, bytes, text, list, map, tag, other };

constexpr uint64_t link_tag = 42;
constexpr unsigned false_code = 20, true_code = 21, null_code = 22, double_code = 27;

// A new reference, or the error that Python has set.
nb::object checked(PyObject *created) {
    if (created == nullptr) {
        throw nb::python_error();
    }
    return nb::steal(created);
}

// Lists within lists use the stack of C.
class Nesting {
public:
    Nesting() {
        if (Py_EnterRecursiveCall(" in a value of dag-cbor") != 0) {
            throw nb::python_error();
        }
    }
    Nesting(const Nesting &) = delete;
    Nesting &operator=(const Nesting &) = delete;
    ~Nesting() { Py_LeaveRecursiveCall(); }
};

std::string_view utf8_of(PyObject *value) {
    Py_ssize_t size;
    const char *found = PyUnicode_AsUTF8AndSize(value, &size);
    if (found == nullptr) { // Half of a surrogate pair, for example.
        PyErr_Clear();
        throw CborError("a text that is no UTF-8");
    }
    return {found, static_cast<size_t>(size)};
}

bool is_before(std::string_view one, std::string_view other) {
    return one.size() != other.size() ? one.size() < other.size() : one < other;
}

class Writer {
public:
    explicit Writer(PyTypeObject *link) : link_(link) {}

    void write(PyObject *value) {
        const PyTypeObject *type = Py_TYPE(value);
        if (type == &PyUnicode_Type) {
            write_text(utf8_of(value));
        } else if (type == &PyBytes_Type) {
            head(bytes, static_cast<uint64_t>(PyBytes_GET_SIZE(value)));
            append(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        } else if (type == &PyLong_Type) {
            write_number(value);
        } else if (type == &PyDict_Type) {
            write_map(value);
        } else if (type == &PyList_Type || type == &PyTuple_Type) {
            write_list(value);
        } else if (type == link_) {
            write_link(value);
        } else if (value == Py_None) {
            simple(null_code);
        } else if (type == &PyBool_Type) {
            simple(value == Py_True ? true_code : false_code);
        } else if (type == &PyFloat_Type) {
            write_double(PyFloat_AS_DOUBLE(value));
        } else {
            throw CborError("a type that has no form in dag-cbor");
        }
    }

    nb::object written() const {
        return checked(
            PyBytes_FromStringAndSize(out_.data(), static_cast<Py_ssize_t>(out_.size())));
    }

private:
    void append(const char *from, Py_ssize_t size) { out_.append(from, static_cast<size_t>(size)); }

    void simple(unsigned code) { out_.push_back(static_cast<char>(other << 5 | code)); }

    void big_endian(uint64_t number, int size) {
        for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
            out_.push_back(static_cast<char>(number >> shift & 0xff));
        }
    }

    void head(Major major, uint64_t number) {
        const unsigned first = static_cast<unsigned>(major) << 5;
        if (number < 24) {
            out_.push_back(static_cast<char>(first | number));
            return;
        }
        const int power = number <= 0xff ? 0 : number <= 0xffff ? 1 : number <= 0xffffffff ? 2 : 3;
        out_.push_back(static_cast<char>(first | (24U + static_cast<unsigned>(power))));
        big_endian(number, 1 << power);
    }

    void write_text(std::string_view value) {
        head(text, value.size());
        out_.append(value);
    }

    void write_number(PyObject *value) {
        int overflow;
        const long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow == 0) {
            // -1 - n is ~n in two's complement.
            small >= 0 ? head(unsigned_, static_cast<uint64_t>(small))
                       : head(negative, ~static_cast<uint64_t>(small));
        } else if (overflow > 0) {
            head(unsigned_, in_64_bits(value));
        } else {
            head(negative, in_64_bits(checked(PyNumber_Invert(value)).ptr()));
        }
    }

    static uint64_t in_64_bits(PyObject *value) {
        const unsigned long long number = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred() != nullptr) {
            PyErr_Clear();
            throw CborError("a number of more than 64 bits");
        }
        return number;
    }

    void write_double(double value) {
        if (!std::isfinite(value)) {
            throw CborError("a float that is no number");
        }
        simple(double_code);
        big_endian(std::bit_cast<uint64_t>(value), sizeof value);
    }

    void write_list(PyObject *value) {
        const Nesting nesting;
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
        head(list, static_cast<uint64_t>(count));
        for (Py_ssize_t i = 0; i < count; ++i) {
            write(PySequence_Fast_GET_ITEM(value, i));
        }
    }

    void write_map(PyObject *value) {
        const Nesting nesting;
        std::vector<std::pair<std::string_view, PyObject *>> entries;
        entries.reserve(static_cast<size_t>(PyDict_GET_SIZE(value)));
        PyObject *key;
        PyObject *item;
        for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item) != 0;) {
            if (!PyUnicode_CheckExact(key)) {
                throw CborError("a key that is not a text");
            }
            entries.emplace_back(utf8_of(key), item);
        }
        std::sort(entries.begin(), entries.end(), [](const auto &one, const auto &other) {
            return is_before(one.first, other.first);
        });
        head(map, entries.size());
        for (const auto &[name, entry] : entries) {
            write_text(name);
            write(entry);
        }
    }

    void write_link(PyObject *value) {
        PyObject *cid = PyTuple_GET_SIZE(value) == 1 ? PyTuple_GET_ITEM(value, 0) : Py_None;
        if (!PyBytes_CheckExact(cid)) {
            throw CborError("a link to something else than bytes");
        }
        head(tag, link_tag);
        head(bytes, static_cast<uint64_t>(PyBytes_GET_SIZE(cid)) + 1);
        out_.push_back('\0');
        append(PyBytes_AS_STRING(cid), PyBytes_GET_SIZE(cid));
    }

    const PyTypeObject *link_;
    std::string out_;
};

class Reader {
public:
    Reader(std::string_view data, PyTypeObject *link, Py_ssize_t depth_max,
           Py_ssize_t item_count_max)
        : data_(data), link_(link), depth_left_(depth_max), items_left_(item_count_max) {}

    nb::object read_all() {
        nb::object value = read();
        if (at_ != data_.size()) {
            throw CborError("more bytes follow the value");
        }
        return value;
    }

private:
    // Begins a list, a map or a tag, and ends it when the function that reads it does.
    class Level {
    public:
        Level(Reader &reader, uint64_t count, uint64_t items_each) : reader_(reader) {
            // Each item takes at least a byte, so this also bounds the product.
            if (count > reader.data_.size() - reader.at_ ||
                count * items_each > reader.data_.size() - reader.at_) {
                throw CborError("it ends within a value");
            }
            reader.items_left_ -= static_cast<Py_ssize_t>(count * items_each);
            if (--reader.depth_left_ < 0 || reader.items_left_ < 0) {
                throw CborError("it is nested too deep, or has too many items");
            }
        }
        Level(const Level &) = delete;
        Level &operator=(const Level &) = delete;
        ~Level() { ++reader_.depth_left_; }

    private:
        Reader &reader_;
    };

    struct Head {
        Major major;
        unsigned code;
        uint64_t number;
    };

    unsigned char next() {
        if (at_ == data_.size()) {
            throw CborError("it ends within a value");
        }
        return static_cast<unsigned char>(data_[at_++]);
    }

    uint64_t big_endian(int size) {
        uint64_t number = 0;
        for (int i = 0; i < size; ++i) {
            number = number << 8 | next();
        }
        return number;
    }

    Head head() {
        const unsigned char first = next();
        const Head found{static_cast<Major>(first >> 5), first & 31U, first & 31U};
        if (found.code < 24 || found.major == other) {
            return found;
        }
        if (found.code > 27) {
            throw CborError("a length that is not given");
        }
        const int size = 1 << (found.code - 24);
        const uint64_t number = big_endian(size);
        if (number < (size == 1 ? 24 : uint64_t{1} << 4 * size)) {
            throw CborError("a number in more bytes than it needs");
        }
        return {found.major, found.code, number};
    }

    std::string_view piece(uint64_t size) {
        if (size > data_.size() - at_) {
            throw CborError("it ends within a value");
        }
        const std::string_view found = data_.substr(at_, size);
        at_ += size;
        return found;
    }

    static nb::object text_of(std::string_view utf8) {
        PyObject *found =
            PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), nullptr);
        if (found == nullptr && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) != 0) {
            PyErr_Clear();
            throw CborError("a text that is no UTF-8");
        }
        return checked(found);
    }

    static nb::object bytes_of(std::string_view value) {
        return checked(
            PyBytes_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
    }

    static nb::object number_of(uint64_t value) {
        return checked(PyLong_FromUnsignedLongLong(value));
    }

    nb::object read() {
        const Head found = head();
        switch (found.major) {
        case unsigned_:
            return number_of(found.number);
        case negative:
            return checked(PyNumber_Invert(number_of(found.number).ptr()));
        case bytes:
            return bytes_of(piece(found.number));
        case text:
            return text_of(piece(found.number));
        case list:
            return read_list(found.number);
        case map:
            return read_map(found.number);
        case tag:
            return read_link(found.number);
        default:
            return read_other(found.code);
        }
    }

    nb::object read_list(uint64_t count) {
        const Level level{*this, count, 1};
        nb::object items = checked(PyList_New(static_cast<Py_ssize_t>(count)));
        for (uint64_t i = 0; i < count; ++i) {
            PyList_SET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i), read().release().ptr());
        }
        return items;
    }

    nb::object read_map(uint64_t count) {
        const Level level{*this, count, 2};
        nb::object entries = checked(PyDict_New());
        std::string_view last;
        for (uint64_t i = 0; i < count; ++i) {
            const Head found = head();
            if (found.major != text) {
                throw CborError("a key that is not a text");
            }
            const std::string_view name = piece(found.number);
            if (i > 0 && !is_before(last, name)) {
                throw CborError("keys that are not in order");
            }
            last = name;
            const nb::object key = text_of(name);
            const nb::object value = read();
            if (PyDict_SetItem(entries.ptr(), key.ptr(), value.ptr()) != 0) {
                throw nb::python_error();
            }
        }
        return entries;
    }

    nb::object read_link(uint64_t number) {
        const Level level{*this, 1, 1};
        if (number != link_tag) {
            throw CborError("a tag that is no link");
        }
        const Head found = head();
        const std::string_view content = found.major == bytes ? piece(found.number) : "";
        if (content.empty() || content[0] != '\0') {
            throw CborError("a tag that is no link");
        }
        // As NamedTuple's `_make` does, without a call into Python.
        const nb::object cid = bytes_of(content.substr(1));
        const nb::object fields = checked(PyTuple_Pack(1, cid.ptr()));
        const nb::object arguments = checked(PyTuple_Pack(1, fields.ptr()));
        return checked(PyTuple_Type.tp_new(link_, arguments.ptr(), nullptr));
    }

    static nb::object simple(PyObject *constant) { return nb::borrow(constant); }

    nb::object read_other(unsigned code) {
        switch (code) {
        case false_code:
            return simple(Py_False);
        case true_code:
            return simple(Py_True);
        case null_code:
            return simple(Py_None);
        case double_code: {
            const double value = std::bit_cast<double>(big_endian(sizeof(double)));
            if (!std::isfinite(value)) {
                throw CborError("a float that is no number");
            }
            return checked(PyFloat_FromDouble(value));
        }
        default:
            throw CborError("a simple value or a float that dag-cbor does not have");
        }
    }

    std::string_view data_;
    size_t at_ = 0;
    PyTypeObject *link_;
    Py_ssize_t depth_left_;
    Py_ssize_t items_left_;
};

} // namespace

nb::object encode_cbor(nb::handle value, nb::handle link) {
    Writer writer{reinterpret_cast<PyTypeObject *>(link.ptr())};
    writer.write(value.ptr());
    return writer.written();
}

nb::object decode_cbor(nb::handle data, nb::handle link, Py_ssize_t depth_max,
                       Py_ssize_t item_count_max) {
    if (!PyBytes_CheckExact(data.ptr())) {
        throw CborError("no bytes");
    }
    const std::string_view given{PyBytes_AS_STRING(data.ptr()),
                                 static_cast<size_t>(PyBytes_GET_SIZE(data.ptr()))};
    auto *type = reinterpret_cast<PyTypeObject *>(link.ptr());
    return Reader{given, type, depth_max, item_count_max}.read_all();
}

nb::object base32(nb::bytes data) {
    static constexpr std::string_view digits = "abcdefghijklmnopqrstuvwxyz234567";
    std::string written;
    written.reserve(data.size() * 8 / 5 + 1);
    unsigned pending = 0; // Bits that are not written yet, at most four between two bytes.
    int count = 0;
    for (const char *at = data.c_str(); at != data.c_str() + data.size(); ++at) {
        pending = (pending << 8 | static_cast<unsigned char>(*at)) & 0xfff;
        for (count += 8; count >= 5; count -= 5) {
            written.push_back(digits[pending >> (count - 5) & 31]);
        }
    }
    if (count > 0) {
        written.push_back(digits[pending << (5 - count) & 31]);
    }
    return checked(
        PyUnicode_FromStringAndSize(written.data(), static_cast<Py_ssize_t>(written.size())));
}

} // namespace smartpubsub
