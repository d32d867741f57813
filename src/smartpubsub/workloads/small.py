"""The scenario of small networks: one to five nodes, as new users have them.

Nodes leave with a goodbye, crash and come back, one at a time, and the nodes that are up publish
after every change. All nodes subscribe to all events.
"""

from __future__ import annotations

from collections.abc import Iterator

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import (
    Action,
    CrashNode,
    CreateTopic,
    LeaveNode,
    Publish,
    RestartNode,
    Subscribe,
)
from smartpubsub.workloads.errors import ScenarioError
from smartpubsub.workloads.options import Phases, Setting, payload_of

NODES = 5
SIZES = (3, 2, 1)
TOPICS = ("news", "sport")
SOON_US = 200_000
"""How long after a change the first event is published."""
LATER_US = 5_000_000
"""How long a returning node takes to join, and to have its subscriptions in force."""
PACE_US = 100_000
OWN_OPTIONS = {"events": "--events", "publishers": "--publishers", "pace_us": "the pace"}
"""The options that this scenario sets itself, and their names in an error text."""
PUBLISHERS_MAX = 5
"""How many of the nodes that are up publish at a step. At each step one node departs or returns. If
all nodes published at each step, deliveries would grow with the cube of the number of nodes."""


def small(setting: Setting) -> Phases:
    """Subscribe, then shrink to one node and grow again, publishing at every step."""
    nodes, _, options = setting
    for what, option in OWN_OPTIONS.items():
        if getattr(options, what) is not None:
            raise ScenarioError(
                f"the scenario small has its own publishers, events and times; leave out {option}"
            )
    creation = [CreateTopic(0, 0, topic, options.ordered) for topic in TOPICS]
    subscriptions = [
        Subscribe(0, node, Predicate.of({topic: True})) for node in range(nodes) for topic in TOPICS
    ]
    steps = _Steps(nodes)
    return [creation, subscriptions, *steps.phases(has_crashes=bool(options.faults))]


class _Steps:
    """The changes one after another, each a phase with the events that follow it."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._up = list(range(nodes))
        self._events = 0

    def phases(self, *, has_crashes: bool) -> Iterator[list[Action]]:
        yield self._published(SOON_US)
        yield from self._shrink_and_grow(LeaveNode)
        # The first node created the topics, and knows all other nodes.
        if self._nodes > 1:
            yield from self._away(LeaveNode, 0)
        else:
            yield [LeaveNode(0, 0), RestartNode(SOON_US, 0), *self._published(LATER_US)]
        if has_crashes:
            yield from self._shrink_and_grow(CrashNode)

    def _shrink_and_grow(self, kind: type[LeaveNode] | type[CrashNode]) -> Iterator[list[Action]]:
        gone: list[int] = []
        for size in SIZES:
            while len(self._up) > size:
                node = self._up.pop()
                gone.append(node)
                yield [kind(0, node), *self._published(SOON_US)]
        for node in reversed(gone):
            self._up.append(node)
            yield [RestartNode(0, node), *self._published(LATER_US)]

    def _away(self, kind: type[LeaveNode] | type[CrashNode], node: int) -> Iterator[list[Action]]:
        self._up.remove(node)
        yield [kind(0, node), *self._published(SOON_US)]
        self._up.insert(0, node)
        yield [RestartNode(0, node), *self._published(LATER_US)]

    def _published(self, after_us: int) -> list[Action]:
        """One event in each topic from each node that is up, or from `PUBLISHERS_MAX` of them."""
        published: list[Action] = []
        up, half = self._up, PUBLISHERS_MAX // 2
        # A node that has just returned is the first or the last.
        publishers = up if len(up) <= PUBLISHERS_MAX else [*up[: half + 1], *up[-half:]]
        for place, node in enumerate(publishers):
            for topic in TOPICS:
                at_us = after_us + place * PACE_US
                payload = payload_of(self._events)
                published.append(Publish(at_us, node, Predicate.of({topic: True}), payload))
                self._events += 1
        return published
