"""Subscribers notice events that the tree has not brought, and get them from keepers."""

from dataclasses import replace
from itertools import pairwise

import pytest

from smartpubsub.kademlia.keys import KEY_BITS, key_of
from smartpubsub.kademlia.queries import Found
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Published
from smartpubsub.protocols.runtime.rules import refusal_of
from smartpubsub.protocols.scoutsubs import audit_keeper, keeper_copies
from smartpubsub.protocols.scoutsubs.attestation import held_bytes
from smartpubsub.protocols.scoutsubs.audit import LEFT_OUT_MAX
from smartpubsub.protocols.scoutsubs.audit_keeper import KEPT_US
from smartpubsub.protocols.scoutsubs.duplicates import digest_of_id
from smartpubsub.protocols.scoutsubs.keepers import RANDOM_PLACES, TreeKeepers
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    Audit,
    Audited,
    KeepForAudits,
    Missed,
    Notify,
    Probe,
    Raise,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.spec import scout_settings
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.seam import Departed
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import Result, run
from smartpubsub.sim.kernel.faults import Skew
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import Forest

SETTINGS = ScoutSettings(audit_us_max=MINUTE)
IN_REGIONS = scout_settings(ProtocolOptions(resilience="byzantine"))
SURF = Predicate.parse("surf")
AGE_MS = 60_000
GRACE_MS = 1_000


def answers(forest: Forest, receiver: int) -> list[Audited]:
    parts = [said.part for said in forest.said if said.receiver == receiver]
    return [part for part in parts if isinstance(part, Audited)]


def answer_to(forest: Forest, keeper: int, part: Audit) -> tuple[EventId, ...]:
    """The events that a keeper names to a node that has not missed anything by itself."""
    asker = len(forest.contacts) - 1
    forest.send(asker, keeper, part)
    forest.run(SECOND // 10)
    (answer,) = (one for one in answers(forest, asker) if one.number == part.number)
    return tuple(missed.event.id for missed in answer.missed)


# --- keepers ---


def test_a_keeper_names_the_events_that_a_subscriber_lacks() -> None:
    forest = Forest(8, SETTINGS)
    first, second = forest.published(5, "surf/price=1"), forest.published(5, "surf/price=2")
    forest.run(2 * SECOND)
    cheap = Predicate.parse("surf/price[0,1]")

    assert answer_to(forest, 0, Audit("surf", 90, (SURF,), AGE_MS, GRACE_MS, ())) == (first, second)
    had = (digest_of_id(first),)
    assert answer_to(forest, 0, Audit("surf", 91, (SURF,), AGE_MS, GRACE_MS, had)) == (second,)
    assert answer_to(forest, 0, Audit("surf", 92, (cheap,), AGE_MS, GRACE_MS, ())) == (first,)
    assert answer_to(forest, 0, Audit("surf", 93, (SURF,), 1, GRACE_MS, ())) == ()
    assert answer_to(forest, 0, Audit("ski", 94, (SURF,), AGE_MS, GRACE_MS, ())) == ()


def test_an_event_that_has_just_come_is_not_missed_yet() -> None:
    forest = Forest(8, SETTINGS)
    forest.published(5, "surf")

    assert answer_to(forest, 0, Audit("surf", 90, (SURF,), AGE_MS, GRACE_MS, ())) == ()


def test_all_nodes_that_the_publisher_finds_keep_an_event() -> None:
    forest = Forest(10, SETTINGS)
    id = forest.published(9, "surf")
    forest.run(2 * SECOND)

    keeping = [
        n
        for n in range(9)
        if answer_to(forest, n, Audit("surf", 90 + n, (SURF,), AGE_MS, GRACE_MS, ()))
    ]

    assert keeping == [0, 1, 2, 3, 4]
    assert answer_to(forest, 4, Audit("surf", 99, (SURF,), AGE_MS, GRACE_MS, ())) == (id,)


def test_a_keeper_that_is_slow_to_answer_a_lookup_keeps_events_too() -> None:
    forest = Forest(10, SETTINGS)
    forest.cut(9, 3, SECOND * 9 // 10)  # The lookup of the publisher does not wait for node 3.
    id = forest.published(9, "surf")
    forest.run(2 * SECOND)

    assert answer_to(forest, 3, Audit("surf", 90, (SURF,), AGE_MS, GRACE_MS, ())) == (id,)


def test_the_only_keeper_is_asked_though_it_is_slow_to_answer_a_lookup() -> None:
    forest = Forest(8, replace(SETTINGS, backups=0))
    forest.subscribed(6, "surf")
    forest.cut(6, 0, 8 * SECOND)
    dropped = forest.event(5, 1, "surf")
    forest.receive(5, 0, KeepForAudits(dropped, "surf"))
    forest.run(2 * MINUTE)

    assert forest.received(6) == [dropped.id]


@pytest.mark.parametrize("lost_us", [SECOND // 5, 3 * SECOND])
def test_an_event_that_is_lost_on_its_way_to_a_keeper_is_sent_again(lost_us: int) -> None:
    forest = Forest(10, SETTINGS)
    first = forest.published(9, "surf")
    forest.cut(9, 3, lost_us)
    second = forest.published(9, "surf")
    forest.run(10 * SECOND)

    assert answer_to(forest, 3, Audit("surf", 90, (SURF,), AGE_MS, GRACE_MS, ())) == (first, second)


def test_a_keeper_whose_answer_is_lost_gets_an_event_a_few_times() -> None:
    forest = Forest(10, SETTINGS)
    forest.published(9, "surf")
    forest.cut(3, 9, 10 * MINUTE)
    id = forest.published(9, "surf")
    forest.run(5 * MINUTE)

    copies = [
        said.part
        for said in forest.said
        if said.receiver == 3 and isinstance(said.part, KeepForAudits) and said.part.event.id == id
    ]
    assert 1 < len(copies) <= keeper_copies.TRIES_MAX
    assert forest.held(9, "copies for keepers") == 0


def copy_large_events(forest: Forest, count: int) -> None:
    """Have node 9 send large events to node 3, all at one time."""
    keeper, publisher = forest.contacts[3].peer, forest.contacts[9].peer
    events = [
        Publication.of(EventId(publisher, 0, 1_000 + n), SURF, bytes(40_000), b"")
        for n in range(count)
    ]

    def send(scouts: ScoutSubs) -> None:
        for event in events:
            scouts._copies.send(keeper, event, "surf")

    forest.poke(9, send)


def test_large_copies_that_are_sent_together_have_a_probe_each() -> None:
    """They do not all travel in one bundle."""
    forest = Forest(10, SETTINGS)
    before = forest.count(Probe)[3]
    copy_large_events(forest, 3)
    forest.run(SECOND // 2)

    assert forest.count(KeepForAudits)[3] == 3
    assert forest.count(Probe)[3] - before == 3


def test_a_publisher_remembers_copies_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_copies, "COPIES_BYTES_MAX", 100_000)
    forest = Forest(10, SETTINGS)
    copy_large_events(forest, 3)

    assert forest.held(9, "copies for keepers") == 2


def test_keepers_forget_events_after_some_minutes() -> None:
    forest = Forest(8, SETTINGS)
    forest.published(5, "surf")
    forest.run(audit_keeper.KEPT_US + MINUTE)

    age_ms = 60 * AGE_MS
    assert answer_to(forest, 0, Audit("surf", 90, (SURF,), age_ms, GRACE_MS, ())) == ()


def test_an_event_without_its_publishers_signature_is_not_kept() -> None:
    forest = Forest(8, SETTINGS)
    forest.run(SECOND)
    event = forest.event(5, 1, "surf")._replace(signature=b"forged")
    forest.receive(6, 0, KeepForAudits(event, "surf"))
    forest.run(2 * SECOND)

    assert forest.rejected(0)["signature"] == 1
    assert answer_to(forest, 0, Audit("surf", 90, (SURF,), AGE_MS, GRACE_MS, ())) == ()


def test_an_event_is_kept_only_for_its_own_attributes() -> None:
    forest = Forest(8, SETTINGS)
    forest.run(SECOND)
    event = forest.event(5, 1, "surf")
    forest.receive(6, 0, *(KeepForAudits(event, f"surf{number}") for number in range(10)))

    assert forest.rejected(0)[refusal_of(KeepForAudits)] == 10
    assert not forest.held(0, "bytes of events for audits")


def test_the_publisher_with_most_events_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_keeper, "KEPT_BYTES_MAX", 12_000)
    forest = Forest(8, SETTINGS)
    forest.run(SECOND)
    modest = forest.event(5, 1, "surf")
    forest.receive(5, 0, KeepForAudits(modest, "surf"))
    flood = [forest.event(6, number, "surf") for number in range(1, 50)]
    forest.receive(6, 0, *(KeepForAudits(event, "surf") for event in flood))
    forest.run(2 * SECOND)

    kept = answer_to(forest, 0, Audit("surf", 90, (SURF,), AGE_MS, GRACE_MS, ()))

    assert kept[0] == modest.id
    assert kept[-1] == flood[-1].id
    assert len(kept) == 10


# --- subscribers ---


def test_a_subscriber_looks_at_the_events_that_it_keeps_itself() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(4, "surf/price[0,5]")
    forest.run(2 * SECOND)
    wanted, other = forest.event(5, 1, "surf/price=1"), forest.event(5, 2, "surf/price=9")
    forest.receive(5, 4, *(KeepForAudits(event, "surf") for event in (wanted, other)))
    forest.run(2 * MINUTE)

    assert forest.received(4) == [wanted.id]


def test_an_answer_that_was_not_asked_for_is_refused() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(5, "surf")
    event = forest.event(6, 1, "surf")

    forest.receive(0, 5, Audited("surf", 1, (Missed(event, 10),), False))

    assert forest.rejected(5)[refusal_of(Audited)] == 1
    assert forest.received(5) == []


def test_events_before_the_subscription_are_not_delivered() -> None:
    forest = Forest(8, SETTINGS)
    forest.published(5, "surf")
    forest.run(5 * SECOND)
    forest.subscribed(6, "surf")
    forest.run(MINUTE)

    assert any(isinstance(said.part, Audited) for said in forest.said if said.receiver == 6)
    assert forest.received(6) == []


@pytest.mark.parametrize("publisher", [5, 7])
def test_a_subscriber_whose_clock_is_wrong_learns_that_from_what_the_tree_brings(
    publisher: int,
) -> None:
    forest = Forest(8, SETTINGS)
    Skew(node=6, skew_us=20 * MINUTE).plan(forest.world)
    forest.subscribed(6, "surf")
    forest.run(SECOND)
    first = forest.published(5, "surf")
    forest.run(SECOND)
    dropped = forest.event(publisher, 9, "surf")._replace(created_us=forest.world.now)
    for keeper in range(5):
        forest.receive(publisher, keeper, KeepForAudits(dropped, "surf"))
    forest.run(MINUTE)

    assert forest.received(6) == [first, dropped.id]


def test_an_old_event_of_a_keeper_that_lies_is_not_delivered() -> None:
    forest = Forest(8, SETTINGS)
    forest.run(20 * MINUTE)
    forest.subscribed(6, "surf")
    first = forest.published(5, "surf")
    old = forest.event(7, 1, "surf")._replace(created_us=MINUTE)
    forest.receive(7, 0, KeepForAudits(old, "surf"))
    forest.run(MINUTE)

    assert forest.received(6) == [first]
    assert forest.rejected(6)["audited events"] > 0


def test_an_event_that_comes_by_an_audit_and_by_the_tree_is_delivered_once() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.run(SECOND)
    forest.cut(0, 6, 30 * SECOND)
    id = forest.published(5, "surf")
    forest.run_until(lambda: forest.received(6) == [id], 20 * SECOND)
    forest.run(2 * MINUTE)

    assert forest.received(6) == [id]


@pytest.mark.parametrize("settings", [SETTINGS, IN_REGIONS])
@pytest.mark.parametrize("lone", range(5))
def test_events_right_after_the_subscription_come_though_the_tree_brings_none(
    settings: ScoutSettings, lone: int
) -> None:
    """Whether an audit brings the first or the second of them first."""
    forest = Forest(8, settings)
    forest.subscribed(6, "surf")
    forest.run(SECOND // 10)
    now = forest.world.now
    first, second = (forest.event(7, n, "surf")._replace(created_us=now + n) for n in (1, 2))
    for keeper in range(5):
        forest.receive(7, keeper, KeepForAudits(first if keeper == lone else second, "surf"))
    forest.run(MINUTE)

    assert sorted(forest.received(6)) == [first.id, second.id]


def test_an_event_is_old_if_a_later_one_came_before_the_subscription_was_in_force() -> None:
    forest = Forest(8, SETTINGS)
    forest.run(SECOND)
    number = forest.subscribe(6, "surf")
    first, second = (forest.event(7, n, "surf") for n in (1, 2))
    forest.receive(0, 6, Notify(second, "surf", 1, False, NO_PEER))
    assert forest.received(6) == [second.id]
    forest.run_until(lambda: forest.is_in_force(6, number))
    for keeper in range(5):
        forest.receive(7, keeper, KeepForAudits(first, "surf"))
    forest.run(MINUTE)

    assert forest.received(6) == [second.id]


def test_an_event_comes_though_the_question_was_long_under_way() -> None:
    """Else it seems to have come to the keepers before the subscription was in force."""
    forest = Forest(8, IN_REGIONS)
    forest.subscribed(6, "surf")
    forest.world.network.rules.append(
        lambda _now, sender, receiver: SECOND if sender == 6 and receiver != 6 else None
    )
    forest.run(SECOND // 10)
    event = forest.event(7, 1, "surf")
    for keeper in range(6):
        forest.receive(7, keeper, KeepForAudits(event, "surf"))
    forest.run(MINUTE)

    assert forest.received(6) == [event.id]


# --- restarts ---


def keep_everywhere(forest: Forest, event: Publication) -> None:
    for keeper in range(5):
        forest.receive(5, keeper, KeepForAudits(event, "surf"))


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("jump_us", [0, -20 * MINUTE])
def test_an_event_that_was_dropped_before_a_restart_comes_after_it(
    jump_us: int, is_known: bool
) -> None:
    """Also if the clock is set back meanwhile, whether or not the host knows that."""
    forest = Forest(8, SETTINGS)
    forest.run(MINUTE)
    before = forest.event(5, 1, "surf")
    keep_everywhere(forest, before)
    forest.run(20 * SECOND)
    forest.subscribed(6, "surf")
    forest.run(2 * SECOND)
    dropped = forest.event(5, 2, "surf")
    keep_everywhere(forest, dropped)
    forest.crash(6)
    forest.run(10 * SECOND)
    forest.host(6).skew_us = jump_us
    forest.host(6).clock_set_us = jump_us if is_known else 0
    forest.join(6, 1)
    forest.run(MINUTE)

    # Otherwise the node does not know since when the subscription is in force.
    knows_since = is_known or not jump_us
    assert forest.received(6) == ([dropped.id] if knows_since else [before.id, dropped.id])
    assert not len(forest.core(6).kademlia.blame)


def test_events_before_a_subscription_that_began_after_a_restart_are_not_delivered() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf/price[0,5]")
    forest.run(2 * SECOND)
    dear = forest.event(5, 1, "surf/price=9")
    keep_everywhere(forest, dear)
    forest.crash(6)
    forest.run(10 * SECOND)
    forest.join(6, 1)
    forest.subscribed(6, "surf/price[6,9]")
    forest.run(MINUTE)

    assert forest.received(6) == []


def test_the_time_of_a_subscription_that_has_ended_is_not_stored() -> None:
    forest = Forest(8, SETTINGS)

    def times() -> list[bytes]:
        return [key for key in forest.host(6).storage if key.startswith(b"scout/since/")]

    number = forest.subscribed(6, "surf")
    forest.run(SECOND)
    assert len(times()) == 1
    forest.unsubscribed(6, number)
    forest.run(2 * MINUTE)
    assert times() == []


# --- blame ---


def test_a_parent_that_drops_is_replaced() -> None:
    """A subscriber cannot tell this from a publisher that sends events to keepers alone."""
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    parent = forest.scouts(6)._membership.parent("surf")
    assert parent == forest.contacts[0]
    for number in range(1, 4):
        for keeper in range(1, 5):
            event = forest.event(5, number, "surf")
            forest.receive(5, keeper, KeepForAudits(event, "surf"))
        forest.run(20 * SECOND)
    assert len(forest.received(6)) == 3

    blame = forest.core(6).kademlia.blame
    assert blame.level(forest.contacts[0].peer, forest.clock(6)) == 3
    assert forest.scouts(6)._membership.parent("surf") == forest.contacts[1]
    id = forest.published(5, "surf")
    forest.run_until(lambda: id in forest.received(6), SECOND)


def test_a_parent_that_was_only_slow_is_not_blamed() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.cut(0, 6, 20 * SECOND)
    id = forest.published(5, "surf")
    blame, now = forest.core(6).kademlia.blame, forest.world.now
    forest.run_until(lambda: forest.received(6) == [id], 20 * SECOND)
    assert blame.level(forest.contacts[0].peer, now) == 1
    forest.run(MINUTE)

    assert forest.received(6) == [id]
    assert not len(blame)


def test_blame_is_stored_and_counts_after_a_restart() -> None:
    forest = Forest(8, SETTINGS)
    forest.run(SECOND)
    forest.core(6).kademlia.blame.put(forest.contacts[0].peer, "dropped", forest.clock(6))
    forest.run(2 * MINUTE)
    forest.subscribed(6, "ski")  # It is stored with something that nodes wait for.
    forest.crash(6)
    forest.restart(6)
    forest.run(SECOND)

    (state,) = forest.core(6).kademlia.blame.states(forest.clock(6))
    assert state.blamed == forest.contacts[0].peer
    assert 0.9 < state.points < 1


def test_keepers_that_leave_events_out_are_asked_less() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.run(10 * SECOND)
    liar = 1
    for number in range(1, 9):
        event = forest.event(5, number, "surf")
        for keeper in (0, 2, 3, 4):
            forest.receive(5, keeper, KeepForAudits(event, "surf"))
        forest.run(5 * MINUTE)
    assert forest.core(6).kademlia.blame.level(forest.contacts[liar].peer, forest.clock(6)) >= 1
    began_us = forest.world.now
    forest.run(20 * MINUTE)

    asked = [s.receiver for s in forest.said if isinstance(s.part, Audit) and s.at_us > began_us]
    others = [asked.count(keeper) for keeper in (3, 4)]  # The first ones are blamed as parents.
    assert 0 < asked.count(liar) < min(others) / 2


def asked_in_vain(forest: Forest) -> int:
    """Have node 6 audit while its links to keepers lose everything; count the answers in 3 s."""
    before = len(answers(forest, 6))
    for keeper in range(5):
        forest.cut(6, keeper, SECOND // 10)
    forest.poke(6, lambda scouts: scouts._auditor.on_timer("surf"))
    forest.run(3 * SECOND)
    return len(answers(forest, 6)) - before


def test_a_question_that_is_lost_is_asked_again() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.run(MINUTE)

    assert asked_in_vain(forest) == SETTINGS.audit_peer_count


def test_a_question_is_not_asked_again_while_links_are_full() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.run(MINUTE)
    forest.poke(6, lambda scouts: scouts._times.sample(8 * SECOND))
    forest.poke(6, lambda scouts: setattr(scouts._auditor._trees["surf"], "left_out", LEFT_OUT_MAX))

    assert asked_in_vain(forest) == 0


def test_a_repeated_question_is_for_the_events_of_the_same_times() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.run(MINUTE)
    dropped = forest.event(5, 1, "surf")
    for keeper in range(5):
        forest.receive(5, keeper, KeepForAudits(dropped, "surf"))
        forest.cut(6, keeper, SECOND)
    before = len(answers(forest, 6))
    forest.poke(6, lambda scouts: scouts._auditor.on_timer("surf"))
    forest.run(3 * SECOND)

    assert [answer.missed for answer in answers(forest, 6)[before:]] == [(), ()]


def test_a_node_asks_less_and_less_often_while_nothing_is_missing() -> None:
    forest = Forest(8, SETTINGS)
    forest.subscribed(6, "surf")
    forest.run(10 * MINUTE)

    settings = SETTINGS
    times = [
        said.at_us for said in forest.said if said.receiver == 6 if isinstance(said.part, Audited)
    ]
    gaps = [b - a for a, b in pairwise(times) if b - a > SECOND]
    assert gaps[0] < 2.5 * settings.audit_us_min
    assert all(gap >= 0.75 * settings.audit_us_max for gap in gaps[5:])
    assert len(times) < 2 * 16


def test_one_audit_brings_an_event_however_short_before_it_came_to_the_keepers() -> None:
    forest = Forest(8, IN_REGIONS)
    forest.subscribed(6, "surf")
    audits: list[int] = []
    waits_us: list[int] = []
    for number in range(1, 21):
        forest.run(25 * SECOND + number * SECOND // 3)  # Audits are at their longest interval.
        dropped, began_us = forest.event(5, number, "surf"), forest.world.now
        for keeper in [0, 1, 2, 3, 4, 5, 7]:
            forest.receive(5, keeper, KeepForAudits(dropped, "surf"))
        forest.run_until(lambda: len(forest.received(6)) == len(waits_us) + 1)
        waits_us.append(forest.world.now - began_us)
        asked_us = [
            said.at_us
            for said in forest.said
            if isinstance(said.part, Audit) and said.at_us > began_us
        ]
        audits.append(1 + sum(later - earlier > SECOND for earlier, later in pairwise(asked_us)))

    assert audits == [1] * 20
    assert min(waits_us) >= IN_REGIONS.audit_grace_us


def test_a_node_without_subscriptions_asks_nothing() -> None:
    forest = Forest(8, SETTINGS)
    number = forest.subscribed(6, "surf")
    forest.unsubscribed(6, number)
    forest.run(MINUTE)
    before = len(forest.said)
    forest.run(5 * MINUTE)

    assert not any(isinstance(said.part, Audit) for said in forest.said[before:])


@pytest.mark.parametrize("seed", [3, 4, 9])
def test_a_region_around_a_key_with_few_nodes_is_larger(seed: int) -> None:
    """Up to six nodes were in these regions; all nodes of such a region may lie."""
    forest = Forest(80, IN_REGIONS, seed=seed)
    forest.subscribed(70, "surf")
    forest.run(4 * SECOND)
    found = forest.scouts(70)._auditor._lookup.bands("surf")

    assert sum(map(len, found[:3])) >= IN_REGIONS.region_size


# --- a rendezvous that drops events ---


def forest_with_a_dropping_rendezvous(settings: ScoutSettings = SETTINGS) -> Forest:
    """Ten nodes, of which the rendezvous answers probes and takes subscriptions, but no events."""
    forest = Forest(10, settings)
    forest.subscribed(6, "surf")
    forest.run(SECOND)
    vars(forest.scouts(0)._admission)["_admit"] = lambda *_: None
    return forest


def holders(forest: Forest, publisher: int, id: EventId) -> list[int]:
    (told,) = (
        item for item in forest.items(publisher) if isinstance(item, Published) and item.id == id
    )
    own = StandInSigning(b"anyone")
    for held in told.held:
        assert own.is_evidence(held.peer, lambda: held_bytes(id, "surf"), held.evidence)
    return sorted(forest.number(held.peer) for held in told.held)


@pytest.mark.parametrize("settings", [SETTINGS, IN_REGIONS])
def test_keepers_stand_in_for_a_rendezvous_that_does_not_acknowledge(
    settings: ScoutSettings,
) -> None:
    forest = forest_with_a_dropping_rendezvous(settings)
    id = forest.published(9, "surf")
    forest.run_until(lambda: forest.received(6) == [id])

    assert len(holders(forest, 9, id)) >= 3


def test_after_that_keepers_are_asked_at_once() -> None:
    forest = forest_with_a_dropping_rendezvous()
    forest.published(9, "surf")
    id = forest.publish(9, "surf")
    forest.run(SECOND // 10)

    assert len(holders(forest, 9, id)) == 3


def test_an_event_goes_to_a_rendezvous_that_acknowledges_again() -> None:
    forest = forest_with_a_dropping_rendezvous()
    forest.published(9, "surf")
    del vars(forest.scouts(0)._admission)["_admit"]
    forest.run(MINUTE)
    id = forest.published(9, "surf")

    assert holders(forest, 9, id) == [0, 1, 2]


def acknowledged_by_keepers(forest: Forest) -> EventId:
    """An event of node 9 that the rendezvous never got, while its subscriber 6 is down."""
    forest.crash(6)
    return forest.published(9, "surf")


def stored_by_keepers(forest: Forest) -> int:
    """How many nodes store an event that is not completed."""
    return sum(len(forest.scouts(n)._events_kept.kept) for n in range(5))


@pytest.mark.parametrize("returns", [False, True])
def test_an_event_that_keepers_have_acknowledged_is_not_lost_with_its_publisher(
    *, returns: bool
) -> None:
    """Its subscriber is down for longer than keepers keep events for audits."""
    forest = forest_with_a_dropping_rendezvous()
    id = acknowledged_by_keepers(forest)
    forest.crash(9)
    if returns:  # So quickly that it is not found down.
        forest.join(9, 1)
    forest.run(2 * SECOND)  # All that it has sent is dropped.
    del vars(forest.scouts(0)._admission)["_admit"]
    forest.run(KEPT_US + MINUTE)
    forest.join(6, 1)
    forest.run(MINUTE)

    assert forest.received(6) == [id]


def test_an_event_that_keepers_have_acknowledged_is_not_lost_with_all_of_them() -> None:
    forest = forest_with_a_dropping_rendezvous()
    id = acknowledged_by_keepers(forest)
    everyone = [0, 1, 2, 3, 4, 5, 7, 8, 9]
    forest.crash(*everyone)
    for number in everyone[:-1]:
        forest.join(number, (number + 1) % 5)
    forest.run(KEPT_US + MINUTE)
    forest.join(6, 1)
    forest.run(MINUTE)

    assert forest.received(6) == [id]


def test_a_rendezvous_that_refuses_an_acknowledged_event_gets_it_again() -> None:
    forest = forest_with_a_dropping_rendezvous()
    id = acknowledged_by_keepers(forest)
    admission = forest.scouts(0)._admission

    def refuse(part: Raise, _: object) -> None:
        admission._answer(part.event.id, part.attribute, "too many events in flight")

    vars(admission)["_admit"] = refuse
    forest.run(MINUTE)
    del vars(admission)["_admit"]
    forest.run(KEPT_US)
    forest.join(6, 1)
    forest.run(MINUTE)

    assert forest.received(6) == [id]


def test_keepers_forget_an_event_that_a_rendezvous_has() -> None:
    forest = forest_with_a_dropping_rendezvous()
    forest.published(9, "surf")
    assert stored_by_keepers(forest) == 5
    del vars(forest.scouts(0)._admission)["_admit"]
    forest.run(MINUTE)

    assert stored_by_keepers(forest) == 0


def test_a_keeper_without_room_to_store_an_event_does_not_sign_for_it() -> None:
    forest = forest_with_a_dropping_rendezvous(replace(SETTINGS, record_count_max=0))
    event = forest.event(9, 1, "surf")
    forest.receive(9, 3, KeepForAudits(event, "surf", wants_answer=True))
    forest.run(SECOND)

    parts = [said.part for said in forest.said if said.receiver == 9]
    assert [part.is_full for part in parts if isinstance(part, Recorded)] == [True]


def leave(forest: Forest, number: int) -> None:
    """End a node, and tell the others that it has left."""
    forest.crash(number)
    left = Departed(forest.contacts[number].peer)
    for other in forest.numbers:
        if forest.host(other).is_up:
            forest.do(other, forest.core(other).handle(left, forest.clock(other)))


@pytest.mark.parametrize("settings", [SETTINGS, IN_REGIONS])
def test_no_signatures_are_missing_of_keepers_that_have_left(settings: ScoutSettings) -> None:
    forest = Forest(4, settings)
    forest.subscribed(0, "surf")
    forest.published(0, "surf")
    for number in (1, 2, 3):
        leave(forest, number)
        id = forest.publish(0, "surf")
        forest.run(SECOND)
        assert forest.is_published(id)


def test_an_event_that_waits_for_a_keeper_is_published_when_that_has_left() -> None:
    forest = Forest(2, IN_REGIONS)
    forest.subscribed(0, "surf")
    forest.published(0, "surf")
    forest.cut(1, 0, MINUTE)
    id = forest.publish(0, "surf")
    forest.run(10 * SECOND)
    assert not forest.is_published(id)

    leave(forest, 1)
    assert forest.is_published(id)


def test_a_silent_keeper_still_has_to_sign() -> None:
    """An attacker that delays messages must not make fewer signatures suffice."""
    forest = Forest(2, IN_REGIONS)
    forest.subscribed(0, "surf")
    forest.published(0, "surf")
    forest.crash(1)

    id = forest.publish(0, "surf")
    forest.run(MINUTE)
    assert not forest.is_published(id)

    forest.restart(1)
    forest.run_until(lambda: forest.is_published(id))


@pytest.mark.parametrize("settings", [SETTINGS, IN_REGIONS])
def test_a_lone_node_needs_no_keepers(settings: ScoutSettings) -> None:
    forest = Forest(1, settings)

    assert holders(forest, 0, forest.published(0, "surf")) == [0]


# --- attacks ---


def ran(
    seed: int,
    adversary: str,
    resilience: str,
    *,
    id_work_bits: int = 0,
    peers_per_prefix: int = 0,
    nodes: int = 40,
    events: int = 40,
) -> Result:
    options = SimOptions(
        nodes=nodes,
        events=events,
        seed=seed,
        resilience=resilience,
        adversary=(Adversary.parse(adversary),),
        id_work_bits=id_work_bits,
        peers_per_prefix=peers_per_prefix,
    )
    return run(options.experiment("scoutsubs", "", options.load(["scoutsubs"])), "normal")


@pytest.mark.parametrize(
    ("seed", "adversary", "resilience", "within_s"),
    [
        (7, "drop-half:0.2", "audited", 60),  # It drops events right after the subscriptions.
        *((seed, kind, "audited", 60) for seed in (1, 2) for kind in ("drop:0.2", "forge-ack:0.2")),
        (7, "drop:0.2", "byzantine", 10),
        (2, "forge-ack:0.2", "byzantine", 10),
        (3, "drop:0.3", "byzantine", 30),
        (4, "sybil:8", "byzantine", 30),
        (5, "eclipse:0.2", "byzantine", 60),
        (6, "surround:30", "byzantine", 60),
    ],
)
def test_everything_is_acknowledged_and_comes_in_time(
    seed: int, adversary: str, resilience: str, within_s: int
) -> None:
    verdict = ran(seed, adversary, resilience).verdict

    assert verdict.missing == verdict.app_duplicates == verdict.unexpected == 0
    assert verdict.published == verdict.injected
    slowest_ms = verdict.delivered_within_ms["max"]
    assert slowest_ms is not None
    assert slowest_ms < within_s * 1000


def test_a_subscriber_and_a_publisher_know_an_honest_keeper_in_common() -> None:
    """Among twice as many minted ids as honest nodes, which filled bands of other keys too."""
    verdict = ran(8602, "sybil:17", "byzantine", nodes=60, events=30).verdict

    assert verdict.missing == 0
    slowest_ms = verdict.delivered_within_ms["max"]
    assert slowest_ms is not None
    assert slowest_ms < 30_000


def test_slow_nodes_do_not_make_a_node_take_its_network_for_small() -> None:
    """A lookup that leaves out slow nodes finds few, but that does not show a small network."""
    keepers = _keepers_in_a_network(60)
    before = keepers._outermost()
    assert before < KEY_BITS

    keepers._regions.clear()
    keepers._spaced_us = never_us = -1 << 62
    keepers.look_up("surf")
    for number, then in list(keepers._lookups._pending.items())[-RANDOM_PLACES:]:
        then(Found(number, b"random", tuple(keepers._kademlia.table.contacts()[:5]), 1))

    assert not keepers._waiting
    assert keepers._outermost() == before
    assert keepers._spaced_us == never_us  # It will try again.


def test_a_lookup_that_finds_far_nodes_counts_at_least_the_known_nodes() -> None:
    keepers = _keepers_in_a_network(60)
    keepers._regions.clear()
    keepers._spaced_us = -1 << 62
    keepers.look_up("surf")
    place = key_of(b"random")
    known = sorted(keepers._kademlia.table.contacts(), key=lambda one: one.key ^ place)
    for number, then in list(keepers._lookups._pending.items())[-RANDOM_PLACES:]:
        then(Found(number, b"random", tuple(known[-10:]), 1))

    most = ((1 << KEY_BITS) - 1) // len(known)
    assert keepers._spaced_us >= 0
    assert keepers._spacing <= most


def _keepers_in_a_network(nodes: int) -> TreeKeepers:
    """What a node knows of keepers, after a short run."""
    experiment = ran(1, "drop:0.1", "byzantine", nodes=nodes, events=1).experiment
    assert isinstance(experiment, Experiment)
    honest = next(number for number in range(nodes) if number not in experiment.crowd)
    core = experiment.core(honest).pubsub
    assert isinstance(core, ScoutSubs)
    return core._auditor._lookup


def test_without_audits_droppers_lose_events() -> None:
    assert ran(1, "drop:0.2", "crash").verdict.missing > 100


def test_minted_ids_have_no_role_where_ids_need_work() -> None:
    without, withal = (ran(4, "sybil:8", "audited", id_work_bits=bits).verdict for bits in (0, 8))

    assert without.missing > 100
    assert (withal.missing, withal.app_duplicates, withal.unexpected) == (0, 0, 0)
    assert withal.published == withal.injected


def test_minted_ids_of_one_prefix_do_not_take_a_name_over() -> None:
    lost = ran(4, "sybil:8", "audited").verdict
    assert lost.missing > lost.expected * 3 // 4

    verdict = ran(4, "sybil:8", "audited", peers_per_prefix=2).verdict
    assert verdict.missing == verdict.app_duplicates == verdict.unexpected == 0
    assert verdict.expected == lost.expected
