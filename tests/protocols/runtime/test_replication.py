"""The closest nodes are chosen by distance, and suspected peers are left out for a while."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.replication import Closest, SilentPeers
from tests.kademlia.wired import contact, new_core

SUSPECT_US = 1_000


def new_outbox() -> Outbox[str]:
    return Outbox("toy", lambda parts: parts)


@given(
    st.sets(st.integers(1, 30)),
    st.sets(st.integers(1, 30), max_size=10),
    st.integers(1, 5),
    st.binary(max_size=4),
)
def test_the_closest_are_those_that_are_known_and_not_suspected(
    known: set[int], suspected: set[int], count: int, name: bytes
) -> None:
    core, silent = new_core(0, Settings(k=100)), SilentPeers(new_outbox(), SUSPECT_US)
    for number in sorted(known):
        core.table.heard_from(contact(number), 0)
    for number in sorted(suspected):
        silent.suspect(contact(number).peer)
    closest = Closest(core, silent)

    def by_distance(numbers: set[int]) -> list[int]:
        return sorted(numbers, key=lambda number: contact(number).key ^ key_of(name))

    others = [contact(number) for number in by_distance(known - suspected)]
    nodes = [contact(number) for number in by_distance((known - suspected) | {0})]
    assert closest.closest(name, count) == tuple(others[:count])
    assert closest.closest_nodes(name, count) == nodes[:count]


def test_a_silent_peer_is_suspected_until_it_is_heard_or_the_time_is_over() -> None:
    outbox = new_outbox()
    silent = SilentPeers(outbox, SUSPECT_US)
    for peer in (b"a", b"b", b"c"):
        silent.suspect(peer)
    silent.heard(b"a")
    assert [silent.is_suspected(peer) for peer in (b"a", b"b", b"d")] == [False, True, False]

    outbox.now = SUSPECT_US
    silent.suspect(b"c")
    assert [silent.is_suspected(peer) for peer in (b"b", b"c")] == [False, True]
    silent.forget_old()
    assert silent.suspected_count == 1


def test_a_silent_peer_is_remembered_until_it_is_heard_or_forgotten() -> None:
    outbox = new_outbox()
    silent = SilentPeers(outbox, SUSPECT_US)
    silent.suspect(b"a")
    silent.suspect(b"b", SUSPECT_US // 2)

    outbox.now = SUSPECT_US // 2
    assert [silent.is_suspected(peer) for peer in (b"a", b"b")] == [True, False]
    assert b"b" in silent

    silent.forget_old()
    assert [silent.heard(peer) for peer in (b"a", b"b", b"a")] == [True, False, False]
    assert b"a" not in silent
