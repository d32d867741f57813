"""A workload as lines that read back as the same workload."""

from __future__ import annotations

from collections.abc import Iterator

from smartpubsub.predicates import Predicate
from smartpubsub.workloads.actions import (
    Action,
    CrashNode,
    CreateGroup,
    CreateTopic,
    LeaveNode,
    Publish,
    RestartNode,
    Subscribe,
    Unsubscribe,
    Workload,
)
from smartpubsub.workloads.entries import Verb
from smartpubsub.workloads.errors import WorkloadError

_TOPICS, _SUBSCRIPTIONS, _TIMELINE = range(3)


def records_of(workload: Workload) -> Iterator[dict[str, object]]:
    """The objects to write, one for each line."""
    actions = workload.actions()
    if not actions:
        raise WorkloadError("nothing happens in this workload, so there is nothing to write")
    appearing = tuple(workload.names[n] for n in dict.fromkeys(action.node for action in actions))
    if appearing != workload.names:
        yield from ({"node": name, Verb.IDLE: True} for name in workload.names)
    has_topics = any(isinstance(action, CreateTopic) for action in actions)
    before = -1
    for phase in filter(None, workload.phases):
        kind = _kind(phase)
        if kind <= before:
            yield {Verb.SETTLE: True}
        before = kind
        for action in phase:
            record = {"node": workload.names[action.node], **_record(action, has_topics)}
            if kind == _TIMELINE:
                record["at_ms"] = _milliseconds(action.at_us)
            yield record


def _kind(phase: tuple[Action, ...]) -> int:
    """The kind of a phase; a reader separates successive kinds into phases of their own."""
    if all(isinstance(action, CreateTopic) and action.at_us == 0 for action in phase):
        return _TOPICS
    if all(isinstance(action, Subscribe) and action.at_us == 0 for action in phase):
        return _SUBSCRIPTIONS
    return _TIMELINE


def _record(action: Action, has_topics: bool) -> dict[str, object]:
    match action:
        case Subscribe():
            return {Verb.SUBSCRIBE: _text(action.predicate, has_topics)}
        case Unsubscribe():
            return {Verb.UNSUBSCRIBE: _text(action.predicate, has_topics)}
        case Publish():
            record: dict[str, object] = {Verb.PUBLISH: _text(action.predicate, has_topics)}
            if action.payload:
                record["payload"] = _payload(action.payload)
            return record
        case CreateTopic():
            return {Verb.CREATE_TOPIC: action.name, "ordered": action.ordered}
        case CreateGroup():
            raise WorkloadError(
                "groups are made for what is published, and are not written; leave them out"
            )
        case CrashNode():
            return {Verb.CRASH: True}
        case LeaveNode():
            return {Verb.LEAVE: True}
        case RestartNode():
            return {Verb.RESTART: True}


def _text(predicate: Predicate, has_topics: bool) -> str:
    if not has_topics:
        return str(predicate)
    match list(predicate.attributes.items()):
        case [(name, None)]:
            return name
    raise WorkloadError(
        f"{str(predicate)!r} is not the name of a topic, and a file that creates topics has"
        " nothing else; write two files"
    )


def _payload(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise WorkloadError(
            "a payload is not UTF-8, and a file has only text; encode it first"
        ) from None


def _milliseconds(at_us: int) -> int | float:
    return at_us / 1000 if at_us % 1000 else at_us // 1000
