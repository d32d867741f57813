"""Requests of programs that read and publish events in batches, such as Spark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from smartpubsub.node.api.journals import JournalState
from smartpubsub.node.api.node import Node
from smartpubsub.node.api.past import event_or_time
from smartpubsub.node.api.past_events import PastPart
from smartpubsub.node.control.documents import Say, SayPage
from smartpubsub.node.control.requests import Request
from smartpubsub.node.control.topics import topic_named


class BatchRequests:
    """A client's requests for events by their numbers."""

    def __init__(self, node: Node, say: Say, say_page: SayPage) -> None:
        self._node = node
        self._say = say
        self._say_page = say_page

    @property
    def actions(self) -> dict[str, Callable[[Request], Awaitable[None]]]:
        """The handler of each request."""
        return {
            "publish-all": self._publish_all,
            "past-events": self._past_events,
            "journal-open": self._open,
            "journal-state": self._state,
            "journal-read": self._read,
            "journal-take": self._take,
        }

    async def _publish_all(self, request: Request) -> None:
        wanted = request.fields
        name = wanted["topic"]
        topic = None if name is None else await topic_named(self._node, name)
        ids = await self._node.batches.publish(wanted["events"], topic, wanted["deadline_s"])
        answer = {"ids": ids, "key_count_max": self._node.config.key_count_max}
        await self._say(request.id, ok=answer)

    async def _past_events(self, request: Request) -> None:
        wanted = request.fields
        page = await self._node.batches.past_events.page(
            wanted["predicate"],
            event_or_time(wanted["since"]),
            PastPart(wanted["part"], wanted["parts"], wanted["until_us"]),
            wanted["first"],
            wanted["limit"],
        )
        about = {"count": page.event_count, "is_whole": page.is_whole}
        await self._say_page(request, about, page.events)

    async def _open(self, request: Request) -> None:
        since = request.fields["since"]
        state = await self._node.batches.journals.open(
            request.fields["predicate"], None if since is None else event_or_time(since)
        )
        await self._say(request.id, ok=state_document(state))

    async def _state(self, request: Request) -> None:
        state = self._node.batches.journals.state(*_journal(request))
        await self._say(request.id, ok=state_document(state))

    async def _read(self, request: Request) -> None:
        first, end = request.fields["first"], request.fields["end"]
        page = self._node.batches.journals.page(*_journal(request), first, end)
        await self._say_page(request, {"first": page.first, "end": page.end}, page.events)

    async def _take(self, request: Request) -> None:
        await self._node.batches.journals.take(*_journal(request), request.fields["end"])
        await self._say(request.id, ok={"subscription": request.fields["subscription"]})


def _journal(request: Request) -> tuple[int, str]:
    return request.fields["subscription"], request.fields["epoch"]


def state_document(state: JournalState) -> dict[str, Any]:
    """Convert the state of a journal."""
    return {
        "subscription": state.number,
        "epoch": state.epoch,
        "first": state.first,
        "end": state.end,
        "is_whole": state.is_whole,
    }
