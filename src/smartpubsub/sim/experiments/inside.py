"""The state of nodes that run ScoutSubs, for studies and commands."""

from __future__ import annotations

from typing import cast

from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.protocols.scoutsubs.messages import Bundle, PulledOwn, wire_bytes
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.sim.experiments.experiment import Experiment


def scoutsubs_of(experiment: Experiment, node: int) -> ScoutSubs:
    """The core of a node, whose protocol must have trees of attributes."""
    if not experiment.spec.has_attribute_trees:
        raise SmartPubSubError(
            f"{experiment.spec.name} has no trees of attributes to look into; run"
            f" {' or '.join(protocols_with_trees())}"
        )
    return cast(ScoutSubs, experiment.core(node).pubsub)


def protocols_with_trees() -> list[str]:
    """The protocols whose nodes this module can inspect."""
    return [spec.name for spec in PROTOCOLS.specs.values() if spec.has_attribute_trees]


def all_scoutsubs(experiment: Experiment) -> list[ScoutSubs]:
    """The ScoutSubs of all nodes that are up."""
    return [scoutsubs_of(experiment, h.number) for h in experiment.world.hosts if h.is_up]


def filters_kept(scout: ScoutSubs) -> int:
    """The number of filters in a node's tables, its own and those of its children."""
    return sum(len(summary.members) for summary in scout.inspect().summaries)


def copies_kept(scout: ScoutSubs) -> int:
    """The number of children in the tables that a node keeps for other nodes."""
    return sum(map(len, scout.view().replicas.values()))


def table_bytes(scout: ScoutSubs) -> int:
    """The size on the wire of a node's tables, and of those that it keeps for other nodes."""
    view = scout.view()
    copies = [(name, children) for (_, name), children in view.replicas.items()]
    return wire_bytes(Bundle((PulledOwn((*scout.tables(), *copies)),)))
