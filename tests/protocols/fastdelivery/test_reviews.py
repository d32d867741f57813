"""Members get events that their helper drops from the owner."""

from typing import cast

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery import delivery
from smartpubsub.protocols.fastdelivery.book import MemberState
from smartpubsub.protocols.fastdelivery.component import FastOutbox
from smartpubsub.protocols.fastdelivery.messages import Packet, Review, ServedBy
from smartpubsub.protocols.fastdelivery.review import RECENT_US, RecentGroupEvents, mark_of
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import run
from smartpubsub.sim.kernel.world import Host
from tests.protocols.fastdelivery.nodes import OWNER, FastNodes
from tests.protocols.fastdelivery.test_senders import tell

SURF = Predicate.parse("surf")


class _Clock:
    now = 0


def kept(*texts: str) -> tuple[RecentGroupEvents, _Clock, list[Publication]]:
    """Events of one owner, published one second after the other."""
    clock = _Clock()
    settings = FastSettings(has_reviews=True)
    recent, events = RecentGroupEvents(cast(FastOutbox, clock), settings), []
    for number, text in enumerate(texts, 1):
        clock.now += SECOND
        id = EventId(b"owner", 0, number)
        events.append(Publication.of(id, Predicate.parse(text), b"", b""))
        recent.keep(SURF, events[-1])
    clock.now += 10 * SECOND
    return recent, clock, events


def test_an_owner_names_what_a_member_wants_and_lacks() -> None:
    recent, _, (first, second, third) = kept("surf/price=1", "surf/price=2", "surf/price=3")
    cheap = {Predicate.parse("surf/price[0,2]"): 0}

    assert recent.missed(Review(SURF, 60_000, ()), cheap) == (first, second)
    assert recent.missed(Review(SURF, 60_000, (mark_of(first.id),)), {SURF: 0}) == (second, third)
    assert recent.missed(Review(SURF, 10_500, ()), {SURF: 0}) == (third,)
    assert recent.missed(Review(Predicate.parse("ski"), 60_000, ()), {SURF: 0}) == ()


def test_an_owner_names_nothing_that_is_older_than_the_wish_for_it() -> None:
    recent, _, (_, second, third) = kept("surf/price=1", "surf/price=2", "surf/price=3")
    wanted_us = {SURF: 3 * SECOND, Predicate.parse("surf/price[0,2]"): 2 * SECOND}

    assert recent.missed(Review(SURF, 60_000, ()), wanted_us) == (second, third)


def test_an_owner_forgets_its_events_after_some_minutes() -> None:
    recent, clock, _ = kept("surf", "surf")
    clock.now += RECENT_US
    recent.forget_old()

    assert recent.missed(Review(SURF, 60 * MINUTE // 1000, ()), {SURF: 0}) == ()
    assert recent.bytes_held == 0
    recent.check()


def test_a_member_that_the_owner_serves_itself_asks_once_after_a_restart() -> None:
    nodes = FastNodes(4, FastSettings(region="here", has_reviews=True, renew_us=MINUTE))
    nodes.create("surf")
    nodes.subscribe(1, "surf")
    nodes.crash(1)
    nodes.world.restart(nodes.host(1))
    others = [contact for contact in nodes.contacts if contact != nodes.contacts[1]]
    nodes._do(1, lambda core, now: core.settle(others, now))
    asked: set[int] = set()
    transmit = nodes.world._transmit

    def noting(host: Host, peer: bytes, message: object, event: object) -> None:
        if isinstance(message, Packet) and isinstance(message.part, Review):
            asked.add(message.number)
        transmit(host, peer, message, event)  # type: ignore[arg-type]

    nodes.world._transmit = noting  # type: ignore[method-assign]
    nodes.run(10 * 60)
    assert len(asked) == 1


def test_a_member_that_has_left_does_not_ask_an_owner_for_ever_that_does_not_answer() -> None:
    nodes = FastNodes(4, FastSettings(region="here", has_reviews=True))
    nodes.create("surf")
    number = nodes.subscribe(1, "surf")
    tell(nodes, 1, OWNER, ServedBy(SURF, nodes.contacts[2].peer))
    nodes.crash(OWNER)
    nodes.unsubscribe(1, number)
    nodes.run(4 * 60)
    assert nodes.fast(1)._reviews._reviews
    nodes.run(3 * 60)
    assert not nodes.fast(1)._reviews._reviews


def test_an_owner_replaces_helpers_that_drop() -> None:
    options = SimOptions(
        nodes=40, events=60, seed=1, adversary=(Adversary("drop", 0.5),), resilience="audited"
    )
    experiment = options.experiment("fastdelivery", "", options.load(["fastdelivery"]))
    result = run(experiment, "normal")

    assert result.verdict.missing == 0
    cores = [experiment.core(number) for number in range(40) if number not in experiment.crowd]
    states = [state for core in cores for state in core.kademlia.blame.states(0)]
    assert len(states) > 3
    assert all(state.blamed in experiment.crowd.peers for state in states)


@pytest.mark.parametrize("pause_s", [0, 0.2])
def test_members_that_forget_events_do_not_discredit_honest_helpers(
    monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    monkeypatch.setattr(delivery, "RECENT_COUNT_MAX", 50)
    settings = FastSettings(region="here", has_reviews=True)
    nodes = FastNodes(10, settings, capacities=[0, 20] + [0] * 8)
    group = nodes.create("surf")
    nodes.subscribe_all(range(1, 10), "surf")
    for _ in range(120):
        nodes.publish("surf")
        nodes.run(pause_s)
    nodes.run(60)
    assert nodes.at(group, MemberState.HELPER) == [1]
    assert nodes.core(OWNER).kademlia.blame.states(nodes.world.now) == []


@pytest.mark.parametrize(
    ("seed", "adversary", "nodes"),
    [
        (1, "drop:0.5", 40),
        (2, "drop:0.5", 40),
        (2, "hide:0.3", 40),
        (41, "drop-half:0.2", 30),  # Of the first events of a member, it drops the earlier ones.
    ],
)
def test_everything_comes_though_helpers_drop_and_directories_hide(
    seed: int, adversary: str, nodes: int
) -> None:
    options = SimOptions(
        nodes=nodes,
        events=30,
        seed=seed,
        resilience="audited",
        adversary=(Adversary.parse(adversary),),
    )
    result = run(options.experiment("fastdelivery", "", options.load(["fastdelivery"])), "normal")

    verdict = result.verdict
    assert verdict.missing == verdict.app_duplicates == verdict.unexpected == 0
    slowest_ms = verdict.delivered_within_ms["max"]
    assert slowest_ms is not None
    assert SECOND / 1000 < slowest_ms < 30_000
