"""The interface of a client's transport to a node: the control socket, or HTTP."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeAlias


class EventLines(Protocol):
    """The events that a node sends in answer to a request; each is a document with "event"."""

    @property
    def begun(self) -> dict[str, Any]:
        """The node's answer to the request."""
        ...

    @property
    def has_next(self) -> bool:
        """Whether an event can be read without waiting."""
        ...

    async def next(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """Read the next document; None at the end. TimeoutError if none comes in time."""
        ...

    async def send_about(self, do: str, fields: Mapping[str, object]) -> None:
        """Send a request about this stream, which has no answer."""
        ...

    async def send(self, do: str, fields: Mapping[str, object]) -> None:
        """Send a request without waiting for its answer."""
        ...

    async def close(self) -> None:
        """End the stream, and wait until the node has ended or left the subscription."""
        ...


Start: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Runs a function beside the application until the client is closed."""


class Transport(Protocol):
    """Requests to a node, by the names and with the fields of `node/control/requests.py`.

    Errors of the node are raised as the classes that the node raised.
    """

    async def ask(self, do: str, fields: Mapping[str, object]) -> Any:
        """Send a request, and return the node's answer."""
        ...

    async def open(self, do: str, fields: Mapping[str, object]) -> EventLines:
        """Send a request that is answered by events."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
