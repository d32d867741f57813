"""What a node has asked and waits for: each ask ends once, with its answer or with a timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.seam import Answered, Ask, CancelTimer, Effect, SetTimer


@dataclass(slots=True)
class OpenAsk:
    """Somebody who was asked, for a query or for none."""

    contact: Contact
    query: int | None
    is_put: bool
    is_meeting: bool = False
    has_failed: bool = False
    is_slow: bool = False


class Asks:
    """The open asks of a node."""

    def __init__(self, settings: Settings, do: Callable[[Effect], None]) -> None:
        self._settings = settings
        self._do = do
        self._open: dict[int, OpenAsk] = {}
        self._pinging: dict[bytes, None] = {}
        self._last_number = 0

    def ask(
        self,
        contact: Contact,
        message: Message,
        now: int,
        *,
        query: int | None = None,
        is_put: bool = False,
        is_meeting: bool = False,
    ) -> None:
        """Ask a peer."""
        self._last_number += 1
        self._open[self._last_number] = OpenAsk(contact, query, is_put, is_meeting)
        self._do(Ask(contact.peer, message, self._last_number, contact.addresses))
        # A lookup goes on after a while; anything else just waits for the answer.
        is_lookup = query is not None and not is_put
        patience = self._settings.slow_us if is_lookup else self._settings.timeout_us
        self._do(SetTimer(("kad", self._last_number), now + patience))

    def ping(self, contact: Contact, now: int, *, is_meeting: bool = False) -> None:
        """Ask a peer whether it is there, unless that is being asked."""
        if contact.peer not in self._pinging:
            self._pinging[contact.peer] = None
            self.ask(contact, Message(Kind.PING), now, is_meeting=is_meeting)

    def on_answer(self, event: Answered) -> OpenAsk | None:
        """What was answered; None if nobody asked this peer, or does not wait any more."""
        ask = self._open.get(event.number)
        if ask is None or ask.contact.peer != event.peer:
            return None
        self._do(CancelTimer(("kad", event.number)))
        self._close(event.number, ask)
        return ask

    def on_silence(self, number: int, now: int) -> OpenAsk | None:
        """What was not answered in time: in a lookup it is slow first, and then it has failed."""
        ask = self._open.get(number)
        if ask is None:
            return None
        if ask.query is None or ask.is_put or ask.is_slow:
            ask.has_failed = True
            self._close(number, ask)
        else:
            ask.is_slow = True
            left = self._settings.timeout_us - self._settings.slow_us
            self._do(SetTimer(("kad", number), now + left))
        return ask

    def _close(self, number: int, ask: OpenAsk) -> None:
        del self._open[number]
        self._pinging.pop(ask.contact.peer, None)
