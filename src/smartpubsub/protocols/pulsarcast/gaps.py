"""What is missing among some events of a topic: links name it, whoever has the events."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.events import TopicEvent


class Picture(NamedTuple):
    """What there is, and what there is not."""

    missing: tuple[Cid, ...]
    """What is linked to, or said to be the newest, and is not there."""
    let_go: tuple[Cid, ...]
    """The same of what is said to have been let go, so that there is no use in looking for it."""
    whole: tuple[Cid, ...]
    """The highest events below which nothing is missing."""


def look(
    events: Sequence[TopicEvent],
    heads: Iterable[Cid],
    gone: Container[Cid],
    is_wanted_below: Callable[[TopicEvent], bool],
) -> Picture:
    """See what is missing among events in their order, below those of which that is wanted."""
    here = {event.cid for event in events}
    absent: dict[Cid, None] = {}
    lacking: set[Cid] = set()
    whole: dict[Cid, None] = {}
    for event in events:
        is_whole = True
        if is_wanted_below(event):
            for cid in event.parents:
                if cid not in here:
                    absent[cid] = None
                    is_whole = is_whole and cid in gone
                elif cid in lacking:
                    is_whole = False
        if is_whole:
            whole[event.cid] = None
            for cid in event.parents:
                whole.pop(cid, None)
        else:
            lacking.add(event.cid)
    absent |= {cid: None for cid in heads if cid not in here}
    missing = tuple(cid for cid in absent if cid not in gone)
    return Picture(missing, tuple(cid for cid in absent if cid in gone), tuple(whole))
