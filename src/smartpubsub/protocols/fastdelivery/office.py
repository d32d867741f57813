"""What all parts of a node's FastDelivery share: time, questions and answers, and who is silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.protocols.fastdelivery.parts import (
    Answer,
    Notify,
    Packet,
    Question,
    Relay,
    Working,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.publication import Signing
from smartpubsub.seam import CancelTimer, Deliver, Effect, Peer, Send, SetTimer, Store

if TYPE_CHECKING:
    from smartpubsub.protocols.fastdelivery.advertising import Advertising
    from smartpubsub.protocols.fastdelivery.boards import Boards
    from smartpubsub.protocols.fastdelivery.finding import Finding
    from smartpubsub.protocols.fastdelivery.helping import Helping
    from smartpubsub.protocols.fastdelivery.joining import Joining
    from smartpubsub.protocols.fastdelivery.keeping import Keeping
    from smartpubsub.protocols.fastdelivery.local import Local
    from smartpubsub.protocols.fastdelivery.measuring import Measuring
    from smartpubsub.protocols.fastdelivery.owning import Owning
    from smartpubsub.protocols.fastdelivery.records import Records
    from smartpubsub.protocols.fastdelivery.searching import Searching
    from smartpubsub.protocols.fastdelivery.spreading import Spreading
    from smartpubsub.protocols.fastdelivery.turns import Turns

NUMBER_BITS = 32
"""Numbers of a later incarnation are higher than all those of earlier ones."""

_FOREVER = 1 << 62

NAME = "fast"
"""What timers and, with a slash after it, storage keys begin with."""

OnAnswer = Callable[[Answer], None]
OnSilence = Callable[[], None]


def never_mind() -> None:
    """What to do about a silence that does not matter."""


@dataclass(slots=True)
class _Open:
    """A question that waits for its answer."""

    peer: Peer
    part: Question
    on_answer: OnAnswer
    on_silence: OnSilence
    tries_max: int
    us_max: int
    asked_us: int
    tries: int = 1


class Office:
    """Where a node's work on FastDelivery is done, one event at a time, at several desks."""

    local: Local
    finding: Finding
    boards: Boards
    advertising: Advertising
    joining: Joining
    owning: Owning
    spreading: Spreading
    helping: Helping
    measuring: Measuring
    keeping: Keeping
    records: Records
    searching: Searching
    turns: Turns

    def __init__(
        self, settings: FastSettings, kademlia: Kademlia, signing: Signing, rng: Random
    ) -> None:
        self.settings = settings
        self.kademlia = kademlia
        self.signing = signing
        self.rng = rng
        self.own = kademlia.own
        self.incarnation = 0
        self.now = 0
        self.refusals: Counter[str] = Counter()
        """What was not what it should be, or beyond a limit, by reason."""
        self.to_self: list[Packet] = []
        """What the node says to itself, which goes over no link."""
        self._suspects: dict[Peer, int] = {}
        """Who did not answer, and until when it is not chosen."""
        self._heard_us: dict[Peer, int] = {}
        """When somebody said something last, of those who did so a short while ago."""
        self._answer_us = settings.patience_us_first // 4
        self._has_measured = False
        self._effects: list[Effect] = []
        self._open: dict[int, _Open] = {}
        self.last_number = 0

    # --- what is done ---

    def ask(
        self,
        peer: Peer,
        part: Question,
        on_answer: OnAnswer,
        on_silence: OnSilence = never_mind,
        *,
        tries_max: int | None = None,
        us_max: int | None = None,
    ) -> int:
        """Ask somebody, again and again until it answers or has been silent too often.

        If there is a time, until that is over, however often it takes.
        """
        self.last_number = number = self.last_number + 1
        tries = self.settings.tries_max if tries_max is None else tries_max
        question = _Open(peer, part, on_answer, on_silence, tries, _FOREVER, self.now)
        if us_max is not None:
            question.tries_max, question.us_max = _FOREVER, us_max
        self._open[number] = question
        self._say(peer, Packet(number, part))
        self.set_timer(("ask", number), self.now + self.patience_us)
        return number

    def answer(self, peer: Peer, number: int, part: Answer) -> None:
        """Answer what was asked under a number."""
        self._say(peer, Packet(number, part))

    def forget_question(self, number: int) -> None:
        """Whatever the answer is, it does not matter any more."""
        if self._open.pop(number, None) is not None:
            self.cancel_timer(("ask", number))

    def _say(self, peer: Peer, packet: Packet) -> None:
        if peer == self.own.peer:
            self.to_self.append(packet)
        else:
            self._effects.append(Send(peer, packet))

    def on_answer(self, peer: Peer, number: int, part: Answer) -> None:
        """Somebody has answered."""
        question = self._open.get(number)
        if question is None or question.peer != peer:
            return
        if isinstance(part, Working):
            question.tries = 1  # It is there, and the answer will come.
            self.set_timer(("ask", number), self.now + self.patience_us)
            return
        del self._open[number]
        self.cancel_timer(("ask", number))
        if question.tries == 1:  # Otherwise nobody knows which try it is the answer to.
            self._answered_after(self.now - question.asked_us)
        question.on_answer(part)

    def on_ask_timer(self, number: int) -> None:
        """Somebody has not answered in time."""
        question = self._open.get(number)
        if question is None:
            return
        is_late = self.now - question.asked_us >= question.us_max
        if question.tries >= question.tries_max or is_late:
            del self._open[number]
            question.on_silence()
            return
        question.tries += 1
        # Whoever is given much time is not asked more and more often.
        doublings = min((question.tries - 1) // self.settings.tries_max, 3)
        patience_us = self.patience_us << doublings
        if isinstance(question.part, Notify | Relay):
            question.part = question.part._replace(is_resend=True)
        self._say(question.peer, Packet(number, question.part))
        self.set_timer(("ask", number), self.now + patience_us)

    def deliver(self, item: object) -> None:
        """Tell the application something."""
        self._effects.append(Deliver(item))

    def set_timer(self, name: tuple[object, ...], at: int) -> None:
        """Have a timer fire."""
        self._effects.append(SetTimer((NAME, *name), at))

    def cancel_timer(self, name: tuple[object, ...]) -> None:
        """Have a timer not fire."""
        self._effects.append(CancelTimer((NAME, *name)))

    def store(self, key: bytes, value: bytes | None) -> None:
        """Keep something through crashes, or no longer."""
        self._effects.append(Store(NAME.encode() + b"/" + key, value))

    def do(self, effect: Effect) -> None:
        """Have an effect of the overlay carried out."""
        self._effects.append(effect)

    def taken(self) -> list[Effect]:
        """All that is to be done now."""
        effects, self._effects = self._effects, []
        return effects

    # --- who is there ---

    def hear(self, peer: Peer) -> None:
        """Somebody has said something, so it is there."""
        self._suspects.pop(peer, None)
        self._heard_us[peer] = self.now

    def was_heard(self, peer: Peer) -> bool:
        """Whether somebody has said something just now, as far as answers come at once."""
        lately_us = max(self.settings.hold_us, self.patience_us)
        return self._heard_us.get(peer, -_FOREVER) > self.now - lately_us

    def suspect(self, peer: Peer) -> None:
        """Somebody did not answer although it was given much time: it keeps no boards."""
        self._suspects[peer] = self.now + self.settings.suspect_us

    def is_suspect(self, peer: Peer) -> bool:
        """Whether somebody did not answer a short while ago."""
        until = self._suspects.get(peer)
        return until is not None and self.now < until

    def trusted(self, contacts: Iterable[Contact]) -> list[Contact]:
        """Those who are not suspected."""
        return [contact for contact in contacts if not self.is_suspect(contact.peer)]

    def closest(self, name: bytes, count: int) -> list[Contact]:
        """The peers closest to a name, this node among them, that are not suspected."""
        known = [*self.kademlia.closest_local(name, count + len(self._suspects)), self.own]
        known.sort(key=lambda contact: contact.key ^ key_of(name))
        return self.trusted(known)[:count]

    def forget(self) -> None:
        """Forget of peers what does not matter any more."""
        self._suspects = {p: until for p, until in self._suspects.items() if until > self.now}
        self._heard_us = {p: at for p, at in self._heard_us.items() if self.was_heard(p)}

    # --- patience ---

    def _answered_after(self, us: int) -> None:
        if self._has_measured:
            self._answer_us += (us - self._answer_us) // 8
        else:
            self._answer_us, self._has_measured = us, True

    @property
    def patience_us(self) -> int:
        """How long to wait for an answer."""
        settings = self.settings
        return min(settings.patience_us_max, max(settings.patience_us_min, 4 * self._answer_us))
