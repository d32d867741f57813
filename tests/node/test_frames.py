"""Messages are found in a stream of bytes however it is cut to pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from smartpubsub.kademlia.protobuf import WireError, framed
from smartpubsub.node.transport.frames import (
    FrameReader,
    FrameTimeoutError,
    Unfinished,
    UnfinishedFullError,
)


class Pieces:
    """Bytes that come in pieces, and then an end, which py-libp2p tells by an error."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def read(self, n: int | None = None) -> bytes:  # noqa: ARG002
        if not self._pieces:
            raise EOFError
        return self._pieces.pop(0)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


def messages_in(pieces: list[bytes], message_bytes_max: int) -> list[bytes]:
    async def read_all() -> list[bytes]:
        reader = FrameReader(Pieces(pieces), message_bytes_max)
        found = []
        while (frame := await reader.next()) is not None:
            found.append(frame)
        return found

    return trio.run(read_all)


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(min_value=0)))
def test_messages_are_found_wherever_they_are_cut(bodies: list[bytes], places: list[int]) -> None:
    frames = [framed(body) for body in bodies]

    assert messages_in(cut(b"".join(frames), places), 300) == frames


@given(
    st.lists(st.binary(max_size=40)),
    st.lists(st.integers(min_value=0)),
    st.integers(0, 3),
    st.integers(0, 60),
)
def test_messages_that_are_there_can_be_taken_together(
    bodies: list[bytes], places: list[int], count_max: int, bytes_max: int
) -> None:
    frames = [framed(body) for body in bodies]

    async def read_all() -> list[bytes]:
        reader = FrameReader(Pieces(cut(b"".join(frames), places)), 40)
        found = []
        while (frame := await reader.next()) is not None:
            more = reader.ready(count_max, bytes_max)
            assert len(more) <= count_max
            assert sum(map(len, more)) <= bytes_max
            found += [frame, *more]
        return found

    assert trio.run(read_all) == frames


def test_what_is_no_message_is_told_after_those_before_it() -> None:
    async def main() -> None:
        reader = FrameReader(Pieces([framed(b"a") + framed(b"b") + framed(bytes(301))]), 300)
        assert await reader.next() == framed(b"a")
        assert reader.ready(10, 1_000) == [framed(b"b")]
        with pytest.raises(WireError, match="301 bytes"):
            await reader.next()

    trio.run(main)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (framed(bytes(301)), "301 bytes; at most 300"),
        (b"\xff\xff\x01", "do not begin with the length"),
        (framed(b"whole") + framed(b"cut off")[:-1], "ends within a message"),
        (b"\x80", "ends within a message"),
    ],
)
def test_what_is_no_message_is_told(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        messages_in([data], 300)


def test_a_message_that_is_too_long_is_told_before_it_is_there() -> None:
    with pytest.raises(WireError, match="at most 300"):
        messages_in([framed(bytes(301))[:2]], 300)


class Stalled(Pieces):
    """Bytes after which nothing comes."""

    async def read(self, n: int | None = None) -> bytes:
        if not self._pieces:
            await trio.sleep_forever()
        return await super().read(n)


def test_a_message_that_does_not_come_to_its_end_is_given_up() -> None:
    async def main() -> None:
        unfinished = Unfinished(1_000, 30.0)
        reader = FrameReader(Stalled([framed(b"whole"), framed(bytes(200))[:100]]), 300, unfinished)
        assert await reader.next() == framed(b"whole")
        began_at = trio.current_time()
        with pytest.raises(FrameTimeoutError):
            await reader.next()
        assert trio.current_time() - began_at == pytest.approx(30.0)
        assert unfinished.bytes == 100
        reader.close()
        assert unfinished.bytes == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_stream_between_two_messages_may_be_silent() -> None:
    async def main() -> None:
        reader = FrameReader(Stalled([framed(b"whole")]), 300, Unfinished(1_000, 30.0))
        assert await reader.next() == framed(b"whole")
        with trio.move_on_after(3_600) as waiting:
            await reader.next()
        assert waiting.cancelled_caught

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_unfinished_messages_of_all_streams_share_their_room() -> None:
    async def main() -> None:
        unfinished = Unfinished(250, 30.0)
        part, rest = framed(bytes(200))[:100], framed(bytes(200))[100:]
        readers = [FrameReader(Stalled([part]), 300, unfinished) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.next)
            await wait_all_tasks_blocked()
            assert unfinished.bytes == 200
            with pytest.raises(UnfinishedFullError):
                await FrameReader(Stalled([part]), 300, unfinished).next()
            nursery.cancel_scope.cancel()
        for reader in readers:
            reader.close()
        assert await FrameReader(Stalled([part, rest]), 300, unfinished).next() == part + rest
        assert unfinished.bytes == 0

    trio.run(main)
