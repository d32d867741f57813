"""Messages declared once: a class gives its protobuf schema, encoder, decoder and size.

A message is a `NamedTuple` with a number, and each field has a type that says how it is written:

    _wire = ListEnvelope("example", "Bundle")

    @_wire.message(1)
    class Confirm(NamedTuple):
        id: EventId
        attribute: Attribute
        is_full: bool
        backups: tuple[Contact, ...]
        go_to: Contact | None
        signature: Signature = b""

    _wire.compile()

The fields have the numbers 1, 2, 3 ... on the wire, so a later version may add fields at the end
and must keep the fields that it no longer uses. The number of a message never changes. The tags of
messages with numbers up to 15 take one byte, so these numbers belong to the most frequent messages.

| type of a field | in protobuf | the decoder refuses |
| --- | --- | --- |
| `int` | `uint64` | 2^63 and above |
| `bool` | `bool` | |
| `str` | `string` | more than `text_bytes_max` |
| `Attribute` | `string` | the empty name, and more than `NAME_BYTES_MAX` |
| `PeerId` | `bytes` | more than `peer_bytes_max` |
| `Duration` | `uint64` | nothing: more than 2^40 is read as that |
| `Digest` | `uint64` | |
| `Signature` | `bytes` | more than `SIGNATURE_BYTES` |
| `Evidence` | `bytes` | more than `EVIDENCE_BYTES_MAX` and `RANGE_BYTES` |
| `Unchecked` | `bytes` | nothing: the receiver checks it |
| `Predicate` | `string` | what `read_predicate` refuses |
| `Publication` | `bytes`: a message of libp2p's pubsub | what `read_event` refuses |
| `EventId`, `Contact`, a `NamedTuple` | a message | what its fields refuse |
| `T \\| None` | a message, left out for `None` | |
| `tuple[T, ...]` | `repeated` | more than `entry_count_max` in all lists of an envelope |
| `Few[T]` | `repeated` | also more than `contact_count_max` in this list |

`Annotated[T, Kind(...)]` declares any other type. A value that is 0, false or empty is not written.
The decoder ignores unknown fields and messages.

`compile` writes the source of three functions for each class, as `NamedTuple` does for its
constructor, because the simulator measures every message that a node sends.

A node often sends one event to a peer for several purposes. So if two messages of an envelope begin
with the same event, and none between them begins with another, the second is written without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from smartpubsub.kademlia.keys import Contact, field_bytes, varint_bytes
from smartpubsub.kademlia.messages import contact_in
from smartpubsub.kademlia.protobuf import (
    WireError,
    compile_schema,
    framed,
    limit,
    parsed,
    unframed,
    varint,
)
from smartpubsub.kademlia.settings import Settings
from smartpubsub.predicates import Predicate
from smartpubsub.predicates.names import NAME_BYTES_MAX
from smartpubsub.protocols.event_messages import (
    EventLimits,
    read_event,
    read_predicate,
)
from smartpubsub.protocols.evidence import EVIDENCE_BYTES_MAX, RANGE_BYTES
from smartpubsub.protocols.publication import SIGNATURE_BYTES, EventId, Publication
from smartpubsub.seam import Peer
from smartpubsub.seam.tuples import made

NUMBER_MAX = (1 << 63) - 1
FIELDS_MAX = 15
"""The tags of fields with numbers up to this take one byte."""

PARTS_AT_ONCE = 64
"""The messages of an envelope that are decoded and handled at once: some milliseconds of work."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class MessageLimits:
    """Limits on one received envelope and the messages in it."""

    message_bytes_max: int = 4 << 20
    """Of the envelope."""
    part_count_max: int = 10_000
    entry_count_max: int = 100_000
    """How many entries all lists may have together."""
    text_bytes_max: int = 1024
    events: EventLimits = field(default_factory=EventLimits)
    """Also for predicates."""
    contacts: Settings = field(default_factory=Settings)
    """Also for peer ids."""


class Budget:
    """The limits for one envelope, and the number of list entries that it may still have."""

    __slots__ = ("_entries_left", "limits")

    def __init__(self, limits: MessageLimits) -> None:
        self.limits = limits
        self._entries_left = limits.entry_count_max

    def counted(self, entries: Sequence[T]) -> Sequence[T]:
        """Count the entries of a list, before the decoder makes anything of them."""
        self.spend(len(entries))
        return entries

    def spend(self, count: int) -> None:
        """Count something that takes as much memory as this many entries of lists."""
        self._entries_left -= count
        if self._entries_left < 0:
            raise WireError(f"lists of more than {self.limits.entry_count_max} entries together")

    def few(self, entries: Sequence[T], what: str) -> Sequence[T]:
        """Limit one list to as many entries as Kademlia names peers in one answer."""
        limit(f"a list of {what}", entries, self.limits.contacts.contact_count_max, what)
        return entries


def unchanged(value: Any, _: Budget | None = None) -> Any:
    """Leave a value as it is."""
    return value


def size_by_type(value: Any) -> int:
    """Stand for the size that follows from the type in protobuf."""
    raise NotImplementedError


class Kind(NamedTuple):
    """How the values of one type are written, read and measured."""

    protobuf: str
    """The type in protobuf."""
    read: Callable[[Any, Budget], Any] = unchanged
    """Checks and converts what protobuf has parsed."""
    write: Callable[[Any], Any] = unchanged
    """Converts a value to a number, a text or bytes; a message to its encoding."""
    size: Callable[[Any], int] = size_by_type
    """The length of a field with a value, with one byte for its tag."""
    declarations: tuple[str, ...] = ()
    """The protobuf declarations that the type needs."""
    again: Again | None = None
    """For a message that begins with an event: the same functions without the event."""


class Again(NamedTuple):
    """How to read, write and measure a message without the event that it begins with."""

    read: Callable[[Any, Budget, Publication], Any]
    write: Callable[[Any], bytes]
    size: Callable[[Any], int]


# --- kinds of fields ---


def number(value: int, _: Budget) -> int:
    """A number that stays in range when the receiver adds to it."""
    if value > NUMBER_MAX:
        raise WireError(f"a number of {value}; at most {NUMBER_MAX} is taken")
    return value


def at_most(value_max: int) -> Kind:
    """A number with a maximum: the decoder replaces larger values by it."""
    return Kind("uint64", lambda value, _: min(value, value_max))


def attribute(name: str, _: Budget | None = None) -> str:
    """The name of an attribute."""
    if not name:
        raise WireError("an attribute has no name")
    limit("an attribute", name.encode(), NAME_BYTES_MAX)
    return name


def _text(value: str, budget: Budget) -> str:
    limit("a text", value.encode(), budget.limits.text_bytes_max)
    return value


def _signature(value: bytes, _: Budget) -> bytes:
    limit("a signature", value, SIGNATURE_BYTES)
    return value


def _evidence(value: bytes, _: Budget) -> bytes:
    limit("a piece of evidence", value, EVIDENCE_BYTES_MAX + RANGE_BYTES)
    return value


def _peer(id: Peer, budget: Budget) -> Peer:
    limit("a peer id", id, budget.limits.contacts.peer_bytes_max)
    return id


def _publisher(id: Peer, budget: Budget) -> Peer:
    if not id:
        raise WireError("an event has no publisher")
    return _peer(id, budget)


@lru_cache(maxsize=1 << 12)
def _contact_bytes(contact: Contact) -> bytes:
    peer, addresses = contact.peer, contact.addresses
    written = b"\x0a" + varint(len(peer)) + peer if peer else b""
    return written + b"".join([b"\x12" + varint(len(each)) + each for each in addresses])


def number_size(value: int) -> int:
    """The length of a field with a number."""
    return (2 if value else 0) if value < 128 else 1 + varint_bytes(value)


@lru_cache(maxsize=1 << 12)
def _text_bytes(value: str) -> bytes:
    """A text with its length before it."""
    encoded = value.encode()
    return varint(len(encoded)) + encoded


@lru_cache(maxsize=1 << 12)
def _text_size(value: str) -> int:
    return field_bytes(len(value.encode())) if value else 0


# Equal predicates have texts of equal length, also if the order of their attributes differs.
@lru_cache(maxsize=1 << 12)
def _predicate_size(predicate: Predicate) -> int:
    return field_bytes(len(str(predicate).encode()))


def _packed_size(values: Iterable[int]) -> int:
    size = sum(map(varint_bytes, values))
    return field_bytes(size) if size else 0


_KINDS: dict[Any, Kind] = {
    int: Kind("uint64", number),
    bool: Kind("bool"),
    str: Kind("string", _text),
    Predicate: Kind(
        "string",
        lambda text, budget: read_predicate(text, budget.limits.events),
        str,
        _predicate_size,
    ),
    Publication: Kind(
        "bytes",
        lambda data, budget: read_event(data, budget.limits.events),
        attrgetter("encoded"),
        lambda event: field_bytes(event.wire_bytes),
    ),
    Contact: Kind(
        "Peer",
        lambda buffer, budget: contact_in(buffer, budget.limits.contacts),
        _contact_bytes,
        attrgetter("wire_bytes"),
        ("message Peer {\n  bytes id = 1;\n  repeated bytes addrs = 2;\n}\n",),
    ),
}
"""The kinds of the types that need no annotation. `kind_of` adds those of messages."""

_FEW = object()
"""Marks a list with a limit of its own."""

Attribute = Annotated[str, Kind("string", attribute)]
PeerId = Annotated[Peer, Kind("bytes", _peer)]
Signature = Annotated[bytes, Kind("bytes", _signature)]
Duration = Annotated[int, at_most(1 << 40)]
"""How long something has lasted or will last, in milliseconds or seconds. The maximum, 35 years of
milliseconds, keeps times that are computed from it in range."""
Digest = Annotated[int, Kind("uint64")]
Evidence = Annotated[bytes, Kind("bytes", _evidence)]
Unchecked = Annotated[bytes, Kind("bytes")]
Few = Annotated[tuple[T, ...], _FEW]
"""A list of no more entries than Kademlia names peers in one answer."""


# --- declarations ---


class _Field(NamedTuple):
    name: str
    kind: Kind
    is_list: bool = False
    is_few: bool = False
    is_optional: bool = False


def kind_of(message: Any, **kinds: Kind) -> Kind:
    """The kind of a `NamedTuple`; the kinds of some of its fields may be given by name."""
    if message in _KINDS:
        return _KINDS[message]
    hints = get_type_hints(message, include_extras=True)
    fields = [
        _checked(_Field(name, kinds[name]) if name in kinds else _field(name, hints[name]), message)
        for name in message._fields
    ]
    if len(fields) > FIELDS_MAX:
        raise TypeError(f"{message.__name__} has more than {FIELDS_MAX} fields: nest some of them")
    protobuf = message.__name__.lstrip("_")
    lines = [
        f"  {'repeated ' if each.is_list else ''}{each.kind.protobuf} {each.name} = {number};"
        for number, each in enumerate(fields, 1)
    ]
    declarations: tuple[str, ...] = ("\n".join([f"message {protobuf} {{", *lines, "}\n"]),)
    for each in fields:
        declarations += each.kind.declarations
    read, write, size, again = _functions(message, fields)
    kind = Kind(protobuf, read, write, size, declarations, again)
    _KINDS[message] = kind
    return kind


def _field(name: str, hint: Any) -> _Field:
    """The declaration of a field of a type."""
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        base, mark = inner
        return _Field(name, mark) if mark is not _FEW else _field(name, base)._replace(is_few=True)
    if origin is tuple and inner[1:] == (Ellipsis,):
        return _field(name, inner[0])._replace(is_list=True)
    if origin in (Union, UnionType) and inner[1:] == (NoneType,):
        return _field(name, inner[0])._replace(is_optional=True)
    if hint in _KINDS or hasattr(hint, "_fields"):
        return _Field(name, kind_of(hint))
    raise TypeError(f"{name}: {hint} is no type of a field; see the table in {__name__}")


def _checked(field: _Field, message: Any) -> _Field:
    """Refuse a declaration that the generated functions do not support."""
    kind = field.kind
    is_measured = kind.write is unchanged and kind.protobuf in (
        _LIST_SIZES if field.is_list else _SIZES
    )
    if kind.size is size_by_type and not is_measured:
        raise TypeError(f"{message.__name__}.{field.name}: its kind lacks a size")
    if field.is_optional and (kind.protobuf in _SIZES or field.is_list):
        raise TypeError(f"{message.__name__}.{field.name}: only a message can be None")
    return field


# --- functions ---

_SIZES = {
    "uint32": "((2 if {0} else 0) if {0} < 128 else 1 + varint_bytes({0}))",
    "uint64": "((2 if {0} else 0) if {0} < 128 else 1 + varint_bytes({0}))",
    "bool": "(2 if {0} else 0)",
    "bytes": "(field_bytes(len({0})) if {0} else 0)",
    "string": "text_size({0})",
}
_LIST_SIZES = {
    "uint64": "packed_size({0})",
    "bytes": "sum([field_bytes(len(each)) for each in {0}])",
}
_SCOPE: dict[str, Any] = {
    "new": made,
    "limit": limit,
    "field_bytes": field_bytes,
    "varint_bytes": varint_bytes,
    "text_size": _text_size,
    "packed_size": _packed_size,
    "varint": varint,
    "text_bytes": _text_bytes,
    "framed": framed,
}
_VARINT, _BYTES = 0, 2
"""Types of fields on the wire."""
_WRITES = {
    "uint32": "({1} + varint({0}) if {0} else b'')",
    "uint64": "({1} + varint({0}) if {0} else b'')",
    "bool": "({1} + b'\\1' if {0} else b'')",
    "bytes": "({1} + varint(len({0})) + {0} if {0} else b'')",
    "string": "({1} + text_bytes({0}) if {0} else b'')",
}
_LIST_WRITES = {
    "bytes": "{1} + varint(len({0})) + {0}",
    "string": "{1} + text_bytes({0})",
}


def _functions(message: Any, fields: Sequence[_Field]) -> tuple[Any, Any, Any, Again | None]:
    """Generate the functions that read, write and measure a message.

    They take a message apart by position, so a plain tuple can stand for a `NamedTuple`.
    """
    scope = _SCOPE | {"message": message}
    unpack = ""
    reads: list[str] = []
    writes: list[str] = []
    sizes: list[str] = []
    for place, each in enumerate(fields):
        value = f"v{place}"
        for name in ("read", "write", "size"):
            scope[f"{value}_{name}"] = getattr(each.kind, name)
        unpack += f"{value}, "
        reads.append(f"{_read_source(each, value)}, ")
        writes.append(f"{_write_source(each, value, place + 1)} + ")
        sizes.append(_size_source(each, value))
    unpack = f"{unpack}= values" if fields else "pass"
    source = _source("", unpack, reads, writes, sizes)
    begins_with_event = [(each.kind, each.name) for each in fields[:1]] == [
        (_KINDS[Publication], "event")
    ]
    if begins_with_event:
        source += _source("_again", unpack, ["event, ", *reads[1:]], writes[1:], sizes[1:])
    exec(compile(source, f"<wire functions of {message.__name__}>", "exec"), scope)
    again = None
    if begins_with_event:
        again = Again(scope["read_again"], scope["write_again"], scope["size_again"])
    return scope["read"], scope["write"], scope["size"], again


def _source(name: str, unpack: str, reads: list[str], writes: list[str], sizes: list[str]) -> str:
    return f"""
def read{name}(buffer, budget, event=None):
    return new(message, ({"".join(reads)}))

def write{name}(values):
    {unpack}
    return {"".join(writes)}b""

def size{name}(values):
    {unpack}
    size = {" + ".join(sizes) or "0"}
    return size + 2 if size < 128 else field_bytes(size)
"""


def _read_source(field: _Field, value: str) -> str:
    source = f"buffer.{field.name}"
    if field.is_optional:
        return f"({value}_read({value}, budget) if ({value} := {source}).ByteSize() else None)"
    if not field.is_list:
        return source if field.kind.read is unchanged else f"{value}_read({source}, budget)"
    if field.is_few:
        what = "peers" if field.kind is _KINDS[Contact] else field.name
        source = f"budget.few({source}, '{what}')"
    source = f"budget.counted({source})"
    if field.kind.read is unchanged:
        return f"tuple({source})"
    return f"tuple([{value}_read(each, budget) for each in {source}])"


def _write_source(field: _Field, value: str, number: int) -> str:
    kind = field.kind
    wire = _VARINT if kind.protobuf in ("uint32", "uint64", "bool") else _BYTES
    tag = repr(bytes([number << 3 | wire]))
    each = value if kind.write is unchanged else f"{value}_write({value})"
    if field.is_list:
        if wire == _VARINT:
            tag = repr(bytes([number << 3 | _BYTES]))
            return f"({tag} + framed(b''.join(map(varint, {value}))) if {value} else b'')"
        each = "each" if kind.write is unchanged else f"{value}_write(each)"
        source = _LIST_WRITES.get(kind.protobuf, "{1} + framed({0})").format("each", tag)
        return f"b''.join([{source} for each in [{each} for each in {value}]])"
    if kind.protobuf in _WRITES:
        if kind.write is not unchanged:
            return _WRITES[kind.protobuf].format("w", tag).replace("if w", f"if (w := {each})", 1)
        return _WRITES[kind.protobuf].format(value, tag)
    source = f"{tag} + varint(len({value}w := {each})) + {value}w"
    return f"(b'' if {value} is None else {source})" if field.is_optional else f"({source})"


def _size_source(field: _Field, value: str) -> str:
    kind = field.kind
    if kind.size is size_by_type:
        return (_LIST_SIZES if field.is_list else _SIZES)[kind.protobuf].format(value)
    if field.is_list:
        return f"(sum(map({value}_size, {value})) if {value} else 0)"
    source = f"{value}_size({value})"
    return f"(0 if {value} is None else {source})" if field.is_optional else source


kind_of(
    EventId,
    publisher=Kind("bytes", _publisher),
    incarnation=Kind("uint32"),
    number=Kind("uint32"),
)


# --- envelopes ---


class Envelope:
    """The messages of one protocol, and the protobuf message that carries them."""

    def __init__(self, package: str, name: str) -> None:
        self.names: dict[type, str] = {}
        """What each message is called in the schema of the envelope."""
        self.buffer: Any = None
        """The class of the envelope in protobuf."""
        self._package = package
        self._name = name
        self._numbers: dict[type, int] = {}
        self._reads: dict[str, Callable[[Any, Budget], Any]] = {}
        self._writes: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {}
        self._sizes: dict[type, tuple[Callable[[Any], int], int]] = {}
        self._again: dict[type, Again] = {}
        """For messages that begin with an event."""
        self._costly: dict[type, None] = {}

    def message(
        self, number: int, name: str = "", *, is_costly: bool = False
    ) -> Callable[[type[T]], type[T]]:
        """Declare a message with a number, and a name if the name of its class will not do.

        A costly message makes its receiver look at all that it keeps. Other peers have their turn
        after each of them.
        """
        if number in self._numbers.values():
            raise TypeError(f"two messages of {self._package} have the number {number}")

        def declare(message: type[T]) -> type[T]:
            self._numbers[message] = number
            self.names[message] = name or _snake_case(message.__name__)
            if is_costly:
                self._costly[message] = None
            return message

        return declare

    def compile(self) -> None:
        """Generate the functions and the schema, after the last declaration."""
        fields = ""
        declarations: dict[str, None] = {}
        for message, number in self._numbers.items():
            name, (protobuf, read, write, size, needed, again) = (
                self.names[message],
                kind_of(message),
            )
            if again is not None:
                self._again[message] = again
            self._reads[name] = read
            self._writes[message] = varint(number << 3 | _BYTES), write
            self._sizes[message] = size, int(number > FIELDS_MAX)
            fields += f"    {protobuf} {name} = {number};\n"
            declarations |= dict.fromkeys(needed)
        schema = self._schema(f"  oneof part {{\n{fields}  }}\n") + "".join(declarations)
        self._load(f'syntax = "proto3";\n{schema}')

    @property
    def kinds(self) -> dict[type, str]:
        """What each message is counted as: the package, and the name of its class."""
        return {kind: f"{self._package}/{kind.__name__.lower()}" for kind in self._numbers}

    def write(self, message: Any) -> bytes:
        """A message with its tag and its length."""
        tag, write = self._writes[type(message)]
        return tag + framed(write(message))

    def read(self, buffer: Any, budget: Budget) -> Any:
        """The message in a buffer, or None if this version does not know it."""
        name = buffer.WhichOneof("part")
        return None if name is None else self._reads[name](getattr(buffer, name), budget)

    def size(self, message: Any) -> int:
        """The length of a message with its tag."""
        size, more_tag = self._sizes[type(message)]
        return size(message) + more_tag

    def _schema(self, one_of: str) -> str:
        raise NotImplementedError

    def _load(self, schema: str) -> None:
        (self.buffer,) = compile_schema(self._package, schema, self._name)


class ListEnvelope(Envelope):
    """An envelope with any number of messages, each in a `Part` of its own."""

    def _schema(self, one_of: str) -> str:
        envelope = f"message {self._name} {{\n  repeated Part parts = 1;\n}}\n"
        return f"{envelope}message Part {{\n{one_of}}}\n"

    @cached_property
    def _reads_again(self) -> dict[str, Callable[[Any, Budget, Publication], Any]]:
        return {self.names[message]: again.read for message, again in self._again.items()}

    def encode(self, messages: Iterable[Any]) -> bytes:
        """An envelope with its length before it."""
        pieces: list[bytes] = []
        last_event = None
        for message in messages:
            kind = type(message)
            tag, write = self._writes[kind]
            if kind in self._again:
                if message.event is last_event:
                    write = self._again[kind].write
                last_event = message.event
            body = write(message)
            length = varint(len(body))
            size = len(tag) + len(length) + len(body)
            pieces += (b"\x0a", varint(size), tag, length, body)
        return framed(b"".join(pieces))

    def decode(self, data: bytes, limits: MessageLimits) -> tuple[Any, ...]:
        """The messages of one envelope with its length before it."""
        pieces = self.decode_pieces(data, limits)
        return tuple([message for piece in pieces for message in piece])

    def decode_pieces(self, data: bytes, limits: MessageLimits) -> Iterator[tuple[Any, ...]]:
        """The messages of one envelope, decoded a few at a time; at least one piece, if empty."""
        name = self._name.lower()
        buffer = parsed(self.buffer, unframed(data, limits.message_bytes_max), name)
        limit(f"a {name}", buffer.parts, limits.part_count_max, "parts")
        budget, reads, again = Budget(limits), self._reads, self._reads_again
        costly = self._costly
        last_event: Publication | None = None
        for first in range(0, len(buffer.parts) or 1, PARTS_AT_ONCE):
            messages: list[Any] = []
            for part in buffer.parts[first : first + PARTS_AT_ONCE]:
                kind = part.WhichOneof("part")
                if kind is None:
                    continue
                body = getattr(part, kind)
                if kind not in again:
                    message = reads[kind](body, budget)
                elif body.event or last_event is None:
                    message = reads[kind](body, budget)
                    last_event = message.event
                else:
                    message = again[kind](body, budget, last_event)
                if type(message) in costly and messages:
                    yield tuple(messages)
                    messages = []
                messages.append(message)
            yield tuple(messages)

    def wire_bytes(self, messages: Iterable[Any]) -> int:
        """The length of `encode(messages)`."""
        size, sizes, again = 0, self._sizes, self._again
        last_event = None
        for message in messages:
            kind = type(message)
            measure, more_tag = sizes[kind]
            if kind in again:
                if message.event is last_event:
                    measure = again[kind].size
                last_event = message.event
            part = measure(message) + more_tag
            size += part + 2 if part < 128 else field_bytes(part)
        return size + varint_bytes(size)


class NumberedEnvelope(Envelope):
    """An envelope with one message and a number, which a question and its answer share."""

    def _schema(self, one_of: str) -> str:
        return f"message {self._name} {{\n  uint64 number = 1;\n{one_of}}}\n"

    def encode(self, number: int, message: Any) -> bytes:
        """An envelope with its length before it."""
        return framed((b"\x08" + varint(number) if number else b"") + self.write(message))

    def decode(self, data: bytes, limits: MessageLimits) -> tuple[int, Any]:
        """The number and the message of one envelope with its length before it."""
        name = self._name.lower()
        buffer = parsed(self.buffer, unframed(data, limits.message_bytes_max), name)
        budget = Budget(limits)
        received = number(buffer.number, budget)
        message = self.read(buffer, budget)
        if message is None:
            raise WireError(f"a {name} without a part that is known")
        return received, message

    def wire_bytes(self, number: int, message: Any) -> int:
        """The length of `encode(number, message)`."""
        size = number_size(number) + self.size(message)
        return size + varint_bytes(size)


def _snake_case(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")
