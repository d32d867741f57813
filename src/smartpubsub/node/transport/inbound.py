"""Inbound streams: reads messages, passes them to the core, and answers in order."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import trio

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.node.identity import peer_text
from smartpubsub.node.transport.addresses import AddressBook
from smartpubsub.node.transport.connections import Connections, OnStream
from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.frames import (
    FrameReader,
    FrameTimeoutError,
    TooLongError,
    Unfinished,
    UnfinishedFullError,
)
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.identify import other_versions
from smartpubsub.node.transport.inbox import BYTES_PER_S, Inbox, Several
from smartpubsub.node.transport.processor_clock import ProcessorClock
from smartpubsub.node.transport.rates import EMPTY, Rates
from smartpubsub.node.transport.shares import Shares
from smartpubsub.node.transport.streams import (
    STREAM_ERRORS,
    Stream,
    StreamRefusedError,
    UnreachableError,
)
from smartpubsub.node.transport.usage import Usage
from smartpubsub.protocols.codecs import Codec
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Asked, Peer, Received

_log = logging.getLogger(__name__)
_EMPTY = {EMPTY: 1}
_PAUSE_AFTER_S = 0.001
"""How long the host decodes messages of a peer before it lets other tasks run."""
_ROUNDS_BETWEEN = 4
"""Rounds of the loop between two messages of a peer that costs more than its share."""


_FRAME_S = 100e-6
"""The estimated cost of reading and decrypting a message, besides its bytes."""
_SPREAD_S = 0.003
"""The estimated cost at other nodes of a message that a node passes on: the rendezvous, its
replicas, and those between."""
_GARBAGE_S = 0.02
"""The cost of an undecodable message: the node resets its stream, and the peer opens another."""
_TOGETHER_MAX = 32
"""How many short messages of a peer the host handles together: some milliseconds of work."""
_LONG_BYTES = 16 << 10
"""The host decodes a longer message in a thread, because 4 MiB take seconds; the event loop runs
on meanwhile."""


def _decode_next(pieces: Iterator[object]) -> tuple[object | WireError | None, float]:
    """Decode the next piece of a message, None after the last; return also the processor time."""
    began_s = time.thread_time()
    found: object | WireError | None
    try:
        found = next(pieces, None)
    except WireError as error:
        found = error
    return found, time.thread_time() - began_s


def _decode_all(
    codec: Codec, frames: Iterable[bytes]
) -> tuple[list[object], WireError | None, float]:
    """Decode messages up to the first malformed one; return the error and processor time too."""
    began_s = time.thread_time()
    found: list[object] = []
    error: WireError | None = None
    try:
        found.extend(map(codec.decode, frames))
    except WireError as problem:
        error = problem
    return found, error, time.thread_time() - began_s


def _elsewhere_s(codec: Codec, kinds: Mapping[str, int]) -> float:
    """The estimated cost of a message at other nodes."""
    return _SPREAD_S * sum([kinds.get(kind, 0) for kind in codec.spread_kinds])


class _Question:
    """A question of a peer that is not answered yet."""

    def __init__(self) -> None:
        self.answer: bytes | None = None
        self.is_answered = trio.Event()


class _PeerState:
    """A connected peer, and the content of its identify message."""

    def __init__(self) -> None:
        self.addresses: tuple[bytes, ...] = ()
        self.is_identified = trio.Event()
        self.streams: Counter[str] = Counter()
        self.one_ended = trio.Event()
        self.since_pause_s = 0.0
        """Processor time spent on decoding since other tasks last ran."""

    def end(self, protocol: str) -> None:
        """Record that a stream has ended."""
        self.streams[protocol] -= 1
        self.one_ended.set()
        self.one_ended = trio.Event()

    async def until_others_end(self) -> None:
        """Wait until only one stream is open."""
        while self.streams.total() > 1:
            await self.one_ended.wait()


class Inbound:
    """All inbound streams of the core's protocols."""

    def __init__(
        self,
        connections: Connections,
        book: AddressBook,
        inbox: Inbox[Any],
        usage: Usage,
        shares: Shares,
        processor: ProcessorClock,
        settings: HostSettings,
        counts: Counts,
    ) -> None:
        self.garbage: dict[Peer, int] = {}
        """The number of undecodable messages by peer, the latest peer last."""
        self._connections = connections
        self._book = book
        self._inbox = inbox
        self._usage = usage
        self._shares = shares
        self._processor = processor
        self.unfinished = Unfinished(settings.unfinished_bytes_max, settings.frame_s)
        self._settings = settings
        self._counts = counts
        self._peers: dict[Peer, _PeerState] = {}
        self._incompatible: BoundedDict[Peer, None] = BoundedDict(settings.peer_count_max)
        """Peers that speak other versions of the protocols."""
        self._questions: dict[int, _Question] = {}
        self._numbers = count(1)
        self._decoding = trio.CapacityLimiter(1)
        """Python runs one thread at a time, so more threads would not be faster."""
        self._rates = Rates(settings.messages_per_s_max, settings.peer_count_max)

    def handler(self, codec: Codec) -> OnStream:
        """Make the handler of streams with messages of one type."""
        self._rates.rare_kinds |= codec.rare_kinds

        async def on_stream(peer: Peer, stream: Stream) -> None:
            await self._take(codec, peer, stream)

        return on_stream

    def answer(self, number: int, frame: bytes) -> None:
        """Answer a question, if the peer still waits."""
        question = self._questions.get(number)
        if question is not None and question.answer is None:
            question.answer = frame
            question.is_answered.set()

    def hear_of(self, contacts: Iterable[Contact], source: Peer) -> None:
        """Record the addresses of peers that a message of a peer has named."""
        for contact in contacts:
            self._book.hear(contact.peer, contact.addresses, source)

    # --- identify ---

    async def identify(self, peer: Peer) -> None:
        """Ask a newly connected peer for its addresses and protocols."""
        state = self._state_of(peer)
        try:
            with trio.move_on_after(self._settings.identify_s):
                said = await self._connections.ask_identity(peer)
                state.addresses = self._book.learn(peer, said.addresses)
                self._compare_versions(peer, said.protocols)
        except (*STREAM_ERRORS, UnreachableError, WireError):
            pass  # It may still speak the other protocols, and other peers may know its address.
        finally:
            state.is_identified.set()

    def _compare_versions(self, peer: Peer, protocols: Sequence[str]) -> None:
        """Log once that a peer speaks only other versions of the protocols."""
        others = other_versions(self._connections.protocols, protocols)
        if others and peer not in self._incompatible:
            self._incompatible[peer] = None
            _log.warning(
                "a peer runs an incompatible version of smartpubsub; update the older of the two",
                extra={"fields": {"peer": peer_text(peer), "speaks": " ".join(others)}},
            )

    def forget(self, peer: Peer) -> None:
        """Forget a peer that has disconnected."""
        self._peers.pop(peer, None)

    def _state_of(self, peer: Peer) -> _PeerState:
        return self._peers.setdefault(peer, _PeerState())

    # --- messages ---

    async def _take(self, codec: Codec, peer: Peer, stream: Stream) -> None:
        state = self._state_of(peer)
        if state.streams[codec.protocol] >= self._settings.stream_count_per_protocol_max:
            self._counts.refused_streams += 1
            raise StreamRefusedError("the peer has too many streams")
        state.streams[codec.protocol] += 1
        try:
            # Without its addresses, the core could not tell other peers how to reach the sender.
            with trio.move_on_after(self._settings.identify_s):
                await state.is_identified.wait()
            await self._take_all(codec, peer, stream, state)
        except TooLongError:
            self._counts.refused_large += 1
            self._remember_garbage(peer)
            raise
        except (FrameTimeoutError, UnfinishedFullError):
            self._counts.refused_unfinished += 1
            raise
        except WireError:
            self._counts.garbage += 1
            self._remember_garbage(peer)
            raise
        finally:
            state.end(codec.protocol)

    def _remember_garbage(self, peer: Peer) -> None:
        self.garbage[peer] = self.garbage.pop(peer, 0) + 1
        if len(self.garbage) > self._settings.peer_count_max:
            del self.garbage[next(iter(self.garbage))]

    async def _take_all(self, codec: Codec, peer: Peer, stream: Stream, state: _PeerState) -> None:
        frames = FrameReader(stream, codec.message_bytes_max, self.unfinished)
        is_gathered = codec.is_gathered
        try:
            while (frame := await frames.next()) is not None:
                is_short = len(frame) <= _LONG_BYTES
                few = (
                    frames.ready(_TOGETHER_MAX - 1, _LONG_BYTES) if is_short and is_gathered else ()
                )
                if few:
                    await self._take_few(codec, peer, state, [frame, *few])
                else:
                    await self._take_frame(codec, peer, stream, state, frame)
        finally:
            frames.close()

    async def _take_frame(
        self,
        codec: Codec,
        peer: Peer,
        stream: Stream,
        state: _PeerState,
        frame: bytes,
    ) -> None:
        self._counts.received += 1
        self._counts.received_bytes += len(frame)
        self._usage.touch(peer, trio.current_time())
        size, is_long = len(frame), len(frame) > _LONG_BYTES
        pieces = codec.pieces(frame)
        while True:
            if is_long:
                message, cost_s = await trio.to_thread.run_sync(
                    _decode_next, pieces, limiter=self._decoding
                )
            else:
                message, cost_s = _decode_next(pieces)
            if isinstance(message, WireError):
                await self._keep_to_share(peer, state, cost_s + _GARBAGE_S, blocks=True)
                raise message
            if message is None:
                return
            if size:
                cost_s += _FRAME_S + size / BYTES_PER_S
            kinds = codec.kinds(message) or _EMPTY
            elsewhere_s = _elsewhere_s(codec, kinds)
            await self._keep_to_share(
                peer, state, cost_s, blocks=not is_long, elsewhere_s=elsewhere_s
            )
            await self._keep_to_rate(peer, kinds, is_begun=not size)
            await self._hand_over(codec, peer, stream, state, message, size)
            size = 0

    async def _take_few(
        self, codec: Codec, peer: Peer, state: _PeerState, frames: Sequence[bytes]
    ) -> None:
        """Have the core handle several short messages together, up to the first malformed one."""
        size = sum(map(len, frames))
        self._counts.received += len(frames)
        self._counts.received_bytes += size
        self._usage.touch(peer, trio.current_time())
        messages, error, cost_s = _decode_all(codec, frames)
        cost_s += _FRAME_S + size / BYTES_PER_S
        kinds: Counter[str] = Counter()
        for message in messages:
            kinds.update(codec.kinds(message) or _EMPTY)
        elsewhere_s = _elsewhere_s(codec, kinds)
        await self._keep_to_share(peer, state, cost_s, blocks=True, elsewhere_s=elsewhere_s)
        if messages:
            for message in messages:
                self.hear_of(codec.contacts(message), peer)
            await self._keep_to_rate(peer, kinds, is_begun=False)
            events = [Received(peer, message, state.addresses) for message in messages]
            several = Several(peer, events)
            await self._inbox.put_when_there_is_room(peer, several, size, len(events))
        if error is not None:
            await self._keep_to_share(peer, state, _GARBAGE_S, blocks=True)
            raise error

    async def _hand_over(
        self,
        codec: Codec,
        peer: Peer,
        stream: Stream,
        state: _PeerState,
        message: object,
        size: int,
    ) -> None:
        """Have the core handle a message."""
        self.hear_of(codec.contacts(message), peer)
        if codec.is_last:
            with trio.move_on_after(self._settings.linger_s):
                await state.until_others_end()
        if codec.is_question(message):
            await self._have_answered(peer, stream, message, state, size)
        else:
            event = Received(peer, message, state.addresses)
            await self._inbox.put_when_there_is_room(peer, event, size)

    async def _keep_to_share(
        self,
        peer: Peer,
        state: _PeerState,
        cost_s: float,
        *,
        blocks: bool,
        elsewhere_s: float = 0.0,
    ) -> None:
        """Let other tasks run after some work, and for longer if the peer has used its share."""
        now_s = self._processor.now()
        self._inbox.charge(peer, cost_s)
        self._shares.charge(peer, cost_s, now_s, blocks=blocks, elsewhere_s=elsewhere_s)
        delay_s = self._shares.delay_s(peer, now_s)
        if delay_s > 0 and self._inbox.delays_others:
            self._counts.delayed_expensive += 1
            await trio.sleep(min(delay_s, self._settings.delay_s_max))
        elif delay_s > 0:
            # Events of other peers pass through several tasks, each in its own round of the loop.
            for _ in range(_ROUNDS_BETWEEN):
                await trio.lowlevel.checkpoint()
        else:
            state.since_pause_s += cost_s
            if state.since_pause_s > _PAUSE_AFTER_S:
                state.since_pause_s = 0.0
                await trio.lowlevel.checkpoint()

    async def _keep_to_rate(self, peer: Peer, kinds: Mapping[str, int], *, is_begun: bool) -> None:
        """Wait as long as the rate limit requires; meanwhile the host does not read the stream.

        The rest of a message that has begun is read already; then the next message waits.
        """
        now = trio.current_time()
        delay_s = 0.0 if is_begun else self._rates.delay_s(peer, kinds, now)
        if delay_s > 0:
            self._counts.refused_kinds.update(kinds)
        if delay_s > self._settings.delay_s_max:
            self._counts.refused_rate += 1
            raise StreamRefusedError("the peer sends too fast")
        self._rates.take(peer, kinds, now)
        self._counts.received_kinds.update(kinds)
        if delay_s > 0:
            self._counts.delayed += 1
            await trio.sleep(delay_s)

    async def _have_answered(
        self,
        peer: Peer,
        stream: Stream,
        message: object,
        state: _PeerState,
        size: int,
    ) -> None:
        number = next(self._numbers)
        self._questions[number] = question = _Question()
        try:
            event = Asked(peer, message, number, state.addresses)
            await self._inbox.put_when_there_is_room(peer, event, size)
            with trio.move_on_after(self._settings.answer_s):
                await question.is_answered.wait()
        finally:
            del self._questions[number]
        if question.answer is None:
            self._counts.unanswered += 1
            raise StreamRefusedError("the core does not answer")
        with trio.fail_after(self._settings.write_s):
            await stream.write(question.answer)
