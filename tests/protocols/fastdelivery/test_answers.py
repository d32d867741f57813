"""A node that answers otherwise than it was asked holds up nothing: the question stays open."""

from typing import get_args

import pytest

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import (
    ANSWERS,
    Advertise,
    Answer,
    Delegate,
    Got,
    GroupNotify,
    Listed,
    Packet,
    Question,
    Recruit,
    Request,
    RequestDone,
    Search,
    Watched,
    Watchers,
    Working,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.pubsub import Published
from smartpubsub.seam import Peer
from smartpubsub.sim.kernel.population import contact_of
from smartpubsub.sim.kernel.world import Host
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


def test_a_keeper_whose_pages_do_not_advance_holds_up_no_group() -> None:
    nodes = FastNodes(6, HERE)
    request = Request(contact_of(1, 77), (Predicate.parse("surf"),), "", 0, 1, b"")
    same_page = Watchers((Watched(request, 60),), True, ())
    answer_with(nodes, keeper_of_surf(nodes, OWNER), Advertise, same_page)
    begin_creating(nodes)
    nodes.run_until(lambda: nodes.group("surf").is_open, 10)


def test_a_keeper_whose_pages_do_not_advance_holds_up_no_search() -> None:
    nodes = FastNodes(6, HERE)
    notice = nodes.fast(2)._signatures.advertisement(Predicate.parse("surf"))
    answer_with(nodes, keeper_of_surf(nodes, MEMBER), Search, Listed((notice,), True, (), ""))
    begin_subscribing(nodes, MEMBER)
    nodes.run_until(lambda: bool(nodes.in_force(MEMBER)), 60)


@pytest.mark.parametrize("kind", [Advertise, Search])
def test_a_keeper_names_only_few_nodes_and_closer_ones_than_itself(kind: type) -> None:
    nodes = FastNodes(6, HERE)
    named = tuple(Contact.of(b"named %d" % n, (b"\x04\x01\x02\x03\x04",)) for n in range(50))
    answer = Watchers((), False, named) if kind is Advertise else Listed((), False, named, "")
    asker = OWNER if kind is Advertise else MEMBER
    answer_with(nodes, keeper_of_surf(nodes, asker), kind, answer)
    asked: dict[Peer, None] = {}
    transmit = nodes.world._transmit

    def noting(host: Host, peer: Peer, message: object, event: object) -> None:
        if not peer.startswith(b"named"):
            transmit(host, peer, message, event)  # type: ignore[arg-type]
        elif isinstance(message, Packet) and isinstance(message.part, kind):
            asked[peer] = None

    nodes.world._transmit = noting  # type: ignore[method-assign]
    if kind is Advertise:
        begin_creating(nodes)
    else:
        begin_subscribing(nodes, MEMBER)
    nodes.run(10)
    assert len(asked) <= HERE.keeper_count
