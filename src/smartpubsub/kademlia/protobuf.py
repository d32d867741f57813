"""What messages in protobuf have in common: how they are declared, framed and limited.

They are declared in code, so that nothing has to be generated, and lie in pools of their own, where
libp2p's declarations of the same messages do not meet them.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
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
    "enum": FieldDescriptorProto.TYPE_ENUM,
    "message": FieldDescriptorProto.TYPE_MESSAGE,
}


class WireError(SmartPubSubError):
    """Bytes that are no message, or one beyond the limits."""


def field(name: str, number: int, what: str, *, repeated: bool = False) -> FieldDescriptorProto:
    """A field; what it is reads `bytes`, or for types of the same file `enum Kind`."""
    kind, _, declared = what.partition(" ")
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    made = FieldDescriptorProto(name=name, number=number, type=_TYPES[kind], label=label)
    if declared:
        made.type_name = declared
    return made


def message_classes(file: FileDescriptorProto, *names: str) -> list[Any]:
    """Classes for some of the messages that a file declares."""
    pool = DescriptorPool()
    pool.Add(file)
    return [GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in names]


def framed(body: bytes) -> bytes:
    """A message with its length before it."""
    length = len(body)
    groups = [length >> 7 * place & 0x7F | 0x80 for place in range(varint_bytes(length))]
    groups[-1] &= 0x7F
    return bytes(groups) + body


def unframed(data: bytes, bytes_max: int) -> bytes:
    """What comes after the length, which has to be all that the length says and no more."""
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
    """A message of a class, by whose name a complaint calls it."""
    buffer = message_class()
    try:
        buffer.ParseFromString(body)
    except DecodeError as error:
        raise WireError(f"the bytes are no {name}") from error
    return buffer


def limit(what: str, received: Sized, count_max: int, unit: str = "bytes") -> None:
    """Complain about what is longer than is taken."""
    if len(received) > count_max:
        raise WireError(f"{what} of {len(received)} {unit}; at most {count_max} are taken")
