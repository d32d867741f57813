"""What a node has asked and waits for: each ask ends once, with its answer or with a timeout."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.seam import Ask, CancelTimer, Effect, Peer, SetTimer


@dataclass(slots=True)
class OpenAsk:
    """Somebody who was asked, for a query or for none."""

    contact: Contact
    message: Message
    query: int | None
    is_put: bool
    is_meeting: bool
    fails_at: int
    has_failed: bool = False


class Asks:
    """The open asks of a node."""

    def __init__(self, settings: Settings, effects: list[Effect]) -> None:
        self._settings = settings
        self._effects = effects
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
        self._last_number = number = self._last_number + 1
        fails_at = now + self._settings.timeout_us
        self._open[number] = OpenAsk(contact, message, query, is_put, is_meeting, fails_at)
        self._effects.append(Ask(contact.peer, message, number, contact.addresses))
        self._effects.append(SetTimer(("kad", number), now + self._settings.slow_us))

    def ping(self, contact: Contact, now: int, *, is_meeting: bool = False) -> None:
        """Ask a peer whether it is there, unless that is being asked."""
        if contact.peer not in self._pinging:
            self._pinging[contact.peer] = None
            self.ask(contact, Message(Kind.PING), now, is_meeting=is_meeting)

    def on_answer(self, peer: Peer, number: int) -> OpenAsk | None:
        """What was answered; None if nobody asked this peer, or does not wait any more."""
        ask = self._open.get(number)
        if ask is None or ask.contact.peer != peer:
            return None
        self._effects.append(CancelTimer(("kad", number)))
        self._close(number, ask)
        return ask

    def on_silence(self, number: int, now: int) -> OpenAsk | None:
        """What was not answered in time: it is slow and asked again, until it has failed."""
        ask = self._open.get(number)
        if ask is None:
            return None
        if now >= ask.fails_at:
            ask.has_failed = True
            self._close(number, ask)
        else:
            contact = ask.contact
            self._effects.append(Ask(contact.peer, ask.message, number, contact.addresses))
            again_at = min(ask.fails_at, now + self._settings.again_us)
            self._effects.append(SetTimer(("kad", number), again_at))
        return ask

    def _close(self, number: int, ask: OpenAsk) -> None:
        del self._open[number]
        self._pinging.pop(ask.contact.peer, None)
