"""The state of nodes that run ScoutSubs, for studies and commands."""

from __future__ import annotations

from typing import cast

from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.protocols.scoutsubs.core import ScoutSubs
from smartpubsub.protocols.scoutsubs.messages import Bundle, PulledOwn, wire_bytes
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
    """The protocols whose nodes can be looked into."""
    return [spec.name for spec in PROTOCOLS.specs.values() if spec.has_attribute_trees]


def all_scoutsubs(experiment: Experiment) -> list[ScoutSubs]:
    """The ScoutSubs of all nodes that are up."""
    return [scoutsubs_of(experiment, h.number) for h in experiment.world.hosts if h.is_up]


def filters_kept(scout: ScoutSubs) -> int:
    """How many filters a node keeps in its trees, its own and those of its children."""
    return sum(len(tree.members()) for tree in scout.office.trees.values())


def copies_kept(scout: ScoutSubs) -> int:
    """How many children of others a node keeps a copy of."""
    return sum(len(kept.children) for kept in scout.office.copying.kept.values())


def table_bytes(scout: ScoutSubs) -> int:
    """What a node's tables and copies would take on the wire, as a measure of their size."""
    own = [
        (name, tuple(child.copy() for child in tree.children.values()))
        for name, tree in scout.office.trees.items()
    ]
    copies = [
        (name, tuple(kept.children.values()))
        for (_, name), kept in scout.office.copying.kept.items()
    ]
    return wire_bytes(Bundle((PulledOwn((*own, *copies)),)))
