"""Invalid descriptors are refused, each for its reason."""

from collections.abc import Callable

import pytest

from smartpubsub.protocols.blocks import decode, encode, link
from smartpubsub.protocols.pulsarcast.events import (
    EVENT_BYTES_MAX,
    TopicEvent,
    draft_block,
    read_draft,
    read_event,
)
from smartpubsub.protocols.pulsarcast.fields import Reason, RefusalError
from smartpubsub.protocols.pulsarcast.log import Log
from smartpubsub.protocols.pulsarcast.permissions import (
    check_draft,
    check_event,
    check_meta_topic,
    check_next_version,
    check_topic,
)
from smartpubsub.protocols.pulsarcast.settings import Retention
from smartpubsub.protocols.pulsarcast.topics import (
    META,
    Linking,
    Rules,
    Topic,
    new_topic,
    read_topic,
    rules_ordered_by,
)
from tests.protocols.pulsarcast.makers import NOW, Person

ANN, BOB, EVE = Person(1), Person(2), Person(3)


def refused(call: Callable[[], object]) -> Reason:
    with pytest.raises(RefusalError) as refusal:
        call()
    return refusal.value.reason


def check(event: TopicEvent, topic: Topic, newest: Topic | None = None) -> None:
    check_event(read_event(event.block), topic, newest, ANN.signing, NOW + 1)


def test_a_topic_reads_back_from_its_block() -> None:
    rules = Rules(
        publishers=(ANN.peer, BOB.peer),
        takes_requests=True,
        requesters=(EVE.peer,),
        linking=Linking.CUSTOM,
    )
    topic, meta = ANN.topic(rules)

    assert read_topic(topic.block) == topic
    assert (topic.name, topic.author, topic.rules) == ("news", ANN.peer, rules)
    assert (topic.meta, topic.stable_id, meta.stable_id) == (meta.cid, meta.cid, meta.cid)
    check_topic(topic, BOB.signing, NOW)
    check_meta_topic(meta, topic)


def test_an_event_reads_back_from_its_block() -> None:
    topic, _ = ANN.topic()
    first = BOB.event(topic, payload=b"one")
    event = BOB.event(topic, first, payload=b"two")
    read = read_event(bytes(bytearray(event.block)))

    assert (read.draft, read.publisher, read.parents) == (event.draft, BOB.peer, (first.cid,))
    assert (read.cid, read.height, read.signed()) == (event.cid, 2, event.signed())
    check(event, topic)


def test_a_requester_is_the_author_and_the_granting_peer_the_publisher() -> None:
    topic, _ = ANN.topic(rules_ordered_by(ANN.peer))
    draft = read_draft(draft_block(BOB.draft(topic)))
    check_draft(draft, ANN.signing)
    event = ANN.event(topic, draft=draft)
    check(event, topic)

    assert (event.id.publisher, event.publisher) == (BOB.peer, ANN.peer)


@pytest.mark.parametrize("others", [0, 1])
def test_a_publisher_signs_all_but_its_own_signature(others: int) -> None:
    topic, _ = ANN.topic(rules_ordered_by(ANN.peer))
    event = ANN.event(topic, draft=BOB.draft(topic)) if others else ANN.event(topic)
    fields = decode(event.block)

    assert len(fields["signatures"]) == others + 1
    assert event.signed() == encode({**fields, "signatures": fields["signatures"][:-1]})


# --- forged ---


def test_a_descriptor_signed_by_another_peer_is_forged() -> None:
    topic, _ = ANN.topic()
    by_eve = new_topic(
        "news", ANN.peer, Rules(), EVE.signing, NOW, subtopics={META: topic.stable_id}
    )
    assert refused(lambda: check_topic(by_eve, ANN.signing, NOW)) is Reason.FORGED

    fields = decode(EVE.event(topic).block)
    for name, value in (("publisher", BOB.peer), ("author", BOB.peer)):
        fields[name] = value
    forged = read_event(encode(fields))
    assert refused(lambda: check(forged, topic)) is Reason.FORGED


@pytest.mark.parametrize("field", ["payload", "parents", "metadata"])
def test_what_was_changed_afterwards_is_forged(field: str) -> None:
    topic, _ = ANN.topic()
    fields = decode(BOB.event(topic, BOB.event(topic)).block)
    other = decode(BOB.event(topic, BOB.event(topic, payload=b"x"), payload=b"x").block)
    fields[field] = other[field]
    changed = read_event(encode(fields))

    assert refused(lambda: check(changed, topic)) is Reason.FORGED


def test_a_publisher_cannot_invent_a_request() -> None:
    topic, _ = ANN.topic(rules_ordered_by(ANN.peer))
    fields = decode(draft_block(BOB.draft(topic)))
    fields["payload"] = b"BOB never said this"
    invented = ANN.event(topic, draft=read_draft(encode(fields)))

    assert refused(lambda: check(invented, topic)) is Reason.FORGED


# --- unauthorised ---


def test_a_peer_outside_the_list_of_publishers_is_unauthorised() -> None:
    topic, _ = ANN.topic(Rules(publishers=(ANN.peer,)))
    assert refused(lambda: check(EVE.event(topic), topic)) is Reason.UNAUTHORISED

    asked = ANN.event(topic, draft=EVE.draft(topic))
    assert refused(lambda: check(asked, topic)) is Reason.UNAUTHORISED


def test_a_meta_topic_of_another_author_is_unauthorised() -> None:
    topic, _ = ANN.topic()
    _, meta = EVE.topic()

    assert refused(lambda: check_meta_topic(meta, topic)) is Reason.UNAUTHORISED


# --- malformed and oversized ---


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "text"},
        {"parents": [1]},
        {"parents": None},
        {"topic": b"x"},
        {"author": b""},
        {"signatures": []},
        {"signatures": [b"short"]},
        {"metadata": {}},
        {"extra": 1},
    ],
)
def test_fields_that_are_not_as_they_should_be_are_malformed(change: dict[str, object]) -> None:
    topic, _ = ANN.topic()
    block = encode({**decode(BOB.event(topic).block), **change})

    assert refused(lambda: read_event(block)) is Reason.MALFORMED


@pytest.mark.parametrize("block", [b"", b"\xff", encode([]), encode({"name": "x"})])
def test_other_blocks_are_malformed(block: bytes) -> None:
    assert refused(lambda: read_event(block)) is Reason.MALFORMED
    assert refused(lambda: read_topic(block)) is Reason.MALFORMED
    assert refused(lambda: read_draft(block)) is Reason.MALFORMED


def test_blocks_that_are_too_long_are_not_even_read() -> None:
    block = bytes(EVENT_BYTES_MAX + 1)

    assert refused(lambda: read_event(block)) is Reason.OVERSIZED
    assert refused(lambda: read_topic(block)) is Reason.OVERSIZED
    assert refused(lambda: read_draft(block)) is Reason.OVERSIZED


def linking_to(topic: Topic, *parents: TopicEvent) -> bytes:
    """A block that no honest node makes."""
    links = [link(parent.cid) for parent in parents]
    return encode({**decode(BOB.event(topic).block), "parents": links})


def test_an_event_links_to_a_few_others_only() -> None:
    topic, _ = ANN.topic()
    many = [BOB.event(topic, payload=b"%d" % number) for number in range(9)]

    assert refused(lambda: read_event(linking_to(topic, *many))) is Reason.OVERSIZED


# --- cyclic ---


def test_an_event_that_does_not_lie_above_what_it_links_to_is_cyclic() -> None:
    topic, _ = ANN.topic()
    log = Log()
    first = BOB.event(topic)
    second = BOB.event(topic, first)
    for event in (first, second):
        log.add(event)

    for height in (0, 1):
        low = BOB.event(topic, second, height=height)
        assert refused(lambda low=low: check(low, topic)) is Reason.CYCLIC  # type: ignore[misc]
    for height in (2, 7):
        wrong = BOB.event(topic, second, height=height)
        assert refused(lambda wrong=wrong: log.must_fit(wrong)) is Reason.CYCLIC  # type: ignore[misc]


def test_an_event_that_links_twice_to_the_same_is_cyclic() -> None:
    topic, _ = ANN.topic()
    first = BOB.event(topic)

    assert refused(lambda: read_event(linking_to(topic, first, first))) is Reason.CYCLIC


def test_a_meta_topic_of_a_meta_topic_is_cyclic() -> None:
    topic, meta = ANN.topic()
    links = {META: meta.cid}
    rules = Rules(publishers=(ANN.peer,))
    nested = new_topic("x", ANN.peer, rules, ANN.signing, NOW, subtopics=links)

    assert refused(lambda: check_meta_topic(nested, topic)) is Reason.CYCLIC


# --- replayed, future-dated, rolled back ---


def test_a_pruned_event_is_not_accepted_again() -> None:
    topic, _ = ANN.topic()
    log = Log()
    first = BOB.event(topic)
    second = BOB.event(topic, first)
    for event in (first, second):
        log.add(event)
    assert log.prune(Retention(event_count_max=1), NOW) == [first]

    assert refused(lambda: log.must_fit(first)) is Reason.REPLAYED


def test_what_is_dated_in_the_future_is_refused() -> None:
    topic, _ = ANN.topic()
    later = new_topic("news", ANN.peer, Rules(), ANN.signing, NOW + 5)
    event = BOB.event(topic, now=NOW + 2)

    assert refused(lambda: check_topic(later, ANN.signing, NOW)) is Reason.FUTURE_DATED
    assert refused(lambda: check(event, topic)) is Reason.FUTURE_DATED


def test_versions_only_go_forward() -> None:
    first, _ = ANN.topic()
    second = ANN.version(first)
    fork = ANN.version(first, Rules(takes_requests=True))
    third = ANN.version(second)
    check_next_version(second, first)
    check_next_version(third, first)  # A node that was away has missed one.

    assert refused(lambda: check_next_version(first, second)) is Reason.ROLLED_BACK
    assert refused(lambda: check_next_version(fork, second)) is Reason.ROLLED_BACK
    other = ANN.version(fork)
    assert refused(lambda: check_next_version(other, second)) is Reason.ROLLED_BACK
    assert refused(lambda: check_next_version(EVE.version(first), first)) is Reason.UNAUTHORISED


def test_an_excluded_publisher_cannot_go_on_under_a_past_version() -> None:
    first, _ = ANN.topic()
    second = ANN.version(first, Rules(publishers=(ANN.peer,)))
    event = BOB.event(first)

    check(event, first, None)  # As what an event that was taken before links to.
    assert refused(lambda: check(event, first, second)) is Reason.ROLLED_BACK
    check(ANN.event(first), first, second)
