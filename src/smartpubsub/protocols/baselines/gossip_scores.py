"""GossipSub's peer scores, from what this node has observed itself.

The parameters have the numbers of GossipSub v1.1. P5, the application's score, is always zero. P6,
peers behind one address, does not exist: addresses here are what peers claim.

P3 is relative to the traffic. libp2p expects a fixed number of deliveries, which is wrong as soon
as more or fewer events are published.

Counters decay when they are read, so that idle peers cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.protocols.baselines.gossip_settings import ScoreSettings
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.seam import Peer


@dataclass(slots=True)
class _PeerRecord:
    """The counters of one peer."""

    decayed_at: int
    meshed_at: int | None = None
    """Since when it is in the mesh; None if it is not."""
    first_deliveries: float = 0.0
    mesh_deliveries: float = 0.0
    """First deliveries, and those within `near_first_us` of the first."""
    deficits: float = 0.0
    """Its delivery deficits when it left the mesh."""
    invalid: float = 0.0
    misbehaviour: float = 0.0
    is_flawless: bool = True
    """Whether the last three counters are zero."""


class Scores:
    """The scores of peers; a peer without a record scores zero."""

    def __init__(self, settings: ScoreSettings) -> None:
        self.changes = 0
        """How many observations may have lowered a score."""
        self._settings = settings
        self._records: dict[Peer, _PeerRecord] = {}
        self._traffic = 0.0
        """The decayed number of events."""
        self._traffic_decayed_at = 0
        self._publishers: dict[Peer, int] = BoundedDict(settings.publisher_count_min)
        """When the last few publishers had an event, oldest first."""
        self._traffic_decay_factor = 0.5 ** (settings.decay_us / settings.traffic_half_life_us)
        self._fault_decay_factor = 0.5 ** (settings.decay_us / settings.fault_half_life_us)

    def __len__(self) -> int:
        return len(self._records)

    # --- observations ---

    def entered_mesh(self, peer: Peer, now: int) -> None:
        """Note that a peer has entered the mesh."""
        record = self._record(peer, now)
        record.meshed_at = now
        record.mesh_deliveries = 0.0

    def left_mesh(self, peer: Peer, now: int) -> None:
        """Note that a peer has left the mesh; keep its delivery deficit."""
        record = self._record(peer, now)
        deficit = self._deficit(record, now)
        record.meshed_at = None
        if deficit:
            self._at_fault(peer, now).deficits += deficit

    def first_delivery(self, peer: Peer, publisher: Peer, now: int) -> None:
        """Note that a peer has delivered an event first."""
        self.changes += 1
        record = self._record(peer, now)
        record.first_deliveries += 1
        record.mesh_deliveries += 1
        self._decay_traffic(now)
        self._traffic += 1
        self._publishers[publisher] = now

    def later_delivery(self, peer: Peer, now: int) -> None:
        """Note that a mesh member has delivered an event soon after the first."""
        self._record(peer, now).mesh_deliveries += 1

    def sent_invalid(self, peer: Peer, now: int) -> None:
        """Note that a peer has sent an invalid event."""
        self._at_fault(peer, now).invalid += 1

    def misbehaved(self, peer: Peer, now: int) -> None:
        """Note that a peer has violated the protocol."""
        self._at_fault(peer, now).misbehaviour += 1

    # --- scores ---

    def score(self, peer: Peer, now: int) -> float:
        """Return a peer's score."""
        record = self._records.get(peer)
        if record is None:
            return 0.0
        self._decay(record, now)
        settings = self._settings
        points = min(
            record.first_deliveries * settings.first_delivery_points,
            settings.first_delivery_points_max,
        )
        if record.meshed_at is not None:
            seconds = (now - record.meshed_at) / 1_000_000
            points += min(seconds * settings.mesh_second_points, settings.mesh_points_max)
            points += settings.deficit_points * self._deficit(record, now)
        if not record.is_flawless:
            breaches = max(0.0, record.misbehaviour - settings.misbehaviour_allowed)
            points += settings.deficit_points * record.deficits
            points += settings.invalid_points * record.invalid**2
            points += settings.misbehaviour_points * breaches**2
        return points

    def is_above(self, threshold: float, peer: Peer, now: int) -> bool:
        """Whether a peer scores at least a threshold; cheap for most peers if it is low."""
        record = self._records.get(peer)
        if record is None or (record.is_flawless and threshold <= self._settings.deficit_points):
            return threshold <= 0
        return self.score(peer, now) >= threshold

    def forget(self, now: int) -> None:
        """Drop records whose counters have decayed to zero."""
        for record in self._records.values():
            self._decay(record, now)
        self._records = {
            peer: record
            for peer, record in self._records.items()
            if record.meshed_at is not None or record.first_deliveries or not record.is_flawless
        }

    def _deficit(self, record: _PeerRecord, now: int) -> float:
        """Return a mesh member's delivery deficit, squared: from 0 to 1, which is no delivery."""
        settings = self._settings
        since = record.meshed_at
        if since is None or now - since < settings.activation_us:
            return 0.0
        self._decay_traffic(now)
        expected = self._traffic * settings.share_expected
        if expected < settings.expected_min or record.mesh_deliveries >= expected:
            return 0.0
        if not self._has_many_publishers(now):
            return 0.0
        return (1 - record.mesh_deliveries / expected) ** 2

    def _has_many_publishers(self, now: int) -> bool:
        settings = self._settings
        return (
            len(self._publishers) >= settings.publisher_count_min
            and next(iter(self._publishers.values())) > now - settings.traffic_half_life_us
        )

    def _record(self, peer: Peer, now: int) -> _PeerRecord:
        record = self._records.get(peer)
        if record is None:
            if len(self._records) >= self._settings.record_count_max:
                self._make_room()
            record = self._records[peer] = _PeerRecord(now)
        else:
            self._decay(record, now)
        return record

    def _at_fault(self, peer: Peer, now: int) -> _PeerRecord:
        self.changes += 1
        record = self._record(peer, now)
        record.is_flawless = False
        return record

    def _make_room(self) -> None:
        outside = [peer for peer, record in self._records.items() if record.meshed_at is None]
        harmless = [peer for peer in outside if self._records[peer].is_flawless]
        del self._records[(harmless or outside)[0]]

    def _decay(self, record: _PeerRecord, now: int) -> None:
        times = (now - record.decayed_at) // self._settings.decay_us
        if times <= 0:
            return
        record.decayed_at += times * self._settings.decay_us
        traffic = self._traffic_decay_factor**times
        record.first_deliveries = self._unless_negligible(record.first_deliveries * traffic)
        record.mesh_deliveries = self._unless_negligible(record.mesh_deliveries * traffic)
        if not record.is_flawless:
            fault = self._fault_decay_factor**times
            # A peer that forwarded nothing may have been down; its deficit decays fast.
            record.deficits = self._unless_negligible(record.deficits * traffic)
            record.invalid = self._unless_negligible(record.invalid * fault)
            record.misbehaviour = self._unless_negligible(record.misbehaviour * fault)
            faults = record.deficits or record.invalid or record.misbehaviour
            record.is_flawless = not faults

    def _decay_traffic(self, now: int) -> None:
        times = (now - self._traffic_decayed_at) // self._settings.decay_us
        if times > 0:
            self._traffic_decayed_at += times * self._settings.decay_us
            self._traffic *= self._traffic_decay_factor**times

    def _unless_negligible(self, count: float) -> float:
        return count if count >= self._settings.negligible else 0.0
