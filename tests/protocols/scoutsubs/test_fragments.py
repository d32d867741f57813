"""Long messages are sent in fragments and joined at the receiver."""

from dataclasses import replace
from itertools import permutations, zip_longest

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.fragments import (
    FRAGMENT_COUNT_MAX,
    INCOMPLETE_COUNT_MAX,
    PER_PEER_MAX,
    Reassembly,
    fragments_of,
)
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    WHOLE,
    Announce,
    ChildCopy,
    Part,
    Piece,
    Pull,
    Pulled,
    entry_bytes,
)
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from tests.protocols.scoutsubs.forest import Forest
from tests.protocols.scoutsubs.strategies import contacts, some_parts

FILTERS = tuple(Predicate.parse(f"surf/price={number}") for number in range(250))


def announce(*filters: Predicate) -> Announce:
    return Announce("surf", 0, 7, WHOLE, filters, (), None, (), False)


def heard(pieces: list[Part], peer: bytes = b"p") -> list[Part]:
    incoming = Reassembly(Ledger())
    found = [incoming.on_fragment(peer, each) for each in pieces if isinstance(each, Piece)]
    assert len(incoming) == 0
    return [part for part in found if part is not None]


def is_possible(part: Part) -> bool:
    """A message has no child and no tree twice."""
    lists = [getattr(part, "children", ()), *(c for _, c in getattr(part, "trees", ()))]
    peers = [[child.contact.peer for child in some] for some in lists]
    names = [name for name, _ in getattr(part, "trees", ())]
    return all(len(set(some)) == len(some) for some in (*peers, names))


@given(some_parts.filter(is_possible), st.integers(1, 400))
def test_joined_fragments_are_the_message(part: Part, bytes_max: int) -> None:
    pieces = fragments_of(part, bytes_max)

    assert pieces == [part] or heard(pieces) == [part]


def test_fragments_are_short() -> None:
    pieces = fragments_of(announce(*FILTERS), 1_000)

    assert len(pieces) > 3
    for piece in pieces:
        assert isinstance(piece, Piece)
        assert isinstance(piece.part, Announce)
        assert sum(map(entry_bytes, piece.part.added)) <= 1_000


@given(contacts)
def test_a_child_with_many_filters_is_told_of_in_several_fragments(contact: Contact) -> None:
    child = ChildCopy(contact, 0, 3, FILTERS, None, ())
    part = Pulled("surf", True, NO_PEER, (child,), ())
    pieces = fragments_of(part, 3_000)

    assert len(pieces) > 1
    assert heard(pieces) == [part]


def test_fragments_may_come_in_any_order_and_twice() -> None:
    part = announce(*FILTERS[:3])
    pieces = fragments_of(part, 20)
    assert len(pieces) == 3
    for order in permutations(pieces):
        assert heard([order[0], *order]) == [part]


def test_parts_that_are_said_at_the_same_time_may_come_mixed_up() -> None:
    first, second = fragments_of(announce(*FILTERS[:3]), 20), fragments_of(announce(*FILTERS), 90)
    mixed = [piece for pair in zip_longest(first, second) for piece in pair if piece is not None]
    assert heard(mixed) == [announce(*FILTERS[:3]), announce(*FILTERS)]


def test_fragments_of_a_part_that_is_said_again_complete_it() -> None:
    part = announce(*FILTERS[:3])
    pieces = fragments_of(part, 20)
    assert heard([*pieces[:2], *fragments_of(part, 20)[2:]]) == [part]


def test_impossible_fragments_are_ignored() -> None:
    incoming = Reassembly(Ledger())
    wrong = [
        Piece(1, 3, 3, announce()),
        Piece(1, 0, FRAGMENT_COUNT_MAX + 1, announce()),
        Piece(1, 0, 2, Pull("surf")),
    ]
    assert [incoming.on_fragment(b"p", each) for each in wrong] == [None] * 3
    assert len(incoming) == 0
    for number in range(100):
        incoming.on_fragment(b"one", Piece(number, 0, 2, announce()))
    assert len(incoming) == PER_PEER_MAX
    for number in range(100):
        incoming.on_fragment(b"%d" % number, Piece(1, 0, 2, announce()))
    assert len(incoming) == INCOMPLETE_COUNT_MAX


def test_all_goes_on_when_everything_has_to_go_fragments_of() -> None:
    """Also if some of them get lost."""
    settings = ScoutSettings(piece_bytes_max=30)
    forest = Forest(12, replace(settings, fan_out_max=2))
    forest.lose(0.05)
    for number in range(4, 12):
        for price in range(5):
            forest.subscribe(number, f"surf/price={10 * number + 2 * price}")
    forest.run(MINUTE)
    assert any(isinstance(said.part, Piece) for said in forest.said)
    forest.crash(0)
    forest.run(2 * MINUTE)
    ids = {number: forest.publish(2, f"surf/price={10 * number + 4}") for number in range(4, 12)}
    forest.run(30 * SECOND)

    assert {number: forest.receivers(id) for number, id in ids.items()} == {
        number: [number] for number in range(4, 12)
    }


def test_incomplete_messages_of_a_peer_take_a_limited_room_and_leave_that_of_others() -> None:
    ledger = Ledger()
    incoming = Reassembly(ledger)
    (account,) = ledger
    wanted = announce(*FILTERS)
    modest = [fragment for fragment in fragments_of(wanted, 512) if isinstance(fragment, Piece)]
    assert incoming.on_fragment(b"modest", modest[0]) is None
    long = announce(*(Predicate.parse(f"{'x' * 1_000}{n}") for n in range(500)))
    for place in range(FRAGMENT_COUNT_MAX - 1):
        assert incoming.on_fragment(b"greedy", Piece(7, place, FRAGMENT_COUNT_MAX, long)) is None
        incoming.check()
        assert account.size_of(b"greedy") <= account.user_size_max
    assert account.evicted
    for fragment in modest[1:-1]:
        assert incoming.on_fragment(b"modest", fragment) is None
    assert incoming.on_fragment(b"modest", modest[-1]) == wanted
    assert not account.size_of(b"modest")
