"""Correlated requests: retransmission with back-off until the answer comes, or giving up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.runtime.deadlines import Deadlines
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import Peer

Question = TypeVar("Question")
Answer = TypeVar("Answer")

REQUEST_TIMER = "request"
NUMBER_BITS = 31
"""The numbers of a later incarnation are higher than all those of earlier ones."""

STATEMENTS_PENDING_MAX = 256
"""The statements to one peer that may wait for its acknowledgement."""
PENDING_MAX = 1 << 17
"""The questions to all peers that may wait for an answer."""
PENDING_MAX_OF_PEER = 1 << 15
"""The questions to one peer; more than honest owners of groups have open in a burst of events."""
PROGRESS_US_MAX = MINUTE
"""How long reports of progress keep a question open; then it needs its answer like any other."""
_UNLIMITED = 1 << 62


class Timeouts(Protocol):
    """How long to wait for answers."""

    def sample(self, round_trip_us: int, *, transmissions: int = 1) -> None:
        """Take the time from the first transmission to the answer."""
        ...

    def on_timeout(self, asked_us: int, now: int) -> None:
        """Learn that a question was given up."""
        ...

    def timeout_us(self, transmissions: int = 1) -> int:
        """How long to wait for the answer after this many transmissions."""
        ...


def ignore_failure() -> None:
    """Do nothing when a peer does not answer."""


def ignore_answer(_: object) -> None:
    """Do nothing when a peer answers."""


@dataclass(slots=True)
class _PendingRequest(Generic[Question, Answer]):
    peer: Peer
    question: Question
    on_answer: Callable[[Answer], None]
    on_failure: Callable[[], None]
    tries_max: int
    us_max: int
    sent_us: int
    """When the question was first sent."""
    transmissions: int = 1
    """Since the peer last reported progress; 0 for a question that was never sent, because too many
    were pending."""
    was_repeated: bool = False
    """Whether it was ever sent again: the answer may be one to either transmission."""


class Requests(Generic[Question, Answer]):
    """The questions of one node that wait for an answer.

    `send` transmits a question or an answer under a number. `mark_resend` returns the question to
    send as a retransmission. The protocol hands answers to `on_answer`, and calls `on_timer` at the
    timer `REQUEST_TIMER`.
    """

    def __init__(
        self,
        outbox: Outbox[Any],
        send: Callable[[Peer, int, Question | Answer], None],
        timeouts: Timeouts,
        *,
        tries_max: int,
        mark_resend: Callable[[Question], Question] = lambda question: question,
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._timeouts = timeouts
        self._tries_max = tries_max
        self._mark_resend = mark_resend
        self._last_number = 0
        self._pending: dict[int, _PendingRequest[Question, Answer]] = {}
        self._counts: Counter[Peer] = Counter()
        """The number of pending requests by peer."""
        self._statements: dict[Peer, dict[int, None]] = {}
        """The numbers of pending statements by peer, the oldest first."""
        self._deadlines: Deadlines[int] = Deadlines(outbox, REQUEST_TIMER)

    def __len__(self) -> int:
        return len(self._pending)

    def start(self, incarnation: int) -> None:
        """Number requests above those of earlier incarnations."""
        self._last_number = incarnation << NUMBER_BITS

    def ask(
        self,
        peer: Peer,
        question: Question,
        on_answer: Callable[[Answer], None],
        on_failure: Callable[[], None] = ignore_failure,
        *,
        tries_max: int | None = None,
        us_max: int | None = None,
    ) -> int:
        """Send a question until the peer answers; return its number.

        Give up after `tries_max` transmissions; or, if `us_max` is given, once that time is over.
        While too many questions are pending, send nothing, and call `on_failure` at the next timer.
        """
        has_room = len(self._pending) < PENDING_MAX and self._counts[peer] < PENDING_MAX_OF_PEER
        self._last_number = number = self._last_number + 1
        tries = self._tries_max if tries_max is None else tries_max
        self._pending[number] = _PendingRequest(
            peer,
            question,
            on_answer,
            on_failure,
            tries if us_max is None else _UNLIMITED,
            _UNLIMITED if us_max is None else us_max,
            self._outbox.now,
            1 if has_room else 0,
        )
        self._counts[peer] += 1
        if has_room:
            self._send(peer, number, question)
            self._set_timer(number, 1)
        else:
            self._outbox.reject("open requests")
            self._deadlines.set(number, 0)
        return number

    def inform(self, peer: Peer, statement: Question, *, tries_max: int | None = None) -> None:
        """Send a statement until the peer acknowledges it; the caller does not wait for that.

        Other peers can cause such statements, so only the newest ones to a peer stay pending.
        """
        number = self.ask(peer, statement, ignore_answer, tries_max=tries_max)
        pending = self._statements.setdefault(peer, {})
        pending[number] = None
        if len(pending) > STATEMENTS_PENDING_MAX:
            self.cancel(next(iter(pending)))

    def answer(self, peer: Peer, number: int, answer: Answer) -> None:
        """Answer the question that a peer sent under a number."""
        self._send(peer, number, answer)

    def cancel(self, number: int) -> None:
        """Forget a question; a late answer to it is ignored."""
        if number in self._pending:
            self._forget(number)
            self._deadlines.cancel(number)

    def _forget(self, number: int) -> None:
        peer = self._pending.pop(number).peer
        self._counts[peer] -= 1
        if not self._counts[peer]:
            del self._counts[peer]
        pending = self._statements.get(peer)
        if pending is not None:
            pending.pop(number, None)
            if not pending:
                del self._statements[peer]

    def question_to(self, peer: Peer, number: int) -> Question | None:
        """The question of this number to a peer; None if it is not pending."""
        request = self._pending_to(peer, number)
        return None if request is None else request.question

    def on_answer(self, peer: Peer, number: int, answer: Answer) -> None:
        """Hand an answer to the caller, unless the question is no longer pending."""
        request = self._pending_to(peer, number)
        if request is None:
            return
        self._forget(number)
        self._deadlines.cancel(number)
        round_trip_us = self._outbox.now - request.sent_us
        least = 2 if request.was_repeated else 1  # Progress counts from 1 again.
        transmissions = max(request.transmissions, least)
        self._timeouts.sample(round_trip_us, transmissions=transmissions)
        request.on_answer(answer)

    def on_progress(self, peer: Peer, number: int) -> None:
        """Start counting transmissions anew, for a limited time: the peer works on the answer."""
        request = self._pending_to(peer, number)
        if request is not None and self._outbox.now - request.sent_us < PROGRESS_US_MAX:
            request.transmissions = 1
            self._set_timer(number, 1)

    def on_timer(self) -> None:
        """Retransmit the questions that were not answered in time, or give up."""
        for number in self._deadlines.due():
            self._on_late(number, self._pending[number])

    def _on_late(self, number: int, request: _PendingRequest[Question, Answer]) -> None:
        if not request.transmissions:
            self._forget(number)
            request.on_failure()
            return
        is_late = self._outbox.now - request.sent_us >= request.us_max
        if request.transmissions >= request.tries_max or is_late:
            self._forget(number)
            self._timeouts.on_timeout(request.sent_us, self._outbox.now)
            request.on_failure()
            return
        request.transmissions += 1
        request.was_repeated = True
        request.question = self._mark_resend(request.question)
        self._send(request.peer, number, request.question)
        self._set_timer(number, request.transmissions)

    def on_departed(self, peer: Peer) -> None:
        """Give up all questions to a peer that has left."""
        for number in [n for n, request in self._pending.items() if request.peer == peer]:
            request = self._pending.get(number)
            if request is not None:  # The callback of an earlier failure may have cancelled it.
                self._forget(number)
                self._deadlines.cancel(number)
                request.on_failure()

    def check(self) -> None:
        """Assert the invariants of the pending requests."""
        self._deadlines.check()
        for number, request in self._pending.items():
            assert number <= self._last_number, "a pending request has a number of the future"
            assert 0 <= request.transmissions <= request.tries_max, "a request is sent too often"
        assert self._counts == Counter(request.peer for request in self._pending.values())
        for pending in self._statements.values():
            assert 0 < len(pending) <= STATEMENTS_PENDING_MAX, "too many statements are pending"
            assert pending.keys() <= self._pending.keys(), "a statement is not pending"

    def _pending_to(self, peer: Peer, number: int) -> _PendingRequest[Question, Answer] | None:
        request = self._pending.get(number)
        return request if request is not None and request.peer == peer else None

    def _set_timer(self, number: int, transmissions: int) -> None:
        after_us = self._timeouts.timeout_us(transmissions)
        self._deadlines.set(number, after_us)
