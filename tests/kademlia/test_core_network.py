"""A few cores together: what one of them wants, the others make happen."""

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.queries import Found, Got, Joined, Provided, Providers, Put
from smartpubsub.kademlia.settings import HOUR, MINUTE, Settings
from tests.kademlia.wired import Wired, contact, content_id, items, new_core

CID = content_id(b"value")


@pytest.fixture
def network() -> Wired:
    return Wired(12, Settings(k=4)).joined()


def truly_closest(network: Wired, name: bytes, count: int) -> list[bytes]:
    live = [c.own for n, c in enumerate(network.cores) if n not in network.dead]
    ordered = sorted(live, key=lambda own: own.key ^ key_of(name))
    return [own.peer for own in ordered[:count]]


def holders(network: Wired, name: bytes) -> set[bytes]:
    cores = [core for n, core in enumerate(network.cores) if n not in network.dead]
    return {core.own.peer for core in cores if core.values.get(name, network.now) is not None}


def test_a_node_that_joins_is_told_how_many_it_knows(network: Wired) -> None:
    for effects, core in zip(network.effects[1:], network.cores[1:], strict=True):
        (joined,) = items(effects, Joined)
        assert 1 <= joined.known <= len(core.table)


def test_a_node_that_joins_by_way_of_itself_or_the_dead_is_alone() -> None:
    network = Wired(2)
    network.dead.add(1)
    network.do(0, network.cores[0].join([contact(0), contact(1)], 0))
    network.run(MINUTE)

    assert items(network.effects[0], Joined) == [Joined(known=0)]


@pytest.mark.parametrize("name", [b"a", b"b", b"c", b"d"])
def test_everybody_finds_the_same_closest(network: Wired, name: bytes) -> None:
    for number, core in enumerate(network.cores):
        found = network.ask(number, partial(core.find_closest, name), Found)

        assert [c.peer for c in found.closest] == truly_closest(network, name, 4)
        assert (found.hops == 0) == (found.closest[0] == core.own)


def test_the_closest_live_one_is_found_after_deaths_that_nobody_noticed(network: Wired) -> None:
    network.dead |= {3, 7, 9}

    for name in (b"%d" % number for number in range(20)):
        found = network.ask(0, partial(network.cores[0].find_closest, name), Found)

        assert found.closest[0].peer == truly_closest(network, name, 1)[0]
        assert not {c.peer for c in found.closest} & {contact(n).peer for n in network.dead}


def test_a_value_is_held_by_the_closest_and_got_by_all(network: Wired) -> None:
    put = network.ask(5, partial(network.cores[5].put, CID, b"value"), Put)

    assert put.copies == 4
    assert holders(network, CID) == set(truly_closest(network, CID, 4))
    for number, core in enumerate(network.cores):
        assert network.ask(number, partial(core.get, CID), Got).value == b"value"


def test_a_value_has_as_many_copies_whoever_puts_it(network: Wired) -> None:
    for number, core in enumerate(network.cores):
        value = b"value %d" % number
        put = network.ask(number, partial(core.put, content_id(value), value), Put)

        assert put.copies == 4
        closest = truly_closest(network, content_id(value), 4)
        assert holders(network, content_id(value)) == set(closest)


def test_a_value_that_nobody_has_is_not_got(network: Wired) -> None:
    assert network.ask(2, partial(network.cores[2].get, CID), Got).value is None


def test_a_value_outlives_those_that_held_it(network: Wired) -> None:
    network.ask(5, partial(network.cores[5].put, CID, b"value"), Put)
    first_holders = truly_closest(network, CID, 4)
    network.dead |= {n for n, c in enumerate(network.cores) if c.own.peer in first_holders[:3]}

    network.run(3 * HOUR)

    assert holders(network, CID) >= set(truly_closest(network, CID, 4))


def test_a_node_that_starts_again_has_what_it_had_stored(network: Wired) -> None:
    network.ask(5, partial(network.cores[5].put, CID, b"value"), Put)
    (number, *_) = [n for n, c in enumerate(network.cores) if c.own.peer in holders(network, CID)]

    network.restart(number)
    network.run(1)

    assert network.cores[number].values.get(CID, network.now) == b"value"
    assert len(network.cores[number].table) == 0


def test_providers_are_found_by_all(network: Wired) -> None:
    for number in (3, 8):
        provided = network.ask(number, partial(network.cores[number].provide, b"name"), Provided)
        assert provided.informed == 4

    for number, core in enumerate(network.cores):
        found = network.ask(number, partial(core.find_providers, b"name"), Providers)
        assert set(found.providers) == {contact(3), contact(8)}


def test_the_dead_leave_all_tables_in_time(network: Wired) -> None:
    network.dead.add(4)

    network.run(3 * HOUR)

    for number, core in enumerate(network.cores):
        if number != 4:
            known = core.closest_local(b"name", 100)
            assert contact(4) not in known


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 5))
@settings(max_examples=50)
def test_a_node_with_a_full_table_is_right_about_being_closest(
    seed: int, count: int, k: int
) -> None:
    core = new_core(0, Settings(k=k))
    everybody = [Contact.of(b"%d/%d" % (seed, number)) for number in range(count)]
    Random(seed).shuffle(everybody)
    for one in everybody:
        core.table.heard_from(one, 0)

    for name in (b"%d" % number for number in range(40)):
        said = core.is_closest(name)
        key = key_of(name)
        if said is not None:
            assert said == all(one.key ^ key > core.own.key ^ key for one in everybody)


def test_being_closest_is_known_known_not_to_be_or_unknown() -> None:
    core = new_core(0, Settings(k=2))
    assert core.is_closest(b"name") is None

    for number in range(1, 40):
        core.table.heard_from(contact(number), 0)

    assert core.is_closest(core.own.peer) is True
    assert core.is_closest(contact(1).peer) is False
    assert {core.is_closest(b"%d" % number) for number in range(200)} >= {True, False}
