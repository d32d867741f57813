"""Items pass in the order in which they name each other, each once."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.runtime.reorder import Reorder


class Place(NamedTuple):
    publisher: int
    number: int


class Receiver:
    """Delivers an item whose predecessor has passed, and holds back the others."""

    def __init__(self) -> None:
        self.passed: list[Place] = []
        self.awaited: dict[Place, None] = {}
        self.reorder: Reorder[Place, Place] = Reorder(self.passed.append, self.awaited.pop)

    def take(self, item: Place, predecessor: Place) -> None:
        if item in self.passed or item in self.reorder:
            return
        if predecessor.number and predecessor not in self.passed:
            self.awaited[predecessor] = None
            self.reorder.hold(item, item, predecessor)
        else:
            self.passed.append(item)
            self.reorder.pass_on(item)
        self.check()

    def check(self) -> None:
        self.reorder.check()
        assert all(map(self.reorder.is_awaited, self.awaited))
        assert {item: self.reorder.get(item) for item in self.reorder} == {
            item: item for item in self.reorder
        }


arrivals = st.lists(
    st.builds(Place, st.integers(0, 1), st.integers(1, 8)), min_size=1, max_size=40
).map(lambda some: [*some, *(Place(p, n) for p in (0, 1) for n in range(8, 0, -1))])
"""Items of two publishers in any order, some of them several times, and all of them in the end."""


@given(arrivals)
def test_items_pass_once_and_after_their_predecessors(arrivals: list[Place]) -> None:
    receiver = Receiver()
    for item in arrivals:
        receiver.take(item, item._replace(number=item.number - 1))

    for publisher in (0, 1):
        passed = [item.number for item in receiver.passed if item.publisher == publisher]
        assert passed == [*range(1, 9)]
    assert (len(receiver.reorder), receiver.awaited) == (0, {})


@given(st.permutations(range(1, 9)), st.sets(st.integers(1, 8), max_size=3))
def test_what_waits_for_a_lost_item_passes_when_that_is_not_awaited_any_more(
    order: list[int], lost: set[int]
) -> None:
    receiver = Receiver()
    for number in order:
        if number not in lost:
            receiver.take(Place(0, number), Place(0, number - 1))
    for number in sorted(lost):
        receiver.reorder.pass_on(Place(0, number))
        receiver.check()

    assert [item.number for item in receiver.passed] == [n for n in range(1, 9) if n not in lost]
    assert not receiver.reorder


@given(st.permutations(range(2, 9)))
def test_several_that_wait_for_one_pass_in_the_order_of_their_keys(order: list[int]) -> None:
    receiver = Receiver()
    for number in order:
        receiver.take(Place(0, number), Place(0, 1))
    receiver.take(Place(0, 1), Place(0, 0))

    assert [item.number for item in receiver.passed] == [*range(1, 9)]


def test_an_item_that_need_not_wait_leaves_the_others_waiting() -> None:
    receiver = Receiver()
    for number in (2, 3):
        receiver.take(Place(0, number), Place(0, 1))

    assert receiver.reorder.take(Place(0, 3)) == Place(0, 3)
    assert receiver.reorder.take(Place(0, 3)) is None
    assert receiver.awaited == {Place(0, 1): None}
    assert receiver.reorder.take(Place(0, 2)) == Place(0, 2)
    assert receiver.awaited == {}


def test_a_release_that_reports_itself_takes_no_stack() -> None:
    count, passed = 5_000, list[int]()

    def release(item: Place) -> None:
        passed.append(item.number)
        reorder.pass_on(item)

    reorder: Reorder[Place, Place] = Reorder(release)
    for number in range(count, 1, -1):
        reorder.hold(Place(0, number), Place(0, number), Place(0, number - 1))
    reorder.pass_on(Place(0, 1))

    assert passed == [*range(2, count + 1)]
