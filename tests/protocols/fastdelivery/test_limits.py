"""What exceeds a limit is refused, the node is told, and the subscription is retried."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery import subscriber
from smartpubsub.protocols.fastdelivery.keepers import KeeperLookup
from smartpubsub.protocols.fastdelivery.messages import (
    CopyDirectory,
    Keep,
    Posted,
    Request,
    RequestDone,
    Search,
)
from smartpubsub.protocols.fastdelivery.replicas import GroupReplicas
from smartpubsub.protocols.fastdelivery.results import (
    GroupRefused,
    JoinRefused,
    NotAdvertised,
    NotInForce,
    SearchResult,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.node import NodeCore
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Published, Refused, SubscriptionState, Unsubscribed
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes
from tests.protocols.fastdelivery.test_senders import SURF, event_of, tell

HERE = FastSettings(region="here", capacity=10)


def state(nodes: FastNodes, number: int, subscription: int) -> SubscriptionState:
    return nodes.fast(number).state_of(subscription, nodes.world.now)


def begin_subscribing(nodes: FastNodes, number: int, text: str) -> int:
    given: list[int] = []

    def subscribe(core: NodeCore, now: int) -> list:  # type: ignore[type-arg]
        subscription, effects = core.subscribe(Predicate.parse(text), now)
        given.append(subscription)
        return effects

    nodes._do(number, subscribe)
    return given[0]


def test_a_join_beyond_the_limit_is_told_and_done_when_a_group_is_left() -> None:
    nodes = FastNodes(4, replace(HERE, group_count_max=2))
    for text in ("surf", "kite"):
        nodes.create(text)
    nodes.create("swim", owner=2)
    numbers = [nodes.subscribe(1, text) for text in ("surf", "kite")]
    third = begin_subscribing(nodes, 1, "swim")
    nodes.run(60)
    (told,) = nodes.items(NotInForce, 1)  # Once, although it is tried again.
    assert told.subscription.number == third
    assert "as many groups as it may be, 2" in told.reason
    assert "group_count_max" in told.reason
    assert "swim" in told.reason
    assert state(nodes, 1, third) is SubscriptionState.PENDING
    assert nodes.fast(1).tally().refused["memberships"] >= 1
    nodes.unsubscribe(1, numbers[0])
    nodes.run_until(lambda: state(nodes, 1, third) is SubscriptionState.IN_FORCE)
    event = nodes.publish("swim", owner=2)
    nodes.run(1)
    assert nodes.got(event) == [1]


def test_a_join_of_one_group_beyond_the_limit_is_told_and_tried_again() -> None:
    nodes = FastNodes(4, replace(HERE, group_count_max=2))
    nodes.create("surf", owner=2)
    nodes.create("kite", owner=3)
    nodes.create("swim")
    numbers = [nodes.subscribe(1, text) for text in ("surf", "kite")]
    joined = nodes.join(1, "swim", "swim")
    (told,) = nodes.items(NotInForce, 1)
    assert told.subscription == joined
    assert state(nodes, 1, joined.number) is SubscriptionState.PENDING
    nodes.unsubscribe(1, numbers[1])
    nodes.run_until(lambda: joined in nodes.in_force(1))
    event = nodes.publish("swim", group="swim")
    nodes.run(1)
    assert nodes.got(event) == [1]


def test_the_groups_of_one_owner_leave_room_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriber, "SHARE_MIN", 2)
    nodes = FastNodes(4, replace(HERE, group_count_max=16))
    nodes.subscribe(1, "surf")
    for number in range(4):
        nodes.create(f"surf/invented-{number}")
    nodes.run(1)
    assert nodes.fast(1)._subscriber.membership_count == 2
    assert "in 2 groups of one owner" in nodes.items(NotInForce, 1)[0].reason
    nodes.create("surf/honest", owner=2)
    event = nodes.publish("surf/honest", owner=2)
    nodes.run(1)
    assert nodes.got(event) == [1]

    # A group that is named may be joined all the same.
    joined = nodes.join(1, "surf/invented-3", "surf/invented-3")
    nodes.run_until(lambda: joined in nodes.in_force(1))


def test_a_subscription_is_not_in_force_any_more_when_a_later_group_is_beyond_the_limit() -> None:
    nodes = FastNodes(4, replace(HERE, group_count_max=1))
    nodes.create("surf")
    number = nodes.subscribe(1, "surf")
    assert state(nodes, 1, number) is SubscriptionState.IN_FORCE
    nodes.create("surf/kite", owner=2)
    nodes.run(1)
    assert "surf/kite" in nodes.items(NotInForce, 1)[0].reason
    assert state(nodes, 1, number) is SubscriptionState.PENDING


def test_an_owner_that_refuses_affects_only_its_own_group() -> None:
    nodes = FastNodes(5, HERE)
    nodes.create("surf", contract=lambda _: "not today")
    nodes.create("surf", owner=2)
    number = nodes.subscribe(1, "surf")
    assert [told.reason for told in nodes.items(JoinRefused, 1)] == ["not today"]
    assert state(nodes, 1, number) is SubscriptionState.IN_PART
    # One that comes later says so as well.
    nodes.create("surf/kite", owner=3, contract=lambda _: "nor ever")
    nodes.run(1)
    assert [told.reason for told in nodes.items(JoinRefused, 1)] == ["not today", "nor ever"]
    event = nodes.publish("surf", owner=2)
    nodes.run(1)
    assert nodes.got(event) == [1]


def test_a_member_that_is_refused_at_renewal_is_told() -> None:
    nodes = FastNodes(3, replace(HERE, renew_us=MINUTE))
    answers = {"why": ""}

    def contract(_: Request) -> str:
        return answers["why"]

    group = nodes.create("surf", contract=contract)
    joined = nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: joined in nodes.in_force(1))
    answers["why"] = "not paid"
    nodes.run_until(lambda: bool(nodes.items(JoinRefused, 1)), seconds=120)
    (told,) = nodes.items(JoinRefused, 1)
    assert (told.subscription, told.reason) == (joined, "not paid")
    assert state(nodes, 1, joined.number) is SubscriptionState.REFUSED
    assert len(group.book) == 0


def test_members_of_an_earlier_incarnation_renew_while_the_contract_is_not_set() -> None:
    nodes = FastNodes(3, replace(HERE, renew_us=MINUTE))
    nodes.create("surf", contract=lambda _: "")
    joined = nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: joined in nodes.in_force(1))
    nodes.crash(OWNER)
    nodes.run(1)
    nodes.world.restart(nodes.host(OWNER))
    others = nodes.contacts[1:]
    nodes._do(OWNER, lambda core, now: core.settle(others, now))
    nodes.run(150)
    assert nodes.items(JoinRefused) == []
    assert len(nodes.group("surf").book) == 1
    nodes.join(2, "surf", "surf")
    nodes.run(1)
    assert "does not know yet who may join" in nodes.items(JoinRefused, 2)[0].reason


def test_an_owner_is_told_that_it_has_too_many_groups() -> None:
    nodes = FastNodes(2, replace(HERE, group_count_max=1))
    nodes.create("surf")
    fast = nodes.fast(OWNER)
    nodes._do(OWNER, lambda _, now: fast.create_group(Predicate.parse("kite"), now))
    nodes.publish("swim")
    reasons = [told.reason for told in (*nodes.items(GroupRefused), *nodes.items(Refused))]
    assert len(reasons) == 3
    assert all("as many groups as it may, 1" in reason for reason in reasons)


def test_a_group_without_room_in_a_directory_is_open_and_its_owner_is_told() -> None:
    nodes = FastNodes(5, replace(HERE, advertisement_count_max=1))
    nodes.create("surf")
    nodes.create("surf", owner=1)
    (told,) = nodes.items(NotAdvertised, 1)
    assert "directory of 'surf'" in told.reason
    joined = nodes.join(2, "surf", "surf")  # A node that knows the owner can join.
    nodes.run_until(lambda: joined in nodes.in_force(2))


def test_a_search_without_room_in_a_directory_is_in_force_once_there_is_room() -> None:
    nodes = FastNodes(6, replace(HERE, advertisement_count_max=1))
    nodes.create("surf")
    first = nodes.subscribe(1, "surf")
    second = begin_subscribing(nodes, 2, "surf")
    nodes.run(60)
    (told,) = nodes.items(NotInForce, 2)
    assert "directory of 'surf'" in told.reason
    assert state(nodes, 2, second) is SubscriptionState.PENDING
    assert nodes.search(3, "surf") == ["surf"]  # Which does not have to be remembered.
    nodes.unsubscribe(1, first)
    nodes.run_until(lambda: state(nodes, 2, second) is SubscriptionState.IN_FORCE)


def test_the_searches_of_one_peer_leave_room_for_the_directories_of_others() -> None:
    nodes, stranger = FastNodes(5, replace(HERE, directory_count_max=80)), 4
    for keeper in range(stranger):
        for number in range(200):
            text = f"a{number}"
            search = Search(text, Predicate.parse(text), None, None, b"")
            tell(nodes, keeper, stranger, search, number)
        assert len(nodes.fast(keeper).directory.directories) <= 80 // 8
    nodes.create("surf")
    assert nodes.items(NotAdvertised) == []
    assert nodes.search(1, "surf") == ["surf"]
    nodes.run(60)  # Empty directories are forgotten.
    assert all(len(nodes.fast(keeper).directory.directories) <= 1 for keeper in range(stranger))
    accounts = [a for a in nodes.core(0).kademlia.ledger if a.name == "entries of directories"]
    assert all(account.size_of(nodes.contacts[stranger].peer) == 0 for account in accounts)


def test_copies_without_entries_leave_room_for_the_directories_of_others() -> None:
    nodes = FastNodes(3, replace(HERE, directory_count_max=20))
    surf, signatures = Predicate.parse("surf"), nodes.fast(2)._signatures
    unsigned = Posted(signatures.advertisement(surf)._replace(signature=b""), 60)
    for number in range(40):
        posted = (unsigned,) if number % 2 else ()
        assert tell(nodes, 1, 2, CopyDirectory(f"a{number}", posted, ()), number)
    assert not nodes.fast(1).directory.directories
    nodes.create("surf")
    assert nodes.items(NotAdvertised) == []


def test_a_search_that_no_keeper_can_answer_reports_the_problem() -> None:
    nodes = FastNodes(5, replace(HERE, directory_count_max=0))
    assert nodes.search(1, "surf") == []
    (result,) = nodes.items(SearchResult, 1)
    assert "directory of 'surf'" in result.problem


def test_a_search_and_a_group_whose_directory_no_node_keeps_report_the_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = FastNodes(4, HERE)
    monkeypatch.setattr(KeeperLookup, "trusted", lambda *_: [])
    assert nodes.search(0, "surf") == []
    (result,) = nodes.items(SearchResult, 0)
    assert "no node that keeps it answers; try again later" in result.problem

    nodes.create("surf")
    (told,) = nodes.items(NotAdvertised, OWNER)
    assert "no node that keeps it answers" in told.reason


def test_the_replicas_of_one_owner_leave_room_for_those_of_others() -> None:
    nodes = FastNodes(3, replace(HERE, replica_count_max=300, replica_bytes_max=4 << 20))
    keeper, busy, other = 1, 2, 0
    for number in range(1, 302):
        tell(nodes, keeper, busy, Keep(b"silent", SURF, event_of(nodes, busy, number)))
    kept_count = nodes.fast(keeper)._replicas.count
    assert 200 < kept_count < 300
    (answer,) = tell(nodes, keeper, other, Keep(b"silent", SURF, event_of(nodes, other)))
    assert answer.part == RequestDone()
    assert nodes.fast(keeper)._replicas.count == kept_count + 1


def test_the_replicas_that_a_node_keeps_take_limited_memory_until_they_expire() -> None:
    nodes = FastNodes(3, replace(HERE, replica_bytes_max=4 << 20, renew_us=MINUTE))
    account = next(a for a in nodes.core(1).kademlia.ledger if a.name == "event replicas")
    publisher = nodes.contacts[2].peer
    for number in range(1, 20):
        id, payload = EventId(publisher, 0, number), bytes(1 << 18)
        signature = StandInSigning(publisher).sign(id, SURF, payload)
        event = Publication.of(id, SURF, payload, signature)
        for _ in range(2):  # The second time, the node keeps it already.
            tell(nodes, 1, 2, Keep(b"silent", SURF, event))
    assert nodes.fast(1)._replicas.count == 3
    assert 3 << 18 < account.size <= 1 << 20
    assert nodes.fast(1).tally().refused["event replicas"] == 2 * 16
    nodes.run(150)
    assert nodes.fast(1)._replicas.count == account.size == 0


def test_a_keeper_keeps_the_first_of_two_events_under_one_number() -> None:
    nodes = FastNodes(3)
    first, publisher = event_of(nodes, 2), nodes.contacts[2].peer
    payload = bytes(100_000)
    signature = StandInSigning(publisher).sign(first.id, SURF, payload)
    second = Publication.of(first.id, SURF, payload, signature)
    for event in (first, second):
        tell(nodes, 1, 2, Keep(b"silent", SURF, event))
    assert nodes.fast(1)._replicas.count == 1
    nodes.fast(1).check()


def test_an_event_is_not_published_before_a_keeper_has_room_for_its_replica() -> None:
    nodes = FastNodes(6, replace(HERE, replica_count_max=1))
    nodes.create("surf")
    nodes.subscribe_all([1, 2], "surf")
    nodes.crash(1)
    first, second = nodes.publish("surf"), nodes.publish("surf")
    nodes.run(60)
    assert [told.id for told in nodes.items(Published)] == [first]
    nodes.world.restart(nodes.host(1))
    known = [contact for contact in nodes.contacts if contact != nodes.contacts[1]]
    nodes._do(1, lambda core, now: core.settle(known, now))
    nodes.run_until(lambda: len(nodes.items(Published)) == 2)
    assert sorted(nodes.got(second)) == [1, 2]


def test_a_group_that_is_being_left_makes_room_though_its_owner_does_not_answer() -> None:
    nodes = FastNodes(5, replace(HERE, group_count_max=1))
    nodes.create("surf", owner=2)
    nodes.create("kite")
    number = nodes.subscribe(1, "surf")
    nodes.crash(2)
    nodes.unsubscribe(1, number)
    nodes.subscribe(1, "kite")
    assert nodes.items(NotInForce) == []
    assert [told.subscription.number for told in nodes.items(Unsubscribed, 1)] == [number]


def test_a_group_that_was_left_is_forgotten_though_its_owner_does_not_answer() -> None:
    nodes = FastNodes(4, replace(HERE, renew_us=2 * MINUTE))
    nodes.create("surf")
    number = nodes.subscribe(1, "surf")
    nodes.crash(OWNER)
    nodes.unsubscribe(1, number)
    nodes.run(3 * 60)
    assert nodes.fast(1)._subscriber.membership_count == 1  # The owner may come back.
    nodes.run(2 * 60)
    assert nodes.fast(1)._subscriber.membership_count == 0


def test_keepers_without_room_for_a_replica_are_asked_once_at_each_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Keep] = []
    on_keep = GroupReplicas.on_keep

    def noting(replicas: GroupReplicas, contact: Contact, number: int, question: Keep) -> None:
        asked.append(question)
        on_keep(replicas, contact, number, question)

    monkeypatch.setattr(GroupReplicas, "on_keep", noting)
    nodes = FastNodes(6, replace(HERE, replica_count_max=0))
    nodes.create("surf")
    nodes.subscribe_all([1, 2], "surf")
    nodes.crash(1)
    nodes.publish("surf")
    nodes.run(200)
    ticks = 1 + 200 * SECOND // (HERE.probe_us * 8 // 10)
    assert HERE.backups < len(asked) <= HERE.backups * ticks
