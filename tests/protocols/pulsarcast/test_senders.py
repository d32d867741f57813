"""Who may send what: every message has a rule, and heights from nowhere block nobody."""

from pathlib import Path
from typing import get_args

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.protocols.blocks import Cid, cid_of
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.descriptor_search import SEARCHES_MAX, SEARCHES_OF_PEER_MAX
from smartpubsub.protocols.pulsarcast.events import Draft, TopicEvent, new_event
from smartpubsub.protocols.pulsarcast.log import GAP_MAX
from smartpubsub.protocols.pulsarcast.messages import (
    Granted,
    InviteKeeper,
    KeepEvents,
    Kept,
    Page,
    Parcel,
    Part,
    Spread,
    Welcome,
)
from smartpubsub.protocols.pulsarcast.senders import PULSAR_RULES
from smartpubsub.protocols.pulsarcast.topics import Rules, Topic
from smartpubsub.protocols.runtime.rules import refusal_of, rules_table
from smartpubsub.seam import Received
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.pulsarcast.village import Village

DOCUMENT = Path(__file__).parents[3] / "docs" / "pulsarcast.md"
AUTHOR, ATTACKER = 0, 7


def test_every_message_has_a_rule() -> None:
    assert set(PULSAR_RULES) == set(get_args(Part))


def test_the_document_has_the_rules_that_the_code_uses() -> None:
    assert f"\n{rules_table(PULSAR_RULES)}\n" in DOCUMENT.read_text(encoding="utf-8")


def tell(village: Village, receiver: int, sender: int, *parts: Part) -> None:
    """Hand messages to a node at once."""
    received = Received(village.host(sender).peer, Parcel(parts))
    effects = village.core(receiver).handle(received, village.world.now)
    village.world.carry_out(village.host(receiver), effects)


def refused(village: Village, node: int, kind: type) -> int:
    return village.core(node).tally().refused.get(refusal_of(kind), 0)


def an_event(
    village: Village, topic: Topic, parents: tuple[Cid, ...], height: int, number: int = 900
) -> TopicEvent:
    """An event of the attacker, who may publish in an open topic."""
    peer = village.host(ATTACKER).peer
    draft = Draft(
        topic=topic.cid,
        id=EventId(peer, 0, number),
        created_us=village.world.now,
        payload=b"attack",
    )
    return new_event(draft, peer, parents, height, StandInSigning(peer))


INVENTED = cid_of(b"no block")


# --- heights ---


@pytest.mark.parametrize("height", [(1 << 63) - 1, GAP_MAX - 1])
@pytest.mark.parametrize("links_to_a_head", [False, True])
def test_an_invented_height_blocks_no_publisher(height: int, links_to_a_head: bool) -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    village.subscribe_all(range(8), topic)
    village.publish(AUTHOR, topic, b"before")
    village.run(2)
    heads = tuple(village.log(1, topic).heads)
    parents = (INVENTED, *heads) if links_to_a_head else (INVENTED,)
    event = an_event(village, topic, parents, height)
    for node in range(7):
        tell(village, node, ATTACKER, Spread(event.block, 0))
    village.run(2)

    assert all(event.cid not in village.log(node, topic).heads for node in range(7))
    ids = [village.publish(node, topic, b"%d" % node) for node in range(4)]
    village.run(5)
    assert village.published() >= set(ids)
    assert not village.refusals()
    for node in range(4):
        assert {b"0", b"1", b"2", b"3"} <= set(village.payloads(node))
        assert max(village.log(node, topic).heads.values()) < 20


def test_an_event_is_a_head_when_its_parents_are_there() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    village.subscribe_all(range(3), topic)
    village.publish(AUTHOR, topic, b"before")
    village.run(2)
    log = village.log(1, topic)
    (head, height), *_ = log.heads.items()
    first = an_event(village, topic, (head,), height + 1, 1)
    second = an_event(village, topic, (first.cid,), height + 2, 2)
    tell(village, 1, ATTACKER, Spread(second.block, 0))
    assert second.cid in log.parked
    assert head in log.heads
    tell(village, 1, ATTACKER, Spread(first.block, 0))
    assert not log.parked
    assert log.heads == {second.cid: height + 2}


def test_an_event_that_is_not_one_higher_than_its_parents_stays_parked() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    village.subscribe_all(range(3), topic)
    log = village.log(1, topic)
    (head, height), *_ = log.heads.items()
    first = an_event(village, topic, (head,), height + 1, 1)
    liar = an_event(village, topic, (first.cid,), height + 7, 2)
    for event in (liar, first):
        tell(village, 1, ATTACKER, Spread(event.block, 0))
    assert list(log.parked) == [liar.cid]
    assert log.heads == {first.cid: height + 1}
    village.core(1).check()


# --- answers and roles ---


def test_only_a_node_that_may_publish_grants_a_request() -> None:
    village = Village(8)
    rules = Rules(publishers=(village.host(AUTHOR).peer,), takes_requests=True)
    topic = village.create(AUTHOR, rules=rules)
    village.subscribe_all(range(3), topic)
    village.crash(AUTHOR)
    id = village.publish(2, topic, b"please")
    village.run(1)
    tell(village, 2, ATTACKER, Granted(topic.stable_id, 0, 1, ""))
    assert refused(village, 2, Granted) == 1
    assert id not in village.published()


def test_a_topic_is_stored_only_by_nodes_close_to_it() -> None:
    village = Village(40)
    topic = village.create(AUTHOR)
    village.run(2)
    key = key_of(topic.stable_id)
    far = max(range(40), key=lambda node: key_of(village.host(node).peer) ^ key)
    tell(
        village,
        far,
        ATTACKER,
        InviteKeeper(topic.stable_id, topic.cid),
        KeepEvents(topic.stable_id, topic.cid, ()),
    )
    village.run(5)
    assert refused(village, far, InviteKeeper) == refused(village, far, KeepEvents) == 1
    assert far not in village.members(topic)


def test_a_topic_is_not_stored_under_the_id_of_another() -> None:
    village = Village(40)
    topic, other = village.create(AUTHOR, "one"), village.create(AUTHOR, "two")
    village.run(2)
    far = next(
        node
        for node in range(8, 40)
        if refused_invitation(village, node, topic) and not refused_invitation(village, node, other)
    )
    tell(village, far, ATTACKER, InviteKeeper(other.stable_id, topic.cid))
    village.run(5)
    assert far not in village.members(topic)


def refused_invitation(village: Village, node: int, topic: Topic) -> bool:
    return not village.core(node)._senders.is_keeper(topic.stable_id)


def test_answers_count_only_from_nodes_that_were_asked() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    village.subscribe_all(range(3), topic)
    id = topic.stable_id
    parts: list[Part] = [Welcome(id, topic.cid, ()), Page(id, 1, (), False), Kept(id, ())]
    strangers = [n for n in range(3, 8) if n not in village.keepers(1, topic)]
    tell(village, 1, strangers[0], *parts)
    assert [refused(village, 1, type(part)) for part in parts] == [1, 1, 1]


# --- descriptors that nobody has ---


def invitations(count: int) -> list[InviteKeeper]:
    cids = [cid_of(b"nothing %d" % number) for number in range(count)]
    return [InviteKeeper(cid, cid) for cid in cids]


def test_the_overlay_is_searched_for_few_of_the_descriptors_that_a_peer_mentions() -> None:
    village = Village(8)
    begun: list[object] = []
    kademlia = village.node(1).kademlia
    get = kademlia.get

    def noted(name: bytes, now: int) -> object:
        begun.append(name)
        return get(name, now)

    kademlia.get = noted  # type: ignore[assignment, method-assign]
    tell(village, 1, ATTACKER, *invitations(200))
    village.run(60)
    assert 0 < len(set(begun)) <= SEARCHES_OF_PEER_MAX
    assert len(begun) <= SEARCHES_OF_PEER_MAX * SEARCHES_MAX
    village.core(1).check()


def test_a_topic_is_found_while_a_peer_mentions_descriptors_that_nobody_has() -> None:
    village = Village(8)
    topic = village.create(AUTHOR)
    for node in range(7):
        tell(village, node, ATTACKER, *invitations(200), InviteKeeper(topic.stable_id, topic.cid))
    village.subscribe_all(range(7), topic)
    village.publish(AUTHOR, topic, b"news")
    village.run(2)
    assert all(village.payloads(node) == [b"news"] for node in range(7))


def test_events_that_wait_for_a_descriptor_have_a_share_of_the_memory() -> None:
    village = Village(8)
    cid = cid_of(b"nothing")
    account = village.core(1).descriptors._waiting
    for _ in range(20):
        tell(village, 1, ATTACKER, KeepEvents(cid, cid, (bytes(1 << 20),)))
    assert 0 < account.size <= account.user_size_max
    assert account.refused
    village.run(60)
    assert not account.size
