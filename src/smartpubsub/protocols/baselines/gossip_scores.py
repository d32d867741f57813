"""What a node thinks of its peers, by what it has seen them do itself: GossipSub's peer scores.

The parts have the numbers that GossipSub v1.1 gives them. P5, the application's opinion, is always
zero. P6, peers behind one address, is left out: addresses here are what peers say of themselves.

P3 is measured against what goes round: libp2p has a fixed number of deliveries that is expected,
which is wrong as soon as more or fewer events are published.

Counts fade, each when somebody looks at it, so that peers who do nothing cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.protocols.baselines.gossip_settings import ScoreSettings
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _Standing:
    faded_at: int
    meshed_at: int | None = None
    """Since when it is in the mesh."""
    first_deliveries: float = 0.0
    mesh_deliveries: float = 0.0
    """First ones, and those soon after."""
    deficits: float = 0.0
    """What it owed when it left the mesh."""
    invalid: float = 0.0
    misbehaviour: float = 0.0
    is_flawless: bool = True
    """Whether none of the last three is more than nothing."""


class Scores:
    """The standing of peers; whoever has none scores zero."""

    def __init__(self, settings: ScoreSettings) -> None:
        self.changes = 0
        """How often something happened for which a score may be lower now."""
        self._settings = settings
        self._standings: dict[Peer, _Standing] = {}
        self._traffic = 0.0
        """How many events there were, as far as they are not forgotten."""
        self._traffic_faded_at = 0
        self._publishers: dict[Peer, int] = {}
        """When the last few were heard of, longest ago first."""
        self._traffic_fading = 0.5 ** (settings.fade_us / settings.traffic_half_life_us)
        self._fault_fading = 0.5 ** (settings.fade_us / settings.fault_half_life_us)

    def __len__(self) -> int:
        return len(self._standings)

    # --- what peers do ---

    def entered_mesh(self, peer: Peer, now: int) -> None:
        """A peer is in the mesh from now on."""
        standing = self._standing(peer, now)
        standing.meshed_at = now
        standing.mesh_deliveries = 0.0

    def left_mesh(self, peer: Peer, now: int) -> None:
        """A peer is no longer in the mesh; what it owed is not forgotten."""
        standing = self._standing(peer, now)
        deficit = self._deficit(standing, now)
        standing.meshed_at = None
        if deficit:
            self._at_fault(peer, now).deficits += deficit

    def first_delivery(self, peer: Peer, publisher: Peer, now: int) -> None:
        """A peer has brought an event before all others."""
        self.changes += 1
        standing = self._standing(peer, now)
        standing.first_deliveries += 1
        standing.mesh_deliveries += 1
        self._fade_traffic(now)
        self._traffic += 1
        self._publishers.pop(publisher, None)
        self._publishers[publisher] = now
        if len(self._publishers) > self._settings.publisher_count_min:
            del self._publishers[next(iter(self._publishers))]

    def later_delivery(self, peer: Peer, now: int) -> None:
        """A mesh member has brought an event soon after the first."""
        self._standing(peer, now).mesh_deliveries += 1

    def sent_invalid(self, peer: Peer, now: int) -> None:
        """A peer has sent an event that is not what it pretends to be."""
        self._at_fault(peer, now).invalid += 1

    def misbehaved(self, peer: Peer, now: int) -> None:
        """A peer has broken the rules."""
        self._at_fault(peer, now).misbehaviour += 1

    # --- what to think of them ---

    def score(self, peer: Peer, now: int) -> float:
        """A peer's points."""
        standing = self._standings.get(peer)
        if standing is None:
            return 0.0
        self._fade(standing, now)
        settings = self._settings
        points = min(
            standing.first_deliveries * settings.first_delivery_points,
            settings.first_delivery_points_max,
        )
        if standing.meshed_at is not None:
            seconds = (now - standing.meshed_at) / 1_000_000
            points += min(seconds * settings.mesh_second_points, settings.mesh_points_max)
            points += settings.deficit_points * self._deficit(standing, now)
        if not standing.is_flawless:
            breaches = max(0.0, standing.misbehaviour - settings.misbehaviour_allowed)
            points += settings.deficit_points * standing.deficits
            points += settings.invalid_points * standing.invalid**2
            points += settings.misbehaviour_points * breaches**2
        return points

    def is_above(self, threshold: float, peer: Peer, now: int) -> bool:
        """Whether a peer has at least so many points; cheap for most if the threshold is low."""
        standing = self._standings.get(peer)
        if standing is None or (
            standing.is_flawless and threshold <= self._settings.deficit_points
        ):
            return threshold <= 0
        return self.score(peer, now) >= threshold

    def forget(self, now: int) -> None:
        """Forget peers of whom there is nothing left to say."""
        for standing in self._standings.values():
            self._fade(standing, now)
        self._standings = {
            peer: standing
            for peer, standing in self._standings.items()
            if standing.meshed_at is not None
            or standing.first_deliveries
            or not standing.is_flawless
        }

    def _deficit(self, standing: _Standing, now: int) -> float:
        """How much less than expected a mesh member brings: 0 if it is enough, 1 if nothing."""
        settings = self._settings
        since = standing.meshed_at
        if since is None or now - since < settings.activation_us:
            return 0.0
        self._fade_traffic(now)
        expected = self._traffic * settings.share_expected
        if expected < settings.expected_min or standing.mesh_deliveries >= expected:
            return 0.0
        if not self._are_publishers_many(now):
            return 0.0
        return (1 - standing.mesh_deliveries / expected) ** 2

    def _are_publishers_many(self, now: int) -> bool:
        settings = self._settings
        return (
            len(self._publishers) >= settings.publisher_count_min
            and next(iter(self._publishers.values())) > now - settings.traffic_half_life_us
        )

    def _standing(self, peer: Peer, now: int) -> _Standing:
        standing = self._standings.get(peer)
        if standing is None:
            if len(self._standings) >= self._settings.standing_count_max:
                self._make_room()
            standing = self._standings[peer] = _Standing(now)
        else:
            self._fade(standing, now)
        return standing

    def _at_fault(self, peer: Peer, now: int) -> _Standing:
        self.changes += 1
        standing = self._standing(peer, now)
        standing.is_flawless = False
        return standing

    def _make_room(self) -> None:
        outside = [peer for peer, standing in self._standings.items() if standing.meshed_at is None]
        harmless = [peer for peer in outside if self._standings[peer].is_flawless]
        del self._standings[(harmless or outside)[0]]

    def _fade(self, standing: _Standing, now: int) -> None:
        times = (now - standing.faded_at) // self._settings.fade_us
        if times <= 0:
            return
        standing.faded_at += times * self._settings.fade_us
        traffic = self._traffic_fading**times
        standing.first_deliveries = self._rest(standing.first_deliveries * traffic)
        standing.mesh_deliveries = self._rest(standing.mesh_deliveries * traffic)
        if not standing.is_flawless:
            fault = self._fault_fading**times
            # Whoever forwarded nothing may have been down, and need not wait long.
            standing.deficits = self._rest(standing.deficits * traffic)
            standing.invalid = self._rest(standing.invalid * fault)
            standing.misbehaviour = self._rest(standing.misbehaviour * fault)
            faults = standing.deficits or standing.invalid or standing.misbehaviour
            standing.is_flawless = not faults

    def _fade_traffic(self, now: int) -> None:
        times = (now - self._traffic_faded_at) // self._settings.fade_us
        if times > 0:
            self._traffic_faded_at += times * self._settings.fade_us
            self._traffic *= self._traffic_fading**times

    def _rest(self, count: float) -> float:
        return count if count >= self._settings.negligible else 0.0
