"""Groups: their members, which node serves which member, and what is refused."""

from dataclasses import replace

import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import (
    AskToHelp,
    Book,
    Dismiss,
    HandOver,
    MemberState,
)
from smartpubsub.protocols.fastdelivery.messages import GroupEnded, Relay, Request
from smartpubsub.protocols.fastdelivery.results import GroupOpened, JoinRefused, Overloaded
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.subscriber import GROUP_ENDED
from smartpubsub.protocols.pubsub import Confirmed, Published, Refused, Unsubscribed
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes, watch_events
from tests.protocols.fastdelivery.test_senders import tell

HERE = FastSettings(region="here", capacity=10)


def test_a_few_members_are_served_directly_and_only_interested_ones_get_an_event() -> None:
    nodes = FastNodes(7, HERE)
    group = nodes.create("surf/price[,]")
    nodes.subscribe_all([1, 2], "surf")
    nodes.subscribe_all([3], "surf/price[0,10]")
    nodes.subscribe_all([4], "surf/price[11,20]")
    assert nodes.at(group, MemberState.DIRECT) == [1, 2, 3, 4]
    cheap = nodes.publish("surf/price=5")
    nodes.run(1)
    assert nodes.got(cheap) == [1, 2, 3]
    assert set(nodes.hops(cheap).values()) == {1}
    assert nodes.items(Confirmed) == [Confirmed(cheap)]


def test_the_most_capable_member_helps_and_two_strong_ones_stay_with_the_publisher() -> None:
    nodes = FastNodes(12, HERE, capacities=[0, 1, 9, 2, 8, 3, 7, 1, 1, 0, 1, 1])
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, 12), "surf")
    nodes.run(1)
    assert nodes.at(group, MemberState.HELPER) == [2]
    assert nodes.at(group, MemberState.DIRECT) == [4, 6]
    assert nodes.at(group, MemberState.DELEGATED) == [1, 3, 5, 7, 8, 9, 10, 11]
    event = nodes.publish("surf")
    nodes.run(1)
    assert nodes.got(event) == list(range(1, 12))
    hops = nodes.hops(event)
    assert {number for number, count in hops.items() if count == 1} == {2, 4, 6}
    assert max(hops.values()) == 2


def test_a_helper_gets_no_more_members_than_its_capacity_and_then_another_is_recruited() -> None:
    nodes = FastNodes(16, HERE, capacities=[0, 4, 3, *[2] * 13])
    group = nodes.create("surf")
    for number in range(1, 16):
        nodes.subscribe(number, "surf")
    nodes.run(1)
    helpers = nodes.at(group, MemberState.HELPER)
    assert {1, 2} <= set(helpers)
    for number in helpers:
        served, capacity = nodes.fast(number).helper.delegated_count, [0, 4, 3, *[2] * 13][number]
        assert 1 <= served <= capacity
    assert len(nodes.at(group, MemberState.DIRECT)) <= HERE.direct_max
    event = nodes.publish("surf")
    nodes.run(1)
    assert nodes.got(event) == list(range(1, 16))


def test_a_helper_that_two_members_complain_of_is_replaced_by_one_without_blame() -> None:
    blamed = {b"02": 1}
    book = Book(HERE, lambda: 0, blame_of=lambda peer: blamed.get(peer, 0))
    for number in range(12):
        capacity = [9, 1, 8, 7, *[1] * 8][number]
        book.put(Contact.of(b"%02d" % number), (Predicate.parse("surf"),), "here", capacity)
    helped(book, b"00")
    one, other, *_ = book.members[b"00"].delegated

    assert book.complain(one) == book.complain(one) == b"00"
    assert book.members[b"00"].state is MemberState.HELPER
    assert book.complain(other) == b"00"
    assert book.members[b"00"].state is not MemberState.HELPER
    helped(book, b"03")  # The next most capable one is blamed for other events.
    assert book.complain(b"03") is None
    book.check()


def test_a_candidate_that_agrees_when_the_fan_out_is_reached_does_not_help() -> None:
    book = Book(FastSettings(direct_max=2, pool=1, fan_out_max=4), lambda: 0)
    for name, region, capacity in ((b"1", "north", 0), (b"2", "north", 0), (b"3", "north", 10)):
        book.put(Contact.of(name), (Predicate.parse("surf"),), region, capacity)
    (ask,) = (order for order in book.take_orders() if isinstance(order, AskToHelp))
    for name in (b"4", b"5"):
        book.put(Contact.of(name), (Predicate.parse("surf"),), "south", 0)
    book.agreed(ask.peer, ask.term, ask.wanted)
    book.check()
    assert Dismiss(ask.peer, ask.term) in book.take_orders()


def helped(book: Book, expected: bytes) -> None:
    """Have a book recruit a helper, which is the expected one, and hand it members."""
    for _ in range(20):
        for order in book.take_orders():
            if isinstance(order, AskToHelp):
                assert order.peer == expected
                book.agreed(order.peer, order.term, order.wanted)
            elif isinstance(order, HandOver):
                wanted = {peer: book.members[peer].predicates for peer in order.peers}
                book.handed_over(order.helper, order.term, wanted)
    assert [member.peer for member in book.helpers()] == [expected]


def test_a_candidate_that_serves_others_already_declines() -> None:
    nodes = FastNodes(14, HERE, capacities=[0, 7, *[0] * 11, 0])
    first, second = nodes.create("surf"), nodes.create("kite", owner=13)
    nodes.subscribe_all(range(1, 11), "surf")
    for number in range(1, 11):
        nodes.subscribe(number, "kite")
    nodes.run(1)
    assert nodes.at(first, MemberState.HELPER) == [1]
    assert nodes.at(second, MemberState.HELPER) == []
    assert len(nodes.at(second, MemberState.DIRECT)) == 10
    told = nodes.items(Overloaded, 13)
    assert [(told[0].region, told[0].served)] == [("here", 6)]


def asked(book: Book) -> list[bytes]:
    """The candidates that a book orders to be asked for help."""
    return [order.peer for order in book.take_orders() if isinstance(order, AskToHelp)]


def test_members_wait_for_a_few_candidates_to_decline_and_the_others_are_asked_later() -> None:
    now = 0
    book = Book(replace(HERE, decline_count_max=3), lambda: now)
    for number in range(12):
        book.put(Contact.of(b"%02d" % number), (Predicate.parse("surf"),), "here", 5)
    declined = []
    while candidates := asked(book):
        declined += candidates
        assert book.regions["here"].unserved
        book.agreed(candidates[0], len(declined), 0)
    assert len(declined) == 3
    assert book.fan_out == 12  # All members are served although all candidates declined.
    now += 20 * SECOND
    book.settle()
    (candidate,) = asked(book)
    assert candidate not in declined
    book.agreed(candidate, 4, 5)
    assert [member.peer for member in book.helpers()] == [candidate]


def test_all_candidates_are_asked_before_a_member_is_turned_away() -> None:
    book = Book(replace(HERE, decline_count_max=1, fan_out_max=6), lambda: 0)
    for number in range(7):
        book.put(Contact.of(b"%02d" % number), (Predicate.parse("surf"),), "here", 5)
    declined = []
    while candidates := asked(book):
        declined += candidates
        book.agreed(candidates[0], len(declined), 0)
    assert len(declined) == 7
    assert b"06" not in book.members


def test_a_region_without_capable_members_is_served_directly_and_the_publisher_is_told() -> None:
    nodes = FastNodes(9, HERE, capacities=[0] * 9)
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, 9), "surf")
    assert nodes.at(group, MemberState.DIRECT) == list(range(1, 9))
    assert [told.served for told in nodes.items(Overloaded, OWNER)] == [6]
    event = nodes.publish("surf")
    nodes.run(1)
    assert nodes.got(event) == list(range(1, 9))


def test_capacity_is_freed_when_a_member_leaves() -> None:
    nodes = FastNodes(10, HERE, capacities=[0, 9, *[1] * 8])
    group = nodes.create("surf")
    numbers = {number: nodes.subscribe(number, "surf") for number in range(1, 10)}
    nodes.run(1)
    helper = nodes.fast(1).helper
    left = dict(numbers)
    while nodes.at(group, MemberState.HELPER):
        delegated = nodes.at(group, MemberState.DELEGATED)
        assert helper.delegated_count == len(delegated) > 0
        leaving = delegated[0]
        nodes.unsubscribe(leaving, left.pop(leaving))
        nodes.run(1)
        (told,) = nodes.items(Unsubscribed, leaving)
        assert told.subscription.number == numbers[leaving]
    # The helper is not needed any more.
    assert helper.roles == {}
    assert len(left) == 1 + HERE.pool
    event = nodes.publish("surf")
    nodes.run(1)
    assert nodes.got(event) == sorted(left)


def test_a_helper_gets_only_events_that_it_or_its_delegated_members_want() -> None:
    nodes = FastNodes(10, HERE, capacities=[0, 9, *[1] * 8])
    nodes.create("surf/price[,]")
    nodes.subscribe_all([1, 2, 3], "surf/price[0,10]")
    nodes.subscribe_all(range(4, 10), "surf/price[5,20]")
    nodes.run(1)
    noted = watch_events(nodes)
    for price, wanted in ((3, [1, 2, 3]), (15, list(range(4, 10))), (30, [])):
        event = nodes.publish(f"surf/price={price}")
        nodes.run(1)
        assert nodes.got(event) == wanted
    relays = [part.event.predicate for _, _, part in noted if isinstance(part, Relay)]
    assert "surf/price=30" not in map(str, relays)
    per_event = len([1 for sender, _, _ in noted if sender == OWNER])
    helpers_and_direct = 2 * (1 + HERE.pool)
    assert per_event <= helpers_and_direct


def test_an_event_outside_of_the_group_or_in_a_group_of_another_owner_is_refused() -> None:
    nodes = FastNodes(3, HERE)
    nodes.create("surf/price[0,9]")
    outside = nodes.publish("surf/price=10", group="surf/price[0,9]")
    without = nodes.publish("surf", group="surf/price[0,9]")
    foreign = nodes.publish("surf/price=5", group="surf/price[0,9]", owner=1)
    refused = {told.id: told.reason for told in nodes.items(Refused)}
    assert set(refused) == {outside, without, foreign}
    assert "surf/price=10" in refused[outside]
    assert "owner" in refused[foreign]
    assert nodes.items(Published) == []


def test_the_interest_of_a_member_can_change() -> None:
    nodes = FastNodes(10, HERE, capacities=[0, 9, *[1] * 8])
    group = nodes.create("surf/price[,]")
    for number in range(1, 10):
        nodes.subscribe(number, "surf/price[0,10]")
    changing = nodes.at(group, MemberState.DELEGATED)[0]
    second = nodes.subscribe(changing, "surf/price[20,30]")
    event = nodes.publish("surf/price=25")
    nodes.run(1)
    assert nodes.got(event) == [changing]
    nodes.unsubscribe(changing, second)
    nodes.run(1)
    assert nodes.got(nodes.publish("surf/price=25")) == []
    cheap = nodes.publish("surf/price=5")
    nodes.run(1)
    assert nodes.got(cheap) == list(range(1, 10))


def test_a_contract_decides_by_the_signed_request_which_nodes_may_join() -> None:
    seen: list[Request] = []

    def refuse_weak_nodes(request: Request) -> str:
        seen.append(request)
        return "" if request.capacity >= 5 else "this group is for the strong"

    nodes = FastNodes(4, HERE, capacities=[0, 9, 1, 9])
    group = nodes.create("surf", contract=refuse_weak_nodes)
    strong, weak = nodes.join(1, "surf", "surf"), nodes.join(2, "surf", "surf")
    nodes.run(1)
    assert nodes.in_force(1) == [strong]
    assert nodes.in_force(2) == []
    (refusal,) = nodes.items(JoinRefused, 2)
    assert (refusal.subscription, refusal.reason) == (weak, "this group is for the strong")
    assert [request.contact.peer for request in seen] == [c.peer for c in nodes.contacts[1:3]]
    event = nodes.publish("surf", group="surf")
    nodes.run(1)
    assert nodes.got(event) == [1]
    assert len(group.book) == 1


def test_no_search_finds_a_private_group_and_only_invited_nodes_join_it() -> None:
    nodes = FastNodes(5, HERE)
    nodes.create("surf", is_advertised=False, is_private=True)
    assert nodes.search(1, "surf") == []
    invitation = nodes.fast(OWNER).invite(nodes.group("surf").predicate, nodes.contacts[1].peer)
    nodes.join(1, "surf", "surf", invitation)
    nodes.join(2, "surf", "surf")
    nodes.run(1)
    assert len(nodes.in_force(1)) == 1
    assert "invitation" in nodes.items(JoinRefused, 2)[0].reason
    event = nodes.publish("surf", group="surf")
    nodes.run(1)
    assert nodes.got(event) == [1]


def test_joining_an_unknown_group_is_refused() -> None:
    nodes = FastNodes(3, HERE)
    nodes.join(1, "nothing", "nothing")
    nodes.run(1)
    assert "no such group" in nodes.items(JoinRefused, 1)[0].reason


@pytest.mark.parametrize("fan_out_max", [3, 6])
def test_a_member_without_a_place_is_refused(fan_out_max: int) -> None:
    settings = replace(HERE, fan_out_max=fan_out_max, capacity=0)
    nodes = FastNodes(10, settings)
    nodes.create("surf")
    for number in range(1, 10):
        nodes.join(number, "surf", "surf")
    nodes.run(1)
    served = [number for number in range(1, 10) if nodes.in_force(number)]
    assert len(served) == fan_out_max
    refused = nodes.items(JoinRefused)
    assert len(refused) == 9 - fan_out_max
    assert {told.reason for told in refused} == {"the group has no place left; try again later"}


def test_unreasonable_settings_are_refused() -> None:
    with pytest.raises(SmartPubSubError, match="pool"):
        FastSettings(pool=5, direct_max=5)
    with pytest.raises(SmartPubSubError, match="capacity"):
        FastSettings(capacity=-1)


def test_a_group_ends_when_its_events_have_arrived_and_members_learn_it() -> None:
    nodes = FastNodes(6, HERE)
    group = nodes.create("surf")
    for number in (1, 2):
        nodes.join(number, "surf", "surf")
    nodes.run_until(lambda: all(nodes.in_force(number) for number in (1, 2)))
    event = nodes.publish("surf", "surf")
    assert "1 of its events" in nodes.end(group)
    nodes.run_until(lambda: nodes.got(event) == [1, 2] and not group.in_flight)
    assert nodes.end(group) == ""
    nodes.run(1)
    assert [told.reason for told in nodes.items(JoinRefused)] == [GROUP_ENDED] * 2
    nodes.crash(OWNER)
    nodes.world.restart(nodes.host(OWNER))
    nodes.run(5)
    assert not nodes.fast(OWNER).groups


def test_a_member_that_is_down_when_a_group_ends_learns_it_later() -> None:
    nodes = FastNodes(6, replace(HERE, renew_us=20 * SECOND))
    group = nodes.create("surf")
    nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: bool(nodes.in_force(1)))
    nodes.crash(1)
    assert nodes.end(group) == ""
    nodes.run(300)
    nodes.world.restart(nodes.host(1))
    nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: len(nodes.items(JoinRefused)) == 1)
    assert "no such group" in nodes.items(JoinRefused)[0].reason


def test_a_repeated_end_of_a_group_does_not_end_a_later_group_of_that_name() -> None:
    nodes = FastNodes(3, HERE)
    group = nodes.create("surf", is_advertised=False)
    nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: len(nodes.in_force(1)) == 1)
    ended, number = GroupEnded(group.predicate), 1_000_000
    tell(nodes, 1, OWNER, ended, number)
    assert len(nodes.items(JoinRefused, 1)) == 1
    nodes._do(1, lambda core, now: core.pubsub.unsubscribe(1001, now))
    nodes.join(1, "surf", "surf")
    nodes.run_until(lambda: len(nodes.in_force(1)) == 2)
    assert tell(nodes, 1, OWNER, ended, number)  # It got the acknowledgement too late.
    assert len(nodes.items(JoinRefused, 1)) == 1
    tell(nodes, 1, OWNER, ended, number + 1)
    assert len(nodes.items(JoinRefused, 1)) == 2


def test_a_group_that_has_ended_before_it_is_advertised_does_not_open() -> None:
    nodes = FastNodes(5)
    fast, surf = nodes.fast(OWNER), Predicate.parse("surf")
    nodes._do(OWNER, lambda _, now: fast.create_group(surf, now))
    nodes._do(OWNER, lambda _, now: fast.end_group(surf, now)[1])
    nodes.run(10)
    assert nodes.items(GroupOpened) == []
