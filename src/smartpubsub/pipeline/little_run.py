"""One run of a trace in memory: its subscriptions, events, and actual and expected deliveries.

For little data, it computes what `trace_calls` and `expected` compute in SQL; a test compares them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from smartpubsub.matching import EVENTS_SCHEMA
from smartpubsub.pipeline.match import matches_here
from smartpubsub.sim.judging.oracle import UNDER_WAY_US

Row: TypeAlias = dict[str, Any]
Cut: TypeAlias = tuple[int | None, int | None]

PAIRS_MAX = 200_000
"""Up to so many pairs of an event and a node, a run is little."""
_NUMBERS = re.compile(r"\[[^\]]*\]|=[^/]*")


class TooManyError(Exception):
    """Few rows that stand for many pairs."""


@dataclass
class Faults:
    """The crashes, restarts and cuts of a node, in the order of time."""

    crashes: list[int] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    cut_starts: list[int] = field(default_factory=list)
    cut_ends: list[int] = field(default_factory=list)

    @property
    def is_gone(self) -> bool:
        """Whether the node crashed for good."""
        return len(self.crashes) > len(self.restarts)

    def has_stayed(self, since_us: int) -> bool:
        """Whether the node stayed up from a time on."""
        is_back = all(at <= since_us for at in self.restarts)
        return len(self.crashes) == len(self.restarts) and is_back

    def cuts_felt(self, at_us: int, refresh_us: int) -> list[Cut]:
        """The partitions that had effects at a time."""
        count = max(len(self.cut_starts), len(self.cut_ends))
        cuts = zip(_padded(self.cut_starts, count), _padded(self.cut_ends, count), strict=True)
        return [
            (start, end)
            for start, end in cuts
            if start is not None and start <= at_us and (end is None or at_us < end + refresh_us)
        ]


NO_FAULTS = Faults()
_FAULT_KINDS = {
    "crash": "crashes",
    "leave": "crashes",
    "restart": "restarts",
    "partition": "cut_starts",
    "heal": "cut_ends",
}


class Subscription(NamedTuple):
    """A subscription, and the intervals in which it was in force."""

    node: int
    number: int
    predicate: str
    called_us: int
    in_force: Sequence[tuple[int, int | None]]
    unsubscribed_us: int | None
    ended_us: int | None

    def was_in_force(self, at_us: int) -> bool:
        """Whether it was in force at a time."""
        return any(start <= at_us and (end is None or at_us < end) for start, end in self.in_force)

    def is_given_up(self, at_us: int) -> bool:
        """Whether it ended so soon after a time that events in flight are given up."""
        return self.unsubscribed_us is not None and self.unsubscribed_us <= at_us + UNDER_WAY_US


class Published(NamedTuple):
    """A published event."""

    event: str
    publisher: int
    predicate: str
    topic: str
    called_us: int
    acknowledged_us: int | None
    payload_bytes: int | None
    is_refused: bool
    is_owed: bool


class LittleRun:
    """The rows of a run, and the tables derived from them."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name = name
        self._by_what: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            self._by_what[row["what"]].append(row)
        [end] = self._by_what["end"]
        self.about: Mapping[str, Any] = json.loads(end["text"])
        self.ended_us: int = end["at_us"]

    def rows(self, *whats: str) -> Iterable[Row]:
        """The rows of some kinds."""
        return (row for what in whats for row in self._by_what.get(what, ()))

    @property
    def unordered(self) -> list[str]:
        """The topics that promise no order."""
        return [*(self.about.get("unordered") or ())]

    @cached_property
    def faults(self) -> dict[int, Faults]:
        """The faults by node."""
        found: dict[int, Faults] = defaultdict(Faults)
        for row in self.rows("fault"):
            if row["kind"] in _FAULT_KINDS:
                getattr(found[row["node"]], _FAULT_KINDS[row["kind"]]).append(row["at_us"])
        for each in found.values():
            for times in (each.crashes, each.restarts, each.cut_starts, each.cut_ends):
                times.sort()
        return dict(found)

    @cached_property
    def names(self) -> dict[str, str]:
        """The names of topics that are known by their content ids."""
        found: dict[str, str] = {}
        for row in self.rows("create"):
            if row["kind"] is not None:
                found[row["text"]] = min(row["kind"], found.get(row["text"], row["kind"]))
        return found

    @cached_property
    def orphans(self) -> set[str]:
        """The ordered topics whose only author is gone."""
        if self.about.get("unordered") is None:
            return set()
        authors = sorted(self.rows("create"), key=lambda row: (row["at_us"], row["row"]))
        last = {row["text"]: row["node"] for row in authors}
        return {
            topic
            for topic, node in last.items()
            if topic not in self.unordered and self.faults.get(node, NO_FAULTS).is_gone
        }

    def topic_of(self, predicate: str) -> str:
        """The name of a topic, or a predicate without its numbers."""
        return self.names.get(predicate) or _NUMBERS.sub("", predicate)

    @cached_property
    def subscriptions(self) -> list[Subscription]:
        """All subscriptions."""
        found: dict[tuple[int, int], dict[str, list[Any]]] = {}
        for row in self.rows("subscribe", "unsubscribe", "acknowledge"):
            if row["subscription"] is not None:
                key = (row["node"], row["subscription"])
                calls = found.setdefault(key, defaultdict(list))
                if row["what"] == "acknowledge":
                    calls[f"acknowledge {row['kind']}"].append(row["at_us"])
                else:
                    calls[row["what"]].append(row["at_us"])
                if row["what"] == "subscribe" and row["text"] is not None:
                    calls["text"].append(row["text"])
        return [
            self._subscription(node, number, calls)
            for (node, number), calls in found.items()
            if calls["text"]
        ]

    def _subscription(self, node: int, number: int, calls: Mapping[str, list[Any]]) -> Subscription:
        ended = min(calls["unsubscribe"], default=None)
        stops = [*self.faults.get(node, NO_FAULTS).crashes, *([] if ended is None else [ended])]
        acks = sorted(calls["acknowledge subscribe"])
        counted = [at for at in acks if ended is None or at < ended]
        in_force = [
            (at, min((stop for stop in stops if stop >= at), default=None))
            for place, at in enumerate(counted)
            # An acknowledgement after another one changes nothing, unless the node was down.
            if not place or any(counted[place - 1] <= stop <= at for stop in stops)
        ]
        return Subscription(
            node=node,
            number=number,
            predicate=min(calls["text"]),
            called_us=min(calls["subscribe"]),
            in_force=in_force,
            unsubscribed_us=ended,
            ended_us=min(calls["acknowledge unsubscribe"], default=None),
        )

    @cached_property
    def events(self) -> list[Published]:
        """All published events."""
        found: dict[str, dict[str, list[Any]]] = {}
        for row in self.rows("publish", "acknowledge"):
            if row["event"] is not None:
                calls = found.setdefault(row["event"], defaultdict(list))
                if row["what"] == "publish":
                    for name in ("node", "text", "at_us", "size"):
                        if row[name] is not None:
                            calls[name].append(row[name])
                else:
                    calls[f"acknowledge {row['kind']}"].append(row["at_us"])
        return [self._published(event, calls) for event, calls in found.items() if calls["at_us"]]

    def _published(self, event: str, calls: Mapping[str, list[Any]]) -> Published:
        node, predicate, called_us = (min(calls[name]) for name in ("node", "text", "at_us"))
        acknowledged_us = min(calls["acknowledge publish"], default=None)
        is_refused = bool(calls["acknowledge refuse"])
        stayed = self.faults.get(node, NO_FAULTS).has_stayed(called_us)
        is_sure = acknowledged_us is not None or (stayed and predicate not in self.orphans)
        return Published(
            event=event,
            publisher=node,
            predicate=predicate,
            topic=self.topic_of(predicate),
            called_us=called_us,
            acknowledged_us=acknowledged_us,
            payload_bytes=min(calls["size"], default=None),
            is_refused=is_refused,
            is_owed=not is_refused and is_sure,
        )

    @cached_property
    def deliveries(self) -> list[Row]:
        """By event and node: whether the delivery was expected, and when it happened."""
        got: dict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in self.rows("deliver"):
            if row["event"] is not None:
                got[row["event"], row["node"]].append(row)
        matching = self._matching_subscriptions()
        events = {event.event: event for event in self.events}
        return [
            self._delivery(key, events.get(key[0]), matching.get(key, []), got.get(key, []))
            for key in {**matching, **got}
        ]

    def _matching_subscriptions(self) -> dict[tuple[str, int], list[Subscription]]:
        """By event and node, the matching subscriptions."""
        wanted: dict[str, list[Subscription]] = defaultdict(list)
        for subscription in self.subscriptions:
            wanted[subscription.predicate].append(subscription)
        met = _meetings({event.predicate for event in self.events}, wanted)
        found: dict[tuple[str, int], list[Subscription]] = defaultdict(list)
        for event in self.events:
            for predicate in met[event.predicate]:
                for subscription in wanted[predicate]:
                    found[event.event, subscription.node].append(subscription)
            if len(found) > PAIRS_MAX:
                raise TooManyError
        return dict(found)

    def _delivery(
        self,
        key: tuple[str, int],
        event: Published | None,
        matching: Sequence[Subscription],
        rows: Sequence[Row],
    ) -> Row:
        id, node = key
        got = sorted(rows, key=lambda row: (row["at_us"], row["row"]))
        faults = self.faults.get(node, NO_FAULTS)
        first = got[0] if got else None
        called_us = None if event is None else event.called_us
        return {
            "run": self.name,
            "event": id,
            "node": node,
            "topic": None if event is None else event.topic,
            "publisher": None if event is None else event.publisher,
            "called_us": called_us,
            "is_published": event is not None and event.acknowledged_us is not None,
            "is_expected": event is not None
            and event.is_owed
            and not faults.is_gone
            and _is_wanted(matching, event.called_us, bool(got))
            and self._were_together(event, faults),
            "is_unexpected": not all(_is_welcome(one["at_us"], matching) for one in got),
            "delivered_us": None if first is None else first["at_us"],
            "latency_us": first["at_us"] - called_us if first and called_us is not None else None,
            "hops": None if first is None else first["hops"],
            "app_duplicates": _repeated(got, faults.restarts),
            "got": [
                {
                    "at_us": one["at_us"],
                    "row": one["row"],
                    "hops": one["hops"],
                    "subscriptions": one["text"],
                }
                for one in got
            ]
            or None,
        }

    def _were_together(self, event: Published, faults: Faults) -> bool:
        """Whether the event's publisher and a node were on the same side of every partition."""
        publisher = self.faults.get(event.publisher, NO_FAULTS)
        refresh_us = self.about["refresh_us"]
        one, other = (each.cuts_felt(event.called_us, refresh_us) for each in (faults, publisher))
        return one == other


def _is_wanted(matching: Sequence[Subscription], at_us: int, is_there: bool) -> bool:
    """Whether a subscription was in force; one that is given up counts if the event came."""
    return any(
        each.was_in_force(at_us) and (is_there or not each.is_given_up(at_us)) for each in matching
    )


def _is_welcome(at_us: int, matching: Sequence[Subscription]) -> bool:
    return any(
        each.called_us <= at_us and (each.ended_us is None or at_us <= each.ended_us)
        for each in matching
    )


def _repeated(got: Sequence[Row], restarts: Sequence[int]) -> int:
    """How often a subscription got an event again since its node last started."""
    received = [
        (number, sum(back <= one["at_us"] for back in restarts))
        for one in got
        for number in one["text"].split(",")
    ]
    return len(received) - len({*received}) if len(got) > 1 else 0


def _meetings(said: Iterable[str], wanted: Iterable[str]) -> dict[str, list[str]]:
    """The predicates of subscriptions that each predicate of an event matches."""
    events, filters = [*said], [*wanted]
    found = matches_here(_numbered("event_id", events), _numbered("subscription_id", filters))
    if found is None:
        raise TooManyError
    met: dict[str, list[str]] = {text: [] for text in events}
    for event, filter in zip(*(column.to_pylist() for column in found.columns), strict=True):
        met[events[event]].append(filters[filter])
    return met


def _numbered(key: str, texts: Sequence[str]) -> pa.Table:
    nothing = {field.name: pa.nulls(len(texts), field.type) for field in EVENTS_SCHEMA}
    numbers = pa.array(range(len(texts)), pa.int64())
    return pa.table({key: numbers, "predicate": pa.array(texts, pa.string()), **nothing})


def _padded(times: Sequence[int], count: int) -> list[int | None]:
    return [*times, *[None] * (count - len(times))]
