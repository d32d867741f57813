"""Acknowledgements of consecutive events go as one message, with one piece of evidence."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Held
from smartpubsub.protocols.scoutsubs.attestation import Attestation
from smartpubsub.protocols.scoutsubs.messages import (
    NO_PEER,
    RANGE_COUNT_MAX,
    Admitted,
    Bundle,
    Confirm,
    Done,
    Holder,
    Part,
    Probe,
    Recorded,
)
from smartpubsub.protocols.scoutsubs.ranges import in_ranges, singly
from smartpubsub.protocols.scoutsubs.spec import scoutsubs_codec

ALICE, BOB = Identity.of(b"a" * 32), Identity.of(b"b" * 32)


def event(number: int, publisher: bytes = b"p") -> EventId:
    return EventId(publisher, 1, number)


ids = st.builds(event, st.integers(1, 6), st.sampled_from([b"p", b"q"]))
names = st.sampled_from(["surf", "rain"])
parts = st.one_of(
    st.builds(Confirm, ids, names, st.sampled_from([NO_PEER, b"q"]), st.just(0)),
    st.builds(Done, ids, names, st.just(0)),
    st.builds(Recorded, ids, names, st.booleans(), st.just(b""), st.just(0)),
    st.builds(
        Admitted, ids, names, st.sampled_from(["", "x"]), st.just(b""), st.just(()), st.just(0)
    ),
    st.builds(Probe, st.integers(1, 2)),
)


def taken_apart(queue: list[Any]) -> list[Part]:
    return [
        each for part in queue for each in (singly(part) if getattr(part, "more", 0) else [part])
    ]


def signed(identity: Identity, *queue: Part) -> list[Any]:
    """What a node sends, in ranges and signed."""
    sent = in_ranges(list(queue))
    Attestation(Ed25519Signing(identity)).sign([sent])
    return sent


def is_valid(part: Part, sender: Identity) -> bool:
    return Attestation(Ed25519Signing(BOB)).verified(part, sender.peer) is not None


@given(st.lists(parts, max_size=20))
def test_the_same_is_said_and_no_acknowledgement_comes_earlier(queue: list[Part]) -> None:
    said = taken_apart(in_ranges(queue))
    assert sorted(map(str, said)) == sorted(map(str, queue))
    for place, part in enumerate(said):
        if isinstance(part, Probe):
            assert set(map(str, said[:place])) <= set(map(str, queue[: last_of(part, queue)]))


def last_of(part: Part, queue: list[Part]) -> int:
    return len(queue) - queue[::-1].index(part)


@given(st.lists(parts, max_size=20))
def test_what_is_done_stays_between_two_other_messages(queue: list[Part]) -> None:
    def stretches(said: list[Part]) -> list[list[str]]:
        found: list[list[str]] = [[]]
        for part in said:
            if isinstance(part, Probe):
                found += [[str(part)], []]
            elif isinstance(part, Done):
                found[-1].append(str(part))
        return [sorted(each) for each in found]

    assert stretches(taken_apart(in_ranges(queue))) == stretches(queue)


def test_consecutive_events_are_one_message_at_the_place_of_the_last() -> None:
    queue = [Confirm(event(n), "surf", NO_PEER) for n in (1, 2, 3)]
    other = Recorded(event(2), "surf", False)
    assert in_ranges([queue[0], other, *queue[1:]]) == [
        other,
        Confirm(event(1), "surf", NO_PEER, more=2),
    ]


def test_what_differs_stays_apart() -> None:
    for one, two in (
        (Done(event(1), "surf"), Done(event(3), "surf")),
        (Done(event(2), "surf"), Done(event(1), "surf")),
        (Done(event(1), "surf"), Done(event(2), "rain")),
        (Done(event(1), "surf"), Done(event(2, b"q"), "surf")),
        (Confirm(event(1), "surf", NO_PEER), Confirm(event(2), "surf", b"q")),
        (Recorded(event(1), "surf", True), Recorded(event(2), "surf", False)),
        (
            Admitted(event(1), "surf", "", holders=(Holder(b"a", b"1"),)),
            Admitted(event(2), "surf", "", holders=(Holder(b"a", b"2"),)),
        ),
    ):
        assert in_ranges([one, two]) == [one, two]


def test_a_message_is_about_a_limited_number_of_events() -> None:
    many = in_ranges([Done(event(n), "surf") for n in range(1, RANGE_COUNT_MAX + 3)])
    assert many == [
        Done(event(1), "surf", RANGE_COUNT_MAX - 1),
        Done(event(RANGE_COUNT_MAX + 1), "surf", 1),
    ]
    endless: Any = Done(event((1 << 32) - 2), "surf", 1 << 62)
    assert [part.id.number for part in singly(endless)] == [(1 << 32) - 2, (1 << 32) - 1]


def test_rates_count_each_event() -> None:
    kinds = scoutsubs_codec().kinds(Bundle((Done(event(1), "surf", 9), Probe(1))))
    assert kinds == {"scoutsubs/done": 10, "scoutsubs/probe": 1}


def test_one_piece_of_evidence_holds_for_all_events_of_a_range_and_no_others() -> None:
    [said] = signed(ALICE, *[Recorded(event(n), "surf", False) for n in (4, 5, 6)])
    assert said.more == 2
    heard: list[Any] = list(singly(said))

    assert [part.id for part in heard] == [event(4), event(5), event(6)]
    assert all(is_valid(part, ALICE) and not is_valid(part, BOB) for part in heard)
    for id in (event(3), event(7), event(5, b"q"), EventId(b"p", 2, 5)):
        assert not is_valid(heard[1]._replace(id=id), ALICE)
    assert not is_valid(heard[1]._replace(attribute="rain"), ALICE)
    assert not is_valid(heard[1]._replace(evidence=said.evidence), ALICE)
    longer = said._replace(more=3)
    assert not any(is_valid(part, ALICE) for part in singly(longer))


def test_evidence_that_was_valid_for_a_range_is_not_so_for_other_events() -> None:
    receiver = Attestation(Ed25519Signing(BOB))
    [said] = signed(ALICE, *[Recorded(event(n), "surf", False) for n in (4, 5, 6)])
    first: Any = singly(said)[0]
    assert receiver.verified(first, ALICE.peer) is not None

    for other in (first._replace(id=event(7)), first._replace(attribute="rain")):
        assert receiver.verified(other, ALICE.peer) is None
    assert receiver.verified(first, BOB.peer) is None


def test_a_receipt_with_evidence_for_several_events_can_be_verified() -> None:
    [said] = signed(ALICE, *[Admitted(event(n), "surf", "") for n in (1, 2)])
    for part in singly(said):
        assert isinstance(part, Admitted)
        held = (Held("surf", ALICE.peer, part.evidence),)
        receipt = Receipt(part.id, Wait.RENDEZVOUS, held)
        assert Receipt.read(receipt.document()).verify()
        assert not Receipt(event(3), Wait.RENDEZVOUS, held).verify()
