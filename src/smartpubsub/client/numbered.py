"""Lines that survive their connection: each side numbers its lines, and resends missing ones.

A connection of a session begins with one message of each side:

    {"session": null, "received": 0}      or, to resume, the session's id and how many lines came
    {"session": "5f2c…", "received": 0}   the gateway's answer

and each side resends the lines that the other has not received. Then come lines of JSON, and
sometimes `{"received": 32}`, which acknowledges the lines up to that number. `{"end":true}` says
that the client will send no more lines.
"""

from __future__ import annotations

from collections import deque

ACKNOWLEDGE_COUNT = 16
"""A side acknowledges after so many lines."""
RECEIVED = b'{"received":'
END = b'{"end":true}'


class NumberedLines:
    """The lines that one side of a session has sent and received."""

    def __init__(self) -> None:
        self._sent: deque[bytes] = deque()
        """The lines that the other side has not acknowledged."""
        self._acknowledged = 0
        """The number of lines sent that the other side has acknowledged."""
        self.received = 0
        """The number of lines that have come."""
        self._reported = 0
        """The number of lines received that this side has acknowledged."""
        self.waiting_bytes = 0
        """The size of the lines that the other side has not acknowledged."""

    @property
    def sent(self) -> int:
        """The number of lines that were sent."""
        return self._acknowledged + len(self._sent)

    def send(self, line: bytes) -> None:
        """Keep a line until the other side has it."""
        self._sent.append(line)
        self.waiting_bytes += len(line)

    def after(self, number: int) -> list[bytes]:
        """The lines after a number."""
        return [*self._sent][max(0, number - self._acknowledged) :]

    def acknowledged(self, number: int) -> None:
        """Forget the lines up to a number."""
        while self._acknowledged < number and self._sent:
            self.waiting_bytes -= len(self._sent.popleft())
            self._acknowledged += 1

    def came(self) -> bytes | None:
        """Count a line that came; return the acknowledgement to send, if one is due."""
        self.received += 1
        if self.received - self._reported < ACKNOWLEDGE_COUNT:
            return None
        self._reported = self.received
        return b"%b%d}" % (RECEIVED, self.received)
