"""Turns the lines of a workload file into phases, and checks that each action is possible.

Topics and subscriptions without a time come first. The rest is a timeline in file order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from smartpubsub.predicates import Predicate, PredicateError
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
from smartpubsub.workloads.entries import Entry, Verb

STEP_US = 10_000
"""The interval before a line of the timeline that has no time."""

_MAKES_ORDER_MATTER = frozenset({Verb.UNSUBSCRIBE, Verb.CRASH, Verb.LEAVE, Verb.RESTART})


def workload_of(entries: Sequence[Entry]) -> Workload:
    """The workload that the lines of a file describe."""
    timetable = _Timetable(entries)
    phases = tuple(phase for phase in timetable.phases() if phase)
    return Workload(names=tuple(timetable.numbers), phases=phases)


def topic_predicate(name: str) -> Predicate:
    """The predicate that stands for a topic."""
    return Predicate.of({name: True})


class _Timetable:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._has_topics = any(entry.verb == Verb.CREATE_TOPIC for entry in entries)
        self._predicates: dict[str, Predicate] = {}
        self._topics: dict[str, int] = {}
        self._held: Counter[tuple[str, Predicate]] = Counter()
        self._down: set[str] = set()
        names = dict.fromkeys(entry.node for entry in entries if entry.verb != Verb.SETTLE)
        self.numbers = {name: number for number, name in enumerate(names)}

    def phases(self) -> Iterator[tuple[Action, ...]]:
        for section in _sections(self._entries):
            for phase in self._arranged(section):
                yield tuple(self._action(entry, at_us) for entry, at_us in phase)

    def _arranged(self, section: list[Entry]) -> tuple[list[tuple[Entry, int]], ...]:
        topics = [(e, 0) for e in section if e.verb == Verb.CREATE_TOPIC and e.at_us is None]
        known_topics = {*self._topics, *(entry.text for entry, _ in topics)}
        subscriptions: list[tuple[Entry, int]] = []
        timeline: list[tuple[Entry, int]] = []
        changed: set[str] = set()
        for entry in section:
            if entry.at_us is None and entry.verb == Verb.CREATE_TOPIC:
                continue
            prepares = entry.at_us is None and entry.verb == Verb.SUBSCRIBE
            possible = not self._has_topics or entry.text in known_topics
            if prepares and possible and entry.node not in changed:
                subscriptions.append((entry, 0))
                continue
            timeline.append((entry, _time(entry, timeline[-1][1] if timeline else None)))
            if entry.verb in _MAKES_ORDER_MATTER:
                changed.add(entry.node)
        return topics, subscriptions, timeline

    def _action(self, entry: Entry, at_us: int) -> Action:
        node = self.numbers[entry.node]
        match entry.verb:
            case Verb.CREATE_TOPIC:
                return self._create_topic(entry, at_us, node)
            case Verb.CRASH | Verb.LEAVE:
                if entry.node in self._down:
                    entry.line.fail(f"{entry.node!r} is down already; restart it first")
                self._down.add(entry.node)
                stop = CrashNode if entry.verb == Verb.CRASH else LeaveNode
                return stop(at_us, node)
            case Verb.RESTART:
                if entry.node not in self._down:
                    entry.line.fail(f"{entry.node!r} is not down; crash it or have it leave first")
                self._down.remove(entry.node)
                return RestartNode(at_us, node)
        predicate = self._predicate(entry)
        if entry.verb == Verb.PUBLISH:
            return Publish(at_us, node, predicate, entry.payload)
        if entry.verb == Verb.SUBSCRIBE:
            self._held[entry.node, predicate] += 1
            return Subscribe(at_us, node, predicate)
        if not self._held[entry.node, predicate]:
            entry.line.fail(
                f"{entry.node!r} has no subscription {entry.text!r} at this time;"
                " unsubscribe from what was subscribed to"
            )
        self._held[entry.node, predicate] -= 1
        return Unsubscribe(at_us, node, predicate)

    def _create_topic(self, entry: Entry, at_us: int, node: int) -> Action:
        if entry.text in self._topics:
            earlier = self._topics[entry.text]
            entry.line.fail(
                f"the topic {entry.text!r} was created in line {earlier}; create it once"
            )
        self._readable(entry)
        self._topics[entry.text] = entry.line.number
        return CreateTopic(at_us, node, entry.text, entry.ordered)

    def _predicate(self, entry: Entry) -> Predicate:
        if self._has_topics and entry.text not in self._topics:
            entry.line.fail(
                f"{entry.verb}: there is no topic {entry.text!r} at this time;"
                " a file that creates topics creates all that it uses, before it uses them"
            )
        return self._readable(entry)

    def _readable(self, entry: Entry) -> Predicate:
        if entry.text not in self._predicates:
            read = topic_predicate if self._has_topics else Predicate.parse
            try:
                self._predicates[entry.text] = read(entry.text)
            except PredicateError as error:
                entry.line.fail(f"{entry.verb}: {error}")
        return self._predicates[entry.text]


def _sections(entries: Sequence[Entry]) -> list[list[Entry]]:
    sections: list[list[Entry]] = [[]]
    for entry in entries:
        if entry.verb == Verb.SETTLE:
            sections.append([])
        elif entry.verb != Verb.IDLE:
            sections[-1].append(entry)
    return sections


def _time(entry: Entry, before_us: int | None) -> int:
    if entry.at_us is None:
        return 0 if before_us is None else before_us + STEP_US
    if before_us is not None and entry.at_us < before_us:
        entry.line.fail(
            f"at_ms {entry.at_us / 1000:g} lies before {before_us / 1000:g}, when the line before"
            " it happens; put the lines in the order of time"
        )
    return entry.at_us
