"""The constants of FastDelivery, and limits on everything that is kept. Times in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.settings import MINUTE, SECOND


@dataclass(frozen=True, kw_only=True)
class FastSettings:
    """What a node offers, how groups are arranged, how patient nodes are, and what they keep."""

    region: str = ""
    """Where the node says it is; if it says nothing, publishers have it measured."""
    capacity: int = 10
    """How many others the node is ready to serve, in all groups together; 0 for none."""
    backups: int = 2
    """How many others keep a copy of what a board holds: f."""

    direct_max: int = 5
    """How many members of a region a publisher serves itself before it looks for helpers."""
    pool: int = 2
    """How many strong members stay with the publisher, as its next helpers, when there are some."""
    fan_out_max: int = 1_000
    """How many a publisher sends an event of a group to, helpers and others."""
    decline_us: int = MINUTE
    """How long somebody who would not help, or not more, is not asked again."""
    decline_count_max: int = 8
    """How many candidates in a row decline before those who wait are served directly."""
    near_us: int = 40_000
    """Up to which round trip two nodes without a region are taken to be in the same one."""
    region_count_max: int = 64
    """How many regions of a group are measured; after that members go to the nearest."""

    renew_us: int = 15 * MINUTE
    """How often notices and memberships are renewed: t. What is not renewed lapses after 2t."""
    probe_us: int = 20 * SECOND
    """How often a node looks whether those that it depends on are there."""
    suspect_us: int = MINUTE
    """How long somebody who did not answer is not chosen for anything."""
    find_us: int = MINUTE
    """How long it is remembered who keeps a board."""

    patience_us_first: int = SECOND
    patience_us_min: int = SECOND // 2
    patience_us_max: int = 10 * SECOND
    """How long an answer is waited for: at first, and as it adapts, between these."""
    tries_max: int = 3
    """After so many tries without an answer somebody is taken to be gone."""
    board_tries_max: int = 8
    """The same for those who keep boards: who is wrong about them may search in the wrong place."""
    owner_us_max: int = 30 * SECOND
    """How long a subscriber waits for the owner of a group that it has found."""
    listed_us: int = 5 * SECOND
    """How long a list of groups is taken to be under way before it is sent again."""
    hold_us: int = SECOND
    """How long an event waits for one before it that comes by another way, without asking."""
    expect_tries_max: int = 6
    """How often the owner is then asked: who sends much at once is slow to answer."""

    group_count_max: int = 10_000
    """Groups that a node owns, and groups that it is a member of."""
    member_count_max: int = 100_000
    """Members of one group."""
    open_count_max: int = 100_000
    """Events that are not yet confirmed by everybody."""
    post_count_max: int = 10_000
    """Groups that a node helps in."""
    board_count_max: int = 10_000
    notice_count_max: int = 100_000
    """Groups, and searches that last, on one board."""
    listed_count_max: int = 100_000
    """Searches that were answered with a list a short while ago."""
    page_count: int = 200
    """How many entries of a board go in one message."""
    seen_count_max: int = 200_000
    held_count_max: int = 10_000
    """Events that wait for others before them."""
    kept_count_max: int = 10_000
    """Events that a node keeps for others who were not there."""

    def __post_init__(self) -> None:
        for name, least in (("capacity", 0), ("direct_max", 1), ("pool", 0), ("fan_out_max", 1)):
            if getattr(self, name) < least:
                raise SmartPubSubError(
                    f"{name} is {least} or more, found {getattr(self, name)}; give a larger one"
                )
        if self.pool >= self.direct_max:
            raise SmartPubSubError(
                f"a pool of {self.pool} with {self.direct_max} served directly;"
                " keep fewer in the pool, or none would be left to be helped"
            )

    @property
    def keeper_count(self) -> int:
        """How many keep a board: f and one more, and never one alone.

        A lookup in a network that loses messages may miss the very closest.
        """
        return max(2, self.backups + 1)

    @property
    def seen_us(self) -> int:
        """How long an event is remembered, so that no copy of it is delivered again.

        Longer than any publisher sends it, which is 2t.
        """
        return 3 * self.renew_us
