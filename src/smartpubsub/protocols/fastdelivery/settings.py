"""The constants and limits of FastDelivery. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import MINUTE, SECOND

ASKED_COUNT = 8
"""If each of this many nodes hides groups with a probability of one half, at least one of them does
not, in all but four of a thousand directories."""


@dataclass(frozen=True, kw_only=True)
class FastSettings:
    """The capacity of a node, the arrangement of groups, timeouts and limits."""

    region: str = ""
    """The region that the node declares; "" has owners measure it."""
    capacity: int = 10
    """How many members the node serves as a helper, in all groups together."""
    backups: int = 2
    """How many other nodes keep a copy of a directory: f."""
    has_reviews: bool = False
    """Whether members ask the owner for events that their helper has not brought."""

    direct_max: int = 5
    """How many members of a region an owner serves itself before it asks for help."""
    pool: int = 2
    """How many strong members of a region stay with the owner as its next helpers."""
    fan_out_max: int = 1_000
    """How many peers an owner sends an event of a group to, helpers included."""
    decline_us: int = MINUTE
    """How long a candidate that declined is not asked again."""
    decline_count_max: int = 8
    """How many candidates decline in a row before waiting members are served directly."""
    near_us: int = 40_000
    """The longest round trip between members of one measured region."""
    region_count_max: int = 64
    """How many regions of a group are measured; later members go to the nearest."""

    renew_us: int = 15 * MINUTE
    """How often advertisements and memberships are renewed: t. They expire after 2t."""
    probe_us: int = 20 * SECOND
    """How often a node probes the peers that it depends on."""
    suspect_us: int = MINUTE
    """How long a suspected peer is not chosen as a keeper."""
    find_us: int = MINUTE
    """How long the keepers of a name are cached."""

    timeout_us_first: int = SECOND
    """The timeout of a request before any round trip was measured."""
    timeout_us_min: int = SECOND // 2
    timeout_us_max: int = 10 * SECOND
    tries_max: int = 3
    """After how many transmissions without an answer a peer counts as silent."""
    directory_tries_max: int = 8
    """The same for keepers of directories: a wrong suspicion sends searches to the wrong node."""
    owner_us_max: int = 30 * SECOND
    """How long a subscriber waits for the owner of a group that it has found."""
    listed_us: int = 5 * SECOND
    """How long a list of groups counts as under way before it is sent again."""
    hold_us: int = SECOND
    """How long an event waits for its predecessor before the member asks the owner."""
    expect_tries_max: int = 6
    """How often the member asks: an owner that sends a burst is slow to answer."""

    group_count_max: int = 10_000
    """Groups that a node owns, and groups that it is a member of."""
    member_count_max: int = 100_000
    """Members of one group."""
    member_bytes_max: int = 32 << 20
    """Bytes that the node stores of the members of all its groups."""
    in_flight_count_max: int = 100_000
    """Events of an owner that not all members have confirmed."""
    relayed_count_max: int = 100_000
    """Events that the node passes on as a helper and that members have not confirmed; one owner may
    have an eighth of them."""
    helped_group_count_max: int = 10_000
    """Groups that a node helps in."""
    directory_count_max: int = 10_000
    """Directories that a node keeps."""
    advertisement_count_max: int = 100_000
    """Groups, and standing searches, in one directory."""
    entry_count_max: int = 200_000
    """Groups and standing searches in all directories; one peer may have as many as an eighth of
    the directories."""
    listed_count_max: int = 100_000
    """Searches that were answered with a list a short while ago."""
    page_count: int = 200
    """Entries of a directory in one message."""
    seen_count_max: int = 200_000
    """Ids of delivered events."""
    held_count_max: int = 10_000
    """Events that wait for their predecessors."""
    replica_count_max: int = 30_000
    """Replicas of events that a node keeps for silent members of other owners."""
    replica_bytes_max: int = 128 << 20
    """Bytes of these replicas; one owner may have a quarter of them."""

    def __post_init__(self) -> None:
        for name, least in (("capacity", 0), ("direct_max", 1), ("pool", 0), ("fan_out_max", 1)):
            if getattr(self, name) < least:
                raise SmartPubSubError(
                    f"{name} is {getattr(self, name)}, but must be at least {least};"
                    " set a larger value"
                )
        if self.pool >= self.direct_max:
            raise SmartPubSubError(
                f"pool is {self.pool}, but must be less than direct_max, {self.direct_max};"
                " set a smaller pool, or no member is left to be delegated"
            )

    @property
    def keeper_count(self) -> int:
        """How many nodes keep a directory: f + 1, and at least two.

        A lookup in a network that loses messages may miss the closest node.
        """
        return max(2, self.backups + 1)

    @property
    def copying_count(self) -> int:
        """How many nodes closest to a name may copy its directory: 2f + 1, and at least two.

        More than keep it, as nodes may know different ones.
        """
        return max(2, 2 * self.backups + 1)

    @property
    def asked_count(self) -> int:
        """How many nodes owners tell of a group, and searches ask for groups.

        Nodes may hide groups. With reviews, half of all nodes may do so.
        """
        return max(self.keeper_count, ASKED_COUNT if self.has_reviews else 0)

    @property
    def seen_us(self) -> int:
        """How long the id of a delivered event is kept; owners send an event for at most 2t."""
        return 3 * self.renew_us
