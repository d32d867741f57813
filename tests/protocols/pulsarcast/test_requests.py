"""Topics in one order: the author publishes, others request, and all nodes get one chain."""

import pytest

from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pulsarcast.events import Draft, sealed_draft
from smartpubsub.protocols.pulsarcast.keepers import Keepers
from smartpubsub.protocols.pulsarcast.messages import PublishRequest
from smartpubsub.protocols.pulsarcast.topics import Topic, rules_ordered_by
from smartpubsub.sim.kernel.network import DROP, NetworkOptions
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.pulsarcast.village import Village


def village_of(count: int, network: NetworkOptions | None = None) -> tuple[Village, Topic]:
    village = Village(count, network=network)
    topic = village.create(0, rules=rules_ordered_by(village.host(0).peer))
    village.run(5)
    village.subscribe_all(range(count), topic)
    village.run(10)
    return village, topic


LOSSY = NetworkOptions(loss=0.1)
WILD = NetworkOptions(jitter_us=30_000, reordering=True, duplication=0.1)


@pytest.mark.parametrize("network", [None, LOSSY, WILD], ids=["good", "lossy", "wild"])
def test_all_nodes_get_one_chain_in_the_order_of_each_author(
    network: NetworkOptions | None,
) -> None:
    village, topic = village_of(12, network)
    ids = []
    for number in range(10):
        ids += [village.publish(n, topic, b"%d/%02d" % (n, number)) for n in (0, 4, 5, 9)]
        village.run(0.02)
    village.run(120)

    assert village.published() == set(ids)
    chain = village.payloads(0)
    assert len(chain) == 40
    for node in range(12):
        assert village.payloads(node) == chain
    for author in (0, 4, 5, 9):
        own = [payload for payload in chain if payload.startswith(b"%d/" % author)]
        assert own == sorted(own)
    heads = village.log(7, topic).heads
    assert len(heads) == 1
    assert list(heads.values()) == [41]  # One more announces the topic's first version.


def test_requests_wait_for_an_author_that_is_away() -> None:
    village, topic = village_of(12)
    village.crash(0)
    village.run(1)
    ids = [village.publish(4, topic, b"%d" % number) for number in range(5)]
    village.run(20)
    assert not village.published()
    village.restart(0)
    village.run(90)

    assert village.published() == set(ids)
    for node in range(12):
        assert village.payloads(node) == [b"%d" % number for number in range(5)]


def test_a_request_whose_answer_was_lost_is_one_event() -> None:
    village, topic = village_of(8)
    village.world.network.rules.append(
        lambda _, sender, receiver: DROP if (sender, receiver) == (0, 4) else None
    )
    id = village.publish(4, topic, b"once")
    village.run(15)
    village.world.network.rules.clear()
    village.run(60)

    assert village.published() == {id}
    assert [village.payloads(node) for node in range(8)] == [[b"once"]] * 8
    assert len(village.log(0, topic)) == 2


def test_an_authors_restart_does_not_fork_the_chain() -> None:
    village, topic = village_of(10)
    for number in range(3):
        village.publish(4, topic, b"before %d" % number)
    village.run(5)
    village.crash(0)
    village.run(2)
    village.restart(0)
    village.run(30)
    for number in range(3):
        village.publish(0, topic, b"after %d" % number)
    village.run(5)

    log = village.log(6, topic)
    assert list(log.heads.values()) == [7]
    assert village.payloads(6) == [
        b"%s %d" % (w, n) for w in (b"before", b"after") for n in range(3)
    ]


def test_requests_survive_a_restart_of_the_requester() -> None:
    village, topic = village_of(10)
    village.crash(0)
    ids = [village.publish(4, topic, b"%d" % number) for number in range(3)]
    village.run(1)
    village.crash(4)
    village.restart(0, 4)
    village.run(90)

    assert village.published() == set(ids)
    assert village.payloads(7) == [b"0", b"1", b"2"]
    assert not [key for key in village.host(4).storage if b"/request/" in key]


def test_a_requester_outside_the_tree_retransmits_until_it_is_answered() -> None:
    village = Village(12)
    topic = village.create(0, rules=rules_ordered_by(village.host(0).peer))
    village.subscribe_all(range(4), topic)
    village.crash(0)
    village.run(1)
    id = village.publish(9, topic, b"from outside")
    village.run(40)
    village.restart(0)
    village.run(90)

    assert id in village.published()
    assert village.payloads(3) == [b"from outside"]


def test_requests_from_before_a_crash_come_before_events_published_after_it() -> None:
    village = Village(8)
    topic = village.create(0, rules=rules_ordered_by(village.host(0).peer))
    village.subscribe_all(range(8), topic)
    village.crash(0)
    village.publish(5, topic, b"before")
    village.run(1)
    village.crash(5)
    village.restart(5)
    village.publish(5, topic, b"after")  # Before it has a place again.
    village.run(5)
    village.restart(0)
    village.run(120)

    assert village.payloads(3) == [b"before", b"after"]


def test_a_publisher_whose_keepers_lack_too_many_events_takes_requests_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    village, topic = village_of(8)
    many, publisher = village.settings.pending_count_max, village.host(0).peer
    with monkeypatch.context() as patched:
        count = lambda keepers, _: many if keepers._own == publisher else 0  # noqa: E731
        patched.setattr(Keepers, "pending_count", count)
        id = village.publish(4, topic, b"late")
        village.run(5)
        assert not village.published()
    village.run(30)
    assert village.published() == {id}


def test_drafts_that_another_publisher_has_published_do_not_wait_for_their_turns() -> None:
    village, topic = village_of(6)
    server, replica = village.core(0)._request_server, village.replica(0, topic)
    author = village.host(4).peer
    for turn, first_turn in ((3, 2), (4, 2), (10, 10)):
        draft = Draft(
            topic=topic.cid, id=EventId(author, 1, turn), created_us=village.world.now, payload=b"x"
        )
        request = PublishRequest(replica.id, 1, turn, first_turn, b"")
        server._take(replica, author, request, sealed_draft(draft, StandInSigning(author)))
    server.check()
    assert server._early_drafts.size == 0
