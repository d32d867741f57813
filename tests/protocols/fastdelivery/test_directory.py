"""The directory: what a search finds, which nodes keep it, and for how long."""

from dataclasses import replace

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import Invite, Listed, Packet, Search, Working
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.shapes import finds, shape_of
from smartpubsub.protocols.pubsub import Confirmed
from smartpubsub.seam import Received
from smartpubsub.sim.kernel.world import Host
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes

HERE = FastSettings(region="here", capacity=10)


def keepers(nodes: FastNodes, attribute: str) -> list[int]:
    """The nodes that keep the directory of an attribute."""
    return [
        host.number
        for host in nodes.world.hosts
        if host.is_up and attribute in nodes.fast(host.number).directory.directories
    ]


def closest(nodes: FastNodes, attribute: str) -> list[int]:
    """All nodes, those closest to an attribute first."""
    key = key_of(attribute.encode())
    numbers = range(len(nodes.contacts))
    return sorted(numbers, key=lambda number: nodes.contacts[number].key ^ key)


@pytest.mark.parametrize(
    ("searched", "is_found"),
    [
        ("portugal", True),
        ("price", True),
        ("price[0,9]", True),
        ("price[1,2]/portugal", True),
        ("price[5,15]", False),
        ("portugal/surf", False),
        ("portugal[1,2]", False),
    ],
)
def test_every_attribute_searched_for_is_in_the_group_and_ranges_are_contained(
    searched: str, is_found: bool
) -> None:
    assert finds(Predicate.parse(searched), Predicate.parse("portugal/price[0,9]")) is is_found


def test_a_search_finds_groups_of_all_owners_under_any_attribute() -> None:
    nodes = FastNodes(12, HERE)
    nodes.create("portugal/price[0,9]")
    nodes.create("portugal/surf", owner=1)
    nodes.create("bali/surf", owner=2)
    nodes.create("portugal", owner=3, is_advertised=False)
    assert nodes.search(5, "portugal") == ["portugal/price[0,9]", "portugal/surf"]
    assert nodes.search(6, "surf") == ["bali/surf", "portugal/surf"]
    assert nodes.search(7, "price[3,4]") == ["portugal/price[0,9]"]
    assert nodes.search(8, "price[3,14]") == []


def test_every_search_that_matches_an_event_finds_the_group_of_its_shape() -> None:
    event = Predicate.parse("surf/bali/price=1200/wind[2,3]")
    group = shape_of(event)
    assert group.matches(event)
    for wanted in ("surf", "price[1000,]", "wind[1,5]/bali", "price=1200", "wind", "price[,]"):
        assert Predicate.parse(wanted).matches(event)
        assert finds(Predicate.parse(wanted), group)


def test_f_and_one_more_keep_a_directory_and_it_survives_the_failure_of_f() -> None:
    nodes = FastNodes(20, HERE)
    near = closest(nodes, "surf")
    owner = near[-1]
    nodes.create("surf", owner=owner)
    assert sorted(keepers(nodes, "surf")) == sorted(near[:3])
    for number in near[:2]:
        nodes.crash(number)
    assert nodes.search(near[-2], "surf") == ["surf"]
    nodes.run(60)  # The stated repair time.
    assert sorted(keepers(nodes, "surf")) == sorted(near[2:5])


def watch_parts(nodes: FastNodes) -> list[tuple[int, object]]:
    """Record which node sends which message."""
    noted: list[tuple[int, object]] = []
    transmit = nodes.world._transmit

    def noting(host: Host, peer: bytes, message: object, event: object) -> None:
        if isinstance(message, Packet):
            noted.append((host.number, message.part))
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = noting  # type: ignore[method-assign]
    return noted


def lists(said: list[tuple[int, object]]) -> list[tuple[int, list[str]]]:
    """Which node has listed which groups."""
    listed = [(number, part) for number, part in said if isinstance(part, Listed)]
    return [(number, sorted(str(n.predicate) for n in part.notices)) for number, part in listed]


def test_a_list_that_is_under_way_is_not_sent_again_for_a_while() -> None:
    nodes = FastNodes(20, HERE)
    keeper, *_, searcher = closest(nodes, "surf")
    nodes.create("surf", owner=closest(nodes, "surf")[5])
    said = watch_parts(nodes)
    search = Search("surf", Predicate.parse("surf"), None, None, b"")

    def answers_to(*numbers: int) -> list[type]:
        before = len(said)
        for number in numbers:
            asked = Received(nodes.contacts[searcher].peer, Packet(number, search))
            nodes._do(keeper, lambda core, now, asked=asked: core.handle(asked, now))
        return [type(part) for _, part in said[before:]]

    assert answers_to(7, 7, 8) == [Listed, Working, Listed]
    nodes.run(6)
    assert answers_to(7, 7, 8) == [Listed, Working, Listed]


def test_one_keeper_lists_the_groups_and_the_others_confirm_the_digest() -> None:
    nodes = FastNodes(20, HERE)
    near = closest(nodes, "surf")
    for number in (1, 2):
        nodes.create("surf/bali", owner=near[-number])
    said = watch_parts(nodes)
    assert nodes.search(near[-3], "surf") == ["surf/bali", "surf/bali"]
    assert sorted(number for number, _ in lists(said)) == sorted(near[:3])
    assert sorted(len(groups) for _, groups in lists(said)) == [0, 0, 2]


@pytest.mark.parametrize("place", range(3))
def test_groups_that_one_keeper_has_missed_are_listed_by_the_others(place: int) -> None:
    nodes = FastNodes(20, HERE)
    near = closest(nodes, "surf")
    nodes.create("surf/bali", owner=near[-1])
    nodes.create("surf/peru", owner=near[-2])
    directory = nodes.fast(near[place]).directory.directories["surf"]
    directory.notices = {
        id: n for id, n in directory.notices.items() if "peru" not in str(id.predicate)
    }
    said = watch_parts(nodes)
    assert nodes.search(near[-3], "surf") == ["surf/bali", "surf/peru"]
    assert (near[place], ["surf/bali"]) in lists(said)
    assert any("surf/peru" in groups for number, groups in lists(said) if number != near[place])


@pytest.mark.parametrize("missed", ["nothing", "watch", "group and watch"])
def test_a_copy_introduces_only_groups_and_searches_that_no_keeper_has_introduced(
    missed: str,
) -> None:
    nodes = FastNodes(20, HERE)
    near = closest(nodes, "surf")
    nodes.create("surf", owner=near[-1])
    nodes.subscribe_all([near[-2]], "surf")
    first, second = (nodes.fast(number).directory.directories["surf"] for number in near[:2])
    if missed != "nothing":
        second.watches = {}
    if missed == "group and watch":  # One keeper has the group and the others have the search.
        first.notices = {}
        nodes.fast(near[2]).directory.directories["surf"].notices = {}
    said = watch_parts(nodes)
    nodes.run(60)
    assert len(second.watches) == 1
    assert any(isinstance(part, Invite) for _, part in said) == (missed == "group and watch")


def test_an_advertisement_is_renewed_while_its_owner_lives_and_then_expires() -> None:
    nodes = FastNodes(8, replace(HERE, renew_us=MINUTE))
    near = closest(nodes, "surf")
    owner, searcher = near[-1], near[-2]
    nodes.create("surf", owner=owner)
    nodes.run(5 * 60)
    assert nodes.search(searcher, "surf") == ["surf"]
    nodes.crash(owner)
    nodes.run(60)
    assert nodes.search(searcher, "surf") == ["surf"]
    nodes.run(100)
    assert nodes.search(searcher, "surf") == []


def test_a_later_group_admits_waiting_subscribers_before_its_first_event() -> None:
    nodes = FastNodes(12, HERE)
    nodes.subscribe_all([1, 2, 3], "surf")
    nodes.subscribe_all([4], "surf/price[10,20]")
    nodes.subscribe_all([5], "surf/price[30,40]")
    event = nodes.publish("surf/price=15")
    nodes.run(1)
    assert nodes.got(event) == [1, 2, 3, 4]
    assert nodes.items(Confirmed) == [Confirmed(event)]
    assert len(nodes.group("surf/price[,]").book) == 5


def test_a_search_that_has_ended_does_not_join_later_groups() -> None:
    nodes = FastNodes(6, HERE)
    subscription = nodes.subscribe(1, "surf")
    nodes.unsubscribe(1, subscription)
    nodes.run(1)
    assert keepers(nodes, "surf") == [] or nodes.search(2, "surf") == []
    nodes.create("surf")
    assert len(nodes.group("surf").book) == 0


def test_a_search_that_has_ended_while_it_was_renewed_does_not_join_later_groups() -> None:
    nodes = FastNodes(8, replace(HERE, renew_us=2 * MINUTE))
    number = nodes.subscribe(1, "surf")
    wanted = nodes.fast(1)._subscriber._subscriptions[number]
    before = wanted.inquiry
    nodes.run_until(lambda: wanted.inquiry is not before, 3 * 60)
    assert wanted.inquiry is not None
    assert not wanted.inquiry.keepers  # The node still looks them up.
    nodes.unsubscribe(1, number)
    nodes.run(1)
    assert len(nodes.create("surf").book) == 0


def test_a_directory_that_exceeds_a_message_is_read_page_by_page() -> None:
    nodes = FastNodes(12, replace(HERE, page_count=2))
    nodes.subscribe_all(range(5, 12), "surf")
    for number in range(1, 5):
        nodes.create(f"surf/kind-{number}", owner=number)
        assert len(nodes.group(f"surf/kind-{number}", number).requests) == 7
    for number in range(3):
        nodes.create(f"surf/more-{number}")
    assert len(nodes.search(11, "surf")) == 7


def test_a_node_delivers_its_own_events_without_a_hop() -> None:
    nodes = FastNodes(4, HERE)
    nodes.subscribe(OWNER, "surf")
    event = nodes.publish("surf/price=3")
    nodes.run(1)
    assert nodes.hops(event) == {OWNER: 0}
