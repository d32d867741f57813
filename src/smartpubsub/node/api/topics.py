"""The topics of a node: its own, and those that it reads or publishes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import trio

from smartpubsub.node.api.arrivals import must_be_open
from smartpubsub.node.api.calls import Call
from smartpubsub.node.api.choices import ACKNOWLEDGE_S_MAX, Overflow, Wait
from smartpubsub.node.api.event_records import Content, Destination
from smartpubsub.node.api.listing import Gaps, History, KnownTopic, Stock, TopicBlocks
from smartpubsub.node.api.past import time_us
from smartpubsub.node.api.payloads import Serializer
from smartpubsub.node.api.publishing import Publishing
from smartpubsub.node.api.receipts import TopicReceipt
from smartpubsub.node.api.subscribing import Subscribing
from smartpubsub.node.api.subscription import ReadOptions
from smartpubsub.node.api.topic_events import entry_of, must_be_topic
from smartpubsub.node.api.topic_ranges import TopicRanges
from smartpubsub.node.api.topic_rules import RulesWanted, subtopics_of
from smartpubsub.node.api.topic_subscribing import TopicSubscribing
from smartpubsub.node.api.topic_subscription import KeptSubscription, TopicSubscription
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import (
    LimitError,
    NodeError,
    NoTopicError,
    NotOwnerError,
    NotPromisedError,
)
from smartpubsub.node.identity import peer_text
from smartpubsub.protocols.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast import topics as descriptors
from smartpubsub.protocols.pulsarcast.events import predicate_of
from smartpubsub.protocols.pulsarcast.history import Wanted as WantedHistory
from smartpubsub.protocols.pulsarcast.results import HistoryRead, TopicDescribed, TopicStored
from smartpubsub.protocols.pulsarcast.topics import META, Rules
from smartpubsub.seam import Effect

TOPIC = "topic"
"""The kind of destination of an event in a topic."""
HISTORY_S_MAX = 120.0
CONTENT_ID_S_MAX = 10.0
"""How long to look for the content id of an event that another node has published."""


class Topics:
    """The topics of a node."""

    def __init__(
        self,
        engine: Engine,
        subscribing: Subscribing,
        publishing: Publishing,
        serializer: Serializer,
    ) -> None:
        self._engine = engine
        self._publishing = publishing
        publishing.senders[TOPIC] = self._send
        publishing.other_names[TOPIC] = self._in_other_versions
        publishing.self_signing[TOPIC] = None  # An event's block has the signature.
        self._serializer = serializer
        self.subscribing = TopicSubscribing(
            engine, subscribing, self._read_history, self._must_be_there
        )
        self.ranges = TopicRanges(engine, self._history)
        self._answers: dict[int, HistoryRead | TopicDescribed | None] = {}
        """The answers of the core, by number; None until they come."""
        engine.on_news.append(self._on_news)
        engine.on_restart.append(self._restore)

    def _restore(self, _now: int) -> list[Effect]:
        """Interrupt the calls that wait for an answer: the core stores topics, and no questions."""
        self._engine.calls.interrupt(("topic", "answer"))
        return []

    # --- making and writing ---

    async def create(
        self, name: str, wanted: RulesWanted, subtopics: Mapping[str, str | None]
    ) -> Cid:
        """Create a topic, and wait until its keepers have stored it."""
        engine, own = self._engine, self._engine.host.own.peer
        rules = wanted.applied(Rules(), own)
        linked = subtopics_of(subtopics)
        replicas = engine.pulsar.replicas
        if replicas.is_full:
            raise LimitError(f"the node has {len(replicas.by_id):,} topics, which is its limit")
        made = await self._stored(
            f"the topic {name!r}",
            lambda now: engine.pulsar.create(name, now, rules=rules, subtopics=linked),
        )
        return made.cid

    async def update(
        self, topic: Cid, wanted: RulesWanted, subtopics: Mapping[str, str | None]
    ) -> descriptors.Topic:
        """Make a new version of a topic, and wait until its keepers have stored it."""
        newest = (await self.versions(topic))[0]
        engine, own = self._engine, self._engine.host.own.peer
        if newest.author != own:
            raise NotOwnerError(
                f"only the author of a topic can update it; the author of {newest.name!r} is"
                f" {peer_text(newest.author)}"
            )
        if newest.meta is None:
            raise NodeError("a meta topic has no versions; update the topic that it belongs to")
        rules = wanted.applied(newest.rules, own)
        linked = subtopics_of(subtopics, newest.subtopics)
        if rules == newest.rules and {**linked, META: newest.meta} == newest.subtopics:
            raise NodeError(
                f"version {newest.version} of {newest.name!r} has these rules; name what to change"
            )
        return await self._stored(
            f"a version of {newest.name!r}",
            lambda now: engine.pulsar.update(newest.cid, now, rules=rules, subtopics=linked),
        )

    async def _stored(
        self, what: str, make: Callable[[int], tuple[descriptors.Topic, list[Effect]]]
    ) -> descriptors.Topic:
        made: list[descriptors.Topic] = []
        call = Call()

        def begin(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            topic, effects = make(now)
            made.append(topic)
            self._engine.calls.expect("topic", topic.cid, call)
            return None, effects

        try:
            with call.limited(what, ACKNOWLEDGE_S_MAX):
                await self._engine.host.call(begin)
                await call.done.wait()
        finally:
            for topic in made:
                self._engine.calls.forget("topic", topic.cid, call)
        return made[0]

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
        if wait is Wait.ALL:
            raise NotPromisedError(
                "topics do not report when all subscribers have an event; use wait='rendezvous' or"
                " 'nothing'"
            )
        await self._must_be_there(topic)
        began_us = self._engine.host.clock.now()
        name = cid_text(topic)
        linked = None if parents is None else tuple(map(cid_text, parents))
        content = content_in(topic, payload, linked)
        what = f"publishing in the topic {name}"
        receipt = await self._publishing.send(content, wait, deadline_s, key, what)
        id = receipt.event_id
        cid = self._known(topic, id)
        if cid is None and wait is not Wait.NOTHING:  # Another node has published it.
            with trio.move_on_after(CONTENT_ID_S_MAX), suppress(NodeError):
                read = await self._history(topic, WantedHistory(since_us=began_us))
                cid = next((event.cid for event in read.events if event.id == id), None)
        content_id = None if cid is None else cid_text(cid)
        wanted = receipt.replicas_wanted
        return TopicReceipt(id, receipt.waited_for, receipt.held, wanted, content_id)

    def _send(
        self, publication: Publication, destination: Destination, now: int, _: bool
    ) -> list[Effect]:
        parents = destination.parents
        linked = None if parents is None else tuple(map(cid_from_text, parents))
        topic = cid_from_text(destination.name)
        return self._engine.pulsar.publish_in(topic, publication, now, linked)

    def _in_other_versions(self, content: Content) -> Iterator[Content]:
        """The same event in the other versions of its topic that the node knows of."""
        topic = cid_from_text(content.destination.name)
        replica = self._engine.pulsar.replicas.of_version(topic)
        if replica is None or topic == replica.id:  # The meta topic is another one.
            return
        versions = [each for each in replica.versions.values() if each is not replica.meta]
        cids = [cid for version in versions for cid in (version.parent, version.cid)]
        for cid in dict.fromkeys(cids):
            if cid is not None:
                yield content_in(cid, content.payload, content.destination.parents)

    def _known(self, topic: Cid, id: EventId) -> Cid | None:
        replica = self._engine.pulsar.replicas.of_version(topic)
        event = None if replica is None else replica.log.with_id(id)
        return None if event is None else event.cid

    async def take(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a file."""
        engine = self._engine
        engine.must_have_room(sum(map(len, blocks)))
        return await engine.host.call(lambda now: engine.pulsar.take(blocks, now))

    # --- reading ---

    def subscription(self, topic: Cid, options: ReadOptions) -> TopicSubscription:
        """Make a subscription to a topic."""
        has_history = options.since is not None or options.last is not None
        history = _wanted(options.since, options.last) if has_history else None
        if options.keep or options.overflow is Overflow.BLOCK:
            return KeptSubscription(
                self.subscribing,
                topic,
                history,
                acknowledges=options.acknowledges,
                ends=not options.keep,
                serializer=self._serializer,
            )
        return TopicSubscription(
            self.subscribing,
            topic,
            history,
            buffer_count_max=options.buffer_count_max,
            overflow=options.overflow,
            serializer=self._serializer,
        )

    async def history(self, topic: Cid, since: str | datetime | None, last: int | None) -> History:
        """Read events of a topic, in its order."""
        return await self._read_history(topic, _wanted(since, last))

    async def _read_history(self, topic: Cid, wanted: WantedHistory) -> History:
        read = await self._history(topic, wanted)
        events = [event for event in read.events if not event.draft.is_announcement]
        return History([entry_of(e, serializer=self._serializer) for e in events], _gaps(read))

    async def blocks(self, topic: Cid) -> TopicBlocks:
        """All blocks of a topic."""
        read = await self._history(topic, WantedHistory())
        replica = self._engine.pulsar.replicas.of_version(topic)
        if replica is None:
            raise _not_found(topic)
        versions = sorted(replica.versions.values(), key=lambda version: version.version)
        blocks = [replica.meta.block, *(v.block for v in versions if v is not replica.meta)]
        linked = {cid for event in read.events for cid in event.parents}
        heads = [event.cid for event in read.events if event.cid not in linked]
        blocks += [event.block for event in read.events]
        return TopicBlocks([replica.topic.cid, *heads], blocks, _gaps(read))

    async def versions(self, topic: Cid) -> tuple[descriptors.Topic, ...]:
        """The versions of a topic, the newest first."""
        must_be_topic(topic, self._engine.pulsar.replicas)
        answer = await self._answer_of(
            f"the topic {cid_text(topic)}", lambda now: self._engine.pulsar.describe(topic, now)
        )
        if not isinstance(answer, TopicDescribed) or not answer.versions:
            raise _not_found(topic)
        return answer.versions

    async def _must_be_there(self, topic: Cid) -> None:
        """Raise an error soon if a topic is not known here and the network does not have it."""
        must_be_topic(topic, self._engine.pulsar.replicas)
        if self._engine.pulsar.replicas.of_version(topic) is None:
            await self.versions(topic)

    async def pin(self, topic: Cid, is_pinned: bool) -> None:
        """Pin or unpin a topic."""
        await self.versions(topic)

        def pin(now: int) -> list[Effect]:
            pulsar = self._engine.pulsar
            if pulsar.replicas.of_version(topic) is None:  # The node has just left the tree.
                raise _not_found(topic)
            return pulsar.pin(topic, is_pinned, now)

        await self._engine.host.do(pin)

    async def known(self) -> list[KnownTopic]:
        """List the topics that the node knows, by name."""
        must_be_open(self._engine.is_running)
        found = [
            KnownTopic(
                status.replica.topic,
                self._stock(status.replica.topic.cid),
                status.replica.is_own,
                status.subscription_count,
                status.is_keeper,
            )
            for status in self._engine.pulsar.topics()
        ]
        return sorted(found, key=lambda known: (known.topic.name, known.topic.cid))

    async def stock(self, topic: Cid) -> Stock:
        """Report which events of a topic the node keeps."""
        return self._stock(topic)

    def _stock(self, topic: Cid) -> Stock:
        replica = self._engine.pulsar.replicas.of_version(topic)
        if replica is None:
            return Stock(0, 0, False, False)
        log = replica.log
        events = sum(not event.draft.is_announcement for event in log.events.values())
        return Stock(events, log.bytes, log.is_pinned, log.has_all)

    async def _history(self, topic: Cid, wanted: WantedHistory) -> HistoryRead:
        must_be_topic(topic, self._engine.pulsar.replicas)
        answer = await self._answer_of(
            f"the history of {cid_text(topic)}",
            lambda now: self._engine.pulsar.read(topic, wanted, now),
        )
        if not isinstance(answer, HistoryRead) or answer.topic is None:
            raise _not_found(topic)
        if wanted.since is not None and not answer.is_since_known:
            raise NodeError(
                f"no event {cid_text(wanted.since)} is known in the topic {cid_text(topic)}, or it"
                " was dropped; use an id that topic history --json prints, or a time"
            )
        return answer

    async def _answer_of(
        self, what: str, ask: Callable[[int], tuple[int, list[Effect]]]
    ) -> HistoryRead | TopicDescribed | None:
        """Ask the core, and wait for its answer."""
        call = Call()
        numbers: list[int] = []
        answer: HistoryRead | TopicDescribed | None = None

        def begin(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            number, effects = ask(now)
            numbers.append(number)
            self._answers[number] = None
            self._engine.calls.expect("answer", number, call)
            return None, effects

        try:
            with call.limited(what, HISTORY_S_MAX):
                await self._engine.host.call(begin)
                await call.done.wait()
        finally:
            for number in numbers:
                answer = self._answers.pop(number)
                self._engine.calls.forget("answer", number)
        return answer

    def _on_news(self, item: object) -> None:
        match item:
            case TopicStored(topic):
                self._engine.calls.acknowledge("topic", topic)
            case HistoryRead(number) | TopicDescribed(number):
                if number in self._answers:
                    self._answers[number] = item
                self._engine.calls.acknowledge("answer", number)


def content_in(topic: Cid, payload: bytes, parents: tuple[str, ...] | None = None) -> Content:
    """The content of an event in a topic."""
    name = cid_text(topic)
    return Content(predicate_of(topic), payload, Destination(TOPIC, name, parents=parents))


def _wanted(since: str | datetime | None, last: int | None) -> WantedHistory:
    """Which part of history is wanted."""
    if last is not None:
        return WantedHistory(last=last)
    if isinstance(since, datetime):
        return WantedHistory(since_us=time_us(since))
    return WantedHistory(since=None if since is None else cid_from_text(since))


def _gaps(read: HistoryRead) -> Gaps:
    missing, let_go = tuple(map(cid_text, read.missing)), tuple(map(cid_text, read.let_go))
    return Gaps(missing, let_go, read.silent)


def _not_found(topic: Cid) -> NoTopicError:
    return NoTopicError(
        f"no node that could be reached has the topic {cid_text(topic)}; check its id, and that"
        " its author or its keepers run"
    )
