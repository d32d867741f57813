"""A topic on a live node, as an application uses it.

    topic = await node.create_topic("news", ordered=True)
    await topic.publish(b"...")

and elsewhere

    async with node.topic("bafyrei...").subscribe(last=10) as events:
        async for event in events: ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from smartpubsub.node.api.arrivals import BUFFER_COUNT_MAX, Overflow
from smartpubsub.node.api.calls import ACKNOWLEDGE_S_MAX, Wait
from smartpubsub.node.api.choices import at_least_one, choice
from smartpubsub.node.api.past import check_one, time_us
from smartpubsub.node.api.publishing import as_payload
from smartpubsub.node.api.topic_events import Exported, History, TopicReceipt
from smartpubsub.node.api.topic_rules import RulesWanted
from smartpubsub.node.api.topic_subscription import KeptSubscription, TopicSubscription
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.car import write_car
from smartpubsub.protocols.pulsarcast import topics as descriptors
from smartpubsub.protocols.pulsarcast.history import Wanted

if TYPE_CHECKING:
    from smartpubsub.node.api.topics import Stock, Topics


@dataclass(frozen=True)
class Topic:
    """A topic by its content id."""

    _topics: Topics
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
        ordered: bool = False,
        publishers: Sequence[str] | str | None = None,
        requesters: Sequence[str] | str | None = None,
        linking: str | None = None,
        subtopics: Mapping[str, str | None] | None = None,
    ) -> descriptors.Topic:
        """Make a new version of a topic of this node; its subscribers follow.

        Parameters are as in `Node.create_topic`; None leaves a rule as it is, and a sub-topic
        without an id is removed.
        """
        wanted = RulesWanted(
            ordered=ordered, publishers=publishers, requesters=requesters, linking=linking
        )
        return await self._topics.update(self.cid, wanted, subtopics or {})

    async def pin(self) -> None:
        """Keep all its events on this node, whatever the limits are."""
        await self._topics.pin(self.cid, True)

    async def unpin(self) -> None:
        """Apply the limits of this node to it again."""
        await self._topics.pin(self.cid, False)

    def stock(self) -> Stock:
        """What this node keeps of it."""
        return self._topics.stock(self.cid)

    async def publish(
        self,
        payload: bytes,
        *,
        parents: list[str] | None = None,
        wait: Wait | str = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        key: str | None = None,
    ) -> TopicReceipt:
        """Publish in it, or ask a publisher of the topic to do so; wait until it is stored.

        `parents` are the events to link to, in a topic with the linking `custom`. `key` is as in
        `Node.publish`; the keys of each topic are its own.
        """
        linked = None if parents is None else tuple(map(cid_from_text, parents))
        return await self._topics.publish(
            self.cid, as_payload(payload), linked, choice(Wait, wait, "wait"), deadline_s, key
        )

    def subscribe(
        self,
        *,
        since: str | datetime | None = None,
        last: int | None = None,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | str = Overflow.DROP_OLDEST,
    ) -> TopicSubscription:
        """Make a subscription, which begins when it is entered as a context manager.

        With `since` (an event's id, or a time) or `last` (a number) it begins with history; each
        event comes once. `gaps` of the subscription lists what is missing of the history.
        `overflow` is as in `Node.subscribe`.
        """
        policy = choice(Overflow, overflow, "overflow")
        owner, history = self._topics.subscribing, _history(since, last)
        if policy is Overflow.BLOCK:
            return KeptSubscription(owner, self.cid, history, ends=True)
        return TopicSubscription(
            owner,
            self.cid,
            history,
            buffer_count_max=at_least_one(buffer_count_max, "buffer_count_max"),
            overflow=policy,
        )

    def keep(
        self,
        *,
        since: str | datetime | None = None,
        last: int | None = None,
        acknowledges: bool = True,
    ) -> KeptSubscription:
        """Make a subscription that outlives its block, and restarts of the node.

        The next `keep` of the same topic continues it. Its events wait in the node's storage until
        they are acknowledged, as long as the topic has them; `Node.unsubscribe` ends it. Asking
        for the next event acknowledges the one before it; with `acknowledges=False` only
        `Subscription.taken` does.
        """
        history = _history(since, last)
        desk = self._topics.subscribing
        return KeptSubscription(desk, self.cid, history, acknowledges=acknowledges)

    async def history(
        self, *, since: str | datetime | None = None, last: int | None = None
    ) -> History:
        """Read its events in its order: all, or since an event or a time, or the last ones.

        `gaps` of the list has what is missing.
        """
        return await self._topics.history(self.cid, wanted_history(since, last))

    async def export(self, path: Path | str) -> Exported:
        """Write all its blocks to a CAR file; return their number, and what is missing."""
        roots, blocks, gaps = await self._topics.export(self.cid)
        with Path(path).open("wb") as file:
            return Exported(write_car(file, roots, blocks), gaps)


def _history(since: str | datetime | None, last: int | None) -> Wanted | None:
    return None if since is None and last is None else wanted_history(since, last)


def wanted_history(since: str | datetime | None, last: int | None) -> Wanted:
    """Read which part of history is wanted."""
    check_one(since, last)
    if last is not None:
        return Wanted(last=last)
    if isinstance(since, datetime):
        return Wanted(since_us=time_us(since))
    return Wanted(since=None if since is None else cid_from_text(since))
