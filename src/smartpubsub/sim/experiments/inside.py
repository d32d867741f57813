"""A look into nodes that run ScoutSubs, for those who want to see more than a checker does."""

from __future__ import annotations

from smartpubsub.protocols.scoutsubs.parts import Bundle, PulledOwn
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.sizes import wire_bytes
from smartpubsub.sim.experiments.experiment import Experiment


def scoutsubs_of(experiment: Experiment, node: int) -> ScoutSubs:
    """A node's ScoutSubs."""
    pubsub = experiment.core(node).pubsub
    assert isinstance(pubsub, ScoutSubs)
    return pubsub


def all_scoutsubs(experiment: Experiment) -> list[ScoutSubs]:
    """The ScoutSubs of all nodes that are up."""
    return [scoutsubs_of(experiment, h.number) for h in experiment.world.hosts if h.is_up]


def filters_kept(scout: ScoutSubs) -> int:
    """The number of filters in a node's tables, its own and those of its children."""
    return sum(len(summary.members) for summary in scout.inspect().summaries)


def copies_kept(scout: ScoutSubs) -> int:
    """The number of children in the tables that a node keeps for others."""
    return sum(map(len, scout.view().replicas.values()))


def table_bytes(scout: ScoutSubs) -> int:
    """The size of a node's tables, and of those that it keeps for others, on the wire."""
    view = scout.view()
    copies = [(name, children) for (_, name), children in view.replicas.items()]
    return wire_bytes(Bundle((PulledOwn((*scout.tables(), *copies)),)))
