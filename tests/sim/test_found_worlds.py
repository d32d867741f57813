"""Random worlds with long faults, and with nodes that lie, in which a promise was once broken."""

import pytest

from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.fuzz import violations_of
from smartpubsub.sim.experiments.random_worlds import random_world


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        # A helper got an event after the owner had taken a member back from it.
        ("fastdelivery", 8_825_297_037),
        # An owner's clock jumped while it was down, and all its members had lapsed.
        ("fastdelivery", 8_825_297_124),
        # A head that a parent had named arrived before the events below it.
        ("pulsarcast", 8_824_759_010),
        # A node whose clock was below zero avoided all peers, and took itself for the root.
        ("pulsarcast", 77_949_077),
        # A node whose clock was below zero handled no announcement until it was at zero.
        ("scoutsubs", 4_240_046),
        # A parent paused for two minutes; the next lost answer was awaited for twice as long.
        ("scoutsubs", 889_953_177),
        # A neighbour that did not tell what it knew was taken for down; the node that took its
        # place as the rendezvous lost an event that it had kept before.
        ("scoutsubs", 2_026_112_100_556),
    ],
)
def test_nothing_happens_that_must_not(protocol: str, seed: int) -> None:
    assert violations_of(random_world(seed, protocol, has_long_faults=True)) == []


@pytest.mark.parametrize(
    ("protocol", "seed", "resilience"),
    [
        # A clock was twenty minutes ahead, and audits took all events for old ones.
        ("scoutsubs", 730_017, "audited"),
        # An event of the first half second of a subscription was dropped.
        ("scoutsubs", 710_035, "audited"),
        # A publisher that was a keeper did not keep its event, and other keepers did not get it.
        ("scoutsubs", 31_000_399, "audited"),
        # Subscribers took lost answers for full links, and audits waited for lookups in turn.
        ("scoutsubs", 31_000_075, "audited"),
        ("scoutsubs", 31_000_293, "audited"),
        ("scoutsubs", 820_003, "audited"),
        # Kademlia took lost answers for full links, and subscribers left out most audits.
        ("scoutsubs", 2_026_111_860_049, "audited"),
        # A subscriber crashed before it could ask for an event that a liar had dropped.
        ("scoutsubs", 2_026_111_860_057, "audited"),
        # The only keeper did not answer a lookup, and lost questions were not repeated.
        ("scoutsubs", 2_026_111_910_040, "audited"),
        # An honest keeper was slow to answer a lookup, and copies for keepers were lost.
        ("scoutsubs", 2_026_111_910_042, "audited"),
        # A peer that was paused answered a dozen probes at once, and all timeouts grew.
        ("scoutsubs", 2_026_111_950_084, "audited"),
        # A member crashed before it could ask for an event that its helper had dropped.
        ("fastdelivery", 2_026_111_900_025, "audited"),
        # The first copies of a member's question were lost, so that it was about a later time.
        ("fastdelivery", 2_026_112_270_034, "audited"),
        # An event of an ordered topic from before a node had joined came after later ones.
        ("pulsarcast", 2_026_111_880_019, "audited"),
        # The only keeper and neighbour of a member hid events that it knew to be missing.
        ("pulsarcast", 2_026_111_900_028, "audited"),
        # An honest event linked to one that a liar withheld; members that had missed it never
        # heard of it, since parked events are no heads.
        ("pulsarcast", 2_026_111_900_021, "audited"),
        # The only neighbour and the only keeper of a publisher both withheld its event.
        ("pulsarcast", 2_026_112_230_261, "audited"),
    ],
)
def test_nothing_is_lost_to_nodes_that_lie(protocol: str, seed: int, resilience: str) -> None:
    world = random_world(seed, protocol, has_long_faults=True)
    assert violations_of(world.among((Adversary("mixed", 0.1),), resilience)) == []
