"""Workloads generated from published distributions, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from smartpubsub.workloads import scenario
from smartpubsub.workloads.actions import Workload


class _Published(NamedTuple):
    scenario: str
    nodes: int


PUBLISHED: Mapping[str, _Published] = MappingProxyType(
    {
        # A year of comments with known numbers for each topic.
        "reddit-2007": _Published("reddit", 100),
        # Six groups of subscribers and one event from each publisher.
        "smartpubsub-60": _Published("normal", 60),
    }
)
"""The scenario and the number of nodes of each."""


def published_workload(name: str, *, nodes: int | None = None, seed: int = 1) -> Workload:
    """A published workload, for its own number of nodes or another one."""
    made = PUBLISHED[name]
    return scenario(made.scenario, keys=range(nodes or made.nodes), seed=seed)
