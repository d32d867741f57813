"""Who may send what: every message has a rule, and events of strangers reach nobody."""

from pathlib import Path
from typing import get_args

from smartpubsub.kademlia.keys import key_of
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.messages import (
    Answer,
    CopyDirectory,
    Got,
    GroupEnded,
    GroupNotify,
    Measure,
    Packet,
    PullDirectory,
    Question,
    Relay,
    ServedBy,
)
from smartpubsub.protocols.fastdelivery.results import JoinRefused
from smartpubsub.protocols.fastdelivery.senders import FAST_RULES
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery
from smartpubsub.protocols.runtime.rules import refusal_of, rules_table
from smartpubsub.seam import Received, Send
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes

DOCUMENT = Path(__file__).parents[3] / "docs" / "fastdelivery.md"
SURF = Predicate.parse("surf")
MEMBER, STRANGER = 1, 2


def test_every_message_has_a_rule() -> None:
    assert set(FAST_RULES) == {*get_args(Question), *get_args(Answer)}


def test_the_document_has_the_rules_that_the_code_uses() -> None:
    assert f"\n{rules_table(FAST_RULES)}\n" in DOCUMENT.read_text(encoding="utf-8")


def tell(
    nodes: FastNodes, receiver: int, sender: int, part: Question | Answer, number: int = 77
) -> list[Packet]:
    """Hand a message to a node at once, and return what it answers to the sender."""
    contact = nodes.contacts[sender]
    received = Received(contact.peer, Packet(number, part), contact.addresses)
    now = nodes.host(receiver).clock(nodes.world.now)
    effects = nodes.fast(receiver).handle(received, now)
    nodes.world.carry_out(nodes.host(receiver), effects)
    answers = [e.message for e in effects if isinstance(e, Send) and e.peer == contact.peer]
    return [message for message in answers if isinstance(message, Packet)]


def event_of(nodes: FastNodes, publisher: int, number: int = 1) -> Publication:
    peer = nodes.contacts[publisher].peer
    id = EventId(peer, 0, number)
    return Publication.of(id, SURF, b"", StandInSigning(peer).sign(id, SURF, b""))


def refused(nodes: FastNodes, number: int, kind: type) -> int:
    return nodes.fast(number).tally().refused[refusal_of(kind)]


def a_private_group(count: int = 3) -> FastNodes:
    nodes = FastNodes(count)
    nodes.create("surf", is_advertised=False, is_private=True)
    invitation = nodes.fast(OWNER).invite(SURF, nodes.contacts[MEMBER].peer)
    nodes.join(MEMBER, "surf", "surf", invitation)
    nodes.run_until(lambda: bool(nodes.in_force(MEMBER)))
    return nodes


def test_a_strangers_event_reaches_no_member_of_a_private_group() -> None:
    nodes = a_private_group()
    event = event_of(nodes, STRANGER)
    (answer,) = tell(nodes, MEMBER, STRANGER, GroupNotify(SURF, event, 1, is_resend=False))
    assert answer.part == Got(is_wanted=False)
    assert nodes.got(event.id) == []


def test_a_strangers_event_reaches_only_the_open_search_of_a_member() -> None:
    """It finds the stranger's own group; the subscription for the private group gets nothing."""
    nodes = a_private_group()
    number = nodes.subscribe(MEMBER, "surf")
    nodes.create("surf", STRANGER)
    id = nodes.publish("surf", "surf", STRANGER)
    nodes.run_until(lambda: nodes.got(id) == [MEMBER])
    (delivery,) = nodes.items(Delivery, MEMBER)
    assert delivery.subscriptions == (number,)


def test_a_member_takes_the_owners_events_from_no_stranger() -> None:
    nodes = a_private_group(12)
    close = sorted(range(12), key=lambda n: nodes.contacts[n].key ^ nodes.contacts[MEMBER].key)
    event, far = event_of(nodes, OWNER, 99), close[-1]
    assert not tell(nodes, MEMBER, far, GroupNotify(SURF, event, 2, is_resend=True))
    assert not tell(nodes, MEMBER, close[1], GroupNotify(SURF, event, 2, is_resend=False))
    assert refused(nodes, MEMBER, GroupNotify) == 2
    assert nodes.got(event.id) == []


def test_only_the_owner_names_helpers() -> None:
    nodes = a_private_group(12)
    close = sorted(range(12), key=lambda n: nodes.contacts[n].key ^ nodes.contacts[MEMBER].key)
    helper, event = close[-1], event_of(nodes, OWNER, 99)
    named = ServedBy(SURF, nodes.contacts[helper].peer)
    assert not tell(nodes, MEMBER, helper, named)
    assert refused(nodes, MEMBER, ServedBy) == 1

    assert tell(nodes, MEMBER, OWNER, named)
    assert tell(nodes, MEMBER, helper, GroupNotify(SURF, event, 2, is_resend=False))
    assert nodes.got(event.id) == [MEMBER]


def test_only_the_owner_ends_a_group() -> None:
    nodes = a_private_group()
    assert tell(nodes, MEMBER, STRANGER, GroupEnded(SURF))
    assert not nodes.items(JoinRefused)
    assert tell(nodes, MEMBER, OWNER, GroupEnded(SURF))
    assert len(nodes.items(JoinRefused)) == 1


def test_honest_helpers_are_refused_nothing() -> None:
    nodes = FastNodes(12)
    nodes.create("surf")
    nodes.subscribe_all(range(1, 12), "surf")
    for _ in range(5):
        id = nodes.publish("surf", "surf")
        nodes.run_until(lambda: len(nodes.got(id)) == 11)  # noqa: B023
    assert any(hops == 2 for hops in nodes.hops(id).values())
    assert [dict(nodes.fast(number).tally().refused) for number in range(12)] == [{}] * 12


def test_a_stranger_has_nobody_relay_measure_or_keep_a_directory() -> None:
    nodes = FastNodes(30)
    nodes.create("surf")
    nodes.subscribe(MEMBER, "surf")
    keepers = [n for n in range(30) if "surf" in nodes.fast(n).directory.directories]
    far = max(range(3, 30), key=lambda n: nodes.contacts[n].key ^ key_of(b"surf"))
    relay = Relay(SURF, 1, event_of(nodes, OWNER), (), is_resend=False)
    attacks: list[tuple[int, Question]] = [
        (MEMBER, relay),
        (MEMBER, Measure((nodes.contacts[3],))),
        (keepers[0], CopyDirectory("surf", (), ())),
        (keepers[0], PullDirectory("surf")),
    ]
    for receiver, part in attacks:
        assert not tell(nodes, receiver, far, part)
        assert refused(nodes, receiver, type(part)) == 1


def test_an_answer_counts_only_from_the_node_that_was_asked() -> None:
    nodes = a_private_group()
    tell(nodes, OWNER, STRANGER, Got(is_wanted=False))
    assert refused(nodes, OWNER, Got) == 1
