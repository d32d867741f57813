"""All outbound lanes; a slow peer delays only its own lanes."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from smartpubsub.node.transport.counts import Counts
from smartpubsub.node.transport.dialer import Dialer
from smartpubsub.node.transport.host_settings import HostSettings
from smartpubsub.node.transport.lane import Lane
from smartpubsub.node.transport.streams import Stream
from smartpubsub.protocols.codecs import Codec
from smartpubsub.seam import Peer

Spawn: TypeAlias = Callable[..., None]
"""Starts a task."""
OnAnswer: TypeAlias = Callable[[Peer, Codec, int, bytes], None]


class Lanes:
    """One lane for each peer and protocol."""

    def __init__(
        self,
        dialer: Dialer,
        spawn: Spawn,
        on_answer: OnAnswer,
        settings: HostSettings,
        counts: Counts,
    ) -> None:
        self._dialer = dialer
        self._spawn = spawn
        self._on_answer = on_answer
        self._settings = settings
        self._counts = counts
        self._lanes: dict[tuple[Peer, str], Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def is_idle(self, peers: Container[Peer]) -> bool:
        """Whether all messages to some peers are written."""
        return all(lane.is_idle for (peer, _), lane in self._lanes.items() if peer in peers)

    def have_ended(self, peers: Container[Peer]) -> bool:
        """Whether there are no lanes to some peers."""
        return all(peer not in peers for peer, _ in self._lanes)

    def end(self) -> None:
        """End each lane as soon as its peer has read everything that was written."""
        for lane in self._lanes.values():
            lane.end()

    def put(self, peer: Peer, codec: Codec, frame: bytes, number: int | None) -> None:
        """Queue a message; with a number it is a question."""
        lane = self._lanes.get((peer, codec.protocol))
        if lane is None:
            lane = self._lanes[peer, codec.protocol] = self._lane(peer, codec)
            self._spawn(self._run, (peer, codec.protocol), lane)
        lane.put(frame, number)

    def _lane(self, peer: Peer, codec: Codec) -> Lane:
        async def open_stream() -> Stream:
            return await self._dialer.open(peer, codec.protocol)

        def on_answer(number: int, frame: bytes) -> None:
            self._on_answer(peer, codec, number, frame)

        return Lane(open_stream, on_answer, codec.message_bytes_max, self._settings, self._counts)

    async def _run(self, key: tuple[Peer, str], lane: Lane) -> None:
        try:
            await lane.run()
        finally:
            del self._lanes[key]
