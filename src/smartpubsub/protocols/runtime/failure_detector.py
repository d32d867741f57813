"""A failure detector: probes peers and tells the protocol which of them are down, up or restarted.

Every message from a peer proves that the peer is up. A peer that answers none of several probes is
down: the protocol avoids it for a while (it is suspected), and sends it nothing until a message
from it arrives.

Each probe has a random number, and only an answer with the number of a probe to the same peer
counts. So no peer can fake its round trip by answering in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Peer

PROBE_TIMER = "probe"
NUMBER_BITS = 56
BANNED_COUNT_MAX = 10_000
FOREVER_US = 1 << 62
UNANSWERED_COUNT_MAX = 32
"""How many unanswered probes of a peer the detector remembers: a slow peer answers them late."""

ANSWERED_COUNT_MIN = 16
"""With fewer answers to probes, a node does not know whether the network loses messages."""


class PeerDown(NamedTuple):
    """A peer has not answered its probes, or has left."""

    peer: Peer
    was_down: bool
    """Whether it was down before and has not been heard from since."""


class PeerTrusted(NamedTuple):
    """A suspected peer was heard from."""

    peer: Peer


class PeerUp(NamedTuple):
    """A peer that was down was heard from."""

    peer: Peer


class PeerRestarted(NamedTuple):
    """A peer answers in another incarnation than before."""

    peer: Peer


PeerNews: TypeAlias = PeerDown | PeerTrusted | PeerUp | PeerRestarted


@dataclass(frozen=True, kw_only=True)
class DetectorSettings:
    """The timing of failure detection."""

    probe_us: int
    """The detector probes a watched peer that was silent for this long."""
    recent_us: int
    """A peer that was heard from more recently than this is up."""
    slow_us: int
    """A peer with a timeout this long gets no extra probes: its link may be full."""
    probes_max: int
    """A peer that answers none of this many probes is down."""
    suspect_us: int
    """A peer that was found down is suspected for this long."""
    forget_us: int
    """The detector forgets peers that were silent for this long."""


@dataclass(slots=True)
class _Probing:
    sent_us: int
    probes: int = 1


class FailureDetector:
    """Which peers are up, as far as this node can tell.

    `make_probe` makes the probe message with a number, and `timeout_us` says how long to wait for
    an answer. The protocol calls `on_timer` when the timer `PROBE_TIMER` of a peer fires.
    """

    def __init__(
        self,
        outbox: Outbox[Any],
        settings: DetectorSettings,
        make_probe: Callable[[int], object],
        timeout_us: Callable[[Peer], int],
        report: Callable[[PeerNews], None],
        rng: Random,
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._make_probe = make_probe
        self._timeout_us = timeout_us
        self._report = report
        self._rng = rng
        self._probing: dict[Peer, _Probing] = {}
        self._heard_us: dict[Peer, int] = {}
        self._suspected_until_us: dict[Peer, int] = {}
        self._down_since_us: dict[Peer, int] = {}
        self._banned: BoundedDict[Peer, None] = BoundedDict(BANNED_COUNT_MAX)
        self._incarnations: dict[Peer, tuple[int, int]] = {}
        """The last known incarnations of watched peers, and when the probe was sent that found out.

        An answer to an earlier probe may be one of an earlier incarnation, and says nothing new.
        """
        self._unanswered: dict[Peer, dict[int, int]] = {}
        """By peer: the numbers of the last probes without an answer, and when they were sent.

        An answer that comes too late for its probe still measures the round trip.
        """
        self._lost_us = -FOREVER_US
        """When this node sent the last probe that the network has lost, or whose answer it has."""
        self._answer_count = 0

    # --- queries ---

    def heard_us(self, peer: Peer) -> int:
        """When a peer was last heard from; -1 if it was not."""
        return self._heard_us.get(peer, -1)

    def has_heard(self, peer: Peer) -> bool:
        """Whether the detector remembers a message from a peer."""
        return peer in self._heard_us

    def was_heard_within(self, peer: Peer, us: int) -> bool:
        """Whether a peer was heard from less than a time ago."""
        return self._outbox.now - self._heard_us.get(peer, -us) < us

    def is_suspected(self, peer: Peer) -> bool:
        """Whether a peer was found down a short while ago and has not been heard from since."""
        until_us = self._suspected_until_us.get(peer)
        return until_us is not None and self._outbox.now < until_us

    def is_down(self, peer: Peer) -> bool:
        """Whether a peer was found down and has not been heard from since."""
        return peer in self._down_since_us or peer in self._banned

    def is_banned(self, peer: Peer) -> bool:
        """Whether a peer counts as down for ever."""
        return peer in self._banned

    def suspected(self) -> tuple[Peer, ...]:
        """The peers that are suspected now."""
        return tuple(peer for peer in self._suspected_until_us if self.is_suspected(peer))

    @property
    def suspected_count(self) -> int:
        """At least as many peers as are suspected."""
        return len(self._suspected_until_us)

    @property
    def may_lose_messages(self) -> bool:
        """Whether the network may lose messages.

        It has lost a probe lately, or this node has had too few answers to know.
        """
        is_known = self._answer_count >= ANSWERED_COUNT_MIN
        return not is_known or self._outbox.now - self._lost_us < self._settings.forget_us

    # --- probes ---

    def probe(self, peer: Peer) -> None:
        """Find out whether a peer is up, unless a probe of it is under way."""
        if peer not in self._probing:
            self._probing[peer] = _Probing(self._outbox.now)
            self._send_probe(peer)

    def probe_if_silent(self, peer: Peer) -> None:
        """Probe a peer that the protocol is about to rely on, unless it was just heard from."""
        if not self.was_heard_within(peer, self._settings.recent_us) and not self.is_slow(peer):
            self.probe(peer)

    def learn_incarnation(self, peer: Peer) -> None:
        """Probe a peer unless its incarnation is known, so that a restart is noticed later."""
        if peer not in self._incarnations:
            self.probe(peer)

    def is_slow(self, peer: Peer) -> bool:
        """Whether a peer's answers take so long that its link is probably full."""
        return self._timeout_us(peer) >= self._settings.slow_us

    def probe_along(self, peer: Peer) -> int:
        """Send a probe along with other messages; return its number.

        The answer shows that they have arrived. A peer that does not answer is not found down.
        """
        number = self._rng.getrandbits(NUMBER_BITS)
        unanswered = self._unanswered.setdefault(peer, {})
        unanswered[number] = self._outbox.now
        if len(unanswered) > UNANSWERED_COUNT_MAX:
            del unanswered[next(iter(unanswered))]
        self._outbox.queue(peer, self._make_probe(number))
        return number

    def _send_probe(self, peer: Peer) -> None:
        self.probe_along(peer)
        self._outbox.set_timer((PROBE_TIMER, peer), self._timeout_us(peer))

    def on_timer(self, peer: Peer) -> None:
        """Probe a peer again that has not answered in time, or find it down."""
        probing = self._probing.get(peer)
        if probing is None:
            return
        if self.heard_us(peer) >= probing.sent_us:
            del self._probing[peer]
            return
        probing.probes += 1
        if probing.probes <= self._settings.probes_max:
            self._send_probe(peer)
            return
        del self._probing[peer]
        self._report_down(peer, was_down=self.is_down(peer))

    def on_departed(self, peer: Peer) -> None:
        """Find a peer down that has said goodbye, or whose machine refuses connections."""
        self._end_probing(peer)
        self._report_down(peer, was_down=self.is_down(peer))

    def _end_probing(self, peer: Peer) -> None:
        if self._probing.pop(peer, None) is not None:
            self._outbox.cancel_timer((PROBE_TIMER, peer))

    def _report_down(self, peer: Peer, *, was_down: bool) -> None:
        self.suspect(peer)
        self._report(PeerDown(peer, was_down))

    def suspect(self, peer: Peer) -> None:
        """Avoid a peer for a while, without reporting it."""
        until_us = self._outbox.now + self._settings.suspect_us
        self._suspected_until_us[peer] = FOREVER_US if peer in self._banned else until_us
        self._down_since_us.setdefault(peer, self._outbox.now)

    def ban(self, peer: Peer) -> None:
        """Treat a peer as down for ever, even if it sends messages."""
        if peer not in self._banned:
            was_down = self.is_down(peer)
            self._banned[peer] = None
            self._end_probing(peer)
            self._report_down(peer, was_down=was_down)

    def hear(self, peer: Peer) -> None:
        """Note that a message from a peer has arrived."""
        if peer in self._banned:
            return
        self._heard_us[peer] = self._outbox.now
        if self._suspected_until_us.pop(peer, None) is not None:
            self._report(PeerTrusted(peer))
        if self._down_since_us.pop(peer, None) is not None:
            self._report(PeerUp(peer))

    def awaits(self, peer: Peer, number: int) -> bool:
        """Whether a probe with this number was sent to a peer, and is not answered."""
        return number in self._unanswered.get(peer, ())

    def on_answer(self, peer: Peer, number: int, incarnation: int) -> int:
        """Take a peer's answer to an awaited probe; return the round trip."""
        unanswered = self._unanswered[peer]
        for earlier, sent_us in unanswered.items():
            if earlier == number:
                break
            self._lost_us = max(self._lost_us, sent_us)  # The probe was lost, or its answer.
        self._answer_count += 1
        sent_us = unanswered.pop(number)
        if not unanswered:
            del self._unanswered[peer]
        self._end_probing(peer)
        before, asked_us = self._incarnations.get(peer, (incarnation, sent_us))
        if sent_us >= asked_us:
            self._incarnations[peer] = incarnation, sent_us
            if before != incarnation:
                self._report(PeerRestarted(peer))
        return self._outbox.now - sent_us

    # --- periodically ---

    def watch(self, peers: Iterable[Peer], always: Container[Peer]) -> None:
        """Probe the peers that were silent lately, and those in `always` in any case.

        Only a probe finds out that a peer which keeps sending has restarted.
        """
        watched = dict.fromkeys(peers)
        for peer in watched:
            is_silent = self.heard_us(peer) <= self._outbox.now - self._settings.probe_us
            if is_silent or peer in always:
                self.probe(peer)
        for peer in [peer for peer in self._incarnations if peer not in watched]:
            del self._incarnations[peer]

    def forget(self) -> None:
        """Forget expired suspicions, and peers that were silent for long."""
        now = self._outbox.now
        horizon_us = now - self._settings.forget_us
        self._heard_us = {p: at for p, at in self._heard_us.items() if at > horizon_us}
        self._suspected_until_us = {
            p: until for p, until in self._suspected_until_us.items() if until > now
        }
        self._down_since_us = {p: at for p, at in self._down_since_us.items() if at > horizon_us}
        self._unanswered = {
            peer: probes
            for peer, probes in self._unanswered.items()
            if max(probes.values()) > horizon_us
        }

    def check(self) -> None:
        """Assert the invariants: a peer under probe has probes left to be sent."""
        for probing in self._probing.values():
            assert 1 <= probing.probes <= self._settings.probes_max
        for probes in self._unanswered.values():
            assert 1 <= len(probes) <= UNANSWERED_COUNT_MAX
