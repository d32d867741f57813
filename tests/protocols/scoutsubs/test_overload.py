"""On full links everything takes longer, and nothing else changes."""

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.messages import Bundle, Notify, Probe
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.protocols.scoutsubs.timeouts import AdaptiveTimeout, ResponseTimes
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import QUIET_US_MAX, RunOptions
from smartpubsub.sim.judging import result
from smartpubsub.sim.judging.result import Result
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.world import Host
from smartpubsub.workloads import ScenarioOptions, scenario
from tests.protocols.scoutsubs.forest import MS, Forest

NODES = 20


class Counting(Experiment):
    """Counts how often events are sent for the first time, and again."""

    first = again = 0

    def _on_receive(self, host: Host, peer: bytes, message: object) -> None:
        super()._on_receive(host, peer, message)
        if isinstance(message, Bundle):
            events = [part for part in message.parts if isinstance(part, Notify)]
            self.again += sum(part.is_resend for part in events)
            self.first += sum(not part.is_resend for part in events)


def with_hardly_any_bandwidth(bandwidth: int, seed: int) -> tuple[Counting, Result]:
    workload = scenario("normal", keys=range(NODES), seed=seed, options=ScenarioOptions(events=40))
    options = RunOptions(
        protocol="scoutsubs",
        nodes=NODES,
        seed=seed,
        network=NetworkOptions(bandwidth_bytes_per_s=bandwidth),
    )
    run = Counting(options, workload)
    return run, result.run(run, "normal")


@pytest.mark.parametrize("bandwidth", [500, 2_000])
def test_a_network_with_hardly_any_bandwidth_is_slow_and_loses_nothing(bandwidth: int) -> None:
    """Peers whose answers wait behind others are not suspected."""
    run, found = with_hardly_any_bandwidth(bandwidth, 1)

    assert found.verdict.expected > 200
    assert found.verdict.missing == 0
    assert found.violations == []
    assert run.again <= run.first


@pytest.mark.parametrize("seed", [7, 21, 40])
def test_events_that_take_many_minutes_arrive(seed: int) -> None:
    """A run is not over as long as anything comes that is owed."""
    run, found = with_hardly_any_bandwidth(500, seed)

    assert found.verdict.missing == 0
    assert found.violations == []
    last_us = max(event.called_us for event in run.journal.events.values())
    assert run.journal.ended_us - last_us > QUIET_US_MAX


@pytest.mark.parametrize("seed", [3, 5, 8])
def test_an_event_that_waits_for_a_full_link_is_not_sent_behind_itself(seed: int) -> None:
    """Relays retransmitted each event up to 13 times, and 15 of 180 deliveries never came."""
    run, found = with_hardly_any_bandwidth(500, seed)

    assert found.verdict.missing == 0
    assert run.again <= 2 * run.first


@pytest.mark.parametrize("skew_us", [0, -60 * MINUTE])
def test_an_event_that_was_lost_on_a_full_link_is_sent_again(skew_us: int) -> None:
    """A clock below zero, which only simulated nodes have, changes nothing."""
    forest = Forest(4)
    forest.host(0).skew_us = skew_us
    forest.subscribed(1, "surf")
    slow = forest.contacts[1].peer
    forest.poke(0, lambda scouts: scouts._times.sample_probe(slow, 10 * SECOND, 0))
    forest.cut(0, 1, SECOND)
    forest.publish(2, "surf")

    def is_sent_again() -> bool:
        return any(
            said.receiver == 1 and isinstance(said.part, Notify) and said.part.is_resend
            for said in forest.said
        )

    forest.run_until(is_sent_again)


def test_a_slow_peer_has_a_longer_timeout() -> None:
    settings = ScoutSettings()
    times = ResponseTimes(settings)
    assert times.timeout_us_for(b"slow") <= 2 * SECOND
    times.sample_probe(b"slow", 40 * SECOND, 40 * SECOND)

    assert times.timeout_us_for(b"slow") == 4 * 20 * SECOND
    assert times.timeout_us_for(b"other") <= settings.timeout_us_max
    times.sample_probe(b"slow", 20 * SECOND, 60 * SECOND)
    assert times.timeout_us_for(b"slow") > settings.timeout_us_max
    times.sample_probe(b"slow", 10 * MS, 61 * SECOND)
    assert times.timeout_us_for(b"slow") == times.timeout_us
    for number in range(40):
        times.sample_probe(b"slow", 10 * MS, (62 + number) * SECOND)
    assert times.timeout_us_for(b"slow") <= 2 * SECOND


def with_prompt_answers() -> ResponseTimes:
    times = ResponseTimes(ScoutSettings())
    for number in range(5):
        times.sample_probe(b"other", 10 * MS, number * SECOND)
    return times


def test_one_peer_that_was_paused_makes_no_timeout_of_others_longer() -> None:
    """It answers the probes of a minute at once."""
    times = with_prompt_answers()
    before_us = times.timeout_us
    for age_s in range(84, 4, -20):
        times.sample_probe(b"paused", age_s * SECOND, 100 * SECOND)

    assert times.timeout_us == before_us
    assert times.timeout_us_for(b"paused") > ScoutSettings().timeout_us_max
    times.sample_probe(b"paused", 10 * MS, 101 * SECOND)
    assert times.timeout_us_for(b"paused") == before_us


def test_a_peer_that_answers_fast_after_one_late_answer_was_paused() -> None:
    times = with_prompt_answers()
    before_us = times.timeout_us
    times.sample_probe(b"paused", 20 * SECOND, 100 * SECOND)
    assert times.are_slow
    times.sample_probe(b"paused", 10 * MS, 101 * SECOND)

    assert times.timeout_us == before_us


def test_late_answers_that_are_as_far_apart_as_their_probes_make_all_timeouts_longer() -> None:
    times = with_prompt_answers()
    for second in (20, 30, 40):
        times.sample_probe(b"slow", 10 * SECOND, second * SECOND)

    assert times.timeout_us == ScoutSettings().timeout_us_max


def test_where_several_peers_are_slow_links_are_full() -> None:
    times = with_prompt_answers()
    for peer in (b"one", b"two"):
        times.sample_probe(peer, 20 * SECOND, 100 * SECOND)
    times.sample_probe(b"one", 10 * MS, 101 * SECOND)

    assert times.are_slow


def test_a_peer_that_is_heard_from_is_not_suspected_though_it_does_not_answer() -> None:
    forest = Forest(4)
    peer = forest.contacts[1].peer
    forest.subscribed(0, "surf")
    forest.cut(0, 1, 60 * SECOND)
    for _ in range(100):  # Node 0 probes its replicas, node 1 among them, every 20 s.
        forest.send(1, 0, Probe(0))
        forest.run(SECOND // 2)

    assert peer not in forest.scouts(0).view().suspected


# --- waiting ---


def wait(waiting: AdaptiveTimeout, tries: int = 0) -> int:
    return waiting.timeout_us(tries, least_us=1_000, most_us=60_000)


def test_the_timeout_follows_the_usual_response_time() -> None:
    waiting = AdaptiveTimeout(100)
    assert wait(waiting) == 1_000
    for _ in range(20):
        waiting.on_answer(2_000, was_repeated=False)
    assert 7_900 <= wait(waiting) <= 8_000
    for _ in range(60):
        waiting.on_answer(100, was_repeated=False)
    assert wait(waiting) == 1_000


def test_each_try_waits_longer_up_to_a_limit() -> None:
    waiting = AdaptiveTimeout(0)
    assert [wait(waiting, tries) for tries in (0, 1, 2, 6, 7, 50)] == [
        1_000, 2_000, 4_000, 60_000, 60_000, 60_000,
    ]  # fmt: skip


def test_where_nothing_is_answered_in_time_the_next_one_waits_longer_too() -> None:
    waiting = AdaptiveTimeout(0)
    for begun_us in (0, 1_000, 3_000):
        waiting.on_timeout(begun_us, begun_us + wait(waiting))
    assert wait(waiting) == 8_000
    waiting.on_answer(9_000, was_repeated=True)  # Which says nothing: to which try?
    assert wait(waiting) == 8_000
    waiting.on_answer(7_000, was_repeated=False)
    assert wait(waiting) == 14_000


def test_many_that_wait_at_the_same_time_say_no_more_than_one() -> None:
    waiting = AdaptiveTimeout(0)
    for begun_us in range(30):
        waiting.on_timeout(begun_us, begun_us + 1_000)
    assert wait(waiting) == wait(waiting, tries=1) == 2_000


def test_the_timeout_exceeds_its_limit_for_slower_responses() -> None:
    waiting = AdaptiveTimeout(0)
    for _ in range(30):
        waiting.on_answer(100_000, was_repeated=False)
    assert wait(waiting) > 390_000
