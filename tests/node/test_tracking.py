"""The cause that nodes name is the cause that the test has brought about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.node.tracking import (
    EVENT_COUNT_MAX,
    EVENT_COUNT_MIN,
    AskedSubscription,
    Cause,
    EventFacts,
    PublishProgress,
    Tracking,
    Why,
    why,
)
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId
from smartpubsub.protocols.pubsub import Published
from smartpubsub.sim.kernel.network import DROP
from smartpubsub.sim.kernel.world import Host
from tests.protocols.scoutsubs.forest import Forest

HISTORY_US = 3_600 * SECOND
PUBLISHER, SUBSCRIBER = 8, 9
EACH = 125
"""Cases of one kind; there are eight kinds."""


class Remembering(Forest):
    """Nodes that remember what happened to events."""

    def __init__(self, count: int, *, seed: int) -> None:
        self.tracking = [Tracking() for _ in range(count)]
        super().__init__(count, seed=seed)

    def _on_deliver(self, host: Host, item: object) -> None:
        super()._on_deliver(host, item)
        self.tracking[host.number].on_item(item, host.clock(self.world.now))

    def tracked(self, text: str) -> str:
        now, core = self.clock(PUBLISHER), self.core(PUBLISHER)
        event = core.new_event(Predicate.parse(text), b"", now)
        self.tracking[PUBLISHER].on_publish(event)
        self.do(PUBLISHER, core.pubsub.publish(event, now))
        return str(event.id)

    def in_force(self, text: str) -> int:
        wanted, now = Predicate.parse(text), self.clock(SUBSCRIBER)
        number, effects = self.core(SUBSCRIBER).subscribe(wanted, now)
        self.do(SUBSCRIBER, effects)
        known = self.tracking[SUBSCRIBER]
        self.run_until(lambda: known.in_force_since(number) is not None)
        return number

    def without(self, node: int) -> Callable[[], None]:
        """Lose all messages from and to a node; return what ends this."""
        rules = self.world.network.rules
        before = len(rules)
        rules.append(lambda _now, sender, receiver: DROP if node in (sender, receiver) else None)
        return lambda: rules.__delitem__(slice(before, None))

    def asked(self, event: str, text: str, *, later_us: int = 0) -> Why:
        wanted, own = Predicate.parse(text), self.tracking[SUBSCRIBER]
        known = self.core(SUBSCRIBER).subscriptions.items()
        numbers = [number for number, each in known if each.predicate == wanted]
        since = [own.in_force_since(number) for number in numbers]
        told = EventFacts.read(self.tracking[PUBLISHER].facts(event).document())
        subscriber = AskedSubscription(
            wanted, numbers, min((at for at in since if at), default=None)
        )
        now = self.clock(SUBSCRIBER) + later_us
        return why(own.facts(event).merged(told), subscriber, now, HISTORY_US)


def injected(forest: Remembering) -> Iterator[tuple[Cause, Why]]:
    """Bring about causes of all kinds, and ask for each."""
    cheap = "surf/price[0,50]"
    number = forest.in_force(cheap)

    ids = [forest.tracked(f"surf/price={n % 50}") for n in range(2 * EACH)]
    forest.run(20 * SECOND)
    for id in ids[:EACH]:
        forest.tracking[SUBSCRIBER].on_drop(id, number)
        yield Cause.DROPPED, forest.asked(id, cheap)
    for id in ids[EACH:]:
        yield Cause.DELIVERED, forest.asked(id, cheap)

    ids = [forest.tracked(f"surf/price={51 + n % 50}") for n in range(EACH)]
    forest.run(20 * SECOND)
    for id in ids:
        yield Cause.NOT_MATCHED, forest.asked(id, cheap)
    for id in ids:
        yield Cause.NOT_SUBSCRIBED, forest.asked(id, "surf")

    ids = [forest.tracked(f"surf/tide={n}") for n in range(EACH)]
    forest.run(20 * SECOND)
    forest.in_force("tide[0,1000]")
    for id in ids:
        yield Cause.BEFORE_SUBSCRIPTION, forest.asked(id, "tide[0,1000]")

    heal = forest.without(PUBLISHER)
    ids = [forest.tracked(f"surf/price={n % 50}") for n in range(EACH)]
    forest.run(SECOND)
    for id in ids:
        yield Cause.NOT_ACKNOWLEDGED, forest.asked(id, cheap)
    heal()
    forest.run(120 * SECOND)

    heal = forest.without(SUBSCRIBER)
    ids = [forest.tracked(f"surf/price={n % 50}") for n in range(EACH)]
    own = forest.tracking[PUBLISHER]
    forest.run_until(
        lambda: all(own.facts(id).progress is PublishProgress.ACKNOWLEDGED for id in ids)
    )
    for id in ids:
        yield Cause.ON_ITS_WAY, forest.asked(id, cheap)
        yield Cause.EXPIRED, forest.asked(id, cheap, later_us=HISTORY_US)
    heal()


def test_the_named_cause_is_the_one_that_was_brought_about() -> None:
    forest = Remembering(10, seed=4)
    right: Counter[Cause] = Counter()
    wrong: list[tuple[Cause, Why]] = []
    for cause, named in injected(forest):
        right[cause] += named.cause is cause
        if named.cause is not cause:
            wrong.append((cause, named))
    judged = right.total() + len(wrong)
    assert judged == 8 * EACH
    assert len(wrong) <= judged // 100, wrong[:5]


def test_a_node_that_knows_nothing_says_so() -> None:
    wanted = AskedSubscription(Predicate.parse("surf"), [1], 0)
    assert why(EventFacts("x"), wanted, 0, None).cause is Cause.UNKNOWN
    matching = EventFacts("x", Predicate.parse("surf"), 5)
    assert why(matching, wanted, 9, None).cause is Cause.UNKNOWN
    refused = EventFacts("x", Predicate.parse("surf"), 5, PublishProgress.REFUSED, "no room")
    assert "no room" in why(refused, wanted, 9, None).detail


@pytest.mark.parametrize("broken", [{}, {"predicate": "[["}, {"created_us": "x"}, {"held": 5}])
def test_facts_of_another_node_are_checked(broken: dict[str, object]) -> None:
    good = EventFacts("x", Predicate.parse("surf"), 5).document()
    assert EventFacts.read(good) == EventFacts("x", Predicate.parse("surf"), 5)
    with pytest.raises(ValueError, match="remembers"):
        EventFacts.read({**good, **broken} if broken else {})


@pytest.mark.parametrize(
    ("every_us", "remembered_min", "remembered_max"),
    [
        (SECOND // 10, EVENT_COUNT_MAX // 2, EVENT_COUNT_MAX),
        (4 * SECOND, 15 * 15, 2 * 15 * 15),
        (5 * MINUTE, EVENT_COUNT_MIN, 2 * EVENT_COUNT_MIN),
    ],
)
def test_events_are_forgotten_beyond_a_time_and_a_number(
    every_us: int, remembered_min: int, remembered_max: int
) -> None:
    tracking = Tracking()
    counts: list[int] = []
    for number in range(3 * EVENT_COUNT_MAX):
        tracking.on_item(Published(EventId(b"publisher", 1, number), ()), number * every_us)
        if number >= EVENT_COUNT_MAX:
            last = [str(EventId(b"publisher", 1, number - age)) for age in range(remembered_min)]
            assert tracking.facts(last[-1]).progress is PublishProgress.ACKNOWLEDGED
            counts.append(len(tracking._events) + len(tracking._earlier_events))
    assert remembered_min <= min(counts) <= max(counts) <= remembered_max
