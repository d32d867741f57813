"""The known peers closest to a key, without suspected ones."""

from __future__ import annotations

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.protocols.runtime.failure_detector import FailureDetector
from smartpubsub.protocols.runtime.replication import Closest
from smartpubsub.seam import Effect, Peer

FARTHER_COUNT_MAX = 1_000
PARENTS_CONSIDERED = 8
"""How many of the closest peers a node considers as its parent if one of them is blamed."""


class Proximity(Closest):
    """This node and its peers, by their distance from keys."""

    def __init__(self, kademlia: Kademlia, detector: FailureDetector, replica_count: int) -> None:
        super().__init__(kademlia, detector)
        self._replica_count = replica_count
        self._farther: BoundedDict[tuple[bytes, int], tuple[int, tuple[Contact, ...]]] = (
            BoundedDict(FARTHER_COUNT_MAX)
        )
        """By name and number: the version of the routing table, and the result of `farther`."""

    def is_closer(self, contact: Contact, attribute: str) -> bool:
        """Whether a peer is closer to an attribute's key than this node."""
        key = key_of(attribute.encode())
        return contact.key ^ key < self.own.key ^ key

    def is_farther(self, contact: Contact, attribute: str) -> bool:
        """Whether a peer is farther from an attribute's key than this node."""
        key = key_of(attribute.encode())
        return contact.key ^ key > self.own.key ^ key

    def closer(self, attribute: str) -> Contact | None:
        """The known peer closest to an attribute's key, if it is closer than this node."""
        closest = self.closest(attribute.encode(), 1)
        return closest[0] if closest and self.is_closer(closest[0], attribute) else None

    def parent_for(self, attribute: str, now: int) -> Contact | None:
        """The closest of the least blamed peers that are closer to a key than this node."""
        blame = self._kademlia.blame
        if not blame:
            return self.closer(attribute)
        closest = self.closest(attribute.encode(), PARENTS_CONSIDERED)
        closer = [contact for contact in closest if self.is_closer(contact, attribute)]
        return min(closer, key=lambda contact: blame.level(contact.peer, now), default=None)

    def farther(self, name: bytes, count: int) -> tuple[Contact, ...]:
        """The closest peers that are not suspected and are farther from a name than this node."""
        version = self._kademlia.table.version
        before = self._farther.get((name, count))
        are_suspected = self._suspicion.suspected_count > 0
        if before is not None and before[0] == version and not are_suspected:
            return before[1]
        key = key_of(name)
        distance = self.own.key ^ key
        known = self.closest(name, count + self._replica_count)
        found = tuple([c for c in known if c.key ^ key > distance][:count])
        if not are_suspected:
            self._farther[name, count] = version, found
        return found

    def around(self, attribute: str, count: int) -> dict[Peer, None]:
        """The peers closest to an attribute's key, and the suspected peers among them.

        A node that takes another's place asks once more whether the other is up.
        """
        trusted = 0
        around: dict[Peer, None] = {}
        suspected = self._suspicion.suspected_count
        for contact in self._kademlia.closest_local(attribute.encode(), count + suspected):
            if trusted < count:
                around[contact.peer] = None
                trusted += not self._suspicion.is_suspected(contact.peer)
        return around

    # --- eligibility ---

    def is_eligible(self, contact: Contact, attribute: str) -> bool:
        """Whether a peer may have a role at the root of a tree: it is known, and close to the key.

        The rendezvous and its replicas are the f + 1 closest nodes. Of the nodes that this one
        knows, f may have failed without its knowledge, so the 2f + 1 closest are eligible.
        """
        if not self._kademlia.knows(contact):
            return False
        key = key_of(attribute.encode())
        distance = contact.key ^ key
        count = 2 * self._replica_count + 1
        closest = [*self.closest(attribute.encode(), count), self.own]
        return sum(other.key ^ key < distance for other in closest) < count

    def consider(self, contact: Contact, now: int) -> list[Effect]:
        """Ping a peer, and add it to the routing table if there is room."""
        return self._kademlia.consider(contact, now)

    @property
    def knows_others(self) -> bool:
        """Whether this node knows peers that keep replicas, even if none of them is up.

        If none is up, it is cut off from them. A node that knows no such peers is alone, and the
        only keeper of what it acknowledges. Clients are never in the table: they keep no replicas.
        """
        return self._replica_count > 0 and len(self._kademlia.table) > 0
