"""Generated predicates and events of all kinds, concentrated on few names and nodes.

Numbers lie on coarse grids, so that points often equal the bounds of ranges.
"""

from __future__ import annotations

from random import Random

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import Action, Publish, Subscribe, Unsubscribe
from smartpubsub.workloads.options import Phases, Setting, payload_of
from smartpubsub.workloads.zipf import Zipf

PACE_US = 10_000
EVENTS_PER_NODE = 2
SUBSCRIPTIONS_PER_NODE = 2
TOPICS = tuple(f"topic-{rank:02}" for rank in range(1, 41))
MEASURES = ("price", "temp", "depth", "speed", "offset")
LATE_SHARE = 0.1
ENDED_SHARE = 0.15
MEASURE_SHARE = 0.4

_SOME_TOPICS = Zipf(TOPICS)
_SOME_MEASURES = Zipf(MEASURES)


def power_law(setting: Setting) -> Phases:
    """Subscriptions, and then events while some subscriptions end and others begin."""
    nodes, rng, options = setting
    active = list(range(nodes))
    rng.shuffle(active)
    count = options.events or nodes * EVENTS_PER_NODE
    pace_us = options.pace_us or PACE_US
    end_us = count * pace_us
    first: list[Subscribe] = []
    timeline: list[Action] = []
    for node in Zipf(active).draw(rng, nodes * SUBSCRIPTIONS_PER_NODE):
        predicate = filter_from(rng)
        is_late = rng.random() < LATE_SHARE
        begin_us = rng.randrange(end_us) if is_late else 0
        (timeline if is_late else first).append(Subscribe(begin_us, node, predicate))
        if rng.random() < ENDED_SHARE:
            timeline.append(Unsubscribe(rng.randint(begin_us, end_us), node, predicate))
    publishers = Zipf(active[: options.publishers]).draw(rng, count)
    for number, node in enumerate(publishers):
        timeline.append(Publish(number * pace_us, node, event_from(rng), payload_of(number)))
    return first, sorted(timeline, key=lambda action: action.at_us)


def filter_from(rng: Random) -> Predicate:
    """A predicate of one to three attributes, with all sorts of ranges."""
    wanted: dict[str, object] = {}
    for _ in range(rng.choices((1, 2, 3), (3, 2, 1))[0]):
        if rng.random() < MEASURE_SHARE:
            wanted[_SOME_MEASURES.draw(rng, 1)[0]] = _wanted_measure(rng)
        else:
            wanted[_SOME_TOPICS.draw(rng, 1)[0]] = True
    return Predicate.of(wanted)


def event_from(rng: Random) -> Predicate:
    """An event with one to three topics and up to two measures."""
    topics = _SOME_TOPICS.draw(rng, rng.randint(1, 3))
    measures = _SOME_MEASURES.draw(rng, rng.randint(0, 2))
    return Predicate.of(
        {**dict.fromkeys(topics, True), **{name: _number(rng) for name in measures}}
    )


def _wanted_measure(rng: Random) -> object:
    lo, hi = sorted((_number(rng), _number(rng)))
    return rng.choice(((lo, hi), (lo, None), (None, hi), lo, True))


def _number(rng: Random) -> float:
    return rng.randint(-40, 40) / rng.choice((1, 2, 10))
