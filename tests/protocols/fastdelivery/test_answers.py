"""A node that answers otherwise than it was asked holds up nothing: the question stays open."""

from typing import get_args

import pytest

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import (
    ANSWERS,
    Advertise,
    Answer,
    Delegate,
    Got,
    GroupNotify,
    Question,
    Recruit,
    RequestDone,
    Search,
    Working,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.pubsub import Published
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes

HERE = FastSettings(region="here")
MEMBER, CANDIDATE = 1, 1


def answer_with(nodes: FastNodes, liar: int, kind: type, answer: Answer) -> None:
    """Have a node answer all questions of one kind so."""
    fast = nodes.fast(liar)
    fast._on_question[kind] = lambda contact, number, _: fast._requests.answer(
        contact.peer, number, answer
    )


def keeper_of_surf(nodes: FastNodes, other_than: int) -> int:
    keepers = nodes.fast(OWNER)._keepers.closest_nodes(b"surf", HERE.keeper_count)
    numbers = [nodes.contacts.index(contact) for contact in keepers]
    return next(number for number in numbers if number != other_than)


def begin_creating(nodes: FastNodes) -> None:
    fast = nodes.fast(OWNER)
    nodes._do(OWNER, lambda _, now: fast.create_group(Predicate.parse("surf"), now))


def begin_subscribing(nodes: FastNodes, number: int) -> None:
    nodes._do(number, lambda core, now: core.subscribe(Predicate.parse("surf"), now)[1])


def test_every_kind_of_answer_belongs_to_a_question() -> None:
    assert set(ANSWERS) < set(get_args(Question))
    assert {kind for kinds in ANSWERS.values() for kind in kinds} == set(get_args(Answer))


@pytest.mark.parametrize("answer", [RequestDone(), Working()])
def test_a_group_opens_although_a_keeper_does_not_answer_as_asked(answer: Answer) -> None:
    nodes = FastNodes(6, HERE)
    answer_with(nodes, keeper_of_surf(nodes, OWNER), Advertise, answer)
    begin_creating(nodes)
    nodes.run_until(lambda: nodes.group("surf").is_open, 60)


@pytest.mark.parametrize("answer", [RequestDone(), Working()])
def test_a_search_is_in_force_although_a_keeper_does_not_answer_as_asked(answer: Answer) -> None:
    nodes = FastNodes(6, HERE)
    answer_with(nodes, keeper_of_surf(nodes, MEMBER), Search, answer)
    begin_subscribing(nodes, MEMBER)
    nodes.run_until(lambda: bool(nodes.in_force(MEMBER)), 7 * 60)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (Recruit, RequestDone()),
        (Recruit, Working()),
        (Delegate, Got(is_wanted=True)),
        (Delegate, Working()),
    ],
)
def test_a_candidate_that_does_not_answer_as_asked_leaves_no_member_without_events(
    kind: type, answer: Answer
) -> None:
    nodes = FastNodes(10, HERE, capacities=[0, 20] + [5] * 8)
    answer_with(nodes, CANDIDATE, kind, answer)
    nodes.create("surf")
    for number in range(1, 10):
        begin_subscribing(nodes, number)
    others = set(range(1, 10)) - {CANDIDATE}
    nodes.run_until(lambda: all(nodes.in_force(number) for number in others))
    id = nodes.publish("surf")
    nodes.run_until(lambda: others <= set(nodes.got(id)))


@pytest.mark.parametrize(("answer", "minutes"), [(RequestDone(), 1), (Working(), 7)])
def test_an_event_is_published_although_a_member_does_not_confirm_it(
    answer: Answer, minutes: int
) -> None:
    nodes = FastNodes(4, HERE)
    nodes.create("surf")
    nodes.subscribe_all([1, 2], "surf")
    answer_with(nodes, MEMBER, GroupNotify, answer)
    id = nodes.publish("surf")
    nodes.run_until(lambda: id in [told.id for told in nodes.items(Published)], minutes * 60)
