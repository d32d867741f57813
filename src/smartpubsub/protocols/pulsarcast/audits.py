"""Members of a topic notice events that their neighbours hide, and fetch them.

A neighbour in the tree may drop events and report old heads. So a member asks the keepers of the
topic and its author, in turn, for their heads; less and less often while no event is missing. A
source that lacks the member's own heads gets them in return, and fetches those events: neighbours
may have dropped what the member itself has published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.fetcher import Fetcher
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.membership import Membership
from smartpubsub.protocols.pulsarcast.messages import Fetch, Page
from smartpubsub.protocols.pulsarcast.pages import PageRequests
from smartpubsub.protocols.pulsarcast.replicas import TopicReplica, TopicReplicas
from smartpubsub.protocols.runtime.randomness import jittered
from smartpubsub.seam import Peer

AUDIT_US_MIN = 3 * SECOND
AUDIT_US_MAX = 7 * SECOND
"""The interval of a member's questions: at first and while events are missing, and at most."""
TURNS_WITHOUT_KEEPERS = 2
BLAMED_TURNS = 4
"""Only one question in this many may go to a keeper that is blamed for lost events."""
SILENT_MAX = 2
"""After this many questions without an answer, the member looks the keepers up again."""


@dataclass(slots=True, eq=False)
class _TopicAudit:
    """The questions of this node in one topic."""

    interval_us: int = AUDIT_US_MIN
    question: int = 0
    """The number of the open question; 0 if there is none."""
    turn: int = 0
    silent: int = 0


@dataclass(eq=False)
class TopicAudits(Component):
    """Compares this node's heads of its topics with those of keepers."""

    _replicas: TopicReplicas
    _membership: Membership
    _pages: PageRequests
    _keepers: Keepers
    _fetcher: Fetcher
    _rng: Random
    _audits: dict[Cid, _TopicAudit] = field(init=False, default_factory=dict)

    def begin(self, replica: TopicReplica) -> None:
        """Begin to audit a topic in whose tree this node has a place."""
        if not self._settings.has_audits:
            return
        if replica.id not in self._audits and self._replicas.is_current(replica):
            self._audits[replica.id] = _TopicAudit()
            self._set_timer(replica, self._audits[replica.id])

    def _set_timer(self, replica: TopicReplica, audit: _TopicAudit) -> None:
        self._outbox.set_timer(("audit", replica.id), jittered(audit.interval_us, self._rng))

    def on_timer(self, replica: TopicReplica) -> None:
        """Ask the next source for its heads."""
        audit = self._audits.get(replica.id)
        if audit is None:
            return
        audit.silent = audit.silent + 1 if audit.question else 0
        keepers = self._keepers.peers(replica)
        # The author is known without a lookup, so the first questions cost little.
        is_unknown = not keepers and audit.turn >= TURNS_WITHOUT_KEEPERS
        if is_unknown or audit.silent >= SILENT_MAX:
            audit.silent = 0
            self._keepers.find(replica)
        sources = self._others([*keepers, replica.topic.author])
        if audit.turn % BLAMED_TURNS:
            sources = self._overlay.blame.unblamed(sources, self._outbox.now)
        self._pages.cancel(audit.question)
        audit.question = 0
        if sources and replica.log.is_settled:
            source = sources[audit.turn % len(sources)]
            audit.turn += 1
            question = Fetch(replica.id, 0, (), (), max(0, replica.log.floor_us))
            then = partial(self._on_page, replica, audit, source)
            audit.question = self._pages.ask(source, question, then)
            audit.interval_us = min(2 * audit.interval_us, AUDIT_US_MAX)
        self._set_timer(replica, audit)

    def _on_page(self, replica: TopicReplica, audit: _TopicAudit, peer: Peer, page: Page) -> None:
        """Compare the heads of a source with the own log; fetch or show missing events."""
        audit.question = 0
        theirs = {head.cid for head in page.heads}
        if any(not replica.log.knows(cid) for cid in theirs):
            audit.interval_us = AUDIT_US_MIN
            self._set_timer(replica, audit)
            self._fetcher.compare(replica, page.heads, peer)
        elif not replica.log.heads.keys() <= theirs:
            self._membership.send_beat(replica, peer, wants_answer=False)

    def on_left(self, replica: TopicReplica) -> None:
        """Forget a topic."""
        audit = self._audits.pop(replica.id, None)
        if audit is not None:
            self._pages.cancel(audit.question)

    def check(self) -> None:
        """Assert that audits are of topics that this node is in."""
        assert self._audits.keys() <= self._replicas.by_id.keys()
