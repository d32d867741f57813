"""Which nodes keep replicas: the closest ones that are known, not suspected, and not silent.

A replica is **silent** if it answers probes, and does not answer a request to keep something. Each
repeated request has a probe behind it. If the answer to the probe comes and none to the request,
the request has arrived: neither the network has lost it, nor is the replica or its link slow. Two
such requests are enough; the node then chooses other replicas for some time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from smartpubsub.kademlia.keys import Contact
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.replication import SilentPeers
from smartpubsub.protocols.scoutsubs.attestation import ScoutOutbox
from smartpubsub.protocols.scoutsubs.duplicates import EventKey
from smartpubsub.protocols.scoutsubs.proximity import Proximity
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Peer

UNANSWERED_MAX = 2
"""A replica that leaves this many copies of one request unanswered, which arrived, is silent."""
REQUEST_COUNT_MAX = 10_000

Request: TypeAlias = str | EventKey
"""The attribute of a table, or an event to record."""


class ReplicaSilent(NamedTuple):
    """A replica answers probes, and no requests."""

    peer: Peer


@dataclass(slots=True)
class _ProbeBehind:
    """A probe that was sent behind requests."""

    number: int
    sent_us: int
    is_answered: bool = False


@dataclass(slots=True)
class _RepeatedRequest:
    """A request to a replica that was repeated and has no answer."""

    probe: _ProbeBehind
    """Behind the last copy of the request."""
    unanswered: int = 0
    """How many copies have arrived."""


class ReplicaChoice:
    """The replicas that this node chooses, and those that it leaves out because they are silent."""

    def __init__(
        self,
        outbox: ScoutOutbox,
        settings: ScoutSettings,
        detector: FailureDetector,
        proximity: Proximity,
        report: Callable[[ReplicaSilent], None],
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._detector = detector
        self._proximity = proximity
        self._report = report
        self._silent = SilentPeers(outbox, settings.renew_us)
        self._repeated: BoundedDict[tuple[Peer, Request], _RepeatedRequest] = BoundedDict(
            REQUEST_COUNT_MAX
        )
        self._probes: BoundedDict[Peer, _ProbeBehind] = BoundedDict(REQUEST_COUNT_MAX)
        """The last probe behind a request to each peer."""

    # --- choices ---

    def closest(self, name: bytes) -> tuple[Contact, ...]:
        """The f peers closest to a name."""
        count = self._settings.backups
        return self._chosen(self._proximity.closest(name, count + self._silent.suspected_count))

    def farther(self, name: bytes) -> tuple[Contact, ...]:
        """The f closest peers that are farther from a name than this node."""
        count = self._settings.backups
        return self._chosen(self._proximity.farther(name, count + self._silent.suspected_count))

    def _chosen(self, contacts: tuple[Contact, ...]) -> tuple[Contact, ...]:
        if not self._silent.suspected_count:
            return contacts
        is_silent = self._silent.is_suspected
        chosen = [contact for contact in contacts if not is_silent(contact.peer)]
        return tuple(chosen[: self._settings.backups])

    # --- requests ---

    def on_timeout(self, peer: Peer, request: Request) -> bool:
        """Note that a request is not answered in time; report the replica if it is silent.

        Return whether it is.
        """
        repeated = self._repeated.get((peer, request))
        if repeated is None or not repeated.probe.is_answered:
            return False
        repeated.unanswered += 1
        if repeated.unanswered < UNANSWERED_MAX:
            return False
        self.end(peer, request)
        self._silent.suspect(peer)
        self._outbox.reject("silent replica")
        self._report(ReplicaSilent(peer))
        return True

    def on_repeated(self, peer: Peer, request: Request) -> None:
        """Send a probe behind a request that was sent again."""
        probe = self._probes.get(peer)
        if probe is None or probe.sent_us != self._outbox.now:
            number = self._detector.probe_along(peer)
            probe = self._probes[peer] = _ProbeBehind(number, self._outbox.now)
        before = self._repeated.get((peer, request))
        unanswered = 0 if before is None else before.unanswered
        self._repeated[peer, request] = _RepeatedRequest(probe, unanswered)

    def on_alive(self, peer: Peer, number: int) -> None:
        """Take the answer to a probe."""
        probe = self._probes.get(peer)
        if probe is not None and probe.number == number:
            probe.is_answered = True

    def end(self, peer: Peer, request: Request) -> None:
        """Forget a request that is answered, whatever the answer is, or that begins anew."""
        self._repeated.pop((peer, request), None)

    def tick(self) -> None:
        """Choose replicas again that were silent some time ago."""
        self._silent.forget_old()

    def check(self) -> None:
        """Assert the invariants: a replica is left out as soon as it is known as silent."""
        assert len(self._repeated) <= REQUEST_COUNT_MAX
        assert all(0 <= one.unanswered < UNANSWERED_MAX for one in self._repeated.values())
