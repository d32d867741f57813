"""Events that a node was owed and never got, each counted for the promise that it breaks.

1. After the network is quiet, every live subscriber has every event that it is owed.
4. An acknowledged event survives the crash of the node that acknowledged it.
9. After a split heals, delivery is whole again within one refresh cycle.

A case is a pair of an event and a node that had a matching subscription in force when the event was
published. The node must have got the event for each of these subscriptions that stayed in force,
if the run went on for some minutes.
Each pair counts for one of the three promises: for 9 if a healed split had separated the publisher
and the node, else for 4 if the event was acknowledged and a node crashed after the call, else for
1.
"""

from __future__ import annotations

from collections.abc import Iterator

from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.journal import EventRecord, Split
from smartpubsub.sim.judging.oracle import separates

BAD_LUCK_MAX = 8
"""No simulated network loses so many events in a row by accident."""

COMPLETENESS = 1
SURVIVAL = 4
HEALING = 9


def check_delivery(facts: Facts) -> Judgement:
    """Check that no subscriber misses an event, unless the loss breaks promise 4 or 9."""
    judgement = _judged_losses(facts, COMPLETENESS, "")
    for reason, cases in facts.not_owed.items():
        judgement.excuse(reason, cases)
    return judgement


def check_survival(facts: Facts) -> Judgement:
    """Check that no acknowledged event is missing where a node crashed after the call."""
    return _judged_losses(
        facts, SURVIVAL, "; it was acknowledged, and a node crashed after the call"
    )


def check_healing(facts: Facts) -> Judgement:
    """Check that events cross a split that healed a refresh cycle before.

    A reliable protocol must deliver each of them. Another one must deliver any: then a case is one
    direction across the split in which at least `BAD_LUCK_MAX` events were owed.
    """
    if facts.is_reliable:
        return _judged_losses(
            facts, HEALING, ", a refresh cycle after the split between them had healed"
        )
    judgement = Judgement()
    for split in facts.journal.splits:
        _judge_silence(facts, split, judgement)
    return judgement


def _judged_losses(facts: Facts, invariant: int, circumstances: str) -> Judgement:
    judgement = Judgement()
    crashes = [span.start_us for spans in facts.journal.downs.values() for span in spans]
    last_crash_us = max(crashes, default=-1)
    for id, nodes in facts.expected.items():
        event = facts.journal.events[id]
        concerned = _concerned(facts, event, nodes, last_crash_us, invariant)
        reason = facts.loss_excuse(event)
        if reason is not None:
            judgement.excuse(reason, len(concerned))
            continue
        judgement.judged += len(concerned)
        for node in concerned:
            for what in _losses(facts, event, node):
                said = f"{what}{circumstances}"
                judgement.violations.append(Violation(invariant, event.called_us, node, said))
    return judgement


def _concerned(
    facts: Facts, event: EventRecord, nodes: dict[int, None], last_crash_us: int, invariant: int
) -> dict[int, None]:
    """The nodes that are owed an event under one of the promises."""
    splits = [split for split in facts.journal.splits if _is_later(facts, split, event)]
    across = {
        node: None for node in nodes if any(separates(split, event.node, node) for split in splits)
    }
    if invariant == HEALING:
        return across
    is_survival = event.acknowledged_us is not None and event.called_us <= last_crash_us
    if is_survival != (invariant == SURVIVAL):
        return {}
    return {node: None for node in nodes if node not in across} if across else nodes


def _judge_silence(facts: Facts, split: Split, judgement: Judgement) -> None:
    """Judge whether any event crosses a healed split, in each direction."""
    owed: dict[bool, dict[EventId, EventRecord]] = {True: {}, False: {}}
    crossed: dict[bool, None] = {}
    for comes_from_group, event, node in _crossings(facts, split):
        owed[comes_from_group][event.id] = event
        if facts.has_got(event.id, node):
            crossed[comes_from_group] = None
    for comes_from_group, events in owed.items():
        if not events:
            continue
        if len(events) < BAD_LUCK_MAX:
            judgement.excuse("too_few_events")
            continue
        judgement.judged += 1
        if comes_from_group not in crossed:
            event = next(iter(events.values()))
            what = (
                f"event {event.id} of node {event.node} and all later ones from its side reached no"
                " node on the other side, a refresh cycle after the split between them had healed"
            )
            violation = Violation(HEALING, event.called_us, event.node, what)
            judgement.violations.append(violation)


def _crossings(facts: Facts, split: Split) -> Iterator[tuple[bool, EventRecord, int]]:
    """Events owed across a healed split: whether from the group, the event, and to which node."""
    for id, nodes in facts.expected.items():
        event = facts.journal.events[id]
        if _is_later(facts, split, event):
            for node in nodes:
                if separates(split, event.node, node):
                    yield event.node in split.group, event, node


def _is_later(facts: Facts, split: Split, event: EventRecord) -> bool:
    return event.called_us >= split.end_us + facts.refresh_us


def _losses(facts: Facts, event: EventRecord, node: int) -> Iterator[str]:
    """What a node that is owed an event did not get, in words."""
    published = f"which node {event.node} published at {event.called_us / 1000} ms"
    if not facts.has_got(event.id, node):
        yield f"node {node} never got event {event.id}, {published}"
        return
    for number in facts.left_out(event, node):
        yield f"node {node} never got event {event.id} for its subscription {number}, {published}"
