"""Talks to a running node, as a program of its user; `node/control/server.py` has the format."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from smartpubsub.node.control.socket import LINE_BYTES_MAX, ControlError, socket_in

ANSWER_S_MAX = 150.0
"""More than a node waits for others, also for a subscription and then for its past."""
_CONNECT_S_MAX = 10.0


class NoNodeError(ControlError):
    """A data folder in which no node runs."""


class ControlClient:
    """A connection to the node that runs in a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_id = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_CONNECT_S_MAX)
        try:
            self._socket.connect(str(socket_in(folder)))
        except OSError as error:
            self._socket.close()
            raise _unreachable(folder, error) from None
        self._lines = self._socket.makefile("rb")

    def ask(self, do: str, **fields: object) -> Any:
        """What the node answers to a request."""
        self._socket.settimeout(ANSWER_S_MAX)
        return self._answer(self._send(do, fields))["ok"]

    def subscribe(
        self,
        predicate: str,
        *,
        keep: bool = False,
        limit: int | None = None,
        past: Mapping[str, object] | None = None,
    ) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        """Subscribe; what the node answers, the number among it, and events as they come.

        Each event is as the node sends it: "event", and in "dropped" how many were not taken in
        time so far. The past that it begins with is given as the node takes it.
        """
        fields: dict[str, object] = {"predicate": predicate, "keep": keep, **(past or {})}
        if limit is not None:
            fields["limit"] = limit
        return self.stream("subscribe", fields)

    def stream(
        self, do: str, fields: dict[str, object]
    ) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        """What the node answers and the events then, for any request that events come for."""
        self._socket.settimeout(ANSWER_S_MAX)
        id = self._send(do, fields)
        begun: dict[str, Any] = self._answer(id)["ok"]
        return begun, self._events(id)

    @contextmanager
    def taking(
        self, number: int, events: Iterable[dict[str, Any]]
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Events of a subscription to a topic that is kept, each taken when the next is wanted.

        When this is left, also by an error, what was dealt with before that is taken.
        """
        dealt_with: list[str] = []

        def passed_on() -> Iterator[dict[str, Any]]:
            for line in events:
                yield line
                dealt_with[:] = [line["event"]["id"]]
                self._send("topic-take", {"subscription": number, "event": dealt_with[0]})

        try:
            yield passed_on()
        finally:
            if dealt_with:
                # Whatever else comes until this is answered comes again another time.
                self.ask("topic-take", subscription=number, event=dealt_with[0])

    def _events(self, id: int) -> Iterator[dict[str, Any]]:
        self._socket.settimeout(None)
        while "end" not in (line := self._answer(id)):
            yield line

    def close(self) -> None:
        """End the connection, and with it subscriptions that are not to be kept."""
        self._lines.close()
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
        try:
            self._socket.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            pass  # Before it closed the connection, the node may have said why.
        except OSError as error:
            raise self._lost(error) from None
        return self._last_id

    def _answer(self, id: int) -> dict[str, Any]:
        """The next line that belongs to a request."""
        while True:
            line = self._line()
            if "error" in line and line.get("id") in (id, None):
                raise ControlError(line["error"])
            if line.get("id") == id:
                return line

    def _line(self) -> dict[str, Any]:
        try:
            line = self._lines.readline(LINE_BYTES_MAX)
        except OSError as error:
            raise self._lost(error) from None
        if not line.endswith(b"\n"):
            raise ControlError(f"the node in {self._folder} has ended; start it again")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _lost(self, error: OSError) -> ControlError:
        if isinstance(error, TimeoutError):
            return ControlError(
                f"the node in {self._folder} does not answer; look at its log, or start it again"
            )
        return ControlError(f"the node in {self._folder} has ended; start it again")


def _unreachable(folder: Path, error: OSError) -> ControlError:
    if isinstance(error, PermissionError):
        return ControlError(
            f"{folder} belongs to another user; only who runs a node can talk to it"
        )
    if isinstance(error, TimeoutError | BlockingIOError):
        return ControlError(f"the node in {folder} does not answer; try again")
    start = f"smartpubsub node run --data {shlex.quote(str(folder))}"
    return NoNodeError(f"no node runs in {folder}; start one with: {start}")
