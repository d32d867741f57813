"""A topic on a live node, as an application uses it.

    topic = await node.create_topic("news", ordered=True)
    await topic.publish(b"...")

and elsewhere

    async with node.topic("bafyrei...").subscribe(last=10) as events:
        async for event in events: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from smartpubsub.node.arrivals import BUFFER_COUNT_MAX, Overflow
from smartpubsub.node.calls import ACKNOWLEDGE_S_MAX, Wait
from smartpubsub.node.errors import NodeError
from smartpubsub.node.publishing import as_payload
from smartpubsub.node.topic_events import Entry, TopicReceipt
from smartpubsub.protocols.pulsarcast import topics as descriptors
from smartpubsub.protocols.pulsarcast.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast.car import write_car
from smartpubsub.protocols.pulsarcast.reading import Wanted

if TYPE_CHECKING:
    from smartpubsub.node.topics import Topics, TopicSubscription

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Topic:
    """A topic by its content id."""

    _topics: Topics
    cid: Cid

    @property
    def id(self) -> str:
        """The topic's content id, which is what others need to find it."""
        return cid_text(self.cid)

    async def show(self) -> descriptors.Topic:
        """The newest version of its descriptor."""
        return await self._topics.show(self.cid)

    async def publish(
        self,
        payload: bytes,
        *,
        parents: list[str] | None = None,
        wait: Wait | str = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
    ) -> TopicReceipt:
        """Publish in it, or ask somebody to who may, and wait until the event is stored.

        Parents are named where the topic's events link to what the application says.
        """
        linked = None if parents is None else tuple(map(cid_from_text, parents))
        return await self._topics.publish(
            self.cid, as_payload(payload), linked, Wait(wait), deadline_s
        )

    def subscribe(
        self,
        *,
        since: str | datetime | None = None,
        last: int | None = None,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow = Overflow.DROP_OLDEST,
    ) -> TopicSubscription:
        """Its events while this is entered as a context manager, after some of its history.

        History is since an event or a time, or the last so many; each event comes once.
        """
        history = None if since is None and last is None else wanted_history(since, last)
        return self._topics.new(
            self.cid, history, buffer_count_max=buffer_count_max, overflow=overflow
        )

    async def history(
        self, *, since: str | datetime | None = None, last: int | None = None
    ) -> list[Entry]:
        """Its events in its order: all, or since an event or a time, or the last so many."""
        return await self._topics.history(self.cid, wanted_history(since, last))

    async def export(self, path: Path | str) -> int:
        """Write all its blocks to a CAR file; how many there are."""
        roots, blocks = await self._topics.export(self.cid)
        with Path(path).open("wb") as file:
            return write_car(file, roots, blocks)


def wanted_history(since: str | datetime | None, last: int | None) -> Wanted:
    """Which part of history is meant."""
    if since is not None and last is not None:
        raise NodeError("history is since something, or the last so many; choose one")
    if last is not None:
        if last < 1:
            raise NodeError("the last so many are one or more")
        return Wanted(last=last)
    if isinstance(since, datetime):
        at = since if since.tzinfo is not None else since.replace(tzinfo=UTC)
        return Wanted(since_us=max(0, round(at.timestamp() * MICROSECONDS)))
    return Wanted(since=None if since is None else cid_from_text(since))
