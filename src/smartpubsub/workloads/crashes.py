"""Crashes of neighbours in the key space, including a node that events must pass.

Publishers stay up, so that every event counts. If there are topics and too many nodes publish for
that, the author of the largest topic and the nodes closest to it crash, and publish no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal

from smartpubsub.kademlia.keys import key_of
from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import Action, CrashNode, CreateTopic, Publish
from smartpubsub.workloads.errors import ScenarioError
from smartpubsub.workloads.options import Phases

BEFORE_US = 1_000
"""From the crash to the first event."""
MID_US = 25_000
"""From the middle event to the crash: by then the event has left and not yet arrived."""


def with_crashes(
    phases: Phases,
    keys: Sequence[int],
    *,
    faults: int,
    crash: Literal["before", "mid"],
    rng: Random,
) -> Phases:
    """Add crashes to phases, and drop the later actions of crashed nodes."""
    events = [
        (place, action)
        for place, phase in enumerate(phases)
        for action in phase
        if isinstance(action, Publish)
    ]
    publishers = {event.node for _, event in events}
    author = _busiest_author(phases)
    if author is not None and faults > len(keys) - len(publishers):
        victims = sorted(range(len(keys)), key=lambda node: keys[node] ^ keys[author])[:faults]
    else:
        victims = choose_victims([event for _, event in events], keys, faults, rng)
        phases = _without_publishing(victims, phases, publishers, len(keys))
    if crash == "before":
        at, event = events[0]
        crash_us = event.at_us - BEFORE_US
    else:
        at, event = events[len(events) // 2]
        crash_us = event.at_us + MID_US
    later_us = max(0, -crash_us)
    crash_us += later_us
    moved = [action._replace(at_us=action.at_us + later_us) for action in phases[at]]
    return [
        *phases[:at],
        [
            *(action for action in moved if action.at_us < crash_us),
            *(CrashNode(crash_us, victim) for victim in victims),
            *_without(victims, [action for action in moved if action.at_us >= crash_us]),
        ],
        *(_without(victims, phase) for phase in phases[at + 1 :]),
    ]


def _busiest_author(phases: Phases) -> int | None:
    """The node that creates the topic with the most events, if there are topics."""
    actions = [action for phase in phases for action in phase]
    events = Counter(str(action.predicate) for action in actions if isinstance(action, Publish))
    topics = [action for action in actions if isinstance(action, CreateTopic)]
    if not topics:
        return None
    names = {topic.name: str(Predicate.of({topic.name: True})) for topic in topics}
    return max(topics, key=lambda topic: events[names[topic.name]]).node


def choose_victims(
    events: Sequence[Publish], keys: Sequence[int], faults: int, rng: Random
) -> list[int]:
    """Nodes with consecutive keys, one of them the rendezvous of a name that events carry.

    None is a publisher, if possible.
    """
    publishers = {event.node for event in events}
    if faults > len(keys) - len(publishers):
        raise ScenarioError(
            f"{len(publishers)} of {len(keys)} nodes publish, and publishers do not crash,"
            f" so {faults} cannot; take fewer faults, fewer publishers or more nodes"
        )
    names = list(dict.fromkeys(name for event in events for name in event.predicate.attributes))
    rng.shuffle(names)
    for name in names:
        runs = [run for run in _runs(name, keys, faults) if publishers.isdisjoint(run)]
        if runs:
            return rng.choice(runs)
    return rng.choice(list(_runs(names[0], keys, faults)))


def rendezvous(name: str, keys: Sequence[int]) -> int:
    """The node whose key is closest to a name's."""
    wanted = key_of(name.encode())
    return min(range(len(keys)), key=lambda node: keys[node] ^ wanted)


def _runs(name: str, keys: Sequence[int], length: int) -> Iterator[list[int]]:
    """All runs of this length that contain the rendezvous of a name."""
    around = sorted(range(len(keys)), key=keys.__getitem__)
    place = around.index(rendezvous(name, keys))
    for start in range(place - length + 1, place + 1):
        yield [around[(start + step) % len(around)] for step in range(length)]


def _without_publishing(
    victims: Sequence[int], phases: Phases, publishers: set[int], nodes: int
) -> Phases:
    """Swap the roles of crashing publishers with nodes that do not publish."""
    others = (node for node in range(nodes) if node not in publishers and node not in victims)
    roles: dict[int, int] = {}
    for victim in sorted(publishers.intersection(victims)):
        other = next(others)
        roles |= {victim: other, other: victim}
    return [
        [action._replace(node=roles.get(action.node, action.node)) for action in phase]
        for phase in phases
    ]


def _without(victims: Sequence[int], actions: Sequence[Action]) -> list[Action]:
    return [action for action in actions if action.node not in victims]
