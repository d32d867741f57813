"""What a node does with topics: its own, and those that it reads and writes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import trio

from smartpubsub.node.arrivals import Event, Overflow, Subscription
from smartpubsub.node.calls import ACKNOWLEDGE_S_MAX, Call, Wait
from smartpubsub.node.engine import Engine
from smartpubsub.node.errors import NodeError
from smartpubsub.node.publishing import Publishing
from smartpubsub.node.subscribing import Subscribing
from smartpubsub.node.topic import Topic
from smartpubsub.node.topic_events import Entry, TopicReceipt
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Delivery, SubscriptionState
from smartpubsub.protocols.pubsub import Subscription as Wanted
from smartpubsub.protocols.pulsarcast import topics as descriptors
from smartpubsub.protocols.pulsarcast.blocks import Cid, cid_from_text, cid_text
from smartpubsub.protocols.pulsarcast.reading import Wanted as WantedHistory
from smartpubsub.protocols.pulsarcast.told import HistoryRead, TopicStored
from smartpubsub.protocols.pulsarcast.topics import Rules, rules_ordered_by
from smartpubsub.seam import Effect

HISTORY_S_MAX = 120.0
CONTENT_ID_S_MAX = 10.0
"""How long to look for what somebody else has made of an event; it is published without that."""
LEAVE_S_MAX = 5.0


class TopicSubscription(Subscription):
    """A subscription to a topic, which may begin with some of its history."""

    def __init__(
        self,
        topics: Topics,
        topic: Cid,
        history: WantedHistory | None,
        *,
        buffer_count_max: int,
        overflow: Overflow,
    ) -> None:
        predicate = Predicate.of({cid_text(topic): True})
        super().__init__(topics, predicate, buffer_count_max=buffer_count_max, overflow=overflow)
        self.topic = topic
        self.history = history
        self._held: list[Entry] | None = None if history is None else []
        """What has come while history is being read."""

    def put(self, event: Event) -> None:
        """What has come by all protocols' way, and comes here as an entry too."""

    def take(self, entry: Entry) -> None:
        """An event has come."""
        if self._held is None:
            super().put(entry)
        else:
            self._held.append(entry)

    def begin(self, history: Sequence[Entry]) -> None:
        """History has been read, and what came meanwhile follows, each once."""
        held, self._held = self._held or [], None
        for entry in {entry.id: entry for entry in (*history, *held)}.values():
            super().put(entry)


class Topics:
    """The topics of a node, its own and others'."""

    def __init__(self, engine: Engine, subscribing: Subscribing, publishing: Publishing) -> None:
        self._engine = engine
        self._subscribing = subscribing
        self._publishing = publishing
        self._open: dict[int, TopicSubscription] = {}
        self._read: dict[int, HistoryRead | None] = {}
        """What is being read; None until it has come."""
        engine.on_deliver.append(self._on_deliver)

    # --- making and writing ---

    async def create(
        self, name: str, ordered: bool, rules: Rules | None, subtopics: Mapping[str, str]
    ) -> Topic:
        """Make a topic, and wait until everybody can find it."""
        pulsar, own = self._engine.pulsar, self._engine.host.own.peer
        if ordered and rules is not None:
            raise NodeError("an ordered topic has its rules; give the one or the other")
        taken = rules_ordered_by(own) if ordered else rules
        linked = {name: cid_from_text(text) for name, text in subtopics.items()}
        made: list[Cid] = []
        call = Call()

        def create(now: int) -> tuple[None, list[Effect]]:
            topic, effects = pulsar.create(name, now, rules=taken, subtopics=linked)
            made.append(topic.cid)
            self._engine.calls.expect("topic", topic.cid, call)
            return None, effects

        with call.limited(f"the topic {name!r}", ACKNOWLEDGE_S_MAX):
            await self._engine.host.call(create)
            await call.done.wait()
        return Topic(self, made[0])

    async def publish(
        self,
        topic: Cid,
        payload: bytes,
        parents: tuple[Cid, ...] | None,
        wait: Wait,
        deadline_s: float,
    ) -> TopicReceipt:
        """Publish in a topic, or have somebody publish who may."""
        core, pulsar = self._engine.core, self._engine.pulsar
        predicate = Predicate.of({cid_text(topic): True})

        def send(now: int, _: bool) -> tuple[EventId, list[Effect]]:
            publication = core.new_event(predicate, payload)
            return publication.id, pulsar.publish_in(topic, publication, now, parents)

        began_us = self._engine.host.clock.now()
        receipt = await self._publishing.send(predicate, payload, wait, deadline_s, send)
        id = receipt.event_id
        cid = self._known(topic, id)
        if cid is None and wait is not Wait.NOTHING:  # Somebody else has published it.
            with trio.move_on_after(CONTENT_ID_S_MAX), suppress(NodeError):
                read = await self._history(topic, WantedHistory(since_us=began_us))
                cid = next((event.cid for event in read.events if event.id == id), None)
        content_id = None if cid is None else cid_text(cid)
        return TopicReceipt(id, receipt.waited_for, receipt.held, content_id)

    def _known(self, topic: Cid, id: EventId) -> Cid | None:
        room = self._engine.pulsar.office.room_of.get(topic)
        event = None if room is None else room.log.with_id(id)
        return None if event is None else event.cid

    async def take(self, blocks: Sequence[bytes]) -> int:
        """Take blocks from a file."""
        pulsar = self._engine.pulsar
        size = sum(map(len, blocks))
        self._engine.must_have_room(size)
        return await self._engine.host.call(lambda now: pulsar.take(blocks, now))

    # --- reading ---

    async def history(self, topic: Cid, wanted: WantedHistory) -> list[Entry]:
        """Events of a topic, in its order."""
        read = await self._history(topic, wanted)
        return [Entry.of_event(e) for e in read.events if not e.draft.is_announcement]

    async def export(self, topic: Cid) -> tuple[list[Cid], list[bytes]]:
        """All blocks of a topic: the newest, from which all others can be reached, and all."""
        read = await self._history(topic, WantedHistory())
        room = self._engine.pulsar.office.room_of[topic]
        versions = sorted(room.versions.values(), key=lambda version: version.version)
        blocks = [room.meta.block, *(v.block for v in versions if v is not room.meta)]
        linked = {cid for event in read.events for cid in event.parents}
        heads = [event.cid for event in read.events if event.cid not in linked]
        return [room.topic.cid, *heads], [*blocks, *(event.block for event in read.events)]

    async def show(self, topic: Cid) -> descriptors.Topic:
        """The newest version of a topic."""
        read = await self._history(topic, WantedHistory(last=1))
        assert read.topic is not None
        return read.topic

    async def _history(self, topic: Cid, wanted: WantedHistory) -> HistoryRead:
        pulsar, call = self._engine.pulsar, Call()
        numbers: list[int] = []

        def read(now: int) -> tuple[None, list[Effect]]:
            number, effects = pulsar.read(topic, wanted, now)
            numbers.append(number)
            self._read[number] = None
            self._engine.calls.expect("history", number, call)
            return None, effects

        found: HistoryRead | None = None
        try:
            with call.limited(f"the history of {cid_text(topic)}", HISTORY_S_MAX):
                await self._engine.host.call(read)
                await call.done.wait()
        finally:
            for number in numbers:
                found = self._read.pop(number)
                self._engine.calls.forget("history", number)
        if found is None or found.topic is None:
            raise NodeError(
                f"the topic {cid_text(topic)} was not found; is anybody who keeps it there?"
            )
        return found

    # --- subscribing ---

    def new(
        self,
        topic: Cid,
        history: WantedHistory | None,
        *,
        buffer_count_max: int,
        overflow: Overflow,
    ) -> TopicSubscription:
        """A subscription, which begins when it is entered as a context manager."""
        return TopicSubscription(
            self, topic, history, buffer_count_max=buffer_count_max, overflow=overflow
        )

    async def open(self, subscription: Subscription) -> None:
        """Begin a subscription, and wait until it is in force and has its history."""
        assert isinstance(subscription, TopicSubscription)
        core, pulsar, call = self._engine.core, self._engine.pulsar, Call()

        def subscribe(now: int) -> tuple[None, list[Effect]]:
            if call.is_over:
                return None, []
            number = subscription.number = core.new_number()
            self._open[number] = subscription
            self._subscribing.register(number, subscription)
            self._engine.calls.expect("subscribe", number, call)
            return None, pulsar.subscribe(Wanted(number, subscription.predicate), now)

        try:
            with call.limited(f"the subscription {subscription.predicate}", ACKNOWLEDGE_S_MAX):
                await self._engine.host.call(subscribe)
                await call.done.wait()
            if subscription.history is not None:
                history = await self.history(subscription.topic, subscription.history)
                subscription.begin(history)
        except BaseException:  # Nobody will leave what was never entered.
            await self.end(subscription)
            raise

    async def end(self, subscription: Subscription) -> None:
        """End a subscription."""
        number = subscription.number
        if number is None or self._open.pop(number, None) is None:
            return
        self._subscribing.unregister(number)
        subscription.finish()
        if not self._engine.is_running:
            return
        self._engine.calls.forget("subscribe", number)
        pulsar = self._engine.pulsar
        with trio.move_on_after(LEAVE_S_MAX) as limit:
            limit.shield = True
            await self._engine.host.do(lambda now: pulsar.unsubscribe(number, now))

    def state_of(self, subscription: Subscription) -> SubscriptionState:
        """How far a subscription has come."""
        if subscription.number is None:
            return SubscriptionState.PENDING
        return self._engine.pulsar.state_of(subscription.number, self._engine.host.clock.now())

    def on_room(self) -> None:
        """Let the node go on, or stop, as there is room for what comes."""
        self._subscribing.on_room()

    def _on_deliver(self, item: object) -> None:
        match item:
            case Delivery(publication, numbers, hops):
                wanting = [self._open[number] for number in numbers if number in self._open]
                if wanting:
                    room = self._engine.pulsar.office.room_of[wanting[0].topic]
                    event = room.log.with_id(publication.id)
                    if event is not None:
                        for subscription in wanting:
                            subscription.take(Entry.of_event(event, hops))
            case TopicStored(topic):
                self._engine.calls.acknowledge("topic", topic)
            case HistoryRead(number):
                if number in self._read:
                    self._read[number] = item
                self._engine.calls.acknowledge("history", number)
