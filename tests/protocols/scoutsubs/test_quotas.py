"""The filters of one peer are limited over all trees, and the peer is told of a refusal."""

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs import persistence
from smartpubsub.protocols.scoutsubs.filter_table import PeerQuotas
from smartpubsub.protocols.scoutsubs.messages import Announced, ChildCopy, CopyTree, Record
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.scoutsubs.forest import Forest

REPEATABLE = settings(deadline=None, database=None, derandomize=True)


@REPEATABLE
@given(
    st.lists(st.tuples(st.sampled_from([b"p", b"q"]), st.sampled_from("abc"), st.integers(0, 5)))
)
def test_quotas_agree_with_the_filters(changes: list[tuple[bytes, str, int]]) -> None:
    quotas = PeerQuotas()
    there: Counter[tuple[bytes, str]] = Counter()
    for peer, tree, after in changes:
        quotas.change(peer, there[peer, tree], after)
        there[peer, tree] = after

    for peer in (b"p", b"q"):
        counts = [count for (who, _), count in there.items() if who == peer and count]
        assert quotas.filters_of(peer) == sum(counts)
        assert quotas.tables_of(peer) == len(counts)
    assert len(quotas) == len({peer for (peer, _), count in there.items() if count})


def attributes_at(forest: Forest, number: int, count: int) -> list[str]:
    """Names whose rendezvous a node is."""
    own = forest.contacts[number].key

    def is_at_node(name: str) -> bool:
        key = key_of(name.encode())
        return min(contact.key ^ key for contact in forest.contacts) == own ^ key

    return list(islice(filter(is_at_node, (f"topic{n}" for n in range(10_000))), count))


def no_room_told(forest: Forest, receiver: int) -> int:
    parts = [said.part for said in forest.said if said.receiver == receiver]
    return sum(isinstance(p, Announced) and p.version == 0 and not p.wants_whole for p in parts)


def test_filters_of_a_peer_are_counted_over_all_trees() -> None:
    forest = Forest(6, ScoutSettings(filter_count_max=3))
    names = attributes_at(forest, 0, 5)
    numbers = [forest.subscribe(5, name) for name in names]
    other = forest.subscribe(4, names[-1])
    forest.run(MINUTE)

    assert [forest.is_in_force(5, number) for number in numbers].count(True) == 3
    assert forest.is_in_force(4, other)
    assert no_room_told(forest, 5) >= 2
    assert forest.rejected(0)["filters"] >= 2
    peer, trees = forest.contacts[5].peer, forest.scouts(0).tables()
    kept = [copy for _, children in trees for copy in children if copy.contact.peer == peer]
    assert sum(len(copy.filters) for copy in kept) == 3

    # Room that one tree makes is there for another.
    in_force = next(n for n in numbers if forest.is_in_force(5, n))
    forest.unsubscribe(5, in_force)
    forest.run(3 * MINUTE)
    left = [number for number in numbers if number != in_force]
    assert [forest.is_in_force(5, number) for number in left].count(True) == 3


def test_the_attributes_of_one_peer_are_bounded() -> None:
    forest = Forest(6, ScoutSettings(attribute_count_per_peer_max=2))
    names = attributes_at(forest, 0, 3)
    numbers = [forest.subscribe(5, name) for name in names]
    more = forest.subscribe(5, f"{names[0]}/price[1,2]")
    forest.run(30 * SECOND)

    assert [forest.is_in_force(5, number) for number in numbers].count(True) == 2
    assert forest.is_in_force(5, more)
    assert no_room_told(forest, 5) >= 1


def test_the_records_of_one_publisher_or_peer_take_no_room_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(persistence, "_USER_BYTES_MIN", 10_000)
    forest = Forest(6, ScoutSettings(stored_bytes_max=80_000))
    forest.run(SECOND)
    kept = forest.scouts(0)._events_kept

    def recorded(publisher: int, owner: int, number: int) -> bool:
        id = EventId(forest.contacts[publisher].peer, 1, number)
        predicate, payload = Predicate.parse("surf"), bytes(900)
        signature = StandInSigning(id.publisher).sign(id, predicate, payload, 1)
        event = Publication(id, predicate, payload, signature, 1_000, 1)
        kept.on_record(forest.contacts[owner], Record(event, "surf", 0, False, 0))
        return (id, "surf") in kept.kept

    assert [recorded(3, 1, number) for number in range(20)].count(True) == 8
    assert not recorded(3, 2, 100)  # The publisher has had its share,
    assert not recorded(4, 1, 100)  # and so has the rendezvous.
    assert recorded(4, 2, 101)
    accounts = {account.name: account for account in forest.scouts(0)._proximity._kademlia.ledger}
    assert accounts["records of publishers"].refused == 14
    forest.scouts(0).check()


def test_copies_for_one_peer_leave_room_for_those_of_others() -> None:
    forest = Forest(6, ScoutSettings(copied_bytes_max=64_000))
    forest.run(SECOND)
    kept = forest.scouts(0)._tables_kept
    for number in range(100):
        child = ChildCopy(forest.contacts[4], 0, 1, (Predicate.parse("ski"),), None, ())
        forest.receive(5, 0, CopyTree(f"tree{number}", False, 1, True, (child,), ()))
    greedy = forest.contacts[5].peer
    assert kept.account.refused
    assert kept.account.size_of(greedy) <= 32_000

    number = forest.subscribe(3, "surf")
    forest.run(5 * SECOND)
    assert forest.is_in_force(3, number)
    for number in range(100):
        forest.receive(5, 0, CopyTree(f"tree{number}", False, 2, True, (), ()))
    assert not kept.account.size_of(greedy)
    kept.check()
