"""The subscriptions and events of a soak's applications.

Half of the topics have kept subscriptions only, the other half subscriptions in memory only, so
that a loss on one of the two ways is seen.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from smartpubsub.predicates import Predicate

TOPICS = 8
TEMPERATURE_MAX = 100
SUBSCRIPTIONS = 2
"""The number of subscriptions of each kind that a node has."""
PAYLOAD_BYTES_MAX = 1_000


class Interest(NamedTuple):
    """A subscription that an application has."""

    predicate: Predicate
    keep: bool


class Interests:
    """Draws subscriptions and events."""

    def __init__(self, rng: Random, *, has_only_topics: bool) -> None:
        self._rng = rng
        self._has_only_topics = has_only_topics

    def of_a_node(self) -> list[Interest]:
        """The subscriptions that a node begins with; no two are equal."""
        kept = self._rng.sample(range(0, TOPICS, 2), SUBSCRIPTIONS)
        others = self._rng.sample(range(1, TOPICS, 2), SUBSCRIPTIONS)
        drawn = [(self._filter(topic), True) for topic in kept]
        drawn += [(self._filter(topic), False) for topic in others]
        return [Interest(*one) for one in drawn]

    def instead_of(self, present: list[Interest]) -> tuple[Interest, Interest]:
        """Choose a subscription to end, which is not kept, and a new one in its place."""
        ends = self._rng.choice([one for one in present if not one.keep])
        known = {one.predicate: None for one in present if one is not ends}
        while True:
            begins = self._filter(self._rng.randrange(1, TOPICS, 2))
            if begins not in known:
                return ends, Interest(begins, keep=False)

    def topics(self) -> list[str]:
        """The names of all topics."""
        return [_name(topic) for topic in range(TOPICS)]

    def event(self) -> tuple[Predicate, bytes]:
        """An event and its payload."""
        rng = self._rng
        name = _name(rng.randrange(TOPICS))
        temperature = rng.randint(0, TEMPERATURE_MAX)
        text = name if self._has_only_topics else f"{name}/temp={temperature}"
        return Predicate.parse(text), rng.randbytes(rng.randint(1, PAYLOAD_BYTES_MAX))

    def _filter(self, topic: int) -> Predicate:
        lo = self._rng.randint(0, TEMPERATURE_MAX // 2)
        hi = self._rng.randint(lo, TEMPERATURE_MAX)
        name = _name(topic)
        return Predicate.parse(name if self._has_only_topics else f"{name}/temp[{lo},{hi}]")


def _name(topic: int) -> str:
    return f"city-{topic}"
