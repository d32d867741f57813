"""Replicas of events for members that do not answer.

Before an owner reports an event as published, every member that wants it has confirmed it, or the f
nodes closest to a silent member that answer keep a replica and try to deliver it. So the event
survives its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.component import FastComponent
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import (
    Answer,
    GroupNotify,
    Keep,
    NotHelping,
    RequestDone,
)
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.seam import Peer


@dataclass(slots=True, eq=False)
class _Replication:
    """An event that is being replicated."""

    group: Predicate
    event: Publication
    is_pending: Callable[[Peer], bool]
    """Whether a member has not confirmed the event yet."""
    on_replicated: Callable[[], None]
    open_count: int
    """Answers that are pending, and members whose keepers have to be found."""
    asked: dict[Peer, dict[Peer, None]] = field(default_factory=dict)
    """The keepers of each member that were asked."""


@dataclass(eq=False)
class GroupReplicas(FastComponent):
    """The replicas that other nodes keep for this node, and those that it keeps for others."""

    _keepers: KeeperLookup

    def __post_init__(self) -> None:
        self._kept: dict[Peer, dict[EventId, tuple[Predicate, Publication, int]]] = {}
        """By the member they are for: the group, the event, and when the replica expires."""
        self._kept_count = 0
        self._refused: dict[tuple[_Replication, Peer], None] = {}
        """Events that a keeper had no room for, and the members they are for; the next tick asks
        all keepers of the member once more."""

    @property
    def count(self) -> int:
        """How many replicas this node keeps."""
        return self._kept_count

    # --- for an owner ---

    def replicate(
        self,
        group: Predicate,
        event: Publication,
        silent: Sequence[Peer],
        is_pending: Callable[[Peer], bool],
        on_replicated: Callable[[], None],
    ) -> None:
        """Ask keepers to keep an event for silent members, then call back."""
        if not silent or not self._settings.backups:
            on_replicated()
            return
        replication = _Replication(group, event, is_pending, on_replicated, len(silent))
        for peer in silent:
            self._keepers.suspect(peer)
        for peer in silent:
            self._keepers.find(peer, partial(self._replicate, replication, peer))

    def _replicate(self, replication: _Replication, peer: Peer, keepers: list[Contact]) -> None:
        others = [c.peer for c in keepers if c.peer not in (peer, self._own.peer)]
        keep = Keep(peer, replication.group, replication.event)
        asked = replication.asked.setdefault(peer, {})
        for keeper in others[: self._settings.backups]:
            if keeper in asked:
                continue
            asked[keeper] = None
            replication.open_count += 1
            on_end = partial(self._on_end, replication, peer)
            on_failure = partial(self._on_failure, replication, peer, keeper)
            self._requests.ask(keeper, keep, on_end, on_failure)
        self._on_end(replication, peer)

    def _on_failure(self, replication: _Replication, peer: Peer, keeper: Peer) -> None:
        """Have another node keep the event in place of one that does not answer."""
        self._keepers.suspect(keeper)
        self._find_keepers(replication, peer)

    def _find_keepers(self, replication: _Replication, peer: Peer) -> None:
        """Ask nodes to keep an event, unless the member has confirmed it meanwhile."""
        if replication.is_pending(peer):
            self._keepers.find(peer, partial(self._replicate, replication, peer))
        else:
            self._on_end(replication, peer)

    def _on_end(self, replication: _Replication, peer: Peer, answer: Answer | None = None) -> None:
        if isinstance(answer, NotHelping) and (replication, peer) not in self._refused:
            self._refused[replication, peer] = None  # It stays open until the next tick.
            return
        replication.open_count -= 1
        if not replication.open_count:
            replication.on_replicated()

    # --- for other owners ---

    def on_keep(self, contact: Contact, number: int, question: Keep) -> None:
        """Keep a replica for a member that its owner does not reach."""
        event = question.event
        if not self._signatures.is_event_signed(event):
            self._outbox.reject("events")
            return
        if self._kept_count >= self._settings.replica_count_max:
            self._outbox.reject("event replicas")
            self._requests.answer(contact.peer, number, NotHelping())
            return
        events = self._kept.setdefault(question.peer, {})
        self._kept_count += event.id not in events
        until = self._outbox.now + 2 * self._settings.renew_us
        events[event.id] = (question.group, event, until)
        self._requests.answer(contact.peer, number, RequestDone())

    def tick(self) -> None:
        """Retry refused replications, drop expired replicas, and try to deliver the others."""
        now = self._outbox.now
        refused, self._refused = self._refused, {}
        for replication, peer in refused:
            replication.asked.pop(peer, None)
            self._find_keepers(replication, peer)
        for peer in list(self._kept):
            events = {id: entry for id, entry in self._kept[peer].items() if now < entry[2]}
            self._kept_count -= len(self._kept[peer]) - len(events)
            self._kept[peer] = events
            self._send_next(peer)

    def _send_next(self, peer: Peer) -> None:
        events = self._kept.get(peer)
        if not events:
            self._kept.pop(peer, None)
            return
        group, event, _ = next(iter(events.values()))
        on_got = partial(self._on_got, peer, event.id)
        self._requests.ask(peer, GroupNotify(group, event, 2, is_resend=True), on_got, tries_max=1)

    def _on_got(self, peer: Peer, id: EventId, _: Answer) -> None:
        events = self._kept.get(peer, {})
        if events.pop(id, None) is not None:
            self._kept_count -= 1
        self._send_next(peer)

    def check(self) -> None:
        """Assert that replicas are counted and within their limit."""
        assert sum(map(len, self._kept.values())) == self._kept_count
        assert self._kept_count <= self._settings.replica_count_max
