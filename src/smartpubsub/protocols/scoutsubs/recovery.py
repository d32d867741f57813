"""Recovery after a restart: the node asks the replicas of its tables for their copies.

Until they have answered, the node announces and replicates nothing, as that would replace better
copies on other nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.messages import PullOwn
from smartpubsub.protocols.scoutsubs.persistence import Persistence
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import ResponseTimes
from smartpubsub.seam import Peer


@dataclass(eq=False)
class Recovery:
    """Whether this node has its state from before a restart again."""

    _outbox: ScoutOutbox
    _settings: ScoutSettings
    _proximity: Proximity
    _times: ResponseTimes
    _persistence: Persistence
    _on_recovered: Callable[[], None]

    def __post_init__(self) -> None:
        self.incarnation = 0
        self.is_ready = False
        """Whether the node has joined the overlay and has recovered."""
        self._asked: dict[Peer, None] = {}
        """Peers that have not answered yet."""
        self._tries = 0

    def start(self, incarnation: int) -> None:
        """Note the incarnation of the node."""
        self.incarnation = incarnation

    def begin(self) -> None:
        """Ask for the tables, if the node has restarted; it has joined the overlay."""
        if not self.incarnation:
            self.is_ready = True
            return
        around = self._proximity.closest(self._proximity.own.peer, self._settings.backups + 1)
        self._asked = {contact.peer: None for contact in around}
        self._ask()

    def _ask(self) -> None:
        self._tries += 1
        if not self._asked or self._tries > self._settings.tries_max:
            self._finish()
            return
        for peer in self._asked:
            self._outbox.queue(peer, PullOwn())
        self._outbox.set_timer(("recover",), self._times.timeout_us)

    def on_timer(self) -> None:
        """Ask the peers again that have not answered in time."""
        if not self.is_ready:
            self._ask()

    def knows_children(self, attribute: str) -> bool:
        """Whether the node has its children in a tree again, from replicas and from storage.

        It uses the stored ones when it knows its role in the tree.
        """
        return self.is_ready and not self._persistence.has_children(attribute)

    def has_asked(self, peer: Peer) -> bool:
        """Whether a peer was asked and has not answered."""
        return peer in self._asked

    def on_answer(self, peer: Peer) -> None:
        """Note that a peer has answered."""
        del self._asked[peer]

    def finish_if_answered(self) -> None:
        """End the recovery if every peer has answered."""
        if not self._asked:
            self._finish()

    def _finish(self) -> None:
        self._asked.clear()
        if not self.is_ready:
            self.is_ready = True
            self._on_recovered()

    def check(self) -> None:
        """Assert the invariants: no question is open after the recovery."""
        assert not (self.is_ready and self._asked)
