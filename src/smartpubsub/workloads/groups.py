"""The groups that the publishers of a workload need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import CreateGroup, Publish, Workload


def with_groups(workload: Workload, group_for: Callable[[Predicate], Predicate]) -> Workload:
    """Put a phase before a workload in which each publisher creates the groups of its events."""
    needed = {
        (action.node, group_for(action.predicate)): None
        for action in workload.actions()
        if isinstance(action, Publish)
    }
    groups = tuple(CreateGroup(0, node, group) for node, group in needed)
    return replace(workload, phases=(groups, *workload.phases)) if groups else workload
