"""Requests of the command line to the node that runs in a data folder."""

from __future__ import annotations

from contextlib import contextmanager
from os import fspath

from smartpubsub.client.blocking_socket import BlockingNetwork, run
from smartpubsub.client.lines import LineStream, LineTransport

TYPE_CHECKING = False  # The import from typing takes as long as this whole module.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from os import PathLike
    from typing import Any

TAKE_COUNT_MAX = 32
"""A reader acknowledges at the latest after this many events."""


class ControlClient:
    """Requests to the node that runs in a data folder.

    `on_wait` is called with a text if an answer takes long.
    """

    def __init__(
        self, folder: PathLike[str] | str, on_wait: Callable[[str], None] | None = None
    ) -> None:
        self._transport = LineTransport(BlockingNetwork(fspath(folder)), on_wait)
        self._stream: LineStream | None = None

    def ask(self, do: str, **fields: object) -> Any:
        """Send a request, and return the node's answer."""
        return run(self._transport.ask(do, fields))

    def subscribe(
        self,
        predicate: str,
        *,
        keep: bool = False,
        limit: int | None = None,
        past: Mapping[str, object] | None = None,
        overflow: str | None = None,
    ) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        """Subscribe; return the node's answer, and the events as they come.

        Each event is a line of the node: "event", and in "dropped" the number of all events that
        were dropped so far. `past` has the fields "since" or "last".
        """
        fields: dict[str, object] = {"predicate": predicate, "keep": keep, **(past or {})}
        if limit is not None:
            fields["limit"] = limit
        if overflow is not None:
            fields["overflow"] = overflow
        return self.stream("subscribe", fields)

    def stream(
        self, do: str, fields: dict[str, object]
    ) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        """Send a request that is answered by events; return the answer, and the events."""
        self._stream = stream = run(self._transport.open(do, fields))

        def events() -> Iterator[dict[str, Any]]:
            while (line := run(stream.next())) is not None:
                yield line

        return stream.begun, events()

    @contextmanager
    def taking(
        self, number: int, events: Iterable[dict[str, Any]]
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Acknowledge each event of a kept subscription when the caller takes the next one.

        Events in the client's buffer are acknowledged together. When the block is left, also by an
        error, all events before the last one taken are acknowledged.
        """
        stream = self._stream
        assert stream is not None
        dealt_with: list[str] = []
        unacknowledged = 0

        def passed_on() -> Iterator[dict[str, Any]]:
            nonlocal unacknowledged
            for line in events:
                yield line
                dealt_with[:] = [line["event"]["id"]]
                unacknowledged += 1
                if not stream.has_next or unacknowledged >= TAKE_COUNT_MAX:
                    taken = {"subscription": number, "event": dealt_with[0]}
                    run(stream.send("take", taken))
                    unacknowledged = 0

        try:
            yield passed_on()
        finally:
            if dealt_with:
                self.ask("take", subscription=number, event=dealt_with[0])

    def close(self) -> None:
        """Close all connections, which ends subscriptions unless they are kept."""
        run(self._transport.close())

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
