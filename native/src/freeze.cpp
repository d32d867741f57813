// Serialisation of the small part of an index.
#include "index.h"

#include <stdexcept>
#include <type_traits>

namespace smartpubsub {

namespace {

class Writer {
public:
    template <class T> void put(const T &value) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    void put(const std::string &text) {
        put(static_cast<uint32_t>(text.size()));
        bytes_ += text;
    }
    template <class T> void put(const std::vector<T> &values) {
        put(static_cast<uint32_t>(values.size()));
        for (const T &value : values) {
            put(value);
        }
    }
    void put(const Name &name) {
        put(name.text);
        put(name.topic_uses);
        put(name.range_uses);
        put(name.lowest);
        put(name.highest);
    }
    void put(const Node &node) {
        put(node.name);
        put(node.parent);
        put(node.depth);
        put(node.rows);
        put(node.children);
        put(node.plain);
        put(node.loose);
        put(node.mixed);
        put(node.by_name);
        put(node.by_range);
        put(node.ranges);
        put(node.pairs);
    }
    std::string bytes() { return std::move(bytes_); }

private:
    std::string bytes_;
};

class Reader {
public:
    explicit Reader(std::string_view bytes) : left_(bytes) {}

    template <class T> void get(T &value) {
        static_assert(std::is_trivially_copyable_v<T>);
        std::memcpy(&value, take(sizeof value), sizeof value);
    }
    void get(std::string &text) {
        uint32_t size;
        get(size);
        text.assign(take(size), size);
    }
    template <class T> void get(std::vector<T> &values) {
        uint32_t size;
        get(size);
        if (size > left_.size()) {
            throw std::runtime_error("it ends too early");
        }
        values.resize(size);
        for (T &value : values) {
            get(value);
        }
    }
    void get(Name &name) {
        get(name.text);
        get(name.topic_uses);
        get(name.range_uses);
        get(name.lowest);
        get(name.highest);
    }
    void get(Node &node) {
        get(node.name);
        get(node.parent);
        get(node.depth);
        get(node.rows);
        get(node.children);
        get(node.plain);
        get(node.loose);
        get(node.mixed);
        get(node.by_name);
        get(node.by_range);
        get(node.ranges);
        get(node.pairs);
    }

private:
    const char *take(size_t size) {
        if (size > left_.size()) {
            throw std::runtime_error("it ends too early");
        }
        const char *bytes = left_.data();
        left_.remove_prefix(size);
        return bytes;
    }

    std::string_view left_;
};

} // namespace

void Index::copy_to(Index &fresh) const {
    each([&](Key key, Filter filter) {
        for (NameId &topic : filter.topics) {
            topic = fresh.names_.intern(names_[topic].text);
        }
        for (Range &range : filter.ranges) {
            range.name = fresh.names_.intern(names_[range.name].text);
        }
        fresh.add(key, std::move(filter));
    });
}

std::string Index::frozen_tree() const {
    Writer out;
    std::vector<Name> names;
    for (NameId id = 0; id < names_.size(); ++id) {
        names.push_back(names_[id]);
    }
    out.put(names);
    out.put(nodes_);
    out.put(free_nodes_);
    out.put(slabs_);
    out.put(free_slabs_);
    out.put(static_cast<uint64_t>(where_.size()));
    return out.bytes();
}

void Index::thaw(std::string_view tree, std::span<const uint8_t> arena,
                 std::span<const uint8_t> where) {
    Reader in(tree);
    std::vector<Name> names;
    uint64_t size;
    in.get(names);
    in.get(nodes_);
    in.get(free_nodes_);
    in.get(slabs_);
    in.get(free_slabs_);
    in.get(size);
    names_.restore(std::move(names));
    arena_.blob().view(arena.data(), arena.size());
    where_.view(where.data(), where.size(), size);
    for (NodeId id = 1; id < nodes_.size(); ++id) {
        const Node &node = nodes_[id];
        if (node.parent == 0) {
            entrance_of(node) = id;
        } else if (node.parent != none) {
            children_[edge(node.parent, node.name)] = id;
        }
    }
}

} // namespace smartpubsub
