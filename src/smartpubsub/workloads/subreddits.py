"""A year of comments on Reddit, generated from published statistics.

The numbers of events and of subscribers of each topic are those of 2007, for a hundred nodes;
authors and times are drawn. The smallest sixteen topics are known by their sums: of events, of
subscribers and of deliveries.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import CreateTopic, Publish, Subscribe
from smartpubsub.workloads.errors import ScenarioError
from smartpubsub.workloads.options import Phases, Setting, payload_of
from smartpubsub.workloads.zipf import Zipf

PACE_US = 10_000
COUNTED_NODES = 100
TOPICS_BEYOND_COMMON_MAX = 7
"""Nodes had at most eleven topics, four of which are common to all."""


class Topic(NamedTuple):
    """A topic, how many events it had, and how many of a hundred nodes subscribed."""

    name: str
    events: int
    subscribers: int


LARGE_TOPICS = (
    Topic("reddit.com", 10_559, 100),
    Topic("politics", 3_195, 100),
    Topic("programming", 2_095, 100),
    Topic("science", 1_270, 100),
    Topic("gaming", 103, 69),
    Topic("nsfw", 93, 56),
    Topic("entertainment", 78, 57),
)
_SMALL_TOPICS_EVENTS = (55, 47, 36, 24, 15, 9, 7, 5, 4, 4, 3, 3, 2, 2, 1, 1)
_SMALL_TOPICS_SUBSCRIBERS = (45, 35, 34, 21, 11, 7, 6, 4, 4, 3, 3, 3, 1, 1, 1, 1)
TOPICS = (
    *LARGE_TOPICS,
    *(
        Topic(f"topic-{place:02}", events, subscribers)
        for place, (events, subscribers) in enumerate(
            zip(_SMALL_TOPICS_EVENTS, _SMALL_TOPICS_SUBSCRIBERS, strict=True),
            start=len(LARGE_TOPICS) + 1,
        )
    ),
)


def subreddits(setting: Setting) -> Phases:
    """Topics, subscriptions, and one event every ten milliseconds."""
    nodes, rng, options = setting
    if options.publishers is not None:
        raise ScenarioError(
            "in this scenario subscribers publish; leave out the number of publishers"
        )
    members = _members(nodes, rng)
    counts = _scaled([topic.events for topic in TOPICS], options.events)
    written = [
        (place, node)
        for place, count in enumerate(counts)
        for node in _writers(members[place], count, rng)
    ]
    rng.shuffle(written)
    authors = {place: members[place][0] for place in range(len(TOPICS))}
    authors |= dict(reversed(written))  # The first node that writes in a topic is its author.
    predicates = [Predicate.of({topic.name: True}) for topic in TOPICS]
    pace_us = options.pace_us or PACE_US
    return (
        [
            CreateTopic(0, authors[place], topic.name, options.ordered)
            for place, topic in enumerate(TOPICS)
        ],
        [
            Subscribe(0, node, predicate)
            for predicate, subscribers in zip(predicates, members, strict=True)
            for node in sorted(subscribers)
        ],
        [
            Publish(number * pace_us, node, predicates[place], payload_of(number))
            for number, (place, node) in enumerate(written)
        ],
    )


def _members(nodes: int, rng: Random) -> list[list[int]]:
    """The subscribers of each topic, the most active first."""
    active = list(range(nodes))
    rng.shuffle(active)
    held = [0] * nodes
    members: list[list[int]] = [[] for _ in TOPICS]
    # Small topics first, so that large ones go to nodes without a topic and skip nodes with many.
    for place in reversed(range(len(TOPICS))):
        wanted = max(1, round(TOPICS[place].subscribers * nodes / COUNTED_NODES))
        is_large = wanted * 2 > nodes
        turns = [
            (
                held[node] >= TOPICS_BEYOND_COMMON_MAX,
                is_large and held[node] > 0,
                rng.random(),
                node,
            )
            for node in active
        ]
        chosen = {node for *_, node in sorted(turns)[:wanted]}
        for node in chosen:
            held[node] += 1
        members[place] = [node for node in active if node in chosen]
    return members


def _writers(members: list[int], count: int, rng: Random) -> list[int]:
    """Every member once if there are enough events, then by activity, which follows Zipf's law."""
    everyone = members if count >= len(members) else rng.sample(members, count)
    return [*everyone, *Zipf(members).draw(rng, count - len(everyone))]


def _scaled(counts: list[int], total: int | None) -> list[int]:
    """Scale counts to another sum."""
    if total is None:
        return counts
    whole = sum(counts)
    scaled = [count * total // whole for count in counts]
    # The remainder of rounding down goes to the counts that lost most by it.
    by_loss = sorted(range(len(counts)), key=lambda place: -(counts[place] * total % whole))
    for place in by_loss[: total - sum(scaled)]:
        scaled[place] += 1
    return scaled
