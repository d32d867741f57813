"""The failure detector: which peers are down, up again, suspected or restarted."""

from random import Random

from smartpubsub.protocols.runtime.failure_detector import (
    ANSWERED_COUNT_MIN,
    PROBE_TIMER,
    DetectorSettings,
    FailureDetector,
    PeerDown,
    PeerNews,
    PeerRestarted,
    PeerTrusted,
    PeerUp,
)
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.seam import CancelTimer, Effect, Send, SetTimer

SECOND = 1_000_000
PEER = b"peer"
TIMER = ("test", PROBE_TIMER, PEER)


class Watch:
    """A failure detector by itself, with the news and the effects that it gives."""

    def __init__(self) -> None:
        self.outbox: Outbox[str] = Outbox("test", list)
        self.news: list[PeerNews] = []
        settings = DetectorSettings(
            recent_us=SECOND,
            slow_us=60 * SECOND,
            probe_us=20 * SECOND,
            probes_max=3,
            suspect_us=60 * SECOND,
            forget_us=600 * SECOND,
        )
        self.detector = FailureDetector(
            self.outbox, settings, self._probe, lambda _: SECOND, self.news.append, Random(1)
        )
        self.numbers: list[int] = []
        """The numbers of all probes."""

    def _probe(self, number: int) -> str:
        self.numbers.append(number)
        return "probe"

    def at(self, seconds: int) -> FailureDetector:
        self.outbox.now = seconds * SECOND
        return self.detector

    def effects(self) -> list[Effect]:
        self.detector.check()
        return self.outbox.take()

    def find_down(self, seconds: int = 0) -> None:
        """Probe a peer that does not answer."""
        self.at(seconds).probe(PEER)
        for second in (1, 2, 3):
            self.at(seconds + second).on_timer(PEER)


def test_a_peer_that_answers_no_probe_is_down_and_suspected_for_a_while() -> None:
    watch = Watch()
    watch.find_down()

    probes = [effect for effect in watch.effects() if isinstance(effect, Send)]
    assert [probe.message for probe in probes] == ["probe"] * 3
    assert watch.news == [PeerDown(PEER, was_down=False)]
    assert watch.at(62).is_suspected(PEER)
    assert watch.detector.suspected() == (PEER,)
    assert not watch.at(63).is_suspected(PEER)
    assert watch.detector.is_down(PEER)


def test_a_peer_that_stays_down_is_reported_as_such() -> None:
    watch = Watch()
    watch.find_down()
    watch.find_down(100)
    assert watch.news[1:] == [PeerDown(PEER, was_down=True)]


def test_any_message_of_a_peer_that_is_down_brings_it_up() -> None:
    watch = Watch()
    watch.find_down()
    watch.at(10).hear(PEER)

    assert watch.news[1:] == [PeerTrusted(PEER), PeerUp(PEER)]
    assert not watch.detector.is_down(PEER)
    assert not watch.detector.is_suspected(PEER)


def test_a_peer_that_is_heard_from_is_not_down_without_an_answer() -> None:
    watch = Watch()
    watch.at(0).probe(PEER)
    watch.at(1).hear(PEER)
    for second in (1, 2, 3, 4):
        watch.at(second).on_timer(PEER)
    assert watch.news == []


def test_one_probe_is_under_way_at_a_time_and_an_answer_ends_it() -> None:
    watch = Watch()
    watch.at(0).probe(PEER)
    watch.detector.probe(PEER)
    assert watch.effects() == [SetTimer(TIMER, SECOND), Send(PEER, "probe")]
    watch.at(1).on_answer(PEER, watch.numbers[0], 1)
    assert watch.effects() == [CancelTimer(TIMER)]


def test_only_the_number_of_a_probe_to_the_same_peer_is_awaited_and_only_once() -> None:
    watch = Watch()
    watch.at(0).probe(PEER)
    (number,) = watch.numbers
    assert watch.detector.awaits(PEER, number)
    assert not watch.detector.awaits(b"stranger", number)
    assert not watch.detector.awaits(PEER, number + 1)
    assert watch.at(1).on_answer(PEER, number, 1) == SECOND
    assert not watch.detector.awaits(PEER, number)


def test_an_answer_that_comes_after_the_peer_was_found_down_still_tells_the_round_trip() -> None:
    watch = Watch()
    watch.find_down()
    assert watch.at(30).on_answer(PEER, watch.numbers[0], 1) == 30 * SECOND


def test_a_new_incarnation_is_a_restart() -> None:
    watch = Watch()
    for incarnation in (1, 1, 2):
        watch.at(0).probe(PEER)
        watch.detector.on_answer(PEER, watch.numbers[-1], incarnation)
    assert watch.news == [PeerRestarted(PEER)]


def test_silent_peers_are_probed_and_some_in_any_case() -> None:
    watch = Watch()
    watch.at(100).hear(b"heard")
    watch.detector.hear(b"always")
    watch.at(110).watch([PEER, b"heard", b"always"], always=[b"always"])
    probed = [effect.peer for effect in watch.effects() if isinstance(effect, Send)]
    assert probed == [PEER, b"always"]


def test_what_is_old_is_forgotten() -> None:
    watch = Watch()
    watch.find_down()
    watch.at(5).hear(b"heard")
    watch.at(700).forget()
    assert not watch.detector.is_down(PEER)
    assert watch.detector.suspected_count == 0
    assert watch.detector.heard_us(b"heard") == -1


def test_a_peer_that_has_left_is_down_at_once_and_its_probe_is_over() -> None:
    watch = Watch()
    watch.at(0).probe(PEER)
    watch.effects()
    watch.at(1).on_departed(PEER)

    assert watch.news == [PeerDown(PEER, was_down=False)]
    assert watch.detector.is_suspected(PEER)
    assert watch.effects() == [CancelTimer(TIMER)]

    watch.at(2).hear(PEER)
    assert watch.news[1:] == [PeerTrusted(PEER), PeerUp(PEER)]


def test_a_peer_that_is_up_when_it_is_banned_was_not_down_before() -> None:
    watch = Watch()
    watch.at(1).hear(PEER)
    watch.detector.ban(PEER)
    watch.detector.ban(PEER)
    assert watch.news == [PeerDown(PEER, was_down=False)]


def answered(watch: Watch, seconds: int, *, count: int = 1) -> None:
    """Send probes along with other messages, and have the peer answer the last one."""
    for _ in range(count):
        watch.at(seconds).probe_along(PEER)
    watch.detector.on_answer(PEER, watch.numbers[-1], 1)


def test_a_network_seems_to_lose_nothing_after_some_answers() -> None:
    watch = Watch()
    for second in range(ANSWERED_COUNT_MIN):
        assert watch.at(second).may_lose_messages
        answered(watch, second)
    assert not watch.detector.may_lose_messages


def test_a_network_that_has_lost_a_probe_may_lose_messages_for_a_while() -> None:
    watch = Watch()
    for second in range(ANSWERED_COUNT_MIN):
        answered(watch, second)
    answered(watch, 20, count=2)

    assert watch.at(619).may_lose_messages
    assert not watch.at(620).may_lose_messages


def test_a_lost_probe_counts_once_however_many_answers_come_after_it() -> None:
    watch = Watch()
    answered(watch, 0, count=2)
    for second in range(100, 600, 25):
        answered(watch, second)

    assert watch.at(599).may_lose_messages
    assert not watch.at(600).may_lose_messages


def test_a_peer_that_answers_no_probe_along_with_messages_is_not_down() -> None:
    watch = Watch()
    watch.at(0).probe_along(PEER)

    assert not any(isinstance(effect, SetTimer) for effect in watch.effects())
    assert watch.news == []


def test_a_late_answer_of_an_earlier_incarnation_is_no_restart() -> None:
    watch = Watch()
    early, late = watch.at(0).probe_along(PEER), watch.at(1).probe_along(PEER)
    watch.at(2).on_answer(PEER, late, 7)
    watch.at(3).on_answer(PEER, early, 6)
    watch.detector.on_answer(PEER, watch.at(4).probe_along(PEER), 7)
    assert watch.news == []


def test_a_peer_that_restarts_with_a_lower_incarnation_has_restarted() -> None:
    """It has lost its storage, and its clock was set back."""
    watch = Watch()
    for second, incarnation in enumerate((7, 3, 3)):
        number = watch.at(second).probe_along(PEER)
        watch.detector.on_answer(PEER, number, incarnation)
    assert watch.news == [PeerRestarted(PEER)]
