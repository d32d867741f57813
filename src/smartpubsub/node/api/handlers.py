"""Functions of the application that are called with events."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from smartpubsub.node.api.events import Event
from smartpubsub.node.api.subscription import EventStream
from smartpubsub.predicates import Predicate

Handler: TypeAlias = Callable[[Event], Awaitable[None] | None]
AnyHandler = TypeVar("AnyHandler", bound=Handler)
OnError: TypeAlias = Callable[[Exception, Event | None], None]
"""Called with a handler's error and the event; without an event, the subscription has failed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Handling:
    """A handler, and what it is called with."""

    predicate: Predicate
    handler: Handler
    on_error: OnError | None


class Handlers:
    """The handlers of a node or a client."""

    def __init__(self, subscribe: Callable[[Predicate], EventStream]) -> None:
        self._subscribe = subscribe
        self.all: list[Handling] = []
        self.error_count = 0
        """The number of errors that handlers have raised."""
        self.is_closing = False
        """Whether the node is closing, so that the end of a subscription is no error."""

    def add(self, predicate: Predicate, handler: Handler, on_error: OnError | None) -> Handling:
        """Remember a handler."""
        self.all.append(Handling(predicate, handler, on_error))
        return self.all[-1]

    async def run(self, handling: Handling) -> None:
        """Call a handler for each event, one at a time; its errors end nothing."""
        try:
            async with self._subscribe(handling.predicate) as events:
                async for event in events:
                    await self._call(handling, event)
        except Exception as error:
            if not self.is_closing:
                self._on_error(handling, error, None)

    async def _call(self, handling: Handling, event: Event) -> None:
        try:
            result = handling.handler(event)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            self._on_error(handling, error, event)

    def _on_error(self, handling: Handling, error: Exception, event: Event | None) -> None:
        self.error_count += 1
        name = getattr(handling.handler, "__qualname__", repr(handling.handler))
        fields = {"handler": name, "predicate": handling.predicate, "event": event and event.id}
        what = "a subscription of a handler has failed" if event is None else "a handler has failed"
        _log.error(what, exc_info=error, extra={"fields": fields})
        if handling.on_error is not None:
            try:
                handling.on_error(error, event)
            except Exception:
                _log.exception("the on_error function of a handler has failed")
