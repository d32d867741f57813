"""Publishing: own topics and events, requests to publish, and publishing for other authors.

A node that may not publish in a topic sends its signed draft to a node that may. An author numbers
its requests in turns, and each names the first turn without an answer. So the publisher publishes
them in the author's order, once each, even if messages are lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.ledger import Account
from smartpubsub.kademlia.queries import Put
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.publication import EventId, Publication, Signing
from smartpubsub.protocols.pubsub import Published, Refused
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.dissemination import TopicDissemination
from smartpubsub.protocols.pulsarcast.events import (
    PARENTS_MAX,
    PAYLOAD_BYTES_MAX,
    Draft,
    draft_block,
    new_event,
    read_draft,
    sealed_draft,
)
from smartpubsub.protocols.pulsarcast.fetcher import ParentFetcher
from smartpubsub.protocols.pulsarcast.fields import RefusalError
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import Granted, PublishRequest
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.pulsarcast.results import TopicStored
from smartpubsub.protocols.pulsarcast.settings import STAY_US
from smartpubsub.protocols.pulsarcast.topics import (
    META,
    Linking,
    Rules,
    Topic,
    new_meta_topic,
    new_topic,
)
from smartpubsub.protocols.pulsarcast.versions import Versions
from smartpubsub.seam import Peer

ANNOUNCEMENTS_FROM = 1 << 32
"""Events that announce versions have numbers from here on, apart from those of applications."""
RESENT_AT_ONCE_MAX = 50
TRIES_PER_PUBLISHER = 3
"""How often an author asks one publisher before the next."""
AUTHORS_MAX = 10_000
EARLY_BYTES_MAX = 64 << 20
"""The memory for drafts that have arrived before their turn."""
_DRAFT_BYTES = 512
"""About how much memory a draft takes beside its payload."""
PUTS_AT_ONCE_MAX = 16
"""How many descriptors a node stores again at each heartbeat: after a restart, and of those that no
node has stored."""


@dataclass(slots=True, eq=False)
class _OpenRequests:
    """This node's requests in one topic that have no answer, by turn."""

    drafts: dict[int, Draft] = field(default_factory=dict)
    last_turn: int = 0
    silent_tries: int = 0
    """How many retransmissions in a row had no answer."""
    has_progress: bool = False
    """Whether an answer has arrived since the timer was set."""
    timer_is_set: bool = False


@dataclass(eq=False)
class RequestSender(Component):
    """Asks nodes that may publish to publish events of this node."""

    _replicas: TopicReplicas
    _membership: Membership
    _incarnation: int = field(init=False, default=0)
    _open: dict[Cid, _OpenRequests] = field(init=False, default_factory=dict)

    def start(self, incarnation: int) -> None:
        """Number turns within this incarnation."""
        self._incarnation = incarnation

    def request(self, replica: TopicReplica, draft: Draft) -> None:
        """Ask a publisher to publish a draft; deliver `Published` or `Refused`."""
        requests = self._open.setdefault(replica.id, _OpenRequests())
        if len(requests.drafts) >= self._settings.pending_count_max:
            self._outbox.deliver(Refused(draft.id, "too many requests wait; try again later"))
            return
        self._persistence.store_request(draft)
        self._add(replica, requests, draft)

    def is_open(self, replica: TopicReplica, id: EventId) -> bool:
        """Whether a request for an event has no answer yet."""
        requests = self._open.get(replica.id, _OpenRequests())
        return any(draft.id == id for draft in requests.drafts.values())

    def restore(self, drafts: Iterable[Draft]) -> None:
        """Send the requests again that had no answer before a restart, in the same order."""
        for draft in drafts:
            replica = self._replicas.of_version(draft.topic)
            if replica is not None:
                self._add(replica, self._open.setdefault(replica.id, _OpenRequests()), draft)

    def _add(self, replica: TopicReplica, requests: _OpenRequests, draft: Draft) -> None:
        requests.last_turn += 1
        requests.drafts[requests.last_turn] = draft
        self._send(replica, requests, requests.last_turn)
        self._set_timer(replica, requests)

    def _send(self, replica: TopicReplica, requests: _OpenRequests, turn: int) -> None:
        self._membership.stay(replica, STAY_US)
        first_turn = next(iter(requests.drafts))
        block = draft_block(requests.drafts[turn])
        message = PublishRequest(replica.id, self._incarnation, turn, first_turn, block)
        self._outbox.queue(self._publisher(replica.topic, requests), message)

    def _publisher(self, topic: Topic, requests: _OpenRequests) -> Peer:
        """Choose a publisher: the author if it may publish, or others in turn if it is silent."""
        allowed = topic.rules.publishers or (topic.author,)
        first = topic.author if topic.author in allowed else allowed[0]
        others = [peer for peer in allowed if peer not in (first, self._own)]
        return [first, *others][requests.silent_tries // TRIES_PER_PUBLISHER % (1 + len(others))]

    def _set_timer(self, replica: TopicReplica, requests: _OpenRequests) -> None:
        if not requests.timer_is_set:
            requests.timer_is_set = True
            wait_us = self._liveness.at_least(self._settings.request_us, 6)
            wait_us <<= min(requests.silent_tries, 6)
            wait_us = min(wait_us, self._settings.request_us_max)
            self._outbox.set_timer(("request", replica.id), wait_us)

    def on_timer(self, replica: TopicReplica) -> None:
        """Send requests without an answer again."""
        requests = self._open.get(replica.id)
        if requests is None:
            return
        requests.timer_is_set = False
        if requests.drafts and requests.has_progress:
            # The publisher takes requests in turn, and is busy with earlier ones.
            requests.has_progress = False
            self._set_timer(replica, requests)
        elif requests.drafts:
            requests.silent_tries += 1
            for turn in list(requests.drafts)[:RESENT_AT_ONCE_MAX]:
                self._send(replica, requests, turn)
            self._set_timer(replica, requests)

    def on_granted(self, message: Granted) -> None:
        """Deliver a publisher's answer."""
        requests = self._open.get(message.topic_id)
        if requests is None or message.start != self._incarnation:
            return
        draft = requests.drafts.pop(message.turn, None)
        if draft is None:
            return
        requests.silent_tries, requests.has_progress = 0, True
        self._persistence.forget_request(draft)
        refusal = message.refusal
        self._outbox.deliver(Refused(draft.id, refusal) if refusal else Published(draft.id))

    def check(self) -> None:
        """Assert that turns without an answer are in order, and that the last turn is known."""
        for requests in self._open.values():
            turns = list(requests.drafts)
            assert turns == sorted(turns)
            assert not turns or turns[-1] <= requests.last_turn


@dataclass(eq=False)
class TopicPublisher(Component):
    """Makes this node's topics, versions and events."""

    _replicas: TopicReplicas
    _membership: Membership
    _signing: Signing
    _versions: Versions
    _dissemination: TopicDissemination
    _keepers: Keepers
    _parent_fetcher: ParentFetcher
    _requests: RequestSender
    _incarnation: int = field(init=False, default=0)
    _announced: int = field(init=False, default=0)
    _unstored: dict[Cid, int] = field(init=False, default_factory=dict)
    """New versions, and how many stores of each have not ended."""
    _restored: deque[Topic] = field(init=False, default_factory=deque)
    """Descriptors of this node's topics that it has not stored again since it started."""
    _unput: deque[tuple[Cid, Topic]] = field(init=False, default_factory=deque)
    """New versions, and descriptors of them that no node has stored."""

    def start(self, incarnation: int) -> None:
        """Number announcements within this incarnation."""
        self._incarnation = incarnation

    def restore(self, replicas: Iterable[TopicReplica]) -> None:
        """Store the descriptors of this node's topics in the overlay again, a few at a time.

        The node may have stopped before the overlay had them.
        """
        for replica in replicas:
            if replica.is_own:
                self._restored.extend(replica.versions.values())
        self.beat()

    def beat(self) -> None:
        """Store the next of the restored descriptors, and of those that no node has stored."""
        for _ in range(min(PUTS_AT_ONCE_MAX, len(self._unput))):
            self._put(*self._unput.popleft())
        for _ in range(min(PUTS_AT_ONCE_MAX, len(self._restored))):
            descriptor = self._restored.popleft()
            self._overlay.put(descriptor.cid, descriptor.block, self._on_put_again)

    def _on_put_again(self, put: Put) -> None:
        replica = self._replicas.of_version(put.name)
        if not put.copies and replica is not None:
            self._restored.append(replica.versions[put.name])

    # --- topics ---

    def create(self, name: str, rules: Rules, subtopics: Mapping[str, Cid]) -> Topic:
        """Make a topic and its meta topic; deliver `TopicStored`."""
        now = self._outbox.now
        meta = new_meta_topic(f"{name}/{META}", self._own, self._signing, now)
        linked = {**subtopics, META: meta.cid}
        topic = new_topic(name, self._own, rules, self._signing, now, subtopics=linked)
        replica = self._replicas.add(topic, meta)
        replica.log.settle(has_all=True)
        self._membership.stay(replica, STAY_US)
        self._persistence.store_topic(meta)
        self._replicas.store_state(replica)
        self._announce(replica, topic, [meta, topic])
        return topic

    def next_version(
        self, replica: TopicReplica, rules: Rules, subtopics: Mapping[str, Cid]
    ) -> Topic:
        """Make a new version of a topic of this node; deliver `TopicStored`."""
        before = replica.topic
        topic = new_topic(
            before.name,
            before.author,
            rules,
            self._signing,
            self._outbox.now,
            parent=before,
            subtopics={**subtopics, META: replica.id},
        )
        self._replicas.add_version(replica, topic)
        self._replicas.store_state(replica)
        self._announce(replica, topic, [topic])
        return topic

    def _announce(self, replica: TopicReplica, topic: Topic, new: list[Topic]) -> None:
        """Store descriptors in the overlay, and announce the version in the meta topic."""
        self._persistence.store_topic(topic)
        self._membership.attach(replica)
        self._unstored[topic.cid] = len(new) + 1
        for descriptor in new:
            self._put(topic.cid, descriptor)
        self._announced += 1
        number = ANNOUNCEMENTS_FROM + self._announced
        draft = Draft(
            topic=replica.id,
            id=EventId(self._own, self._incarnation, number),
            created_us=self._outbox.now,
            payload=topic.cid,
            is_announcement=True,
        )
        self.place(replica, draft, partial(self._on_stored, topic.cid))

    def _put(self, topic: Cid, descriptor: Topic) -> None:
        then = partial(self._on_put, topic, descriptor)
        self._overlay.put(descriptor.cid, descriptor.block, then)

    def _on_put(self, topic: Cid, descriptor: Topic, put: Put) -> None:
        if put.copies:
            self._on_stored(topic)
        else:
            self._unput.append((topic, descriptor))  # There may be room at the next heartbeat.

    def _on_stored(self, topic: Cid) -> None:
        self._unstored[topic] -= 1
        if not self._unstored[topic]:
            del self._unstored[topic]
            self._outbox.deliver(TopicStored(topic))

    # --- events ---

    def publish(
        self, publication: Publication, topic: Cid, parents: tuple[Cid, ...] | None = None
    ) -> None:
        """Publish in a topic, or ask a publisher to; deliver `Published` or `Refused`."""
        then = partial(self._publish, publication, topic, parents)
        self._replicas.with_replica(topic, then)

    def _publish(
        self,
        publication: Publication,
        topic: Cid,
        parents: tuple[Cid, ...] | None,
        replica: TopicReplica | None,
    ) -> None:
        problem = self._problem(replica, topic, publication.payload, parents)
        if problem and replica is not None and not self._membership.is_attached(replica):
            # The newest version, which the parent reports, may allow it.
            then = partial(self._publish, publication, topic, parents, replica)
            self._versions.when_settled(replica, then)
            return
        if problem or replica is None:
            self._outbox.deliver(Refused(publication.id, problem))
            return
        self._membership.stay(replica, STAY_US)
        if self._publish_again(replica, publication.id):
            return
        refused = Refused(publication.id, "no node has the event to link to")
        self._parent_fetcher.when_here(
            replica,
            parents or (),
            self._own,
            partial(self._link, publication, topic, parents, replica),
            partial(self._outbox.deliver, refused),
        )

    def _publish_again(self, replica: TopicReplica, id: EventId) -> bool:
        """Ask the keepers of a published event again; False if it has neither place nor request."""
        known = replica.log.with_id(id)
        if known is not None and not self._keepers.is_pending(replica, known.cid):
            self._keepers.publish(replica, known)
        return known is not None or self._requests.is_open(replica, id)

    def _link(
        self,
        publication: Publication,
        topic: Cid,
        parents: tuple[Cid, ...] | None,
        replica: TopicReplica,
    ) -> None:
        may_publish = replica.topic.rules.may_publish(self._own)
        if not replica.log.is_settled and may_publish:
            # Until this node has a place, it does not know which events to link to.
            then = partial(self._publish, publication, topic, parents, replica)
            self._versions.hold(replica, then)
            return
        draft = Draft(
            topic=replica.topic.cid,
            id=publication.id,
            created_us=self._outbox.now,
            payload=publication.payload,
            parents=parents,
        )
        if may_publish:
            self.place(replica, draft, None, parents)
        else:
            self._requests.request(replica, sealed_draft(draft, self._signing))

    def _problem(
        self,
        replica: TopicReplica | None,
        topic: Cid,
        payload: bytes,
        parents: tuple[Cid, ...] | None,
    ) -> str:
        if replica is None:
            return "the topic was not found; check that its author or one of its keepers is up"
        if topic == replica.id:
            return "a meta topic announces versions only; publish in the topic itself"
        rules = replica.topic.rules
        if not rules.may_publish(self._own) and not rules.may_request(self._own):
            return "the topic does not allow this node to publish, nor to ask others to"
        if len(payload) > PAYLOAD_BYTES_MAX:
            return f"a payload has at most {PAYLOAD_BYTES_MAX} bytes"
        pending = self._keepers.pending_count(replica) + self._versions.held_count(replica)
        if pending >= self._settings.pending_count_max:
            return "too many events wait to be stored; try again later"
        return _linking_problem(rules, parents)

    def place(
        self,
        replica: TopicReplica,
        draft: Draft,
        then: Callable[[], None] | None = None,
        parents: tuple[Cid, ...] | None = None,
    ) -> None:
        """Assign a draft its place in a topic; store, disseminate and replicate the event."""
        log = replica.log
        linked = _last_seen(log) if parents is None else parents
        heights = [log.events[cid].height if cid in log else log.heads[cid] for cid in linked]
        height = 1 + max(heights, default=0)
        event = new_event(draft, self._own, linked, height, self._signing)
        self._dissemination.publish(replica, event)
        self._keepers.publish(replica, event, then)

    def check(self) -> None:
        """Assert that each unfinished version waits for a store."""
        assert all(self._unstored.values())


def _linking_problem(rules: Rules, parents: tuple[Cid, ...] | None) -> str:
    is_custom = rules.linking is Linking.CUSTOM
    if is_custom and parents is None:
        return "publishers choose the links in this topic: name parents, or pass an empty list"
    if not is_custom and parents is not None:
        return "events link to the newest in this topic: name no parents"
    if parents is not None and len(parents) > PARENTS_MAX:
        return f"an event links to at most {PARENTS_MAX} others"
    if parents is not None and len(set(parents)) < len(parents):
        return "an event links to another once; name each parent once"
    return ""


def _last_seen(log: Log) -> tuple[Cid, ...]:
    """Return the newest head, and the lowest others, which have waited longest for a link."""
    heads = sorted((height, cid) for cid, height in log.heads.items())
    if len(heads) <= PARENTS_MAX:
        return tuple(cid for _, cid in reversed(heads))
    return (heads[-1][1], *(cid for _, cid in heads[: PARENTS_MAX - 1]))


@dataclass(slots=True, eq=False)
class _AuthorQueue:
    """The requests of one author to this node in one topic."""

    next_turn: int = 1
    early: dict[int, Draft] = field(default_factory=dict)
    """Drafts that have arrived before their turn."""


def _memory_of(draft: Draft) -> int:
    return _DRAFT_BYTES + len(draft.payload)


@dataclass(eq=False)
class RequestServer(Component):
    """Publishes for authors that may ask, in the order of each author's turns."""

    _replicas: TopicReplicas
    _membership: Membership
    _keepers: Keepers
    _parent_fetcher: ParentFetcher
    _publisher: TopicPublisher
    _early_drafts: Account
    _queues: dict[tuple[Cid, Peer, int], _AuthorQueue] = field(init=False, default_factory=dict)
    """By topic, author and the author's incarnation."""

    def on_request(self, peer: Peer, message: PublishRequest) -> None:
        """Publish for an author, or refuse; ignore requests until this node has its place."""
        replica = self._replicas.get(message.topic_id)
        if replica is None or not self._membership.is_attached(replica):
            return  # The author retransmits it.
        if self._keepers.pending_count(replica) >= self._settings.pending_count_max:
            self._outbox.reject("too many requests")
            return
        try:
            draft = read_draft(message.draft)
            self._permissions.check_draft(draft)
        except RefusalError as error:
            self._permissions.refuse(error)
            self._answer(peer, message, error.reason.value)
            return
        if draft.id.publisher != peer or not self._is_allowed(replica, draft):
            self._outbox.reject("unauthorised")
            self._answer(peer, message, "unauthorised")
            return
        then = partial(self._take, replica, peer, message, draft)
        self._parent_fetcher.when_here(replica, draft.parents or (), peer, then, lambda: None)

    def _answer(self, peer: Peer, message: PublishRequest, refusal: str) -> None:
        answer = Granted(message.topic_id, message.start, message.turn, refusal)
        self._outbox.queue(peer, answer)

    def _is_allowed(self, replica: TopicReplica, draft: Draft) -> bool:
        topic, rules = replica.versions.get(draft.topic), replica.topic.rules
        if (rules.linking is Linking.CUSTOM) != (draft.parents is not None):
            return False
        is_allowed = rules.allow(draft.id.publisher, self._own)
        return topic is not None and topic is not replica.meta and is_allowed

    def _take(
        self, replica: TopicReplica, peer: Peer, message: PublishRequest, draft: Draft
    ) -> None:
        """Publish a draft when all drafts of earlier turns are published."""
        key = (replica.id, peer, message.start)
        queue = self._queues.get(key)
        if queue is None:
            self._make_room()
            queue = self._queues[key] = _AuthorQueue(next_turn=message.first_turn)
        queue.next_turn = max(queue.next_turn, message.first_turn)
        # The author has answers to the turns before, perhaps from other publishers.
        for turn in [turn for turn in queue.early if turn < queue.next_turn]:
            self._release(queue, peer, turn)
        if message.turn <= queue.next_turn:
            self._publish(replica, peer, message.start, message.turn, draft)
            queue.next_turn = max(queue.next_turn, message.turn + 1)
        else:
            self._hold(queue, peer, message.turn, draft)
        while queue.next_turn in queue.early:
            turn = queue.next_turn
            queue.next_turn += 1
            self._publish(replica, peer, message.start, turn, self._release(queue, peer, turn))

    def _hold(self, queue: _AuthorQueue, peer: Peer, turn: int, draft: Draft) -> None:
        """Keep a draft until its turn, if there is room; its author retransmits it."""
        account, size = self._early_drafts, _memory_of(draft)
        if turn in queue.early:
            return
        is_long = len(queue.early) >= self._settings.request_count_max
        if is_long or not account.fits(peer, size):
            account.refuse()
            return
        queue.early[turn] = draft
        account.change(peer, size)

    def _release(self, queue: _AuthorQueue, peer: Peer, turn: int) -> Draft:
        draft = queue.early.pop(turn)
        self._early_drafts.change(peer, -_memory_of(draft))
        return draft

    def _make_room(self) -> None:
        """Evict the oldest queue if there are too many."""
        if len(self._queues) >= AUTHORS_MAX:
            _, peer, _ = key = next(iter(self._queues))
            queue = self._queues.pop(key)
            for turn in list(queue.early):
                self._release(queue, peer, turn)

    def _publish(
        self, replica: TopicReplica, peer: Peer, start: int, turn: int, draft: Draft
    ) -> None:
        """Publish a draft once, and answer when all keepers have stored the event."""
        granted = Granted(replica.id, start, turn, "")
        known = replica.log.with_id(draft.id)
        if known is None:
            then = partial(self._outbox.queue, peer, granted)
            self._publisher.place(replica, draft, then, draft.parents)
        elif not self._keepers.is_pending(replica, known.cid):
            self._outbox.queue(peer, granted)

    def check(self) -> None:
        """Assert that no draft waits whose turn has come, and the limits."""
        assert len(self._queues) <= AUTHORS_MAX
        for queue in self._queues.values():
            assert all(turn > queue.next_turn for turn in queue.early)
            assert len(queue.early) <= self._settings.request_count_max
        drafts = [draft for queue in self._queues.values() for draft in queue.early.values()]
        assert self._early_drafts.size == sum(map(_memory_of, drafts))
