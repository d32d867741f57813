"""The open requests of a node: each ends once, with its answer or with a timeout."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import Settings
from smartpubsub.seam import Ask, CancelTimer, Effect, Peer, SetTimer


@dataclass(slots=True)
class OpenAsk:
    """A request to a peer, for a query or for none."""

    contact: Contact
    message: Message
    query: int | None
    is_put: bool
    is_meeting: bool
    asked_at: int
    fails_at: int
    is_brief: bool
    """Whether the peer has not failed if it is slow: it is not waited for."""
    has_failed: bool = False


LATE_COUNT_MAX = 1_000
"""How many failed requests are remembered, in case a late answer arrives."""


class Asks:
    """The open requests of a node.

    Timeouts grow with measured round trips: on slow or full links a late peer has not failed, and
    repeating a request would make it later.
    """

    def __init__(self, settings: Settings, effects: list[Effect]) -> None:
        self._settings = settings
        self._effects = effects
        self._open: dict[int, OpenAsk] = {}
        self._late: dict[int, OpenAsk] = {}
        self._usual_us = 0
        """The smoothed round-trip time."""
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
        is_brief: bool = False,
    ) -> None:
        """Send a request to a peer."""
        self._last_number = number = self._last_number + 1
        fails_at = now + self._patience_us(self._settings.timeout_us, 8)
        ask = OpenAsk(contact, message, query, is_put, is_meeting, now, fails_at, is_brief)
        self._open[number] = ask
        self._effects.append(Ask(contact.peer, message, number, contact.addresses))
        slow_at = now + self._patience_us(self._settings.slow_us, 2)
        self._effects.append(SetTimer(("kad", number), slow_at))

    def _patience_us(self, least_us: int, times: int) -> int:
        """A timeout: a multiple of the round-trip time, but at least a minimum."""
        return max(least_us, times * self._usual_us)

    def ping(self, contact: Contact, now: int, *, is_meeting: bool = False) -> None:
        """Ping a peer, unless a ping to it is open."""
        if contact.peer not in self._pinging:
            self._pinging[contact.peer] = None
            self.ask(contact, Message(Kind.PING), now, is_meeting=is_meeting)

    def on_answer(self, peer: Peer, number: int, now: int) -> OpenAsk | None:
        """Return the request that an answer belongs to, even if it is too late; None if there is
        none."""
        ask = self._open.get(number) or self._late.get(number)
        if ask is None or ask.contact.peer != peer:
            return None
        self._usual_us += (now - ask.asked_at - self._usual_us) // 8
        if ask.has_failed:
            del self._late[number]
        else:
            self._effects.append(CancelTimer(("kad", number)))
            self._close(number, ask)
        return ask

    def on_silence(self, number: int, now: int) -> OpenAsk | None:
        """Repeat a request that was not answered in time, until it has failed."""
        ask = self._open.get(number)
        if ask is None:
            return None
        if now >= ask.fails_at:
            ask.has_failed = True
            self._close(number, ask)
            self._late[number] = ask
            if len(self._late) > LATE_COUNT_MAX:
                del self._late[next(iter(self._late))]
        else:
            contact = ask.contact
            self._effects.append(Ask(contact.peer, ask.message, number, contact.addresses))
            again_at = min(ask.fails_at, now + self._patience_us(self._settings.again_us, 3))
            self._effects.append(SetTimer(("kad", number), again_at))
        return ask

    def close_all(self, peer: Peer) -> list[OpenAsk]:
        """End all asks to a peer that has left; they have failed."""
        closed = [item for item in self._open.items() if item[1].contact.peer == peer]
        for number, ask in closed:
            ask.has_failed = True
            self._effects.append(CancelTimer(("kad", number)))
            self._close(number, ask)
        return [ask for _, ask in closed]

    def _close(self, number: int, ask: OpenAsk) -> None:
        del self._open[number]
        self._pinging.pop(ask.contact.peer, None)
