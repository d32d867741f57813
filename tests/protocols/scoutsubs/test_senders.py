"""Who may send what: every message has a rule, and attacks with messages of strangers fail."""

from pathlib import Path
from typing import get_args

import pytest

from smartpubsub.kademlia.blame import MISLED
from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.runtime.rules import refusal_of, rules_table
from smartpubsub.protocols.scoutsubs.membership import REDIRECTS_MAX
from smartpubsub.protocols.scoutsubs.messages import (
    Admitted,
    Alive,
    Announce,
    Announced,
    CopyTree,
    Done,
    Offer,
    Part,
    Pull,
    Pulled,
    Raise,
    Record,
)
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.root_lookup import PATHS
from smartpubsub.protocols.scoutsubs.senders import SCOUT_RULES
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.shard_names import FIRST_EPOCH, shard_for
from tests.protocols.scoutsubs.forest import MS, Forest

DOCUMENT = Path(__file__).parents[3] / "docs" / "scoutsubs.md"
STRANGER = 11
"""The farthest of twelve nodes; 0 is the rendezvous, and 1 and 2 are its replicas."""


def test_every_message_has_a_rule() -> None:
    assert set(SCOUT_RULES) == set(get_args(Part))


def test_the_document_has_the_rules_that_the_code_uses() -> None:
    assert f"\n{rules_table(SCOUT_RULES)}\n" in DOCUMENT.read_text(encoding="utf-8")


def with_an_open_event() -> tuple[Forest, EventId, Record]:
    """A subscriber is down, so an event stays with the rendezvous and its replicas."""
    forest = Forest(12)
    forest.subscribed(5, "surf")
    forest.crash(5)
    id = forest.publish(7, "surf")
    forest.run_until(lambda: forest.is_published(id))
    assert forest.holders(id) == [0, 1, 2]
    (record,) = forest.scouts(1).view().records
    return forest, id, record


def refused(forest: Forest, number: int, kind: type) -> int:
    return forest.rejected(number)[refusal_of(kind)]


# --- records ---


def test_a_stranger_erases_no_event_from_the_replicas() -> None:
    forest, id, record = with_an_open_event()
    for replica in (1, 2):
        forest.receive(STRANGER, replica, record._replace(age_ms=29 * 60_000), Done(id, "surf"))
        assert refused(forest, replica, Record) == refused(forest, replica, Done) == 1
    assert forest.holders(id) == [0, 1, 2]

    forest.crash(0)
    forest.restart(5)
    forest.run_until(lambda: forest.received(5) == [id], 5 * MINUTE)


@pytest.mark.parametrize("sender", [0, 1])
def test_a_record_of_a_known_event_makes_it_no_older(sender: int) -> None:
    forest, id, record = with_an_open_event()
    forest.receive(sender, 2, record._replace(age_ms=29 * 60_000))
    forest.run(2 * MINUTE)
    assert 2 in forest.holders(id)


def test_another_eligible_node_completes_an_event_only_when_its_owner_is_down() -> None:
    forest, id, record = with_an_open_event()
    forest.receive(1, 2, record, Done(id, "surf"))
    assert 2 in forest.holders(id)
    forest.crash(0)
    forest.run_until(lambda: 2 not in forest.holders(id), MINUTE)


def test_a_stranger_learns_neither_subscribers_nor_events() -> None:
    forest, _, _ = with_an_open_event()
    for number in (0, 1, 2):
        forest.receive(STRANGER, number, Pull("surf"))
        assert refused(forest, number, Pull) == 1
    forest.run(SECOND)
    assert forest.count(Pulled)[STRANGER] == 0


def test_a_stranger_does_not_pass_for_a_rendezvous() -> None:
    forest, id, _ = with_an_open_event()
    forest.receive(STRANGER, 1, CopyTree("surf", True, 1 << 60, True, (), (), 2))
    assert refused(forest, 1, CopyTree) == 1
    forest.crash(0)
    forest.restart(5)
    forest.run_until(lambda: forest.received(5) == [id], 5 * MINUTE)


def test_an_event_is_not_passed_on_for_an_attribute_that_it_does_not_have() -> None:
    forest, _, record = with_an_open_event()
    forest.receive(STRANGER, 3, Raise(record.event, "other", 0, 1, False, False, 0))
    assert refused(forest, 3, Raise) == 1
    forest.receive(STRANGER, 3, Raise(record.event, "surf/1", 0, 1, False, False, 0))
    assert refused(forest, 3, Raise) == 1


# --- acknowledgements ---


def test_a_stranger_acknowledges_no_event_and_captures_no_publisher() -> None:
    forest = Forest(24, k=8)
    forest.subscribed(5, "surf")
    forest.cut(7, 0, 4 * SECOND)
    id = forest.publish(7, "surf")
    forest.receive(23, 7, Admitted(id, "surf", ""))
    forest.run(2 * SECOND)
    assert refused(forest, 7, Admitted) == 1
    assert not forest.is_published(id)

    forest.run_until(lambda: forest.is_published(id))
    later = forest.publish(7, "surf")
    forest.run_until(lambda: forest.received(5) == [id, later])
    assert forest.count(Raise)[23] == 0


def test_an_acknowledgement_in_another_tree_counts_for_nothing() -> None:
    forest = Forest(12)
    forest.run(SECOND)
    forest.cut(7, 0, 4 * SECOND)
    id = forest.publish(7, "surf")
    others = [n for n in range(1, 4) if f"surf/{n}" != shard_for("surf", forest.contacts[7].peer)]
    forest.receive(0, 7, Admitted(id, f"surf/{others[0]}", ""))
    assert refused(forest, 7, Admitted) == 1
    assert not forest.is_published(id)


def test_an_acknowledgement_waits_for_the_publishers_own_lookup() -> None:
    forest = Forest(12)
    id = forest.publish(7, "surf")
    forest.receive(0, 7, Admitted(id, "surf", ""))
    assert not forest.is_published(id)
    forest.run_until(lambda: forest.is_published(id), SECOND)
    assert refused(forest, 7, Admitted) <= 1


def test_a_hanging_node_among_the_closest_delays_an_acknowledgement_by_little() -> None:
    forest = Forest(12)
    forest.subscribed(5, "surf")
    forest.world.pause(forest.host(3), forest.world.now + MINUTE)
    id = forest.publish(7, "surf")
    forest.run_until(lambda: forest.is_published(id), 3 * SECOND)


# --- answers that were not asked for ---


def test_unsolicited_answers_to_probes_change_no_timeout() -> None:
    forest = Forest(3)
    forest.subscribed(2, "surf")

    def timeout_us(scouts: ScoutSubs) -> int:
        return scouts._times.timeout_us

    before_us = timeout_us(forest.scouts(0))
    forest.run(20 * SECOND)
    for number in range(6):
        forest.receive(1, 0, Alive(number, 0))
    assert refused(forest, 0, Alive) == 6
    assert timeout_us(forest.scouts(0)) <= before_us


def test_a_stranger_holds_up_no_event_by_an_offer() -> None:
    forest = Forest(12)
    forest.subscribed(3, "surf")
    publisher = forest.contacts[7].peer
    for number in range(2, 20):
        offered = Offer(EventId(publisher, 0, number), "surf", Predicate.parse("surf"))
        forest.receive(STRANGER, 3, offered)
    assert refused(forest, 3, Offer) == 18
    id = forest.publish(7, "surf")
    forest.run(SECOND)
    assert forest.received(3) == [id]


def test_a_known_rendezvous_that_was_slow_to_answer_the_lookup_acknowledges() -> None:
    forest = Forest(12)
    forest.subscribed(5, "surf")
    roots = forest.scouts(7)._roots
    others = tuple(forest.contacts[number] for number in range(1, 6))
    roots._under_way["surf"] = None
    roots._on_lookup_ended("surf", PATHS, Found(1, b"surf", others, 1))
    assert not roots.has_found("surf", forest.contacts[0].peer)
    assert roots.would_find("surf", forest.contacts[0])
    assert not roots.would_find("surf", forest.contacts[STRANGER])
    id = forest.publish(7, "surf")
    forest.run(SECOND // 2)
    assert forest.is_published(id)


def test_a_node_between_the_closest_and_the_one_that_looks_up_is_not_close() -> None:
    """With such nodes there were twice as many keepers to ask, half of them without the events."""
    forest = Forest(12)
    forest.subscribed(5, "surf")
    roots, contacts = forest.scouts(7)._roots, forest.contacts
    closest = tuple(contacts[number] for number in (0, 1, 2, 3, 5))
    roots._under_way["surf"] = None
    roots._on_lookup_ended("surf", PATHS, Found(1, b"surf", (*closest, contacts[7]), 1))

    assert roots.reaches("surf", contacts[4])
    assert not roots.reaches("surf", contacts[6])
    assert not refused(forest, 7, Admitted)


def test_lying_parents_cannot_send_a_node_to_each_other_without_end() -> None:
    forest = Forest(8, ScoutSettings())
    forest.subscribed(7, "surf")
    forest.said.clear()
    for _ in range(100):
        parent = forest.parent(7)
        assert parent is not None
        other = forest.contacts[2 if parent == 1 else 1]
        forest.receive(parent, 7, Announced("surf", 0, 0, 0, False, other, FIRST_EPOCH))
        forest.run(MS)
    forest.run(SECOND)

    assert REDIRECTS_MAX <= forest.count(Announce).total() < 2 * REDIRECTS_MAX
    (blamed,) = forest.core(7).kademlia.blame.states(forest.clock(7))
    assert blamed.reasons.keys() == {MISLED}
    id = forest.published(0, "surf")
    forest.run(SECOND)
    assert forest.received(7) == [id]
