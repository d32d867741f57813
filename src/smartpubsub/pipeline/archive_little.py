"""The stage `archive` for few blocks, in this process: the same verdicts without Spark jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from smartpubsub.pipeline.archive import (
    EVENT,
    NOT_HIGHER,
    PUBLICATION,
    TOPIC,
    judged_event,
    judged_publication,
    judged_topic,
    open_block,
)

Row = dict[str, Any]
Heights = Mapping[tuple[str, str], int]
"""The heights of events, by meta topic and content id."""


class Judged(NamedTuple):
    """Blocks by kind; invalid ones have a reason."""

    topics: list[Row]
    events: list[Row]
    publications: list[Row]
    unknown: list[Row]
    """Blocks of no kind."""

    @property
    def bad(self) -> list[Row]:
        """The invalid blocks."""
        found = [*self.unknown, *self.topics, *self.events, *self.publications]
        return [row for row in found if row["reason"] is not None]


def opened(blocks: Iterable[Row]) -> list[Row]:
    """Decode blocks: their kind, and the block they depend on."""
    return [{"kind": None, "link": None, **row, **open_block(row)} for row in blocks]


def judged(found: Sequence[Row], known_topics: Sequence[Row], latest_us: int) -> Judged:
    """Verify opened blocks against each other and the topics of the archive so far."""
    topics = [row for row in found if row["kind"] == TOPIC]
    metas = _linked([row for row in known_topics if row["is_meta"]])
    metas |= _linked([row for row in topics if row["reason"] is None])
    topics = [_with(row, judged_topic(_to(row, metas), latest_us)) for row in topics]
    _name(topics, known_topics)
    good_topics = [*known_topics, *good(topics, ())]
    blocks = _linked(good_topics)
    names = _least(good_topics)
    events = [
        _with(row, judged_event(_to(row, blocks), latest_us))
        for row in found
        if row["kind"] == EVENT
    ]
    for row in events:
        row["topic"] = names.get(row.get("room"))
    publications = [
        _with(row, judged_publication(row, latest_us))
        for row in found
        if row["kind"] == PUBLICATION
    ]
    return Judged(topics, events, publications, [row for row in found if row["kind"] is None])


def refuse_wrong_heights(events: Sequence[Row], known: Heights) -> None:
    """Refuse events whose height is not one more than that of the events they link to.

    Linked events may be missing; then only those present count.
    """
    fine = [row for row in events if row["reason"] is None]
    heights = {**known, **{(row["room"], row["cid"]): row["height"] for row in fine}}
    for row in fine:
        below = [heights.get((row["room"], parent)) for parent in row["parents"]]
        there = [height for height in below if height is not None]
        is_just_above = not there or row["height"] == max(there) + 1
        is_above = len(there) < len(below) and row["height"] > max(there, default=0)
        if not is_just_above and not is_above:
            row["reason"] = NOT_HIGHER


def good(rows: Iterable[Row], known: Iterable[str]) -> list[Row]:
    """The valid blocks that are not known, each once."""
    seen = {*known}
    chosen = []
    for row in rows:
        if row["reason"] is None and row["cid"] not in seen:
            seen.add(row["cid"])
            chosen.append(row)
    return chosen


def _with(row: Row, verdict: Mapping[str, object]) -> Row:
    return {**row, **verdict}


def _to(row: Row, blocks: Mapping[str, bytes]) -> Row:
    return {**row, "linked": blocks.get(row["link"])}


def _linked(rows: Iterable[Row]) -> dict[str, bytes]:
    return {row["cid"]: row["block"] for row in rows}


def _least(topics: Iterable[Row]) -> dict[object, str]:
    """The name of each topic, by its meta topic."""
    names: dict[object, str] = {}
    for row in topics:
        names[row["room"]] = min(row["topic"], names.get(row["room"], row["topic"]))
    return names


def _name(topics: Sequence[Row], known: Sequence[Row]) -> None:
    """Name topics by the id under which the archive keeps all versions of each."""
    called = _least(known)
    versions = [row for row in topics if row["reason"] is None and not row["is_meta"]]
    oldest: dict[object, str] = {}
    for row in sorted(versions, key=lambda row: int(row["version"]), reverse=True):
        oldest[row["room"]] = row["cid"]
    for row in topics:
        room = row.get("room")
        row["topic"] = called.get(room) or oldest.get(room) or room
