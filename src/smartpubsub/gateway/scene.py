"""A whole network as the page shows it: nodes, the paths of events, and moves along them.

A run in the simulator or on real nodes adds the rows of its trace. The page polls for new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock
from typing import Any

from smartpubsub.protocols.runtime.bounded import BoundedDict
from smartpubsub.sim.traces.trace import Row

MOVE_COUNT_MAX = 50_000
MOVES_AT_ONCE = 2_000
EVENT_COUNT_MAX = 500
EVENTS_SHOWN = 50

_DOWN = frozenset({"crash", "leave"})
_UP = frozenset({"restart", "join"})


@dataclass
class SceneNode:
    """A node."""

    is_up: bool = True
    wants: dict[int, str] = field(default_factory=dict)
    """The predicates of its subscriptions, by number."""
    groups: list[str] = field(default_factory=list)
    published: int = 0
    delivered: int = 0
    relayed: int = 0
    """Copies of events that other nodes got from it."""


@dataclass
class SceneEvent:
    """An event."""

    text: str
    publisher: int
    at_us: int
    delivered: int = 0
    last_us: int = 0


class Scene:
    """The state of a network; a run writes it in one thread, and a page reads it in another."""

    def __init__(self, title: str, node_count: int, *, is_live: bool, can_kill: bool) -> None:
        self._title = title
        self._is_live = is_live
        self.can_kill = can_kill
        self.kills: SimpleQueue[int] = SimpleQueue()
        """Nodes that the user of the page wants to kill."""
        self._lock = Lock()
        self._nodes = [SceneNode() for _ in range(node_count)]
        self._links: dict[tuple[int, int], int] = {}
        self._events: BoundedDict[str, SceneEvent] = BoundedDict(EVENT_COUNT_MAX)
        self._moves: deque[tuple[int, int, int, str]] = deque(maxlen=MOVE_COUNT_MAX)
        self._move_count = 0
        self._now_us = 0
        self._is_over = False

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    def __call__(self, rows: Sequence[Row]) -> None:
        """Add rows of the trace."""
        with self._lock:
            for row in rows:
                self._take(row)

    def end(self) -> None:
        """Record that the run is over."""
        self._is_over = True

    def _take(self, row: Row) -> None:
        self._now_us = row.at_us
        if not 0 <= row.node < len(self._nodes):
            return
        node = self._nodes[row.node]
        match row.what:
            case "copy" if row.peer >= 0:
                link = (row.peer, row.node)
                self._links[link] = self._links.get(link, 0) + 1
                self._nodes[row.peer].relayed += 1
                self._moves.append((row.at_us, row.peer, row.node, row.event))
                self._move_count += 1
            case "deliver" if row.event:
                node.delivered += 1
                if event := self._events.get(row.event):
                    event.delivered += 1
                    event.last_us = row.at_us
            case "publish":
                node.published += 1
                self._events[row.event] = SceneEvent(row.text, row.node, row.at_us)
            case "subscribe":
                node.wants[row.subscription] = row.text
            case "unsubscribe":
                node.wants.pop(row.subscription, None)
            case "group":
                node.groups.append(row.text)
            case "fault" if row.kind in _DOWN | _UP:
                node.is_up = row.kind in _UP

    def document(self, after: int) -> dict[str, Any]:
        """The document for the page: all nodes and links, and the moves after a number."""
        with self._lock:
            first = self._move_count - len(self._moves)
            start = max(0, after - first)
            moves = [
                self._moves[i] for i in range(start, min(start + MOVES_AT_ONCE, len(self._moves)))
            ]
            newest = list(self._events.items())[-EVENTS_SHOWN:]
            return {
                "title": self._title,
                "is_live": self._is_live,
                "is_over": self._is_over,
                "can_kill": self.can_kill and not self._is_over,
                "now_us": self._now_us,
                "nodes": [
                    {
                        "node": number,
                        "is_up": node.is_up,
                        "wants": [*node.wants.values()],
                        "groups": node.groups,
                        "published": node.published,
                        "delivered": node.delivered,
                        "relayed": node.relayed,
                    }
                    for number, node in enumerate(self._nodes)
                ],
                "links": [[a, b, count] for (a, b), count in self._links.items()],
                "moves": [
                    {"at_us": at, "from": a, "to": b, "event": event} for at, a, b, event in moves
                ],
                "next": first + start + len(moves),
                "events": [
                    {
                        "id": id,
                        "text": event.text,
                        "publisher": event.publisher,
                        "at_us": event.at_us,
                        "delivered": event.delivered,
                        "last_us": event.last_us,
                    }
                    for id, event in reversed(newest)
                ],
            }
