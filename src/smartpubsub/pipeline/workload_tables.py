"""Conversion between workloads and tables, without loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from smartpubsub.matching.tables import events_of
from smartpubsub.pipeline.columns import predicate_columns
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.schemas import ACTIONS, EVENTS, NODES, SUBSCRIPTIONS
from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import (
    Action,
    CrashNode,
    CreateTopic,
    LeaveNode,
    Publish,
    RestartNode,
    Subscribe,
    Unsubscribe,
    Workload,
)
from smartpubsub.workloads.entries import Verb

Tables = dict[str, pa.Table]


class _Placed(NamedTuple):
    """An action and its position in the workload."""

    place: int
    phase: int
    action: Action


def tables_of(workload: Workload) -> Tables:
    """The tables `events`, `subscriptions`, `nodes` and `actions` of a workload.

    Events and subscriptions are numbered from 0 in the order in which they happen.
    """
    placed = list(_placed(workload))
    published = [(one, one.action) for one in placed if isinstance(one.action, Publish)]
    subscribed = [(one, one.action) for one in placed if isinstance(one.action, Subscribe)]
    others = [one for one in placed if not isinstance(one.action, Publish | Subscribe)]
    names = workload.names
    return {
        EVENTS.name: pa.table(
            {
                "event_id": _numbers(len(published)),
                **_where_and_when([one for one, _ in published], names),
                **predicate_columns(action.predicate for _, action in published),
                "payload": pa.array([action.payload for _, action in published], pa.binary()),
            }
        ).select(EVENTS.names),
        SUBSCRIPTIONS.name: pa.table(
            {
                "subscription_id": _numbers(len(subscribed)),
                **_where_and_when([one for one, _ in subscribed], names),
                **predicate_columns(action.predicate for _, action in subscribed),
            }
        ).select(SUBSCRIPTIONS.names),
        NODES.name: pa.table(
            {"number": _numbers(len(names)), "node": pa.array(names, pa.string())}
        ),
        ACTIONS.name: _actions_table(others, names),
    }


def workload_of(tables: Mapping[str, pa.Table]) -> Workload:
    """The workload that tables describe; `nodes` and `actions` may be missing."""
    happened: list[tuple[int, int, str, Action]] = []
    for name, kind in ((EVENTS.name, Publish), (SUBSCRIPTIONS.name, Subscribe)):
        table = tables[name]
        rows = table.select(["place", "phase", "at_us", "node"]).to_pylist()
        payloads = table.column("payload").to_pylist() if kind is Publish else None
        for number, (row, predicate) in enumerate(zip(rows, predicates_of(table), strict=True)):
            more = () if payloads is None else (payloads[number] or b"",)
            # Nodes are numbered once all names are known.
            action = kind(row["at_us"], 0, predicate, *more)
            happened.append((row["place"], row["phase"], row["node"], action))
    if ACTIONS.name in tables:
        happened += [
            (row["place"], row["phase"], row["node"], _other(row))
            for row in tables[ACTIONS.name].to_pylist()
        ]
    happened.sort(key=lambda one: one[:2])
    numbers = _node_numbers(tables, [node for _, _, node, _ in happened])
    phases = tuple(
        tuple(action._replace(node=numbers[node]) for _, _, node, action in group)
        for _, group in groupby(happened, key=lambda one: one[1])
    )
    return Workload(names=tuple(numbers), phases=phases)


def predicates_of(table: pa.Table) -> Iterator[Predicate]:
    """The predicates of a table: from the text, or else from topics and ranges."""
    written = table.column("predicate")
    if written.null_count == 0:
        read: dict[str, Predicate] = {}
        for text in written.to_pylist():
            if text not in read:
                read[text] = Predicate.parse(text, attributes_max=len(text) + 1)
            yield read[text]
        return
    if written.null_count < len(table):
        raise PipelineError("the column 'predicate' is null in some rows only; write all or none")
    yield from events_of(table.select(["topics", "ranges"]))


def _placed(workload: Workload) -> Iterator[_Placed]:
    place = 0
    for phase, actions in enumerate(workload.phases):
        for action in actions:
            yield _Placed(place, phase, action)
            place += 1


def _numbers(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _where_and_when(placed: list[_Placed], names: tuple[str, ...]) -> dict[str, pa.Array]:
    return {
        "node": pa.array([names[one.action.node] for one in placed], pa.string()),
        "place": pa.array([one.place for one in placed], pa.int64()),
        "phase": pa.array([one.phase for one in placed], pa.int32()),
        "at_us": pa.array([one.action.at_us for one in placed], pa.int64()),
    }


def _actions_table(placed: list[_Placed], names: tuple[str, ...]) -> pa.Table:
    rows = [_action_row(one.action) for one in placed]
    return pa.table(
        {
            "action": pa.array([str(verb) for verb, _, _ in rows], pa.string()),
            "text": pa.array([text for _, text, _ in rows], pa.string()),
            "ordered": pa.array([ordered for _, _, ordered in rows], pa.bool_()),
            **_where_and_when(placed, names),
        }
    ).select(ACTIONS.names)


def _action_row(action: Action) -> tuple[Verb, str | None, bool | None]:
    match action:
        case Unsubscribe():
            return Verb.UNSUBSCRIBE, str(action.predicate), None
        case CreateTopic():
            return Verb.CREATE_TOPIC, action.name, action.ordered
        case CrashNode():
            return Verb.CRASH, None, None
        case LeaveNode():
            return Verb.LEAVE, None, None
        case RestartNode():
            return Verb.RESTART, None, None
    raise TypeError(f"{type(action).__name__} has a table of its own")


def _other(row: dict[str, object]) -> Action:
    at_us, text = int(str(row["at_us"])), str(row["text"])
    match row["action"]:
        case Verb.UNSUBSCRIBE:
            return Unsubscribe(at_us, 0, Predicate.parse(text, attributes_max=len(text) + 1))
        case Verb.CREATE_TOPIC:
            return CreateTopic(at_us, 0, text, bool(row["ordered"]))
        case Verb.CRASH:
            return CrashNode(at_us, 0)
        case Verb.LEAVE:
            return LeaveNode(at_us, 0)
        case Verb.RESTART:
            return RestartNode(at_us, 0)
    raise PipelineError(f"no action {row['action']!r} is known; it comes from another version")


def _node_numbers(tables: Mapping[str, pa.Table], appearing: list[str]) -> dict[str, int]:
    known: list[str] = []
    if NODES.name in tables:
        known = tables[NODES.name].sort_by("number").column("node").to_pylist()
    names = dict.fromkeys([*known, *appearing])
    return {name: number for number, name in enumerate(names)}
