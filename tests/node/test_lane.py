"""What goes to one peer goes in order, several messages to a write, and answers come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from smartpubsub.kademlia.protobuf import framed
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.lane import Lane
from smartpubsub.node.transport.streams import UnreachableError
from tests.node.hosts import eventually, run


class FakeStream:
    """Takes what is written when it is let, and gives what a test puts there to be read."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.may_write = trio.Event()
        self.ended = ""
        self._send, self._receive = trio.open_memory_channel[bytes](100)

    async def write(self, data: bytes) -> None:
        await self.may_write.wait()
        self.written.append(data)

    async def read(self, n: int | None = None) -> bytes:  # noqa: ARG002
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            raise EOFError from None

    async def close(self) -> None:
        self.ended = "closed"

    async def reset(self) -> None:
        self.ended = "reset"

    def say(self, *bodies: bytes) -> None:
        self._send.send_nowait(b"".join(framed(body) for body in bodies))

    def break_off(self) -> None:
        self._send.close()


class Opened:
    """A lane, and the streams that it has opened."""

    def __init__(self, settings: HostSettings | None = None, streams_max: int = 10) -> None:
        self.streams: list[FakeStream] = []
        self.answers: list[tuple[int, bytes]] = []
        self.counts = Counts()
        self.lets_write = True
        self._streams_max = streams_max
        self.lane = Lane(
            self._open,
            lambda number, frame: self.answers.append((number, frame)),
            1_000,
            settings or HostSettings(),
            self.counts,
        )
        self.has_ended = False

    async def _open(self) -> FakeStream:
        if len(self.streams) == self._streams_max:
            raise UnreachableError("no more streams")
        stream = FakeStream()
        if self.lets_write:
            stream.may_write.set()
        self.streams.append(stream)
        return stream

    async def run(self) -> None:
        await self.lane.run()
        self.has_ended = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run)
            yield
            nursery.cancel_scope.cancel()

    @property
    def written(self) -> list[list[bytes]]:
        return [stream.written for stream in self.streams]


def test_messages_that_are_there_go_in_one_write() -> None:
    async def main() -> None:
        opened = Opened(HostSettings(batch_bytes=6))
        for message in (b"one", b"two", b"three", b"four"):
            opened.lane.put(message)
        async with opened.running():
            await eventually(lambda: opened.lane.is_idle)

        assert opened.written == [[b"onetwo", b"three", b"four"]]
        assert (opened.counts.sent, opened.counts.sent_bytes, opened.counts.writes) == (4, 15, 3)
        assert opened.streams[0].ended == "closed"

    run(main)


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    async def main() -> None:
        few, small = (
            Opened(HostSettings(queue_count_max=2)),
            Opened(HostSettings(queue_bytes_max=7)),
        )
        for opened in (few, small):
            for message in (b"one", b"two", b"three"):
                opened.lane.put(message)
            async with opened.running():
                await eventually(lambda: opened.lane.is_idle)  # noqa: B023

            assert opened.written == [[b"onetwo"]]
            assert opened.counts.dropped_full == 1

    run(main)


def test_peers_that_do_not_read_share_a_limited_room_and_others_find_some() -> None:
    async def main() -> None:
        settings = HostSettings(queued_bytes_max=1 << 20)
        slow, quick = Opened(settings), Opened(settings)
        quick.counts = quick.lane._counts = slow.counts
        for _ in range(100):
            slow.lane.put(bytes(20_000))
        assert slow.counts.queued_bytes <= 1 << 20
        assert slow.counts.dropped_full > 40
        dropped = slow.counts.dropped_full
        quick.lane.put(b"short")
        assert slow.counts.dropped_full == dropped
        async with quick.running(), slow.running():
            await eventually(lambda: quick.lane.is_idle and slow.lane.is_idle)
        assert quick.written == [[b"short"]]
        assert slow.counts.queued_bytes == 0

    run(main)


def test_questions_too_many_are_dropped_and_counted() -> None:
    async def main() -> None:
        opened = Opened(HostSettings(question_count_max=2))
        for number in range(3):
            opened.lane.put(b"%d" % number, number)
        async with opened.running():
            await eventually(lambda: opened.written == [[b"01"]])
            assert opened.counts.dropped_full == 1
            opened.streams[0].say(b"answer")
            await eventually(lambda: opened.answers)
            opened.lane.put(b"3", 3)
            await eventually(lambda: opened.written == [[b"01", b"3"]])

    run(main)


def test_answers_come_in_the_order_of_the_questions() -> None:
    async def main() -> None:
        opened = Opened()
        opened.lane.put(b"first?", 7)
        opened.lane.put(b"told")
        opened.lane.put(b"second?", 8)
        async with opened.running():
            await eventually(lambda: opened.lane.is_idle)
            opened.streams[0].say(b"first!", b"second!")
            await eventually(lambda: len(opened.answers) == 2)

        assert opened.answers == [(7, framed(b"first!")), (8, framed(b"second!"))]

    run(main)


def test_a_question_that_a_stream_ends_over_is_asked_once_more() -> None:
    async def main() -> None:
        opened = Opened()
        opened.lane.put(b"told")
        opened.lane.put(b"asked", 1)
        async with opened.running():
            for number in range(2):
                await eventually(lambda: len(opened.streams) == number + 1)  # noqa: B023
                await eventually(lambda: opened.lane.is_idle)
                opened.streams[number].break_off()
            await eventually(lambda: opened.has_ended)

        assert opened.written == [[b"toldasked"], [b"asked"]]
        assert [stream.ended for stream in opened.streams] == ["reset", "reset"]

    run(main)


def test_what_waits_goes_by_another_stream() -> None:
    async def main() -> None:
        opened = Opened(HostSettings(batch_bytes=1))
        opened.lets_write = False
        opened.lane.put(b"stuck")
        opened.lane.put(b"waiting")
        async with opened.running():
            await eventually(lambda: opened.streams)
            opened.lets_write = True
            opened.streams[0].break_off()
            await eventually(lambda: opened.written == [[], [b"waiting"]])

    run(main)


def test_a_peer_that_takes_nothing_loses_its_stream() -> None:
    async def main() -> None:
        opened = Opened(HostSettings(write_s=0.01), streams_max=1)
        opened.lets_write = False
        opened.lane.put(b"one")
        async with opened.running():
            await eventually(lambda: opened.has_ended)

        assert opened.streams[0].ended == "reset"
        assert opened.counts.dropped_broken == 1

    run(main)


def test_questions_that_are_not_answered_end_the_stream() -> None:
    async def main() -> None:
        opened = Opened(HostSettings(answer_s=0.01))
        opened.lane.put(b"asked", 1)
        async with opened.running():
            await eventually(lambda: opened.has_ended)

        assert len(opened.streams) == 1
        assert opened.counts.unanswered == 1

    run(main)


def test_an_answer_that_nobody_asked_for_ends_the_stream() -> None:
    async def main() -> None:
        opened = Opened()
        opened.lane.put(b"told")
        async with opened.running():
            await eventually(lambda: opened.lane.is_idle and opened.streams)
            opened.streams[0].say(b"what?")
            await eventually(lambda: opened.has_ended)

        assert opened.answers == []

    run(main)


def test_what_is_for_nobody_is_counted() -> None:
    async def main() -> None:
        opened = Opened(streams_max=0)
        opened.lane.put(b"one")
        opened.lane.put(b"two", 2)
        async with opened.running():
            await eventually(lambda: opened.has_ended)

        assert opened.counts.dropped_unreachable == 2

    run(main)
