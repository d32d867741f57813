"""A topic, as an application uses it.

    topic = await node.create_topic("news", ordered=True)
    await topic.publish(b"...")

and elsewhere

    async with node.topic("bafyrei...").subscribe(last=10) as events:
        async for event in events: ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from smartpubsub.node.api.choices import (
    ACKNOWLEDGE_S_MAX,
    BUFFER_COUNT_MAX,
    LinkingName,
    Overflow,
    OverflowName,
    Wait,
    WaitName,
    choice,
)
from smartpubsub.node.api.listing import Exported, History, KnownTopic, Stock, TopicBlocks
from smartpubsub.node.api.past import Since
from smartpubsub.node.api.payloads import NOT_GIVEN, Serializer, payload_of
from smartpubsub.node.api.receipts import TopicReceipt
from smartpubsub.node.api.subscription import ReadOptions, TopicStream, read_options
from smartpubsub.node.api.topic_rules import RulesWanted
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.car import write_car
from smartpubsub.protocols.pulsarcast import topics as descriptors


class TopicsPort(Protocol):
    """The topics of a node."""

    async def create(
        self, name: str, wanted: RulesWanted, subtopics: Mapping[str, str | None]
    ) -> Cid:
        """Create a topic, and wait until its keepers have stored it."""
        ...

    async def update(
        self, topic: Cid, wanted: RulesWanted, subtopics: Mapping[str, str | None]
    ) -> descriptors.Topic:
        """Make a new version of a topic, and wait until its keepers have stored it."""
        ...

    async def versions(self, topic: Cid) -> Sequence[descriptors.Topic]:
        """All versions of a topic, the newest first."""
        ...

    async def pin(self, topic: Cid, is_pinned: bool) -> None:
        """Pin or unpin a topic."""
        ...

    async def stock(self, topic: Cid) -> Stock:
        """Report which events of a topic the node keeps."""
        ...

    async def publish(
        self,
        topic: Cid,
        payload: bytes,
        parents: tuple[Cid, ...] | None,
        wait: Wait,
        deadline_s: float,
        key: str | None,
    ) -> TopicReceipt:
        """Publish in a topic, or ask a publisher of the topic to do so."""
        ...

    def subscription(self, topic: Cid, options: ReadOptions) -> TopicStream:
        """Make a subscription to a topic."""
        ...

    async def history(self, topic: Cid, since: str | datetime | None, last: int | None) -> History:
        """Read events of a topic, in its order."""
        ...

    async def blocks(self, topic: Cid) -> TopicBlocks:
        """All blocks of a topic."""
        ...

    async def known(self) -> list[KnownTopic]:
        """List the topics that the node knows, by name."""
        ...

    async def take(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a file; return how many were valid."""
        ...


@dataclass(frozen=True)
class Topic:
    """A topic by its content id."""

    _topics: TopicsPort = field(repr=False)
    _serializer: Serializer = field(repr=False, compare=False)
    cid: Cid

    @property
    def id(self) -> str:
        """The topic's content id."""
        return cid_text(self.cid)

    async def show(self) -> descriptors.Topic:
        """The newest version of its descriptor."""
        return (await self._topics.versions(self.cid))[0]

    async def versions(self) -> list[descriptors.Topic]:
        """All versions of its descriptor, the newest first."""
        return [*await self._topics.versions(self.cid)]

    async def update(
        self,
        *,
        ordered: bool | None = None,
        publishers: Sequence[str] | str | None = None,
        requesters: Sequence[str] | str | None = None,
        linking: LinkingName | None = None,
        subtopics: Mapping[str, str | None] | None = None,
    ) -> descriptors.Topic:
        """Make a new version of a topic of the node; its subscribers follow.

        Parameters are as in `create_topic`; None leaves a rule as it is, and a sub-topic without an
        id is removed.
        """
        wanted = RulesWanted(
            ordered=ordered, publishers=publishers, requesters=requesters, linking=linking
        )
        return await self._topics.update(self.cid, wanted, subtopics or {})

    async def pin(self) -> None:
        """Keep all its events on the node, without limits."""
        await self._topics.pin(self.cid, True)

    async def unpin(self) -> None:
        """Apply the limits of the node to it again."""
        await self._topics.pin(self.cid, False)

    async def stock(self) -> Stock:
        """Report which of its events the node keeps."""
        return await self._topics.stock(self.cid)

    async def publish(
        self,
        payload: bytes = b"",
        *,
        text: str | None = None,
        json: Any = NOT_GIVEN,
        value: Any = NOT_GIVEN,
        parents: Sequence[str] | None = None,
        wait: Wait | WaitName = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        key: str | None = None,
    ) -> TopicReceipt:
        """Publish in it, or ask a publisher of the topic to do so; wait until it is stored.

        The payload is as in `NodeInterface.publish`. `parents` are the events to link to, in a
        topic with the linking `custom`. `key` is as in `NodeInterface.publish`; the keys of each
        topic are its own.
        """
        written = payload_of(payload, text, json, value, self._serializer)
        linked = None if parents is None else tuple(map(cid_from_text, parents))
        waited_for = choice(Wait, wait, "wait")
        return await self._topics.publish(self.cid, written, linked, waited_for, deadline_s, key)

    def subscribe(
        self,
        *,
        since: Since | None = None,
        last: int | None = None,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | OverflowName = Overflow.DROP_OLDEST,
    ) -> TopicStream:
        """Make a subscription, which begins when it is entered as a context manager.

        With `since` (an event's id, a time, or a period such as `1h`) or `last` (a number) it
        begins with history; each event comes once. `gaps` of the subscription lists what is missing
        of the history. `overflow` is as in `NodeInterface.subscribe`.
        """
        options = read_options(
            since=since,
            read_id=cid_from_text,
            last=last,
            buffer_count_max=buffer_count_max,
            overflow=overflow,
        )
        return self._topics.subscription(self.cid, options)

    def keep(
        self, *, since: Since | None = None, last: int | None = None, acknowledges: bool = True
    ) -> TopicStream:
        """Make a subscription that outlives its block, and restarts of the node.

        The next `keep` of the same topic continues it. Its events wait in the node's storage until
        they are acknowledged, as long as the topic has them; `unsubscribe` of the node ends it.
        Asking for the next event acknowledges the one before it; with `acknowledges=False` only
        `EventStream.taken` does.
        """
        options = read_options(
            since=since, read_id=cid_from_text, last=last, keep=True, acknowledges=acknowledges
        )
        return self._topics.subscription(self.cid, options)

    async def history(self, *, since: Since | None = None, last: int | None = None) -> History:
        """Read its events in its order: all, or since an event or a time, or the last ones.

        `gaps` of the list has what is missing.
        """
        options = read_options(since=since, read_id=cid_from_text, last=last)
        return await self._topics.history(self.cid, options.since, options.last)

    async def blocks(self) -> TopicBlocks:
        """All its blocks."""
        return await self._topics.blocks(self.cid)

    async def export(self, path: Path | str) -> Exported:
        """Write all its blocks to a CAR file; return their number, and what is missing."""
        found = await self.blocks()
        with Path(path).open("wb") as file:
            count = write_car(file, found.roots, found.blocks)
        return Exported(count, found.gaps)
