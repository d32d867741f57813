"""CAR files, version 1: a sequence of blocks with their content ids, as IPLD tools use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from multiformats import varint

from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.blocks import (
    CID_BYTES,
    BlockError,
    Cid,
    cid_of,
    cid_of_link,
    cid_text,
    decode,
    encode,
    link,
)

SECTION_BYTES_MAX = 4 << 20
_VARINT_BYTES_MAX = 9


class CarError(SmartPubSubError):
    """A file that is damaged, or not a CAR file of such blocks."""


class Section(NamedTuple):
    """A section of a file: bytes, and their content id according to the file."""

    cid: bytes
    block: bytes

    @property
    def is_true(self) -> bool:
        """Whether the bytes match the content id."""
        return cid_of(self.block) == self.cid


def write_car(file: BinaryIO, roots: Sequence[Cid], blocks: Iterable[bytes]) -> int:
    """Write roots and blocks; return the number of blocks."""
    count = -1
    for section in car_sections(roots, blocks):
        file.write(section)
        count += 1
    return count


def car_sections(roots: Sequence[Cid], blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The sections of a file: the header with the roots, and then one for each block."""
    header = encode({"version": 1, "roots": [link(cid) for cid in roots]})
    yield varint.encode(len(header)) + header
    for block in blocks:
        yield varint.encode(CID_BYTES + len(block)) + cid_of(block) + block


def read_car(file: BinaryIO) -> tuple[list[Cid], Iterator[bytes]]:
    """Read the roots and the blocks of a file; each block matches its content id."""
    roots, sections = read_sections(file)
    return roots, _blocks(sections)


def read_sections(file: BinaryIO) -> tuple[list[Cid], Iterator[Section]]:
    """Read the roots and all sections of a file, also those that do not match their content id."""
    try:
        header = _section(file)
    except CarError:
        raise CarError("no CAR file, or a damaged one") from None
    try:
        fields = decode(header or b"")
        if fields["version"] != 1:
            raise CarError("a CAR file of another version; version 1 is read")
        roots = [cid_of_link(root) for root in fields["roots"]]
    except (BlockError, KeyError, TypeError):
        raise CarError("no CAR file of dag-cbor blocks") from None
    return roots, _sections(file)


def _sections(file: BinaryIO) -> Iterator[Section]:
    while (section := _section(file)) is not None:
        yield Section(section[:CID_BYTES], section[CID_BYTES:])


def _blocks(sections: Iterable[Section]) -> Iterator[bytes]:
    for section in sections:
        if not section.is_true:
            raise CarError(f"a block is not what its content id {cid_text(section.cid)} says")
        yield section.block


def _section(file: BinaryIO) -> bytes | None:
    length = _length(file)
    if length is None:
        return None
    if length > SECTION_BYTES_MAX:
        raise CarError(f"a block of {length} bytes; at most {SECTION_BYTES_MAX} are read")
    section = file.read(length)
    if len(section) != length:
        raise CarError("the CAR file ends in the middle of a block")
    return section


def _length(file: BinaryIO) -> int | None:
    written = b""
    while len(written) < _VARINT_BYTES_MAX:
        byte = file.read(1)
        if not byte and not written:
            return None
        written += byte
        if not byte or byte[0] < 0x80:
            break
    try:
        return varint.decode(written)
    except ValueError:
        raise CarError("no CAR file, or a damaged one") from None
