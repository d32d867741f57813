// The Python module: a class whose filters and events are the attributes of predicates, and
// functions for blocks.
#include "arrow.h"
#include "cbor.h"
#include "matcher.h"
#include "scan.h"
#include "text.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

namespace nb = nanobind;

namespace smartpubsub {

namespace {

// Attributes are a dict from str to None or a pair of bounds, each a float or an Exact.
// An event's bounds are rounded outward, which leaves containment in floats exact.
enum class Rounding { outward, inward };

double bound(PyObject *number, const char *side) {
    if (PyFloat_CheckExact(number)) {
        return PyFloat_AS_DOUBLE(number);
    }
    return nb::cast<double>(nb::handle(number).attr(side));
}

struct Ends {
    double lo;
    double hi;
};

Ends ends(PyObject *interval, Rounding rounding) {
    if (!PyTuple_Check(interval) || PyTuple_GET_SIZE(interval) != 2) {
        throw nb::type_error("an interval is a pair of numbers");
    }
    const bool outward = rounding == Rounding::outward;
    return {bound(PyTuple_GET_ITEM(interval, 0), outward ? "below" : "above"),
            bound(PyTuple_GET_ITEM(interval, 1), outward ? "above" : "below")};
}

std::string_view utf8(PyObject *name) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (text == nullptr) {
        throw nb::python_error();
    }
    return {text, static_cast<size_t>(size)};
}

template <class Topic, class Ranged>
void each_attribute(nb::dict attributes, Topic topic, Ranged ranged) {
    PyObject *name;
    PyObject *interval;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes.ptr(), &at, &name, &interval)) {
        if (interval == Py_None) {
            topic(utf8(name));
        } else {
            ranged(utf8(name), interval);
        }
    }
}

nb::object memory_of(const Blob &blob, nb::handle owner) {
    return nb::cast(
        nb::ndarray<nb::memview, const uint8_t, nb::ndim<1>>(blob.data(), {blob.size()}, owner));
}

} // namespace

class Core {
public:
    size_t size() const { return index_.size(); }
    bool contains(Key key) { return index_.contains(key); }
    uint64_t memory_bytes() const { return index_.memory_bytes(); }

    void add(Key key, nb::dict attributes) {
        if (attributes.size() > Record::count_max) {
            throw nb::value_error("a filter has too many attributes");
        }
        Filter filter;
        each_attribute(
            attributes,
            [&](std::string_view name) { filter.topics.push_back(index_.names().intern(name)); },
            [&](std::string_view name, PyObject *interval) {
                const auto [lo, hi] = ends(interval, Rounding::outward);
                filter.ranges.push_back(Range{index_.names().intern(name), lo, hi});
            });
        index_.add(key, std::move(filter));
    }

    bool remove(Key key) { return index_.remove(key); }

    nb::list match(nb::dict attributes) {
        begin(attributes);
        matchers_[0].finish(found_);
        return list_of(found_.data(), found_.size());
    }

    bool match_any(nb::dict attributes) {
        begin(attributes);
        return matchers_[0].finish_any(found_);
    }

    uint64_t bytes_touched(nb::dict attributes) {
        begin(attributes);
        matchers_[0].finish(found_);
        return matchers_[0].bytes_read() + found_.size() * sizeof(Key);
    }

    nb::list covered_by(nb::dict attributes) {
        Filter filter;
        bool unknown = false;
        const auto known = [&](std::string_view name) {
            const NameId id = index_.names().find(name);
            unknown |= id == none;
            return id;
        };
        each_attribute(
            attributes, [&](std::string_view name) { filter.topics.push_back(known(name)); },
            [&](std::string_view name, PyObject *interval) {
                const auto [lo, hi] = ends(interval, Rounding::inward);
                filter.ranges.push_back(Range{known(name), lo, hi});
            });
        if (unknown) {
            return nb::list();
        }
        std::vector<Key> keys = index_.covered_by(filter);
        return list_of(keys.data(), keys.size());
    }

    // One list of keys for each row from `first` on, as offsets and values. It ends when there are
    // very many keys, because small pieces of memory are used again and large ones are not.
    nb::tuple match_batch(nb::capsule events, int64_t first, int64_t rows_before) {
        const auto &array = *static_cast<const ArrowArray *>(events.data("arrow_array"));
        const Column batch(array);
        const Column topics = batch.field(0);
        const Column topic = topics.values();
        const Column ranges = batch.field(1);
        const Column range = ranges.values();
        const Column range_name = range.field(0);
        const Column range_lo = range.field(1);
        const Column range_hi = range.field(2);
        constexpr double infinity = std::numeric_limits<double>::infinity();
        Names &names = index_.names();
        std::vector<std::string_view> unknown;
        const auto refuse_if = [rows_before](bool wrong, int64_t row, const char *problem) {
            if (wrong) {
                const std::string place = "row " + std::to_string(rows_before + row) + ": ";
                throw nb::value_error((place + problem).c_str());
            }
        };
        // A name that no filter uses matches nothing, but must still be valid.
        const auto find = [&](std::string_view name, int64_t row) {
            const NameId id = names.find(name);
            if (id == none) {
                refuse_if(name.empty() || name.size() > name_bytes_max, row,
                          "a name is empty or too long");
                unknown.push_back(name);
            }
            return id;
        };
        const auto read = [&](Event &event, int64_t row) {
            event.clear(names.size());
            unknown.clear();
            int64_t count = 0;
            const auto [topic_begin, topic_end] = topics.bounds(row);
            for (int64_t at = topic_begin; at < topic_end && !topics.is_null(row); ++at, ++count) {
                refuse_if(topic.is_null(at), row, "a topic is null");
                const NameId id = find(topic.text(at), row);
                refuse_if(id != none && !event.add_topic(id, names[id]), row, "a name is repeated");
            }
            const auto [range_begin, range_end] = ranges.bounds(row);
            for (int64_t at = range_begin; at < range_end && !ranges.is_null(row); ++at, ++count) {
                refuse_if(range.is_null(at) || range_name.is_null(at), row, "a range has no name");
                const double lo = range_lo.is_null(at) ? -infinity : range_lo.number(at);
                const double hi = range_hi.is_null(at) ? infinity : range_hi.number(at);
                refuse_if(!(lo <= hi), row, "a lower bound is above its upper bound, or NaN");
                refuse_if(lo == infinity || hi == -infinity, row, "infinity is no number");
                const NameId id = find(range_name.text(at), row);
                refuse_if(id != none && !event.add_range(id, names[id], lo, hi), row,
                          "a name is repeated");
            }
            std::sort(unknown.begin(), unknown.end());
            refuse_if(std::adjacent_find(unknown.begin(), unknown.end()) != unknown.end(), row,
                      "a name is repeated");
            refuse_if(count == 0, row, "an event has at least one attribute");
        };
        KeyBuffer keys;
        KeyBuffer offsets;
        // Batches tend to be alike, and growing step by step would copy every key several times.
        keys.room(std::min(batch_keys, keys_per_row_ * static_cast<size_t>(array.length - first)));
        offsets.room(static_cast<size_t>(array.length - first) + 1);
        if (first < array.length) {
            read(events_[first % 2], first);
            matchers_[first % 2].begin(tree_, events_[first % 2]);
        }
        for (int64_t row = first; row < array.length && keys.size() < batch_keys; ++row) {
            *offsets.room(1) = static_cast<int64_t>(keys.size());
            offsets.commit(1);
            Matcher *next = nullptr;
            if (row + 1 < array.length) {
                next = &matchers_[(row + 1) % 2];
                read(events_[(row + 1) % 2], row + 1);
                next->begin(tree_, events_[(row + 1) % 2]);
            }
            matchers_[row % 2].finish(keys, next);
        }
        keys_per_row_ = keys.size() / offsets.size() + 1;
        *offsets.room(1) = static_cast<int64_t>(keys.size());
        offsets.commit(1);
        return nb::make_tuple(hand_over(offsets), hand_over(keys));
    }

    std::vector<Key> keys() const {
        std::vector<Key> keys;
        index_.each([&](Key key, const Filter &) { keys.push_back(key); });
        return keys;
    }

    nb::dict attributes(Key key) {
        if (!index_.contains(key)) {
            throw std::runtime_error("a filter was removed while all were being read");
        }
        nb::dict attributes;
        const Filter filter = index_.filter(key);
        const auto name = [&](NameId id) {
            const std::string &text = index_.names()[id].text;
            return nb::str(text.data(), text.size());
        };
        for (NameId topic : filter.topics) {
            attributes[name(topic)] = nb::none();
        }
        for (const Range &range : filter.ranges) {
            attributes[name(range.name)] = nb::make_tuple(range.lo, range.hi);
        }
        return attributes;
    }

    // A line for each filter: its key, a space, its predicate. `encode` writes a name.
    nb::bytes lines(nb::callable encode) {
        std::vector<std::string> written(index_.names().size());
        for (NameId id = 0; id < written.size(); ++id) {
            written[id] = nb::cast<std::string>(encode(index_.names()[id].text));
        }
        std::string text;
        index_.each([&](Key key, const Filter &filter) {
            text.append(std::to_string(key)).push_back(' ');
            append_filter(text, filter, [&](NameId id) { return std::string_view(written[id]); });
            text.push_back('\n');
        });
        return nb::bytes(text.data(), text.size());
    }

    nb::object compacted() const {
        nb::object copy = nb::cast(new Core(), nb::rv_policy::take_ownership);
        index_.copy_to(nb::cast<Core &>(copy).index_);
        return copy;
    }

    nb::bytes frozen_tree() const {
        const std::string tree = index_.frozen_tree();
        return nb::bytes(tree.data(), tree.size());
    }
    nb::object frozen_arena(nb::handle self) const {
        return memory_of(index_.frozen_arena(), self);
    }
    nb::object frozen_where(nb::handle self) const {
        return memory_of(index_.frozen_where(), self);
    }

    using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    static nb::object thaw(nb::bytes tree, Bytes arena, Bytes where) {
        nb::object core = nb::cast(new Core(), nb::rv_policy::take_ownership);
        Core &self = nb::cast<Core &>(core);
        self.index_.thaw({tree.c_str(), tree.size()}, {arena.data(), arena.size()},
                         {where.data(), where.size()});
        self.arena_ = arena;
        self.where_ = where;
        return core;
    }

private:
    void begin(nb::dict attributes) {
        Names &names = index_.names();
        Event &event = events_[0];
        event.clear(names.size());
        each_attribute(
            attributes,
            [&](std::string_view name) {
                if (const NameId id = names.find(name); id != none) {
                    event.add_topic(id, names[id]);
                }
            },
            [&](std::string_view name, PyObject *interval) {
                if (const NameId id = names.find(name); id != none) {
                    const auto [lo, hi] = ends(interval, Rounding::outward);
                    event.add_range(id, names[id], lo, hi);
                }
            });
        found_.clear();
        matchers_[0].begin(tree_, event);
    }

    static nb::list list_of(const Key *keys, size_t count) {
        PyObject *list = PyList_New(static_cast<Py_ssize_t>(count));
        if (list == nullptr) {
            throw nb::python_error();
        }
        for (size_t at = 0; at < count; ++at) {
            PyObject *key = PyLong_FromLongLong(keys[at]);
            if (key == nullptr) {
                Py_DECREF(list);
                throw nb::python_error();
            }
            PyList_SET_ITEM(list, static_cast<Py_ssize_t>(at), key);
        }
        return nb::steal<nb::list>(list);
    }

    static nb::object hand_over(KeyBuffer &buffer) {
        const size_t size = buffer.size();
        Key *data = buffer.release();
        nb::capsule owner(data, [](void *memory) noexcept { std::free(memory); });
        return nb::cast(nb::ndarray<nb::memview, Key, nb::ndim<1>>(data, {size}, owner));
    }

    static constexpr size_t batch_keys = size_t{1} << 20;
    static constexpr size_t name_bytes_max = 1024; // as smartpubsub.predicates.names has it

    Index index_;
    Tree tree_{index_.tree()};
    // Two of each, because a batch looks ahead by one event.
    Event events_[2];
    Matcher matchers_[2];
    KeyBuffer found_;
    size_t keys_per_row_ = 0;
    Bytes arena_; // Must outlive a thawed index that refers to it.
    Bytes where_;
};

} // namespace smartpubsub

NB_MODULE(smartpubsub_native, module) {
    using smartpubsub::Core;
    module.doc() = "The native matching engine and the native block codec of SmartPubSub.";
    // Increased with every incompatible change.
    module.attr("interface") = 3;
    nb::list instruction_sets;
    for (const smartpubsub::Scanner *scanner : smartpubsub::scanners()) {
        instruction_sets.append(scanner->instructions);
    }
    module.attr("instruction_sets") = instruction_sets;
    module.def("instructions", [] { return smartpubsub::scanner().instructions; });
    module.def("use_instructions", [](std::string_view name) {
        for (const smartpubsub::Scanner *scanner : smartpubsub::scanners()) {
            if (scanner->instructions == name) {
                smartpubsub::use_scanner(*scanner);
                return;
            }
        }
        throw nb::value_error("this processor cannot run these instructions");
    });
    module.def("encode_cbor", &smartpubsub::encode_cbor, nb::arg("value").none(), nb::arg("link"));
    module.def("decode_cbor", &smartpubsub::decode_cbor);
    module.def("base32", &smartpubsub::base32);
    module.attr("attributes_max") = smartpubsub::Record::count_max;
    nb::class_<Core>(module, "Core")
        .def(nb::init<>())
        .def("__len__", &Core::size)
        .def("__contains__", &Core::contains)
        .def("add", &Core::add)
        .def("remove", &Core::remove)
        .def("match", &Core::match)
        .def("match_any", &Core::match_any)
        .def("match_batch", &Core::match_batch)
        .def("covered_by", &Core::covered_by)
        .def("bytes_touched", &Core::bytes_touched)
        .def("keys", &Core::keys)
        .def("attributes", &Core::attributes)
        .def("lines", &Core::lines)
        .def("compacted", &Core::compacted)
        .def("frozen_tree", &Core::frozen_tree)
        .def("frozen_arena",
             [](nb::handle self) { return nb::cast<Core &>(self).frozen_arena(self); })
        .def("frozen_where",
             [](nb::handle self) { return nb::cast<Core &>(self).frozen_where(self); })
        .def_static("thaw", &Core::thaw)
        .def_prop_ro("memory_bytes", &Core::memory_bytes);
}
