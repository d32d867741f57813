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
from smartpubsub.protocols.pulsarcast.gathering import Wanted

if TYPE_CHECKING:
    from smartpubsub.node.api.topics import Stock, Topics


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
        """Make a new version of a topic of this node's, to which its subscribers follow.

        What nothing is said of stays as it is; the rest is as in `Node.create_topic`, and a
        sub-topic without an id is taken away.
        """
        wanted = RulesWanted(
            ordered=ordered, publishers=publishers, requesters=requesters, linking=linking
        )
        return await self._topics.update(self.cid, wanted, subtopics or {})

    async def pin(self) -> None:
        """Have this node keep all of it, from its first event on, whatever is let go of others."""
        await self._topics.pin(self.cid, True)

    async def unpin(self) -> None:
        """Have this node keep as much of it as of others."""
        await self._topics.pin(self.cid, False)

    def stock(self) -> Stock:
        """What this node has of it."""
        return self._topics.stock(self.cid)

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
            self.cid, as_payload(payload), linked, choice(Wait, wait, "wait"), deadline_s
        )

    def subscribe(
        self,
        *,
        since: str | datetime | None = None,
        last: int | None = None,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | str = Overflow.DROP_OLDEST,
    ) -> TopicSubscription:
        """Its events while this is entered as a context manager, after some of its history.

        History is since an event or a time, or the last so many; each event comes once. When it is
        entered, `gaps` says what of that history could not be had.
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
        """The same, for a subscription that goes on when it is left, and after a restart.

        Whoever keeps the topic next goes on with it. Its events wait in the node's storage until
        they are taken, as long as the topic has them; `Node.unsubscribe` ends it. If events are
        not to count as taken when the next is asked for, say so, and say what is `taken`.
        """
        history = _history(since, last)
        desk = self._topics.subscribing
        return KeptSubscription(desk, self.cid, history, acknowledges=acknowledges)

    async def history(
        self, *, since: str | datetime | None = None, last: int | None = None
    ) -> History:
        """Its events in its order: all, or since an event or a time, or the last so many.

        A list that says in `gaps` what of it could not be had.
        """
        return await self._topics.history(self.cid, wanted_history(since, last))

    async def export(self, path: Path | str) -> Exported:
        """Write all its blocks to a CAR file; how many there are, and what could not be had."""
        roots, blocks, gaps = await self._topics.export(self.cid)
        with Path(path).open("wb") as file:
            return Exported(write_car(file, roots, blocks), gaps)


def _history(since: str | datetime | None, last: int | None) -> Wanted | None:
    return None if since is None and last is None else wanted_history(since, last)


def wanted_history(since: str | datetime | None, last: int | None) -> Wanted:
    """Which part of history is meant."""
    check_one(since, last)
    if last is not None:
        return Wanted(last=last)
    if isinstance(since, datetime):
        return Wanted(since_us=time_us(since))
    return Wanted(since=None if since is None else cid_from_text(since))
