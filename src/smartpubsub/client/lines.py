"""Requests to a node over its control socket, as lines of JSON.

`node/control/server.py` describes the format. The code is asynchronous and does no I/O of its own:
the byte streams are those of anyio, or plain sockets whose methods block and never suspend.
"""

from __future__ import annotations

import json
from time import monotonic

from smartpubsub.node.control.limits import LINE_BYTES_MAX
from smartpubsub.node.errors import ControlError, LostNodeError, error_of

TYPE_CHECKING = False  # The import from typing takes as long as this whole module.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Any, Protocol

    class ByteStream(Protocol):
        """A connection."""

        async def send(self, data: bytes) -> None:
            """Send all bytes; OSError if the connection is lost."""
            ...

        async def receive(self, timeout_s: float | None) -> bytes:
            """Receive some bytes, none at the end; TimeoutError if none come in time."""
            ...

        async def finish(self) -> None:
            """End the sending side, and wait for a limited time until the peer closes."""
            ...

        async def close(self) -> None:
            """Close the connection."""
            ...

        def is_stale(self) -> bool:
            """Whether a connection on which nothing is expected has something to read, or ended."""
            ...

    class Network(Protocol):
        """Connects to a node."""

        name: str
        """The node's name in errors."""

        async def connect(self) -> ByteStream:
            """Open a connection."""
            ...

        def turn(self) -> AbstractAsyncContextManager[object]:
            """Wait until one more request may be open, and count it meanwhile."""
            ...


ANSWER_S_MAX = 150.0
"""The time limit of an answer: longer than a node waits for a subscription and its history."""
NOTICE_S = 1.5
"""After this time without an answer, the client finds out what it waits for, and reports it. A
command takes time to start too, and its user should know after three seconds."""
SILENT_S_MAX = 30.0
"""A node that sends nothing at all for this time is stopped, or hangs."""
PROMPT_S = 0.5
"""A node that runs answers a probe within this time, unless its machine is busy."""
PROBE_S = 20.0
"""How often a client asks a node that has not answered whether it runs."""
_PROBE = "alive?"
"""The id of requests that any node answers at once."""

_WAITS = {
    "publish": "the network to acknowledge the event, up to 60 seconds",
    "publish-all": "the network to acknowledge the events, up to 60 seconds",
    "journal-open": "the subscription to come into force, up to 60 seconds",
    "past-events": "the nodes that keep history to answer, up to 60 seconds",
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
    "topic-heads": "the keepers of the topic to answer, up to 120 seconds",
    "topic-range": "the keepers of the topic to answer, up to 120 seconds",
    "topic-show": "the keepers of the topic to answer, up to 120 seconds",
    "topic-pin": "the keepers of the topic to answer, up to 120 seconds",
    "topic-export": "the keepers of the topic to answer, up to 120 seconds",
}
"""What the node waits for before it answers, by request."""


class Conversation:
    """One connection, on which requests are made one after another."""

    def __init__(
        self, stream: ByteStream, name: str, on_wait: Callable[[str], None] | None
    ) -> None:
        self.stream = stream
        self._name = name
        self._on_wait = on_wait
        self.last_id = 0
        self._received = bytearray()

    async def ask(self, do: str, fields: Mapping[str, object]) -> Any:
        """Send a request, and return the node's answer."""
        id = await self.send(do, fields)
        waits_for = _WAITS.get(do, self._waits_for_node)
        if fields.get("wait") == "all":
            waits_for = "all subscribers to confirm the event, up to 60 seconds"
        answer_s = max(ANSWER_S_MAX, float(str(fields.get("deadline_s", 0))) + NOTICE_S)
        try:
            line = await self._answer(id, waits_for, answer_s)
            if "bytes" in line:
                line["ok"]["page"] = await self._bytes(line["bytes"])
        except TimeoutError:
            raise LostNodeError(
                f"{self._name} does not answer, and may still do what was asked: its process is"
                " stopped or overloaded; continue it (kill -CONT), look at its log, or start it"
                " again"
            ) from None
        return line["ok"]

    async def _answer(self, id: int, waits_for: str, answer_s: float) -> dict[str, Any]:
        """Wait for an answer; TimeoutError if it does not come, or if the node is silent."""
        until = monotonic() + answer_s
        told: dict[str, None] = {}

        def tell(what: str) -> None:
            if self._on_wait is not None and what not in told:
                self._on_wait(f"waiting for {what}")
                told[what] = None

        try:
            return await self.line(id, NOTICE_S)
        except TimeoutError:
            pass
        while (left_s := until - monotonic()) > 0:
            # The node may wait for the network. Whether it runs, another request shows.
            await self._send_line({"id": _PROBE, "do": "subscriptions"})
            try:
                line = await self._line_of((id, _PROBE), PROMPT_S)
            except TimeoutError:
                tell(self._waits_for_node)
                line = await self._line_of((id, _PROBE), SILENT_S_MAX - NOTICE_S - PROMPT_S)
            if line["id"] == id:
                return _checked(line)
            tell(waits_for)
            try:
                return await self.line(id, min(left_s, PROBE_S))
            except TimeoutError:
                continue
        raise TimeoutError

    @property
    def _waits_for_node(self) -> str:
        return f"{self._name} to answer, up to {SILENT_S_MAX:g} seconds"

    async def send(self, do: str, fields: Mapping[str, object]) -> int:
        """Send a request; return its number."""
        self.last_id += 1
        await self._send_line({"id": self.last_id, "do": do, **fields})
        return self.last_id

    async def _send_line(self, content: Mapping[str, object]) -> None:
        try:
            await self.stream.send(json.dumps(content).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # The node may have sent the reason before it closed the connection.
        except OSError:
            raise self._lost() from None

    async def line(self, id: int, timeout_s: float | None = None) -> dict[str, Any]:
        """Read the next line that belongs to a request."""
        return _checked(await self._line_of((id,), timeout_s))

    async def _line_of(self, ids: Sequence[object], timeout_s: float | None) -> dict[str, Any]:
        """Read the next line that belongs to one of some requests, or to none in particular."""
        while True:
            line = await self._any_line(timeout_s)
            if line.get("id") in ids:
                return line
            if "error" in line and line.get("id") is None:
                raise error_of(line)

    @property
    def has_line(self) -> bool:
        """Whether a line can be read without waiting."""
        return b"\n" in self._received

    async def _any_line(self, timeout_s: float | None) -> dict[str, Any]:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > LINE_BYTES_MAX:
                raise ControlError(f"{self._name} sends a line that is too long")
            self._received += await self._piece(timeout_s)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _bytes(self, count: int) -> bytes:
        """Read so many bytes after a line."""
        parts = [bytes(self._received[:count])]
        del self._received[:count]
        left = count - len(parts[0])
        while left:
            parts.append(await self._piece(ANSWER_S_MAX))
            left -= len(parts[-1])
            if left < 0:
                self._received += parts[-1][left:]
                parts[-1] = parts[-1][:left]
                left = 0
        return b"".join(parts)

    async def _piece(self, timeout_s: float | None) -> bytes:
        try:
            piece = await self.stream.receive(timeout_s)
        except TimeoutError:
            raise
        except OSError:
            piece = b""
        if not piece:
            raise self._lost()
        return piece

    def _lost(self) -> LostNodeError:
        return LostNodeError(f"{self._name} has ended; start it again")


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    """Raise the error that a line reports, if it does."""
    if "error" in line:
        raise error_of(line)
    return line


class LineStream:
    """The events that a node sends in answer to a request; each is a line with "event"."""

    def __init__(
        self,
        conversation: Conversation,
        begun: dict[str, Any],
        on_close: Callable[[LineStream], None],
    ) -> None:
        self._conversation = conversation
        self._id = conversation.last_id
        self._on_close = on_close
        self.begun = begun
        """The node's answer to the request."""

    @property
    def has_next(self) -> bool:
        """Whether an event can be read without waiting."""
        return self._conversation.has_line

    async def next(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """Read the next line; None at the end. TimeoutError if none comes in time."""
        line = await self._conversation.line(self._id, timeout_s)
        return None if "end" in line else line

    async def send_about(self, do: str, fields: Mapping[str, object]) -> None:
        """Send a request about this stream, which has no answer."""
        await self.send(do, {"of": self._id, **fields})

    async def send(self, do: str, fields: Mapping[str, object]) -> None:
        """Send a request without waiting for its answer."""
        await self._conversation.send(do, fields)

    async def close(self) -> None:
        """End the stream, and wait until the node has ended or left the subscription."""
        self._on_close(self)
        await self._conversation.stream.finish()

    async def abort(self) -> None:
        """End the stream at once; its reader gets an error."""
        await self._conversation.stream.close()


class LineTransport:
    """Requests to a node, each on a connection of its own.

    So an unread subscription delays nothing else, and an abandoned request closes only its own
    connection.
    """

    def __init__(self, network: Network, on_wait: Callable[[str], None] | None = None) -> None:
        self._network = network
        self._on_wait = on_wait
        self._idle: list[Conversation] = []
        self._open: dict[LineStream, None] = {}
        self._is_closed = False

    async def ask(self, do: str, fields: Mapping[str, object]) -> Any:
        """Send a request, and return the node's answer."""
        async with self._network.turn():
            conversation = await self._conversation()
            is_whole = False
            try:
                answer = await conversation.ask(do, fields)
                is_whole = True
            finally:
                # After an error, the connection may still carry an answer that no call reads.
                if is_whole and not self._is_closed:
                    self._idle.append(conversation)
                else:
                    await conversation.stream.close()
        return answer

    async def open(self, do: str, fields: Mapping[str, object]) -> LineStream:
        """Send a request that is answered by events."""
        conversation = await self._conversation()
        try:
            begun = await conversation.ask(do, fields)
        except LostNodeError:
            await conversation.stream.close()  # It would not end the subscription in time either.
            raise
        except BaseException:
            await conversation.stream.finish()
            raise
        stream = LineStream(conversation, begun, lambda stream: self._open.pop(stream, None))
        self._open[stream] = None
        return stream

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        while self._open:
            for stream in [*self._open]:
                self._open.pop(stream, None)  # Another thread may have closed it.
                await stream.abort()
        while (conversation := self._taken()) is not None:
            await conversation.stream.close()

    async def _conversation(self) -> Conversation:
        while (conversation := self._taken()) is not None:
            if not conversation.stream.is_stale():
                return conversation
            await conversation.stream.close()  # The node was restarted.
        stream = await self._network.connect()
        return Conversation(stream, self._network.name, self._on_wait)

    def _taken(self) -> Conversation | None:
        """Take an idle connection, if there is one; another thread may take the last one first."""
        try:
            return self._idle.pop()
        except IndexError:
            return None
