"""Replicas of events for members that do not answer.

Before an owner reports an event as published, every member that wants it has confirmed it, or the f
nodes closest to a silent member that answer keep a replica and try to deliver it. So the event
survives its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

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

_REPLICA_BYTES = 4_096
"""What a replica counts beside its event, so that the limits of bytes bound their number too."""


def _size_of(event: Publication) -> int:
    return _REPLICA_BYTES + event.wire_bytes


class _Replica(NamedTuple):
    """A replica that this node keeps for a member."""

    group: Predicate
    event: Publication
    until_us: int


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
        self._kept: dict[Peer, dict[EventId, _Replica]] = {}
        """By the member they are for."""
        self._kept_count = 0
        bytes_max = self._settings.replica_bytes_max
        self._account = self._ledger.open("event replicas", bytes_max, bytes_max // 4)
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
        known = self._kept.get(question.peer, {}).get(event.id)
        if known is None and not self._has_room_for(event):
            self._account.refuse()
            self._outbox.reject("event replicas")
            self._requests.answer(contact.peer, number, NotHelping())
            return
        until_us = self._outbox.now + 2 * self._settings.renew_us
        if known is None:
            self._kept_count += 1
            self._account.change(event.id.publisher, _size_of(event))
            known = _Replica(question.group, event, until_us)
        self._kept.setdefault(question.peer, {})[event.id] = known._replace(until_us=until_us)
        self._requests.answer(contact.peer, number, RequestDone())

    def _has_room_for(self, event: Publication) -> bool:
        has_place = self._kept_count < self._settings.replica_count_max
        return has_place and self._account.fits(event.id.publisher, _size_of(event))

    def _drop(self, peer: Peer, id: EventId) -> None:
        """Drop the replica of an event that this node keeps for a member."""
        replica = self._kept[peer].pop(id)
        self._kept_count -= 1
        self._account.change(id.publisher, -_size_of(replica.event))

    def tick(self) -> None:
        """Retry refused replications, drop expired replicas, and try to deliver the others."""
        now = self._outbox.now
        refused, self._refused = self._refused, {}
        for replication, peer in refused:
            replication.asked.pop(peer, None)
            self._find_keepers(replication, peer)
        for peer in list(self._kept):
            replicas = self._kept[peer].items()
            for id in [id for id, replica in replicas if replica.until_us <= now]:
                self._drop(peer, id)
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
        if id in self._kept.get(peer, {}):
            self._drop(peer, id)
        self._send_next(peer)

    def check(self) -> None:
        """Assert that replicas are counted and within their limits."""
        replicas = [each for events in self._kept.values() for each in events.values()]
        assert len(replicas) == self._kept_count
        assert sum(_size_of(each.event) for each in replicas) == self._account.size
        assert self._account.size <= self._settings.replica_bytes_max
        assert self._kept_count <= self._settings.replica_count_max
