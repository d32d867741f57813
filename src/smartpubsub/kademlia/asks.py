"""The open requests of a node: each ends once, with its answer or with a timeout."""

from __future__ import annotations

from dataclasses import dataclass

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import MINUTE, SECOND, Settings
from smartpubsub.seam import Ask, CancelTimer, Effect, Peer, SetTimer


@dataclass(slots=True)
class OpenAsk:
    """A request to a peer, made for a query or on its own."""

    contact: Contact
    message: Message
    asked_at: int
    query: int | None = None
    is_put: bool = False
    is_meeting: bool = False
    fails_at: int = 0
    again_us: int = 0
    """The interval between transmissions, from the second on."""
    is_overdue: bool = False
    """Whether the node has repeated the request because no answer came."""
    is_verification: bool = False
    is_brief: bool = False
    """Whether the query does not wait for a slow peer, which then does not count as failed."""
    has_failed: bool = False


PROMPT_US_MAX = SECOND // 10
"""Links on which answers usually come within this time are not full."""
REPEATED_MAX = 4
"""If so many answers in a row were to repeated requests, the round trips of others count no more:
links may have filled up since."""
TOOK_US_MAX = MINUTE
"""An answer that takes longer counts as one that takes this long."""
LATE_COUNT_MAX = 1_000
LATE_US = 10 * MINUTE
"""How many failed requests are remembered, and for how long, in case a late answer arrives."""


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
        self._overdue: dict[Peer, dict[int, None]] = {}
        """By peer: the open requests that it has not answered in time, the oldest first."""
        self._usual_us = 0
        """The smoothed time to an answer, also of requests that were repeated."""
        self._prompt_us = 0
        """The smoothed round-trip time of requests that were not repeated; 0 before the first."""
        self._repeated = 0
        """How many answers in a row were to repeated requests."""
        self._pinging: dict[bytes, None] = {}
        self._verifying: dict[bytes, None] = {}
        self._last_number = 0

    def ask(
        self,
        contact: Contact,
        message: Message,
        now: int,
        *,
        query: int | None = None,
        is_put: bool = False,
        is_doubtful: bool = False,
        is_brief: bool = False,
    ) -> None:
        """Send a request to a peer; a doubtful peer, probably gone, gets little time to answer."""
        settings = self._settings
        ask = OpenAsk(contact, message, now, query=query, is_put=is_put, is_brief=is_brief)
        if is_doubtful:
            self._open_ask(
                ask, settings.verify_again_us, settings.verify_again_us, settings.slow_us
            )
        else:
            self._open_ask(ask, settings.slow_us, settings.again_us, settings.timeout_us)

    def _open_ask(self, ask: OpenAsk, slow_us: int, again_us: int, fails_us: int) -> None:
        self._last_number = number = self._last_number + 1
        ask.again_us, ask.fails_at = again_us, ask.asked_at + self._timeout_us(fails_us, 8)
        self._open[number] = ask
        contact = ask.contact
        self._effects.append(Ask(contact.peer, ask.message, number, contact.addresses))
        slow_at = ask.asked_at + self._timeout_us(slow_us, 2)
        self._effects.append(SetTimer(("kad", number), slow_at))

    @property
    def are_slow(self) -> bool:
        """Whether answers usually take long, because links are full or because they lose messages.

        Pings would add to the load of full links, and a peer whose ping is late would seem down.
        """
        return 8 * self._usual_us > self._settings.verify_us

    @property
    def are_links_full(self) -> bool:
        """Whether answers usually take long, and not only because links lose messages.

        Where only messages are lost, answers to requests that need no repetition are prompt.
        """
        is_prompt = 0 < self._prompt_us <= PROMPT_US_MAX and self._repeated < REPEATED_MAX
        return self.are_slow and not is_prompt

    @property
    def round_trip_us(self) -> int:
        """The smoothed round-trip time, without repetitions unless links are full."""
        return self._usual_us if self.are_links_full else self._prompt_us

    def _timeout_us(self, least_us: int, times: int) -> int:
        """A timeout: a multiple of the round-trip time, but at least a minimum."""
        return max(least_us, times * self._usual_us)

    def ping(self, contact: Contact, now: int, *, is_meeting: bool = False) -> None:
        """Ping a peer, unless a ping to it is open."""
        if contact.peer not in self._pinging:
            self._pinging[contact.peer] = None
            ask = OpenAsk(contact, Message(Kind.PING), now, is_meeting=is_meeting)
            settings = self._settings
            self._open_ask(ask, settings.slow_us, settings.again_us, settings.timeout_us)

    def verify(self, contact: Contact, now: int) -> None:
        """Ping a peer at short intervals, to find out soon whether it is up.

        Before any peer has answered, links may be slow, so it gets as long as for any request.
        """
        if contact.peer in self._verifying:
            return
        self._verifying[contact.peer] = None
        settings = self._settings
        again_us = settings.verify_again_us
        fails_us = settings.verify_us if self._usual_us else settings.timeout_us
        ping = OpenAsk(contact, Message(Kind.PING), now, is_verification=True)
        self._open_ask(ping, again_us, again_us, fails_us)

    def on_answer(self, peer: Peer, number: int, now: int) -> OpenAsk | None:
        """Return the request that an answer belongs to, also if it has failed; None if unknown."""
        ask = self._open.get(number) or self._late.get(number)
        if ask is None or ask.contact.peer != peer:
            return None
        took_us = min(now - ask.asked_at, TOOK_US_MAX)
        self._usual_us += (took_us - self._usual_us) // 8
        if ask.is_overdue:
            self._repeated += 1
        else:
            self._repeated = 0
            self._prompt_us += (took_us - self._prompt_us) // (8 if self._prompt_us else 1)
        if ask.has_failed:
            del self._late[number]
        else:
            self._effects.append(CancelTimer(("kad", number)))
            self._close(number, ask)
        if ask.is_verification:
            self._repeat_overdue(peer, now)
        return ask

    def _repeat_overdue(self, peer: Peer, now: int) -> None:
        """Repeat the requests that a peer has not answered in time, though it answers pings.

        The network has lost them or their answers, so waiting longer would be in vain.
        """
        for number, ask in self._open.items():
            if ask.contact.peer == peer and ask.is_overdue:
                ask.again_us = min(ask.again_us, self._settings.slow_us)
                self._repeat(number, ask, now)

    def on_silence(self, number: int, now: int) -> OpenAsk | None:
        """Repeat a request that was not answered in time, until it has failed.

        Of the requests to one peer, repeat only the oldest: if the links of the peer are full, each
        repetition adds an answer to its queue.
        """
        ask = self._open.get(number)
        if ask is None:
            return None
        if now >= ask.fails_at:
            self._fail(number, ask)
        else:
            ask.is_overdue = True
            overdue = self._overdue.setdefault(ask.contact.peer, {})
            if not ask.is_verification:
                overdue[number] = None
            if ask.is_verification or next(iter(overdue)) == number:
                self._repeat(number, ask, now)
            else:
                self._set_again(number, ask, now)
        return ask

    def _repeat(self, number: int, ask: OpenAsk, now: int) -> None:
        contact = ask.contact
        self._effects.append(Ask(contact.peer, ask.message, number, contact.addresses))
        self._set_again(number, ask, now)

    def _set_again(self, number: int, ask: OpenAsk, now: int) -> None:
        again_at = min(ask.fails_at, now + self._timeout_us(ask.again_us, 3))
        self._effects.append(SetTimer(("kad", number), again_at))

    def forget_late(self, peer: Peer) -> None:
        """Ignore late answers of a peer that has left: they do not show that it is up."""
        for number in [n for n, ask in self._late.items() if ask.contact.peer == peer]:
            del self._late[number]

    def close_all(self, peer: Peer, *, ends_verification: bool = True) -> list[OpenAsk]:
        """End all requests to a peer, as failed; of a suspected one, its verification goes on."""
        closed = [
            (number, ask)
            for number, ask in self._open.items()
            if ask.contact.peer == peer and (ends_verification or not ask.is_verification)
        ]
        for number, ask in closed:
            self._effects.append(CancelTimer(("kad", number)))
            self._fail(number, ask)
        return [ask for _, ask in closed]

    def _fail(self, number: int, ask: OpenAsk) -> None:
        ask.has_failed = True
        self._close(number, ask)
        self._late[number] = ask
        while True:
            oldest = next(iter(self._late))
            is_old = self._late[oldest].asked_at < ask.asked_at - LATE_US
            if not is_old and len(self._late) <= LATE_COUNT_MAX:
                break
            del self._late[oldest]

    def _close(self, number: int, ask: OpenAsk) -> None:
        del self._open[number]
        peer = ask.contact.peer
        overdue = self._overdue.get(peer, {})
        overdue.pop(number, None)
        if not overdue:
            self._overdue.pop(peer, None)
        if ask.is_verification:
            self._verifying.pop(peer, None)
        elif ask.message.kind is Kind.PING:
            self._pinging.pop(peer, None)
