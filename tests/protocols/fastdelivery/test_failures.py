"""Failures cost time and messages but no event, and no limit is exceeded meanwhile."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import MemberState
from smartpubsub.protocols.fastdelivery.group import OwnedGroup
from smartpubsub.protocols.fastdelivery.messages import (
    GroupId,
    Packet,
    Relay,
    RelayConfirmed,
    Watched,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.pubsub import Confirmed, Published
from smartpubsub.sim.kernel.faults import Partition
from smartpubsub.sim.kernel.world import Host
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes, answer_always, cut

HERE = FastSettings(region="here", capacity=3)


def crowd(count: int, settings: FastSettings = HERE) -> tuple[FastNodes, OwnedGroup]:
    """An owner with a group of all other nodes, so that there are many helpers."""
    nodes = FastNodes(count, settings)
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, count), "surf")
    nodes.run(2)
    return nodes, group


def assert_limits(nodes: FastNodes, group: OwnedGroup) -> None:
    assert len(nodes.at(group, MemberState.DIRECT)) <= HERE.direct_max
    for host in nodes.world.hosts:
        if host.is_up:
            assert nodes.fast(host.number).helper.delegated_count <= HERE.capacity
    for helper in group.book.helpers():
        assert len(helper.delegated) <= helper.granted <= HERE.capacity


def assert_helpers_agree(nodes: FastNodes, group: OwnedGroup) -> None:
    """Helpers serve exactly the members that the owner's book has delegated to them."""
    id = GroupId(nodes.contacts[OWNER].peer, group.predicate)
    helpers = {helper.peer: helper for helper in group.book.helpers()}
    for number, contact in enumerate(nodes.contacts):
        if nodes.host(number).is_up:
            role = nodes.fast(number).helper.roles.get(id)
            helper = helpers.get(contact.peer)
            assert (role is None) == (helper is None)
            assert role is None or helper is None or role.members.keys() == helper.delegated.keys()


def test_half_of_the_helpers_crash_in_mid_event() -> None:
    nodes, group = crowd(50)
    helpers = nodes.at(group, MemberState.HELPER)
    assert len(helpers) >= 10
    event = nodes.publish("surf")
    nodes.run(0.012)  # The helpers have it, and those in their care have not.
    assert nodes.got(event)
    crashed = helpers[::2]
    for number in crashed:
        nodes.crash(number)
    nodes.run(30)
    alive = sorted(set(range(1, 50)) - set(crashed))
    assert [number for number in nodes.got(event) if number in alive] == alive
    assert len(nodes.got(event)) == len(set(nodes.got(event)))
    assert nodes.items(Published, OWNER) == [Published(event)]


def test_members_that_get_another_helper_get_missed_events_in_one_message() -> None:
    nodes = FastNodes(30, HERE, capacities=[0, 40, 30, *[0] * 27])
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, 30), "surf")
    nodes.run(2)
    (helper,) = nodes.at(group, MemberState.HELPER)
    id = nodes.publish("surf")
    nodes.crash(helper)
    relayed: list[Relay] = []
    transmit = nodes.world._transmit

    def noting(host: Host, peer: bytes, message: object, event: object) -> None:
        is_other = peer != nodes.contacts[helper].peer
        if is_other and isinstance(message, Packet) and isinstance(message.part, Relay):
            relayed.append(message.part)
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = noting  # type: ignore[method-assign]
    nodes.run(10)
    assert nodes.got(id) == [number for number in range(1, 30) if number != helper]
    assert len(relayed) == 1
    assert len(relayed[0].only) > 20


def test_limits_hold_while_helpers_fail_one_after_another() -> None:
    nodes, group = crowd(40)
    alive = dict.fromkeys(range(1, 40))
    for _ in range(6):
        victim = nodes.at(group, MemberState.HELPER)[0]
        event = nodes.publish("surf")
        nodes.crash(victim)
        del alive[victim]
        for _ in range(60):
            nodes.run(0.1)
            assert_limits(nodes, group)
        assert nodes.got(event) == sorted(alive)
        assert max(nodes.hops(event).values()) <= 2
    assert_helpers_agree(nodes, group)


def test_no_member_misses_an_event_when_a_restarted_helper_has_forgotten_its_role() -> None:
    nodes, group = crowd(20)
    helper = nodes.at(group, MemberState.HELPER)[0]
    nodes.crash(helper)
    nodes.world.restart(nodes.host(helper))
    event = nodes.publish("surf")
    nodes.run(10)
    assert nodes.got(event) == list(range(1, 20))
    assert_limits(nodes, group)


def test_a_restarted_owner_has_its_groups_and_their_members() -> None:
    nodes, _ = crowd(20)
    nodes.crash(OWNER)
    nodes.run(5)
    nodes.world.restart(nodes.host(OWNER))
    nodes.run(5)
    event = nodes.publish("surf")
    nodes.run(10)
    assert nodes.got(event) == list(range(1, 20))


def test_a_member_that_was_cut_off_gets_missed_events_when_it_is_back() -> None:
    nodes, group = crowd(12)
    missing = nodes.at(group, MemberState.DELEGATED)[0]
    now = nodes.world.now
    Partition(group=(missing,), at_us=now, until_us=now + 60 * SECOND).plan(nodes.world)
    events = [nodes.publish("surf") for _ in range(3)]
    nodes.run(30)
    for event in events:
        assert nodes.got(event) == [number for number in range(1, 12) if number != missing]
    assert nodes.items(Confirmed) == []
    nodes.run(60)
    for event in events:
        assert nodes.got(event) == list(range(1, 12))
    assert nodes.items(Confirmed) == [Confirmed(event) for event in events]


def test_a_published_event_survives_its_owner_for_members_that_are_down() -> None:
    nodes, group = crowd(12)
    down = nodes.at(group, MemberState.DIRECT)[0]
    nodes.crash(down)
    event = nodes.publish("surf")
    nodes.run_until(lambda: nodes.items(Published, OWNER) == [Published(event)])
    nodes.crash(OWNER)
    nodes.world.restart(nodes.host(down))
    nodes.run(60)
    assert nodes.got(event) == list(range(1, 12))


def test_without_backups_an_event_is_published_without_replicas() -> None:
    nodes, group = crowd(8, replace(HERE, backups=0))
    nodes.crash(nodes.at(group, MemberState.DIRECT)[0])
    event = nodes.publish("surf")
    nodes.run(10)
    assert nodes.items(Published, OWNER) == [Published(event)]


def test_members_that_do_not_renew_expire() -> None:
    nodes, group = crowd(8, replace(HERE, renew_us=30 * SECOND))
    gone = nodes.at(group, MemberState.DIRECT)[0]
    nodes.crash(gone)
    nodes.run(100)
    assert len(group.book) == 6
    event = nodes.publish("surf")
    nodes.run(5)
    assert nodes.items(Confirmed) == [Confirmed(event)]


def test_a_crashed_subscriber_expires_with_its_search_even_in_a_later_group() -> None:
    nodes = FastNodes(6, replace(HERE, renew_us=60 * SECOND))
    nodes.subscribe(1, "surf")
    gone_us = nodes.world.now
    nodes.crash(1)
    nodes.run(90)
    group = nodes.create("surf")
    assert len(group.book) == 1  # It may come back.
    nodes.run_until(lambda: len(group.book) == 0, seconds=120)
    assert nodes.world.now - gone_us <= 150 * SECOND


def test_a_crashed_member_expires_although_the_owner_restarts() -> None:
    nodes, _ = crowd(6, replace(HERE, renew_us=60 * SECOND))
    gone_us = nodes.world.now
    nodes.crash(1)
    nodes.run(90)
    nodes.crash(OWNER)
    nodes.world.restart(nodes.host(OWNER))
    nodes.run_until(lambda: bool(nodes.fast(OWNER).groups))
    group = nodes.group("surf")
    assert len(group.book) == 5
    nodes.run_until(lambda: len(group.book) == 4, seconds=120)
    assert nodes.world.now - gone_us <= 150 * SECOND


def test_a_helper_cannot_make_members_seem_silent_that_it_does_not_serve() -> None:
    nodes, group = crowd(20)
    helper = next(group.book.helpers())
    direct = nodes.contacts[nodes.at(group, MemberState.DIRECT)[0]].peer
    id = nodes.publish("surf")
    event = group.in_flight[id]
    nodes.fast(OWNER)._owner._on_relayed(
        event, helper.peer, helper.term, list(helper.delegated), RelayConfirmed((direct,))
    )
    assert group.book.members[direct].state is MemberState.DIRECT
    assert event.sent[direct] == direct


def a_helper_of_six(settings: FastSettings = HERE) -> tuple[FastNodes, OwnedGroup, list[int]]:
    """A group of nine members with one helper, and the members that the helper serves."""
    nodes = FastNodes(10, settings, capacities=[0, 20, *[0] * 8])
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, 10), "surf")
    nodes.run(2)
    assert nodes.at(group, MemberState.HELPER) == [1]
    return nodes, group, nodes.at(group, MemberState.DELEGATED)


@pytest.mark.parametrize("backups", [0, 2])
def test_a_member_that_its_helper_does_not_reach_gets_events_from_the_owner(backups: int) -> None:
    nodes, group, served = a_helper_of_six(replace(HERE, backups=backups))
    cut(nodes, 1, served[0])
    event = nodes.publish("surf")
    nodes.run(10)
    assert nodes.got(event) == list(range(1, 10))
    assert nodes.items(Confirmed) == [Confirmed(event)]
    assert nodes.member(group, served[0]).state is MemberState.DIRECT
    assert nodes.at(group, MemberState.DELEGATED) == served[1:]


def test_a_helper_is_offered_a_member_that_it_did_not_reach_again_after_t() -> None:
    nodes, group, (missed, *_) = a_helper_of_six(replace(HERE, renew_us=90 * SECOND))
    cut(nodes, 1, missed)
    nodes.publish("surf")
    nodes.run(60)
    assert nodes.member(group, missed).state is MemberState.DIRECT
    nodes.run(60)
    assert nodes.member(group, missed).state is MemberState.DELEGATED


def test_a_helper_serves_a_member_again_that_was_down() -> None:
    nodes, group, (missed, *_) = a_helper_of_six()
    nodes.crash(missed)
    nodes.publish("surf")
    nodes.run(10)
    assert nodes.member(group, missed).state is MemberState.SILENT
    nodes.world.restart(nodes.host(missed))
    nodes.run_until(lambda: nodes.member(group, missed).state is MemberState.DELEGATED)


def test_a_helper_that_reports_all_members_as_unreached_is_not_offered_them_again() -> None:
    nodes, group, served = a_helper_of_six()
    unreached = RelayConfirmed(tuple(nodes.contacts[number].peer for number in served))
    answer_always(nodes, 1, Relay, unreached)
    before = nodes.world.sent_count
    event = nodes.publish("surf")
    nodes.run(30)
    assert set(nodes.got(event)) >= set(range(2, 10))
    assert nodes.world.sent_count - before < 1000
    assert nodes.at(group, MemberState.DELEGATED) == []


@pytest.mark.parametrize("unreached_count", [0, 2, 9])
def test_other_nodes_keep_an_event_in_place_of_keepers_that_do_not_answer(
    unreached_count: int,
) -> None:
    nodes, down = FastNodes(12, HERE), 5
    nodes.create("surf")
    nodes.subscribe(down, "surf")
    nodes.run(1)
    others = [number for number in range(1, 12) if number != down]
    others.sort(key=lambda number: nodes.contacts[number].key ^ nodes.contacts[down].key)
    nodes.crash(down)
    for number in others[:unreached_count]:
        cut(nodes, OWNER, number)
    event = nodes.publish("surf")
    nodes.run_until(lambda: nodes.items(Published) == [Published(event)])
    kept = [number for number in others if nodes.fast(number)._replicas.count]
    assert kept == others[unreached_count:][: HERE.backups]


def test_a_silent_member_that_a_keeper_reports_with_another_interest_is_served_again() -> None:
    nodes, group, (down, *_) = a_helper_of_six()
    nodes.crash(down)
    nodes.publish("surf")
    nodes.run(10)
    assert nodes.member(group, down).state is MemberState.SILENT
    request = nodes.fast(down)._signatures.request((Predicate.parse("surf/kite"),), 2)
    owner, notice = nodes.fast(OWNER), nodes.fast(OWNER)._signatures.advertisement(group.predicate)

    def take_watcher(_: NodeCore, __: int) -> list:  # type: ignore[type-arg]
        owner._owner._take_watchers(group, notice, [Watched(request, 60)])
        return owner._take()

    nodes._do(OWNER, take_watcher)
    owner.check()
    nodes.run(1)
    assert nodes.member(group, down).state is MemberState.DELEGATED
