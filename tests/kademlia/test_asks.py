"""The round trips of requests: links that lose messages do not count as full."""

from smartpubsub.kademlia.asks import REPEATED_MAX, Asks
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.kademlia.settings import HOUR, MINUTE, SECOND, Settings
from smartpubsub.seam import Ask, Effect, SetTimer

MS = 1_000
PEER = Contact.of(b"peer")


class Link:
    """A peer that answers each request after a time."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.asks = Asks(Settings(), self.effects)
        self.now = 0

    def ask(self, trip_us: int, *, is_lost: bool = False) -> None:
        """Ask, and repeat the request until the answer is there; the first one may get lost."""
        self.asks.ask(PEER, Message(Kind.FIND_NODE), self.now)
        answered_at = None if is_lost else self.now + trip_us
        while True:
            number = max(effect.number for effect in self.effects if isinstance(effect, Ask))
            due_at = [effect.at for effect in self.effects if isinstance(effect, SetTimer)][-1]
            if answered_at is not None and answered_at <= due_at:
                break
            self.now = due_at
            self.asks.on_silence(number, self.now)
            answered_at = answered_at or self.now + trip_us
        self.now = answered_at
        assert self.asks.on_answer(PEER.peer, number, self.now) is not None
        self.effects.clear()


def test_links_that_lose_messages_are_not_full() -> None:
    link = Link()
    for number in range(200):
        link.ask(20 * MS, is_lost=number >= 20 and number % 3 == 0)
        assert not link.asks.are_links_full


def test_links_whose_round_trip_is_longer_than_a_node_waits_are_links_full() -> None:
    link = Link()
    for _ in range(20):
        link.ask(1_300 * MS)
    assert link.asks.are_links_full


def test_links_that_become_slow_are_links_full_and_recover() -> None:
    link = Link()
    for _ in range(20):
        link.ask(20 * MS)
    for _ in range(REPEATED_MAX):
        link.ask(5 * SECOND)
    assert link.asks.are_links_full
    for _ in range(40):
        link.ask(20 * MS)
    assert not link.asks.are_links_full


def test_only_the_oldest_of_the_overdue_requests_to_a_peer_is_repeated() -> None:
    effects: list[Effect] = []
    asks, settings = Asks(Settings(), effects), Settings()
    for _ in range(3):
        asks.ask(PEER, Message(Kind.FIND_NODE), now=0)
    asks.ask(Contact.of(b"other"), Message(Kind.FIND_NODE), now=0)
    first, second, third, other = (one.number for one in effects if isinstance(one, Ask))

    def repeated(now: int, *numbers: int) -> list[int]:
        effects.clear()
        for number in numbers:
            asks.on_silence(number, now)
        return [effect.number for effect in effects if isinstance(effect, Ask)]

    assert repeated(settings.slow_us, first, second, third, other) == [first, other]
    again_us = settings.slow_us + settings.again_us
    assert repeated(again_us, second, third, first) == [first]
    assert asks.on_answer(PEER.peer, first, again_us) is not None
    assert repeated(2 * again_us, third, second) == [second]


def test_an_answer_that_comes_an_hour_late_does_not_stall_lookups() -> None:
    effects: list[Effect] = []
    asks = Asks(Settings(), effects)
    asks.ask(PEER, Message(Kind.FIND_NODE), now=0)
    asks.on_silence(1, MINUTE)
    assert asks.on_answer(PEER.peer, 1, HOUR) is not None
    asks.ask(Contact.of(b"other"), Message(Kind.FIND_NODE), HOUR)
    repeat_at = [effect.at for effect in effects if isinstance(effect, SetTimer)][-1]
    assert repeat_at <= HOUR + MINUTE // 2


def test_a_peer_is_not_pinged_twice_although_it_answers_another_request() -> None:
    effects: list[Effect] = []
    asks = Asks(Settings(), effects)
    asks.ping(PEER, now=0)
    asks.ask(PEER, Message(Kind.FIND_NODE), now=0)
    assert asks.on_answer(PEER.peer, 2, 1) is not None
    effects.clear()
    asks.ping(PEER, now=2)
    assert effects == []
    assert asks.on_answer(PEER.peer, 1, 3) is not None
    asks.ping(PEER, now=4)
    assert any(isinstance(effect, Ask) for effect in effects)
