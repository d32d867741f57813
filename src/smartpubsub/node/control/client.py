"""A client of the control socket; `node/control/server.py` describes the format."""

from __future__ import annotations

import json
import shlex
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from smartpubsub.node.control.socket import LINE_BYTES_MAX, ControlError, socket_in

ANSWER_S_MAX = 150.0
"""Longer than a node waits for its peers, also for a subscription and then for its history."""
NOTICE_S = 3.0
"""After this time without an answer, the client says what it waits for."""
TAKE_COUNT_MAX = 32
"""A reader acknowledges at the latest after this many events."""

_CONNECT_S_MAX = 10.0
_RECEIVE_BYTES = 64 << 10
_WAITS = {
    "publish": "the network to acknowledge the event, up to 60 seconds",
    "subscribe": "the subscription to come into force, up to 60 seconds",
    "group-create": "the group to be opened, up to 60 seconds",
    "group-join": "the owner of the group to answer, up to 60 seconds",
    "group-search": "the peers that keep advertisements, up to 60 seconds",
    "group-publish": "the members of the group to confirm the event, up to 60 seconds",
    "topic-create": "the keepers to store the topic, up to 60 seconds",
    "topic-update": "the keepers to store the topic, up to 60 seconds",
    "topic-publish": "the keepers to store the event, up to 60 seconds",
    "topic-subscribe": "the subscription to come into force, up to 60 seconds",
    "topic-history": "the keepers of the topic to answer, up to 120 seconds",
    "topic-show": "the keepers of the topic to answer, up to 120 seconds",
    "topic-pin": "the keepers of the topic to answer, up to 120 seconds",
    "topic-export": "the keepers of the topic to answer, up to 120 seconds",
}
"""What an answer to a request takes time for."""


class NoNodeError(ControlError):
    """A data folder in which no node runs."""


class LostNodeError(ControlError):
    """A node that has ended, or does not answer; what became of the request is not known."""


class PublishFailedError(ControlError):
    """A publish that failed, with the event's id and state."""

    def __init__(self, reason: str, id: str | None, state: str) -> None:
        super().__init__(reason)
        self.id = id
        self.state = state


class ControlClient:
    """A connection to the node that runs in a data folder.

    `on_wait` is called with a text if an answer takes longer than `NOTICE_S`.
    """

    def __init__(self, folder: Path, on_wait: Callable[[str], None] | None = None) -> None:
        self._folder = folder
        self._on_wait = on_wait
        self._waits_for = ""
        self._asked_at = 0.0
        self._answer_s_max: float | None = ANSWER_S_MAX
        self._last_id = 0
        self._received = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_CONNECT_S_MAX)
        try:
            self._socket.connect(str(socket_in(folder)))
        except OSError as error:
            self._socket.close()
            raise _unreachable(folder, error) from None

    def ask(self, do: str, **fields: object) -> Any:
        """Send a request, and return the node's answer."""
        self._answer_s_max = ANSWER_S_MAX
        return self._answer(self._send(do, fields))["ok"]

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
        self._answer_s_max = ANSWER_S_MAX
        id = self._send(do, fields)
        begun: dict[str, Any] = self._answer(id)["ok"]
        return begun, self._events(id)

    @contextmanager
    def taking(
        self, number: int, events: Iterable[dict[str, Any]]
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Acknowledge the events of a kept subscription when the next one is asked for.

        Events that lie in the client's buffer are acknowledged together. When the block is left,
        also by an error, the events before the last one asked for are acknowledged.
        """
        dealt_with: list[str] = []
        unacknowledged = 0

        def passed_on() -> Iterator[dict[str, Any]]:
            nonlocal unacknowledged
            for line in events:
                yield line
                dealt_with[:] = [line["event"]["id"]]
                unacknowledged += 1
                if b"\n" not in self._received or unacknowledged >= TAKE_COUNT_MAX:
                    self._send("take", {"subscription": number, "event": dealt_with[0]})
                    unacknowledged = 0

        try:
            yield passed_on()
        finally:
            if dealt_with:
                # Events that come before the answer were not acknowledged, and come again.
                self.ask("take", subscription=number, event=dealt_with[0])

    def _events(self, id: int) -> Iterator[dict[str, Any]]:
        self._answer_s_max = None
        self._waits_for = ""
        while "end" not in (line := self._answer(id)):
            yield line

    def close(self) -> None:
        """Close the connection, which ends its subscriptions unless they are kept."""
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, do: str, fields: dict[str, object]) -> int:
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "do": do, **fields}).encode() + b"\n"
        if self._answer_s_max is not None:
            self._asked_at = time.monotonic()
            self._waits_for = _WAITS.get(do, "the node to answer")
            if fields.get("wait") == "all":
                self._waits_for = "all subscribers to confirm the event, up to 60 seconds"
        self._socket.settimeout(ANSWER_S_MAX)
        try:
            self._socket.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The node may have told the reason before it closed the connection.
        except OSError as error:
            raise self._lost(error) from None
        return self._last_id

    def _answer(self, id: int) -> dict[str, Any]:
        """Read the next line that belongs to a request."""
        while True:
            line = self._line()
            if "error" in line and line.get("id") in (id, None):
                if (event := line.get("event")) is not None:
                    raise PublishFailedError(line["error"], event["id"], event["state"])
                raise ControlError(line["error"])
            if line.get("id") == id:
                return line

    def _line(self) -> dict[str, Any]:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            piece = b"" if searched > LINE_BYTES_MAX else self._receive()
            if not piece:
                raise LostNodeError(f"the node in {self._folder} has ended; start it again")
            self._received += piece
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _receive(self) -> bytes:
        """Wait for more of an answer, and say so if that takes long."""
        try:
            if self._waits_for and self._on_wait is not None:
                passed_s = time.monotonic() - self._asked_at
                self._socket.settimeout(max(NOTICE_S - passed_s, 0.001))
                try:
                    return self._socket.recv(_RECEIVE_BYTES)
                except TimeoutError:
                    self._on_wait(f"waiting for {self._waits_for}")
                    self._waits_for = ""
            self._socket.settimeout(self._answer_s_max)
            return self._socket.recv(_RECEIVE_BYTES)
        except OSError as error:
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> LostNodeError:
        if isinstance(error, TimeoutError):
            return LostNodeError(
                f"the node in {self._folder} does not answer; look at its log, or start it again"
            )
        return LostNodeError(f"the node in {self._folder} has ended; start it again")


def _unreachable(folder: Path, error: OSError) -> ControlError:
    if isinstance(error, PermissionError):
        return ControlError(
            f"{folder} belongs to another user; run the command as the user who runs the node"
        )
    if isinstance(error, TimeoutError | BlockingIOError):
        return ControlError(f"the node in {folder} does not answer; try again")
    start = f"smartpubsub node run --data {shlex.quote(str(folder))}"
    return NoNodeError(f"no node runs in {folder}; start one with: {start}")
