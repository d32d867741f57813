"""The native codec of blocks and the pure-Python one are equal, also in what they refuse."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smartpubsub.native import native
from smartpubsub.protocols import dagcbor
from smartpubsub.protocols.blocks import base32_in_python
from smartpubsub.protocols.dagcbor import (
    DEPTH_MAX,
    ITEM_COUNT_MAX,
    EncodingError,
    Link,
    decode_in_python,
    encode_in_python,
)
from tests.protocols.test_blocks import VALUES

pytestmark = pytest.mark.skipif(native is None, reason="the native module is not installed")

REFUSED = "refused"
WITHOUT_FORM = (
    st.floats(allow_nan=True, allow_infinity=True)
    | st.integers(-(1 << 66), 1 << 66)
    | st.text(st.characters(exclude_categories=()), max_size=4)
    | st.sampled_from([bytearray(b"x"), object(), 1j, {1: 2}, {"a": set()}, Link("no bytes")])  # type: ignore[arg-type]
)
HEADS = st.builds(
    lambda first, rest: bytes([first]) + rest, st.integers(0, 255), st.binary(max_size=9)
)
"""Pieces that begin as a value does."""


def outcome(act: Any, *arguments: Any) -> Any:
    try:
        found = act(*arguments)
    except (ValueError, TypeError):  # The latter is Python's for a link to something else.
        return REFUSED
    return type(found), repr(found)  # 1, 1.0 and True are equal.


def encoded_natively(value: Any) -> bytes:
    encoded: bytes = native.encode_cbor(value, Link)
    return encoded


def decoded_natively(data: bytes, item_count_max: int = ITEM_COUNT_MAX) -> Any:
    return native.decode_cbor(data, Link, DEPTH_MAX, item_count_max)


@given(VALUES | st.lists(WITHOUT_FORM, max_size=3) | st.dictionaries(st.text(), WITHOUT_FORM))
@example(float("nan"))
@example((1 << 64) - 1)
@example(1 << 64)
@example(-(1 << 64))
@example(-(1 << 64) - 1)
@example(("a tuple", ["is", "a list"]))
@example({"\ud800": 1})
@example([Link("no bytes")])  # type: ignore[arg-type]
def test_both_encode_the_same(value: Any) -> None:
    assert outcome(encoded_natively, value) == outcome(encode_in_python, value)


@given(VALUES, st.data())
def test_both_decode_the_same(value: Any, data: st.DataObject) -> None:
    block = encode_in_python(value)
    assert outcome(decoded_natively, block) == outcome(decode_in_python, block)

    start = data.draw(st.integers(0, len(block)))
    end = data.draw(st.integers(start, min(len(block), start + 3)))
    damaged = block[:start] + data.draw(st.binary(max_size=3)) + block[end:]
    assert outcome(decoded_natively, damaged) == outcome(decode_in_python, damaged)


@given(st.lists(HEADS, max_size=12).map(b"".join), st.integers(0, 40))
@example(b"\x81" * DEPTH_MAX + b"\x80", ITEM_COUNT_MAX)
@example(b"\x81" * (DEPTH_MAX - 1) + b"\x80", ITEM_COUNT_MAX)
@example(b"\x9b" + b"\xff" * 8, ITEM_COUNT_MAX)
@example(b"\xbb\x80" + b"\x00" * 7, ITEM_COUNT_MAX)
@example(b"\x5b" + b"\xff" * 8, ITEM_COUNT_MAX)
@example(b"\xa2" + b"\x60\x01" * 2, ITEM_COUNT_MAX)
@example(b"\xd8\x2a\x41\x00", 1)
@example(b"\xd8\x2a\x40", 1)
@example(b"\xd8\x2b\x41\x00", 1)
@example(b"\xfb\x7f\xf0" + b"\x00" * 6, 1)
@example(b"\x62\xc3\x28", 1)
def test_both_refuse_the_same_bytes(data: bytes, item_count_max: int) -> None:
    natively = outcome(decoded_natively, data, item_count_max)

    assert natively == outcome(decode_in_python, data, item_count_max)


def test_what_the_native_codec_refuses_gets_the_error_of_the_other() -> None:
    with pytest.raises(EncodingError, match="a set has no form in dag-cbor"):
        dagcbor.encode({"a": set()})
    with pytest.raises(EncodingError, match="a tag that is no link"):
        dagcbor.decode(b"\xc0\x01")
    assert dagcbor.decode(memoryview(b"\x01")) == 1  # type: ignore[arg-type]


def test_a_list_in_itself_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        dagcbor.encode(endless)


@given(st.binary(max_size=80))
def test_both_write_the_same_in_base_32(data: bytes) -> None:
    assert native.base32(data) == base32_in_python(data)
