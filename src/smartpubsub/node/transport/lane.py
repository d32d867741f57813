"""A lane: the queue and the stream for one peer and protocol, and the answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf

import trio

from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.frames import FrameReader
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.streams import STREAM_ERRORS, Stream, UnreachableError, end

CROWDED_BYTES_MAX = 64 << 10
"""The bytes that one lane may queue while all lanes together are at their limit."""
TRIES_MAX = 2
"""How often a lane repeats a question whose stream ended: idle streams end."""


@dataclass(slots=True)
class _Outgoing:
    frame: bytes
    number: int | None
    """The number of a question."""
    tries: int = 0


class Lane:
    """Sends messages in order, several in one write, and receives answers."""

    def __init__(
        self,
        open_stream: Callable[[], Awaitable[Stream]],
        on_answer: Callable[[int, bytes], None],
        message_bytes_max: int,
        settings: HostSettings,
        counts: Counts,
    ) -> None:
        self._open_stream = open_stream
        self._on_answer = on_answer
        self._message_bytes_max = message_bytes_max
        self._settings = settings
        self._counts = counts
        self._queue: deque[_Outgoing] = deque()
        self._queue_bytes = 0
        self._is_writing = False
        self._is_ending = False
        self._wake = trio.Event()
        self._questions: dict[int, None] = {}
        """The numbers of questions that wait for an answer, or in the queue."""
        self._asked: deque[_Outgoing] = deque()
        self._answer_limit = trio.CancelScope()

    @property
    def is_idle(self) -> bool:
        """Whether all messages are written."""
        return not self._queue and not self._is_writing

    def put(self, frame: bytes, number: int | None = None) -> None:
        """Queue a message; with a number it is a question, and its answer is passed on."""
        if number is not None:
            if number in self._questions:
                return  # The question is queued or sent already, and a stream loses nothing.
            if len(self._questions) >= self._settings.question_count_max:
                self._counts.dropped_full += 1
                return
        if self._is_full(len(frame)):
            self._counts.dropped_full += 1
            return
        if number is not None:
            self._questions[number] = None
        self._queue.append(_Outgoing(frame, number))
        self._resize(len(frame))
        self._wake.set()

    def _is_full(self, size: int) -> bool:
        settings, queued = self._settings, self._queue_bytes
        if len(self._queue) >= settings.queue_count_max:
            return True
        is_crowded = self._counts.queued_bytes + size > settings.queued_bytes_max
        return queued + size > (CROWDED_BYTES_MAX if is_crowded else settings.queue_bytes_max)

    def _resize(self, difference: int) -> None:
        self._queue_bytes += difference
        self._counts.queued_bytes += difference

    def end(self) -> None:
        """End the stream as soon as the peer has read everything that was written."""
        self._is_ending = True
        self._wake.set()

    async def run(self) -> None:
        """Run until the queue is empty and the stream has ended, or the peer cannot be reached."""
        try:
            while self._queue:
                stream = await self._open_stream()
                is_broken = False
                try:
                    await self._carry(stream)
                    is_broken = True
                finally:
                    await end(stream, self._settings.close_s, politely=not is_broken)
                self._ask_again()
        except UnreachableError:
            self._counts.dropped_unreachable += len(self._queue)
        finally:
            self._resize(-self._queue_bytes)

    async def _carry(self, stream: Stream) -> None:
        """Write messages and read answers until the stream ends."""
        self._answer_limit = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, stream, nursery.cancel_scope)
            await self._write(stream)
            nursery.cancel_scope.cancel()

    async def _write(self, stream: Stream) -> None:
        while True:
            while not self._queue:
                if self._is_ending:
                    await end(stream, self._settings.close_s, politely=True)
                    await trio.sleep_forever()  # The peer ends it, having read all.
                self._wake = trio.Event()
                await self._wake.wait()
            batch = self._take_batch()
            self._is_writing = True
            try:
                with trio.fail_after(self._settings.write_s):
                    await stream.write(b"".join([outgoing.frame for outgoing in batch]))
            except STREAM_ERRORS:
                self._counts.dropped_broken += sum(o.number is None for o in batch)
                return
            finally:
                self._is_writing = False
            self._counts.writes += 1
            self._counts.sent += len(batch)

    def _take_batch(self) -> list[_Outgoing]:
        batch: list[_Outgoing] = []
        size = 0
        while self._queue:
            longer = size + len(self._queue[0].frame)
            if batch and longer > self._settings.batch_bytes:
                break
            size = longer
            batch.append(outgoing := self._queue.popleft())
            if outgoing.number is not None:
                self._expect(outgoing)
        self._resize(-size)
        self._counts.sent_bytes += size
        return batch

    # --- answers ---

    def _expect(self, question: _Outgoing) -> None:
        if not self._asked:
            self._answer_limit.deadline = trio.current_time() + self._settings.answer_s
        question.tries += 1
        self._asked.append(question)

    async def _read(self, stream: Stream, carrying: trio.CancelScope) -> None:
        """Read answers, in the order of the questions, until the stream ends."""
        frames = FrameReader(stream, self._message_bytes_max)
        with self._answer_limit:
            try:
                while (frame := await frames.next()) is not None and self._asked:
                    self._take_answer(frame)
            except WireError:
                self._counts.garbage += 1
            except STREAM_ERRORS:
                pass
        if self._answer_limit.cancelled_caught:
            self._counts.unanswered += 1
            self._asked.clear()
        carrying.cancel()

    def _take_answer(self, frame: bytes) -> None:
        number = self._asked.popleft().number
        assert number is not None
        self._questions.pop(number, None)
        still = self._settings.answer_s if self._asked else inf
        self._answer_limit.deadline = trio.current_time() + still
        self._counts.received += 1
        self._counts.received_bytes += len(frame)
        self._on_answer(number, frame)

    def _ask_again(self) -> None:
        """Put the questions whose stream ended back at the head of the queue, once each."""
        again = [question for question in self._asked if question.tries < TRIES_MAX]
        self._asked.clear()
        self._queue.extendleft(reversed(again))
        self._resize(sum(len(question.frame) for question in again))
        numbers = [outgoing.number for outgoing in self._queue]
        self._questions = dict.fromkeys(number for number in numbers if number is not None)
