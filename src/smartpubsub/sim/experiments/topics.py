"""The topics of a workload: names in its actions, content ids on the nodes.

Applications exchange content ids by other means than the network; here, at once.
"""

from __future__ import annotations

from dataclasses import replace

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import (
    Action,
    CreateTopic,
    Publish,
    Subscribe,
    Unsubscribe,
    Workload,
)

_NAMING = (Subscribe, Unsubscribe, Publish)


class Topics:
    """The predicates on the nodes of the topics that were created."""

    def __init__(self) -> None:
        self._predicates: dict[Predicate, Predicate] = {}

    def created(self, name: str, predicate: Predicate) -> None:
        """Record the predicate of a new topic."""
        self._predicates[Predicate.of({name: True})] = predicate

    def on_nodes(self, action: Action) -> Action | None:
        """An action as nodes understand it; None if its topic does not exist."""
        if not isinstance(action, _NAMING):
            return action
        predicate = self._predicates.get(action.predicate)
        return None if predicate is None else action._replace(predicate=predicate)


def with_topics(workload: Workload) -> Workload:
    """A workload that creates the topics that it uses, if it does not do so itself.

    The first node that names a topic creates it.
    """
    actions = workload.actions()
    if any(isinstance(action, CreateTopic) for action in actions):
        return workload
    makers: dict[str, int] = {}
    for action in actions:
        if isinstance(action, _NAMING):
            makers.setdefault(_topic_name(action.predicate), action.node)
    topics = tuple(CreateTopic(0, node, name, False) for name, node in makers.items())
    return replace(workload, phases=tuple(filter(None, (topics, *workload.phases))))


def with_order(workload: Workload) -> Workload:
    """The same workload, where all topics keep the order of their events."""
    phases = tuple(
        tuple(a._replace(ordered=True) if isinstance(a, CreateTopic) else a for a in phase)
        for phase in workload.phases
    )
    return replace(workload, phases=phases)


def _topic_name(predicate: Predicate) -> str:
    match list(predicate.attributes.items()):
        case [(name, None)]:
            return name
    raise SmartPubSubError(
        f"{str(predicate)!r} is no topic, and the protocol knows topics only;"
        " take a workload whose predicates are single words"
    )
