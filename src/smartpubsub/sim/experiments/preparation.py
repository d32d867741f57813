"""Adds to a workload the groups and topics in which its protocol publishes."""

from __future__ import annotations

from smartpubsub.protocols.spec import ProtocolSpec
from smartpubsub.sim.experiments.topics import with_topics
from smartpubsub.workloads.actions import Workload
from smartpubsub.workloads.groups import with_groups


def prepared(workload: Workload, spec: ProtocolSpec) -> Workload:
    """The workload for nodes that run a protocol."""
    if spec.group_for is not None:
        workload = with_groups(workload, spec.group_for)
    return with_topics(workload) if spec.has_only_topics else workload
