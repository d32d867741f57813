"""Blocks are what all implementations of IPLD take for the same blocks."""

from typing import Any

import dag_cbor
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats import CID

from smartpubsub.protocols.blocks import (
    BlockError,
    CidError,
    cid_from_text,
    cid_of,
    cid_text,
    decode,
    encode,
    link,
    time_from_text,
    time_text,
)
from smartpubsub.protocols.dagcbor import Link
from smartpubsub.protocols.publication import TIME_END_US

VECTORS: list[tuple[object, str, str]] = [
    (None, "f6", "bafyreifqwkmiw256ojf2zws6tzjeonw6bpd5vza4i22ccpcq4hjv2ts7cm"),
    (True, "f5", "bafyreibhvppn37ufanewvxvwendgzksh3jpwhk6sxrx2dh3m7s3t5t7noa"),
    ({}, "a0", "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua"),
    ([], "80", "bafyreidwx2fvfdiaox32v2mnn6sxu3j4qoxeqcuenhtgrv5qv6litfnmoe"),
]
"""Values whose encoding and name are known to everybody."""


@pytest.mark.parametrize(("value", "written", "name"), VECTORS)
def test_blocks_and_their_names_are_those_of_others(value: object, written: str, name: str) -> None:
    block = encode(value)

    assert block.hex() == written
    assert cid_text(cid_of(block)) == name
    assert decode(block) == value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (23, "17"),
        (24, "1818"),
        (-1, "20"),
        ((1 << 64) - 1, "1bffffffffffffffff"),
        (0.5, "fb3fe0000000000000"),
        (b"\x01\x02", "420102"),
        ("ü", "62c3bc"),
        ({"b": 1, "aa": 2, "a": 3}, "a361610361620162616102"),
    ],
)
def test_there_is_one_way_to_write_a_value(value: object, written: str) -> None:
    assert encode(value).hex() == written
    assert decode(bytes.fromhex(written)) == value


@pytest.mark.parametrize(
    "written",
    [
        "1800",  # An integer that is longer than it has to be.
        "a261620161610a",  # Keys in another order.
        "a2616101616102",  # A key twice.
        "9f01ff",  # A length that is not said.
        "f97e00",  # A float of two bytes.
        "fa3f800000",  # A float of four bytes.
        "fb7ff8000000000000",  # Not a number.
        "c001",  # A tag that is no link.
        "f7",  # Undefined.
        "a10102",  # A key that is no text.
        "0102",  # Two values.
        "18",  # Half a value.
        "",
        "81" * 3000,  # Too deep.
    ],
)
def test_what_is_written_otherwise_is_malformed(written: str) -> None:
    with pytest.raises(BlockError):
        decode(bytes.fromhex(written))


def test_links_are_written_as_tag_42_with_a_zero_before_the_name() -> None:
    cid = cid_of(encode({}))

    assert encode(link(cid)).hex() == "d82a582500" + cid.hex()


CIDS = st.binary(max_size=10).map(cid_of)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary(max_size=300)
    | st.text(max_size=300)
    | CIDS.map(link),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=30), inner),
    max_leaves=8,
)


def of_the_library(value: Any) -> Any:
    """A value with links as the library dag-cbor has them."""
    match value:
        case Link(cid):
            return CID.decode(cid)
        case list():
            return [of_the_library(each) for each in value]
        case dict():
            return {key: of_the_library(each) for key, each in value.items()}
    return value


@given(VALUES)
def test_values_are_encoded_as_the_library_does_and_read_back(value: Any) -> None:
    block = encode(value)

    assert block == dag_cbor.encode(of_the_library(value))
    assert decode(block) == value


@given(VALUES, st.data())
def test_damaged_blocks_are_refused_if_the_library_refuses_them(
    value: Any, data: st.DataObject
) -> None:
    block = encode(value)
    at = data.draw(st.integers(0, len(block) - 1))
    damaged = block[:at] + data.draw(st.binary(max_size=2)) + block[at + 1 :]
    try:
        read = dag_cbor.decode(damaged)
    except Exception:
        # Content ids of another kind are refused where a link is used.
        if b"\xd8\x2a" not in damaged:
            with pytest.raises(BlockError):
                decode(damaged)
    else:
        assert of_the_library(decode(damaged)) == read


@given(st.binary(max_size=100))
def test_names_read_back_in_any_base(content: bytes) -> None:
    cid = cid_of(content)

    assert cid_from_text(cid_text(cid)) == cid
    assert cid_from_text(CID.decode(cid).encode("base58btc")) == cid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "science",
        "bafyrei",
        "QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n",  # Of an older version.
        "bafkreifbfby75yqq7odbski6v2qziwa4xustdzfsg5m5ejpwqbush5rsei",  # Of raw bytes.
    ],
)
def test_other_texts_are_no_names(text: str) -> None:
    with pytest.raises(CidError):
        cid_from_text(text)


@given(st.integers(0, TIME_END_US - 1))
def test_times_read_back(at_us: int) -> None:
    assert time_from_text(time_text(at_us)) == at_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-01-01T00:00:00",
        5,
        None,
        "9999-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
    ],
)
def test_other_things_are_no_times(text: object) -> None:
    with pytest.raises(BlockError):
        time_from_text(text)
