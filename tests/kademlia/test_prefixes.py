"""Few peers with the same address prefix are in a bucket, and in the result of a lookup."""

from random import Random

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.lookup import CROWDED_OUT_MAX, Lookup
from smartpubsub.kademlia.table import RoutingTable

TARGET = 0
NEAR, FAR = 1 << 200, 1 << 240


def at(distance: int) -> Contact:
    """A peer at a distance from the target."""
    return Contact(distance.to_bytes(32, "big"), TARGET ^ distance, (), 0)


def found(lookup: Lookup, prefixes: dict[Contact, str]) -> list[Contact]:
    """Answer everything; each peer names all others."""
    while not lookup.finished:
        for contact in lookup.next():
            lookup.on_answer(contact.peer, prefixes, prefixes[contact])
    return [candidate.contact for candidate in lookup.closest()]


@pytest.mark.parametrize("seed", range(10))
def test_a_lookup_finds_the_closest_few_of_each_prefix(seed: int) -> None:
    rng = Random(seed)
    minted = {at(NEAR + rng.randrange(NEAR)): "minted" for _ in range(50)}
    honest = {at(FAR + rng.randrange(FAR)): rng.choice(["", "a", "b", "c"]) for _ in range(30)}
    everyone = minted | honest
    lookup = Lookup(TARGET, [next(iter(honest))], k=10, alpha=3, per_prefix_max=2)

    expected: list[Contact] = []
    for contact in sorted(everyone, key=lambda contact: contact.key):
        same = [one for one in expected if everyone[one] == everyone[contact]]
        if not everyone[contact] or len(same) < 2:
            expected.append(contact)
    assert found(lookup, everyone) == expected[:10]


def test_a_lookup_among_very_many_minted_ids_ends() -> None:
    minted = {at(NEAR + number): "minted" for number in range(CROWDED_OUT_MAX * 3)}
    honest = {at(FAR + number): "" for number in range(5)}
    lookup = Lookup(TARGET, honest, k=10, alpha=3, per_prefix_max=2)
    asked = 0
    while not lookup.finished:
        for contact in lookup.next():
            asked += 1
            prefix = "minted" if contact in minted else ""
            lookup.on_answer(contact.peer, [*minted, *honest], prefix)

    assert asked <= CROWDED_OUT_MAX + 30
    assert sum(candidate.contact in minted for candidate in lookup.closest()) == 2


def test_without_a_limit_prefixes_do_not_count() -> None:
    minted = {at(NEAR + number): "minted" for number in range(20)}
    assert found(Lookup(TARGET, minted, k=10, alpha=3), minted) == [*minted][:10]


def test_a_bucket_has_room_for_a_few_peers_of_a_prefix() -> None:
    table = RoutingTable(TARGET, 20, per_prefix_max=2)
    crowd = [at(NEAR + number) for number in range(5)]
    others = [at(NEAR + number) for number in range(5, 8)]
    entered = [table.heard_from(contact, 0, "minted") for contact in crowd]
    entered += [table.heard_from(contact, 0) for contact in others]
    assert entered == [True, True, False, False, False, True, True, True]
    assert table.heard_from(crowd[0], 1, "minted")  # It is there already.

    assert table.is_crowded_out(crowd[2])
    table.failed(crowd[0], failures_max=1)
    assert not table.is_crowded_out(crowd[2])
    assert table.heard_from(crowd[2], 2, "minted")


def test_the_closest_peers_have_different_prefixes_though_buckets_share_one() -> None:
    table = RoutingTable(TARGET, 20, per_prefix_max=2)
    for power in range(200, 210):
        table.heard_from(at(1 << power), 0, "minted")
    honest = [at(FAR + number) for number in range(3)]
    for contact in honest:
        table.heard_from(contact, 0)

    assert len(table) == 13
    assert table.closest(TARGET, 5) == [at(1 << 200), at(1 << 201), *honest]
