"""The methods that an embedded `Node` and the client of a running node have in common.

`smartpubsub.Node` and `smartpubsub.connect` implement this interface; the blocking forms have the
same methods without `async`. Parameters with a few allowed values take an enum's member or its
text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from smartpubsub.node.api.group import Group, GroupsPort
from smartpubsub.node.api.handlers import AnyHandler, Handlers, Handling, OnError
from smartpubsub.node.api.listing import (
    EventInfo,
    FoundGroup,
    KnownGroup,
    KnownTopic,
    SubscriptionInfo,
)
from smartpubsub.node.api.past import Since
from smartpubsub.node.api.payloads import NOT_GIVEN, Serializer, payload_of
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.api.subscription import EventStream, ReadOptions, read_options
from smartpubsub.node.api.topic import Topic, TopicsPort
from smartpubsub.node.api.topic_rules import RulesWanted
from smartpubsub.node.tracking import EventFacts, Why
from smartpubsub.predicates import Predicate, Verdict
from smartpubsub.predicates import explain as explain_match
from smartpubsub.protocols.blocks import cid_from_text


class NodeInterface(ABC):
    """A node of the network, embedded or in another process."""

    _topics: TopicsPort
    _groups: GroupsPort

    def __init__(self, serializer: Serializer) -> None:
        self.serializer = serializer
        """Writes `value=` and reads `Event.value()`."""
        self._handlers = Handlers(lambda predicate: self.subscribe(predicate))

    @property
    @abstractmethod
    def peer_id(self) -> str:
        """The node's peer id in libp2p's notation."""

    @property
    @abstractmethod
    def addresses(self) -> list[str]:
        """The node's addresses, each with its peer id."""

    @abstractmethod
    async def peers(self) -> list[str]:
        """The peers that the node knows."""

    @abstractmethod
    async def metrics(self) -> bytes:
        """The node's metrics in Prometheus' text format."""

    async def explain(self, filter: Predicate | str, event: Predicate | str) -> list[Verdict]:
        """Explain attribute by attribute whether an event matches a filter."""
        return explain_match(self._read(filter), self._read(event))

    # --- subscribing ---

    def subscribe(
        self,
        predicate: Predicate | str,
        *,
        since: Since | None = None,
        last: int | None = None,
        keep: bool = False,
        acknowledges: bool = True,
        buffer_count_max: int = BUFFER_COUNT_MAX,
        overflow: Overflow | OverflowName = Overflow.DROP_OLDEST,
    ) -> EventStream:
        """Make a subscription, which begins when it is entered as a context manager.

        With `since` (an event's id, a time, or a period such as `1h`) or `last` (a number) it
        begins with history, in order of time. Each event comes once.

        With `keep` the subscription outlives its block and restarts of the node. Its events wait
        on disk until they are acknowledged, and the next `subscribe` with the same predicate and
        `keep` continues it; `unsubscribe` ends it. Asking for the next event acknowledges the one
        before it, and so does leaving the block without an error; with `acknowledges=False` only
        `EventStream.taken` does.

        Otherwise up to `buffer_count_max` events wait in memory, and `overflow` says what happens
        beyond that.
        """
        options = read_options(
            since=since,
            last=last,
            keep=keep,
            acknowledges=acknowledges,
            buffer_count_max=buffer_count_max,
            overflow=overflow,
        )
        return self._subscription(self._read(predicate), options)

    def on(
        self, predicate: Predicate | str, *, on_error: OnError | None = None
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Call a function for every event that matches, one at a time.

        An exception of the function is logged, counted in `handler_error_count`, and passed to
        `on_error` with the event. The next event still comes.
        """

        def decorate(handler: AnyHandler) -> AnyHandler:
            self._start(self._handlers.add(self._read(predicate), handler, on_error))
            return handler

        return decorate

    @property
    def handler_error_count(self) -> int:
        """The number of exceptions that handlers have raised."""
        return self._handlers.error_count

    @abstractmethod
    async def unsubscribe(self, number: int) -> None:
        """End a subscription by its number, whether or not it has a reader."""

    @abstractmethod
    async def subscriptions(self) -> list[SubscriptionInfo]:
        """List the node's subscriptions, also those without a reader."""

    # --- publishing ---

    async def publish(
        self,
        predicate: Predicate | str,
        payload: bytes = b"",
        *,
        text: str | None = None,
        json: Any = NOT_GIVEN,
        value: Any = NOT_GIVEN,
        wait: Wait | WaitName = Wait.RENDEZVOUS,
        deadline_s: float = ACKNOWLEDGE_S_MAX,
        key: str | None = None,
        replicas_min: int = 0,
        id: str | None = None,
    ) -> Receipt:
        """Publish an event, and wait for what `wait` says.

        The payload is bytes, `text`, `json`, or a `value` for the node's serialiser.

        The network acknowledges an event with as many replicas as there are live nodes to hold
        them, up to `backups + 1`; the receipt says how many. With fewer than `replicas_min` the
        call raises `TooFewReplicasError`, which has the event's id: the event is published.

        Publication is idempotent by `key`: publishing by the same key again, also after a restart,
        publishes no second event, and returns the receipt of the first. Publishing other content by
        the same key is an error. The node forgets keys after `key_age_s_max`, and beyond
        `key_count_max`.

        An error of a publish is a `PublishError`, with the event's `id`, the `reason` and the
        `state`. An event that was not acknowledged in time (`PublishNotInTimeError`) is stored, and
        the node goes on sending it, also after a restart. Publishing it again with its `id` waits
        for the same event, and sends it if the node does not: there is no second event.
        """
        written = payload_of(payload, text, json, value, self.serializer)
        waited_for = choice(Wait, wait, "wait")
        event = self._read(predicate)
        return await self._publish(event, written, waited_for, deadline_s, key, replicas_min, id)

    @abstractmethod
    async def event(self, id: str) -> EventInfo:
        """Report the state of an event that the node has published, or that waits for a reader."""

    @abstractmethod
    async def why(
        self,
        event: str,
        *,
        subscription: int | None = None,
        filter: Predicate | str | None = None,
        publisher_facts: EventFacts | None = None,
    ) -> Why:
        """Explain why an event has arrived at a subscription of the node, or has not.

        The subscription is named by its number or by its filter. `publisher_facts` is what the
        publisher's node remembers of the event (`event_facts`), if that is another node.
        """

    @abstractmethod
    async def event_facts(self, id: str) -> EventFacts:
        """Report the facts that the node remembers of an event, for `why` on another node."""

    # --- groups ---

    def group(self, predicate: Predicate | str, owner: str | None = None) -> Group:
        """A group of the node, or of the node with this address or peer id."""
        return Group(self._groups, self._read, self.serializer, self._read(predicate), owner)

    async def groups(self) -> list[KnownGroup]:
        """List the groups that the node owns or is a member of."""
        return await self._groups.known()

    async def search_groups(self, predicate: Predicate | str) -> list[FoundGroup]:
        """Find the advertised groups that have every attribute of a predicate."""
        return await self._groups.search(self._read(predicate))

    # --- topics ---

    async def create_topic(
        self,
        name: str,
        *,
        ordered: bool = False,
        publishers: Sequence[str] | str | None = None,
        requesters: Sequence[str] | str | None = None,
        linking: LinkingName | None = None,
        subtopics: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic of the node.

        In an ordered topic only the node publishes, on request of any peer. `publishers` are peer
        ids, `self` for the node, or `anyone` (the default). `requesters`, which may ask them to
        publish, are peer ids, `anyone` or `nobody`. With the linking `last-seen` events link to the
        newest ones, with `custom` to those that the application names. `subtopics` are the content
        ids of other topics by name.
        """
        wanted = RulesWanted(
            ordered=ordered, publishers=publishers, requesters=requesters, linking=linking
        )
        cid = await self._topics.create(name, wanted, subtopics or {})
        return Topic(self._topics, self.serializer, cid)

    async def topics(self) -> list[KnownTopic]:
        """List the topics that the node has created, subscribes to, keeps, or has just read."""
        return await self._topics.known()

    def topic(self, id: str) -> Topic:
        """A topic by its content id."""
        return Topic(self._topics, self.serializer, cid_from_text(id))

    async def import_blocks(self, blocks: Sequence[bytes]) -> int:
        """Store the blocks of a CAR file; return how many were valid."""
        return await self._topics.take(blocks)

    # --- implemented by the node and by the client ---

    @abstractmethod
    def _read(self, predicate: Predicate | str) -> Predicate:
        """Read a predicate."""

    @abstractmethod
    def _subscription(self, predicate: Predicate, options: ReadOptions) -> EventStream:
        """Make a subscription."""

    @abstractmethod
    async def _publish(
        self,
        event: Predicate,
        payload: bytes,
        wait: Wait,
        deadline_s: float,
        key: str | None,
        replicas_min: int,
        id: str | None,
    ) -> Receipt:
        """Publish an event."""

    @abstractmethod
    def _start(self, handling: Handling) -> None:
        """Run a handler, at once or when the node starts."""
