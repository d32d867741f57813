"""Requests are answered once, sent again with back-off, and given up."""

import pytest

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.runtime import requests
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.requests import (
    PROGRESS_US_MAX,
    REQUEST_TIMER,
    STATEMENTS_PENDING_MAX,
    Requests,
)
from smartpubsub.seam import SetTimer

PEER, OTHER = b"peer", b"other"


class DoublingTimeouts:
    """10 us at first, doubled with every transmission; remembers samples."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []
        self.given_up: list[tuple[int, int]] = []

    def sample(self, round_trip_us: int, *, transmissions: int = 1) -> None:
        self.samples.append((round_trip_us, transmissions))

    def on_timeout(self, asked_us: int, now: int) -> None:
        self.given_up.append((asked_us, now))

    def timeout_us(self, transmissions: int = 1) -> int:
        return 10 << (transmissions - 1)


class ToyRequests:
    """Requests with fake ports, and what came of them."""

    def __init__(self) -> None:
        self.outbox: Outbox[str] = Outbox("toy", lambda parts: parts)
        self.sent: list[tuple[bytes, int, str]] = []
        self.timeouts = DoublingTimeouts()
        self.answers: list[str] = []
        self.failures = 0
        self.requests: Requests[str, str] = Requests(
            self.outbox,
            lambda peer, number, text: self.sent.append((peer, number, text)),
            self.timeouts,
            tries_max=3,
            mark_resend=lambda question: question.removesuffix(" again") + " again",
        )

    def ask(self, *, us_max: int | None = None) -> int:
        def fail() -> None:
            self.failures += 1

        return self.requests.ask(PEER, "how?", self.answers.append, fail, us_max=us_max)

    def fire(self, at: int) -> None:
        self.outbox.now = at
        self.requests.on_timer()
        self.requests.check()

    def timers(self) -> list[int]:
        return [effect.at for effect in self.outbox.take() if isinstance(effect, SetTimer)]


def test_an_answer_ends_a_request_and_is_a_sample() -> None:
    toy = ToyRequests()
    number = toy.ask()
    assert toy.sent == [(PEER, number, "how?")]
    assert toy.outbox.take() == [SetTimer(("toy", REQUEST_TIMER), 10)]
    toy.outbox.now = 4
    toy.requests.on_answer(PEER, number, "so")
    toy.requests.on_answer(PEER, number, "so")
    assert toy.answers == ["so"]
    assert toy.timeouts.samples == [(4, 1)]
    toy.fire(10)
    assert (toy.timers(), len(toy.requests), len(toy.sent)) == ([], 0, 1)


def test_an_answer_of_another_peer_is_ignored() -> None:
    toy = ToyRequests()
    number = toy.ask()
    toy.requests.on_answer(OTHER, number, "so")
    toy.requests.on_progress(OTHER, number)
    toy.requests.on_answer(PEER, number + 1, "so")
    assert toy.answers == []
    assert len(toy.requests) == 1


def test_a_question_goes_out_again_with_back_off_until_it_is_given_up() -> None:
    toy = ToyRequests()
    number = toy.ask()
    for at in (10, 30, 70):
        toy.fire(at)
    assert [text for _, _, text in toy.sent] == ["how?", "how? again", "how? again"]
    assert toy.timers() == [10, 30, 70]
    assert toy.failures == 1
    assert toy.timeouts.given_up == [(0, 70)]
    toy.fire(100)
    toy.requests.on_answer(PEER, number, "late")
    assert (toy.failures, toy.answers) == (1, [])


def test_progress_counts_transmissions_anew() -> None:
    toy = ToyRequests()
    number = toy.ask()
    toy.fire(10)
    toy.fire(30)
    toy.requests.on_progress(PEER, number)
    toy.fire(40)
    assert toy.failures == 0
    assert toy.timers()[-2:] == [40, 60]


def test_progress_does_not_keep_a_question_open_for_ever() -> None:
    toy = ToyRequests()
    number = toy.ask()
    for at in range(0, PROGRESS_US_MAX, PROGRESS_US_MAX // 100):
        toy.fire(at)
        toy.requests.on_progress(PEER, number)
    assert toy.failures == 0
    for second in range(3):
        toy.fire(PROGRESS_US_MAX + second * SECOND)
        toy.requests.on_progress(PEER, number)
    assert toy.failures == 1


def test_progress_does_not_make_a_repeated_question_a_sample() -> None:
    """Karn's rule: the answer may be one to either transmission."""
    toy = ToyRequests()
    number = toy.ask()
    toy.fire(10)
    toy.requests.on_progress(PEER, number)
    toy.outbox.now = 15
    toy.requests.on_answer(PEER, number, "so")
    assert toy.timeouts.samples == [(15, 2)]


@pytest.mark.parametrize("us_max", [25, 200])
def test_with_a_deadline_the_number_of_transmissions_is_not_limited(us_max: int) -> None:
    toy = ToyRequests()
    toy.ask(us_max=us_max)
    fired = []
    while not toy.failures:
        fired += toy.timers()
        toy.fire(fired[-1])
    assert fired[-2] < us_max <= fired[-1]
    assert len(toy.sent) == len(fired)


def test_a_cancelled_request_neither_answers_nor_fails() -> None:
    toy = ToyRequests()
    number = toy.ask()
    toy.requests.cancel(number)
    toy.requests.cancel(number)
    toy.fire(10)
    toy.requests.on_answer(PEER, number, "so")
    assert (toy.answers, toy.failures) == ([], 0)
    assert toy.timers() == [10]


def test_numbers_of_a_later_incarnation_are_higher() -> None:
    toy = ToyRequests()
    toy.requests.start(1)
    first = [toy.ask(), toy.ask()]
    toy.requests.start(2)
    assert first[0] < first[1] < toy.ask()


def test_questions_to_a_peer_that_has_left_are_given_up_at_once() -> None:
    toy = ToyRequests()
    number = toy.ask()
    toy.ask()
    toy.timers()
    toy.requests.on_departed(OTHER)
    assert toy.failures == 0

    toy.requests.on_departed(PEER)
    assert (toy.failures, len(toy.requests)) == (2, 0)
    toy.fire(10)
    assert toy.failures == 2

    toy.requests.on_answer(PEER, number, "late")
    assert toy.answers == []


def test_only_the_newest_statements_to_a_peer_stay_pending() -> None:
    toy = ToyRequests()
    for _ in range(STATEMENTS_PENDING_MAX + 5):
        toy.requests.inform(PEER, "so it is")
        toy.requests.check()
    toy.requests.inform(OTHER, "so it is")
    waiting = toy.ask()
    numbers = [number for peer, number, _ in toy.sent if peer == PEER]
    pending = [toy.requests.question_to(PEER, number) for number in numbers[:6]]
    assert pending == [None] * 5 + ["so it is"]
    assert toy.requests.question_to(PEER, waiting) == "how?"
    toy.requests.on_answer(PEER, numbers[5], "yes")
    toy.requests.on_departed(PEER)
    toy.requests.check()
    assert toy.failures == 1
    assert len(toy.requests) == 1


@pytest.mark.parametrize("limit", ["PENDING_MAX", "PENDING_MAX_OF_PEER"])
def test_a_question_beyond_the_limit_is_not_sent_and_fails_after_its_caller(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(requests, limit, 2)
    toy = ToyRequests()
    first, _, third = toy.ask(), toy.ask(), toy.ask()
    assert [number for _, number, _ in toy.sent] == [first, first + 1]
    assert (toy.failures, toy.outbox.rejected["open requests"]) == (0, 1)
    toy.requests.on_answer(PEER, first, "so")
    toy.fire(0)
    assert (toy.failures, len(toy.requests)) == (1, 1)
    assert toy.requests.question_to(PEER, third) is None
    assert not toy.timeouts.given_up
    toy.ask()
    assert len(toy.sent) == 3


def test_many_questions_to_one_peer_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PENDING_MAX_OF_PEER", 2)
    toy = ToyRequests()
    for _ in range(3):
        toy.ask()
    toy.requests.ask(OTHER, "how?", toy.answers.append)
    assert [peer for peer, _, _ in toy.sent] == [PEER, PEER, OTHER]
    toy.requests.on_departed(PEER)
    toy.requests.check()
    assert len(toy.requests) == 1
