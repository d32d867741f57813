"""CAR files are what other tools write and read, and a damaged one is noticed."""

from io import BytesIO

import pytest

from smartpubsub.protocols.blocks import cid_of, encode
from smartpubsub.protocols.car import CarError, read_car, write_car

BLOCKS = [encode({}), encode([1, 2, 3]), encode({"payload": bytes(1_000)})]
ROOT = cid_of(BLOCKS[0])


def written() -> bytes:
    file = BytesIO()
    assert write_car(file, [ROOT], BLOCKS) == 3
    return file.getvalue()


def test_a_file_reads_back() -> None:
    roots, blocks = read_car(BytesIO(written()))

    assert roots == [ROOT]
    assert list(blocks) == BLOCKS


def test_the_bytes_are_those_that_the_format_says() -> None:
    file = BytesIO()
    write_car(file, [ROOT], BLOCKS[:1])
    header = "3aa265726f6f747381d82a582500" + ROOT.hex() + "6776657273696f6e01"

    assert file.getvalue().hex() == header + "25" + ROOT.hex() + "a0"


def read_whole(content: bytes) -> list[bytes]:
    _, blocks = read_car(BytesIO(content))
    return list(blocks)


@pytest.mark.parametrize("cut", [1, 30, 58, 70, 95, 140])
def test_a_file_that_ends_too_early_is_noticed(cut: int) -> None:
    with pytest.raises(CarError):
        read_whole(written()[:cut])


def test_a_block_that_was_changed_is_noticed() -> None:
    changed = bytearray(written())
    changed[-1] ^= 1
    _, blocks = read_car(BytesIO(changed))

    with pytest.raises(CarError, match="is not what its content id"):
        list(blocks)


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x01\xa0", b"\xff" * 20, b"plain text"])
def test_other_files_are_none(content: bytes) -> None:
    with pytest.raises(CarError):
        read_car(BytesIO(content))
