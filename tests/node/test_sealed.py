"""Payloads that only chosen nodes can read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub import Node, PayloadError, Sealed
from smartpubsub.node.api import sealed
from smartpubsub.node.api.sealed import seal, unseal
from smartpubsub.node.identity import Identity
from tests.node.hosts import LOOPBACK, run

READERS = [Identity.of(bytes([number]) * 32) for number in range(4)]
CONTENTS = st.binary(max_size=200)


@given(content=CONTENTS, count=st.integers(0, 3))
def test_readers_read_and_others_do_not(content: bytes, count: int) -> None:
    written = seal(content, [reader.peer for reader in READERS[:count]])

    for number, reader in enumerate(READERS):
        if number < count:
            assert unseal(written, reader) == content
        else:
            with pytest.raises(ValueError, match="not one of its readers"):
                unseal(written, reader)


@given(content=CONTENTS, place=st.integers(0), bit=st.integers(0, 7))
def test_a_changed_payload_is_never_read(content: bytes, place: int, bit: int) -> None:
    written = bytearray(seal(content, [READERS[0].peer]))
    written[place % len(written)] ^= 1 << bit

    with pytest.raises(ValueError, match=r"it |reader"):
        unseal(bytes(written), READERS[0])


@given(st.binary(max_size=300))
def test_what_is_not_sealed_is_an_error(payload: bytes) -> None:
    for written in (payload, sealed._MAGIC + payload):
        with pytest.raises(ValueError, match=r"it |reader"):
            unseal(written, READERS[0])


def test_a_payload_does_not_tell_who_reads_it() -> None:
    peers = [reader.peer for reader in READERS[:2]]
    one, other = seal(b"x", peers), seal(b"x", peers)

    assert not any(peer in one or peer[-32:] in one for peer in peers)
    start, end = 7, 7 + 2 * sealed._READER_BYTES
    assert {one[start : start + 8], one[end - 88 : end - 80]}.isdisjoint(
        {other[start : start + 8], other[end - 88 : end - 80]}
    )


@pytest.mark.parametrize(
    "reader", ["", "nobody", "12D3KooW", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"]
)
def test_a_reader_is_a_peer_id(reader: str, tmp_path: Path) -> None:
    with pytest.raises(PayloadError, match="is not the peer id of a node"):
        Sealed(tmp_path, [reader])


def test_the_number_of_readers_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "READER_COUNT_MAX", 2)
    writer = Sealed(tmp_path, [str(READERS[0])])
    writer.add(str(READERS[0]))
    with pytest.raises(PayloadError, match="at most 2 nodes"):
        writer.add(str(READERS[1]))


def test_nodes_exchange_values_that_relays_cannot_read(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    a, b, c = (Sealed(folder) for folder in folders)
    a.add(b.readers[0])

    async def main() -> None:
        async with (
            Node(data=folders[0], listen=[LOOPBACK], serializer=a) as writer,
            Node(
                data=folders[1], listen=[LOOPBACK], bootstrap=writer.addresses, serializer=b
            ) as reader,
            Node(
                data=folders[2], listen=[LOOPBACK], bootstrap=writer.addresses, serializer=c
            ) as other,
            reader.subscribe("plan") as read,
            other.subscribe("plan") as heard,
        ):
            topic = await writer.create_topic("plans")
            await writer.publish("plan", value={"at": "dawn"}, wait="all")
            await topic.publish(value="by the river")
            event, unread = await anext(read), await anext(heard)
            assert event.value() == {"at": "dawn"}
            assert b"dawn" not in event.payload
            with pytest.raises(PayloadError, match="not one of its readers"):
                unread.value()
            history = await reader.topic(topic.id).history()
            assert [entry.value() for entry in history] == ["by the river"]

            a.remove(b.readers[0])
            await writer.publish("plan", value="later", wait="all")
            with pytest.raises(PayloadError, match="not one of its readers"):
                (await anext(read)).value()

    run(main)
