"""Pages of events: the open questions of this node, and its answers to the questions of peers.

The answering peer follows the links from the wanted events down to those that the asker has, and
sends the events in between, the lowest first, hundreds of events per page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from smartpubsub.protocols.blocks import Cid
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.protocols.pulsarcast.messages import Fetch, Page, Range
from smartpubsub.protocols.pulsarcast.replicas import TopicReplicas
from smartpubsub.seam import Peer


class _PageRequest(NamedTuple):
    peer: Peer
    topic_id: Cid
    then: Callable[[Page], None]


@dataclass(eq=False)
class PageRequests(Component):
    """Asks peers for pages. The component that asks sets a timer, and cancels late questions."""

    _pending: dict[int, _PageRequest] = field(init=False, default_factory=dict)

    def ask(self, peer: Peer, question: Fetch | Range, then: Callable[[Page], None]) -> int:
        """Send a question under a new number, and return it; `then` is called with the page."""
        number = self._overlay.new_number()
        self._pending[number] = _PageRequest(peer, question.topic_id, then)
        self._outbox.queue(peer, question._replace(number=number))
        return number

    def cancel(self, number: int) -> None:
        """Forget a question, if it is pending; a late page is refused."""
        self._pending.pop(number, None)

    def has_asked(self, peer: Peer, page: Page) -> bool:
        """Whether a peer was asked for a page."""
        request = self._pending.get(page.number)
        return request is not None and request[:2] == (peer, page.topic_id)

    def on_page(self, page: Page) -> None:
        """Hand a page to the component that has asked for it."""
        self._pending.pop(page.number).then(page)

    def check(self) -> None:
        """Assert that no question has the number 0, which means that there is none."""
        assert 0 not in self._pending


@dataclass(eq=False)
class PageServer(Component):
    """Answers the questions of other nodes."""

    _replicas: TopicReplicas

    def on_fetch(self, peer: Peer, message: Fetch) -> None:
        """Send a peer the events that it has missed."""
        replica = self._replicas.get(message.topic_id)
        if replica is None:
            self._send_page(peer, Page(message.topic_id, message.number, (), False), [])
            return
        log = replica.log
        found = log.beyond(message.wanted, message.had, message.since_us)
        sent = {event.cid for event in found}
        covered = tuple(cid for cid in message.wanted if cid in log and cid not in sent)
        pruned = tuple(cid for cid in message.wanted if cid in log.pruned)
        heads = log.newest_heads(self._settings.names_max)
        page = Page(message.topic_id, message.number, (), False, covered, heads, pruned)
        self._send_page(peer, page, found)

    def on_range(self, peer: Peer, message: Range) -> None:
        """Send a peer a part of the history."""
        replica = self._replicas.get(message.topic_id)
        page = Page(message.topic_id, message.number, (), False)
        if replica is None:
            self._send_page(peer, page, [])
            return
        page = page._replace(heads=replica.log.newest_heads(self._settings.names_max))
        if message.newest:
            found = replica.log.newest(message.newest)
        else:
            after = message.after
            place = None if after is None else (after.height, after.cid)
            since_us = message.since_us
            found = [e for e in replica.log.after(place) if e.draft.created_us >= since_us]
        self._send_page(peer, page, found)

    def _send_page(self, peer: Peer, page: Page, found: list[TopicEvent]) -> None:
        """Send as many of the events as fit into one message."""
        blocks: list[bytes] = []
        size = 0
        for event in found[: self._settings.page_count_max]:
            size += len(event.block)
            if blocks and size > self._settings.page_bytes_max:
                break
            blocks.append(event.block)
        has_more = len(blocks) < len(found)
        heads = () if has_more else page.heads
        page = page._replace(blocks=tuple(blocks), has_more=has_more, heads=heads)
        self._outbox.queue(peer, page)
