"""Protobuf messages: how they are declared, framed and limited.

Schemas are text in the language of protobuf, compiled at import, so the repository keeps no
generated files. Each schema has a pool of its own, so libp2p's declarations of the same messages
do not collide with these.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import varint_bytes

_TYPES = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "string": FieldDescriptorProto.TYPE_STRING,
}
_SYNTAX = re.compile(r'^syntax = "(\w+)";$', re.MULTILINE)
_DECLARATION = re.compile(r"^(message|enum) (\w+) \{(?:\}|(.*?)^\})", re.MULTILINE | re.DOTALL)
_ONE_OF = re.compile(r"oneof (\w+) \{.*?\}", re.DOTALL)
_FIELD = re.compile(r"^ +(?:(repeated|optional) )?(\w+) (\w+) = (\d+);", re.MULTILINE)
_VALUE = re.compile(r"^ +(\w+) = (\d+);", re.MULTILINE)


class WireError(SmartPubSubError):
    """Bytes that are no message, or a message beyond the limits."""


# --- schemas ---


def compile_schema(package: str, schema: str, *names: str) -> list[Any]:
    """Compile a schema and return the classes of some of its messages.

    The text has one field per line, and a declaration ends with a brace at the start of a line.
    """
    file = file_of(package, schema)
    pool = DescriptorPool()
    pool.Add(file)
    return [GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in names]


def file_of(package: str, schema: str) -> FileDescriptorProto:
    """The descriptor of a schema."""
    file = FileDescriptorProto(
        name=f"smartpubsub/{package}.proto", package=f"smartpubsub.{package}"
    )
    for (syntax,) in (found.groups() for found in _SYNTAX.finditer(schema)):
        file.syntax = syntax
    for kind, name, body in _DECLARATION.findall(schema):
        if kind == "enum":
            file.enum_type.append(_enum(name, body))
        else:
            file.message_type.append(_message(name, body))
    return file


def _enum(name: str, body: str) -> EnumDescriptorProto:
    declared = EnumDescriptorProto(name=name)
    for value, number in _VALUE.findall(body):
        declared.value.add(name=value, number=int(number))
    return declared


def _message(name: str, body: str) -> DescriptorProto:
    declared = DescriptorProto(name=name)
    one_of = _ONE_OF.search(body)
    if one_of is not None:
        declared.oneof_decl.add(name=one_of[1])
    for found in _FIELD.finditer(body):
        label, kind, field_name, number = found.groups()
        field = declared.field.add(name=field_name, number=int(number))
        is_repeated = label == "repeated"
        field.label = field.LABEL_REPEATED if is_repeated else field.LABEL_OPTIONAL
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            field.type_name = kind
        if one_of is not None and one_of.start() < found.start() < one_of.end():
            field.oneof_index = 0
    return declared


# --- framing and limits ---


@lru_cache(maxsize=1 << 10)
def varint(number: int) -> bytes:
    """A number as protobuf writes it, seven bits in a byte."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def framed(body: bytes) -> bytes:
    """A message with its length before it."""
    return varint(len(body)) + body


def body_bytes(frame: bytes) -> int:
    """The length of a message without the length before it.

    >>> body_bytes(framed(b"")), body_bytes(framed(bytes(8))), body_bytes(framed(bytes(300)))
    (0, 8, 300)
    """
    prefix_bytes = 1
    while frame[prefix_bytes - 1] & 0x80:
        prefix_bytes += 1
    return len(frame) - prefix_bytes


def unframed(data: bytes, bytes_max: int) -> bytes:
    """The body after the length, which must be exactly as long as the length says."""
    length = 0
    for place, byte in enumerate(data[: varint_bytes(bytes_max)]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    else:
        raise WireError("the bytes do not begin with the length of a message")
    body = data[place + 1 :]
    if length > bytes_max:
        raise WireError(f"a message of {length} bytes; at most {bytes_max} are taken")
    if length != len(body):
        raise WireError(f"a message of {length} bytes was announced and {len(body)} are there")
    return body


def parsed(message_class: Any, body: bytes, name: str) -> Any:
    """Parse a body as a message of a class; the error calls the message by a name."""
    buffer = message_class()
    try:
        buffer.ParseFromString(body)
    except (DecodeError, RecursionError, ValueError) as error:
        raise WireError(f"the bytes are no {name}") from error
    return buffer


def limit(what: str, received: Sized, count_max: int, unit: str = "bytes") -> None:
    """Refuse a value that is longer than its limit."""
    if len(received) > count_max:
        raise WireError(f"{what} of {len(received)} {unit}; at most {count_max} are taken")
