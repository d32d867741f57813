"""Bounded dictionaries, deferred calls and round-trip estimates."""

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.protocols.runtime.bounded import BoundedDict, SharedCache
from smartpubsub.protocols.runtime.deferred import Deferred, TooManyCallsError
from smartpubsub.protocols.runtime.rtt import RoundTripEstimator, RttSettings

SETTINGS = RttSettings(timeout_us_first=1_000, timeout_us_min=100, timeout_us_max=10_000)


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_a_bounded_dictionary_keeps_the_last_keys(keys: list[int], count_max: int) -> None:
    bounded: BoundedDict[int, int] = BoundedDict(count_max)
    for at, key in enumerate(keys):
        bounded[key] = at

    newest = list(dict.fromkeys(reversed(keys)))[:count_max]
    assert list(bounded) == newest[::-1]


def test_a_bounded_dictionary_passes_to_another_process() -> None:
    bounded: BoundedDict[str, int] = BoundedDict(2)
    bounded["a"], bounded["b"] = 1, 2

    copied = pickle.loads(pickle.dumps(bounded))
    copied["c"] = 3
    assert list(copied.items()) == [("b", 2), ("c", 3)]


def test_deferred_calls_run_in_order_when_opened() -> None:
    deferred, ran = Deferred(count_max=2), list[int]()

    taken = [deferred.run(lambda n=n: ran.append(n)) for n in range(3)]  # type: ignore[misc]
    assert (taken, ran) == ([True, True, False], [])

    deferred.open()
    deferred.run(lambda: ran.append(9))
    assert ran == [0, 1, 9]


def test_a_call_without_room_fails_with_a_reason_unless_it_ends_something() -> None:
    deferred, ran = Deferred(count_max=1), list[int]()
    deferred.call(lambda: ran.append(1))
    with pytest.raises(TooManyCallsError, match="1 calls wait until the node has joined"):
        deferred.call(lambda: ran.append(2))
    deferred.run_anyway(lambda: ran.append(3))

    deferred.open()
    deferred.must_have_room()
    deferred.call(lambda: ran.append(4))
    assert ran == [1, 3, 4]


def test_the_first_sample_gives_the_timeout_of_the_rfc() -> None:
    estimator = RoundTripEstimator(SETTINGS)
    assert estimator.timeout_us() == 1_000

    estimator.sample(200)
    assert estimator.timeout_us() == 200 + 4 * 100


def test_a_timeout_of_several_round_trips_follows_increases_faster() -> None:
    estimator = RoundTripEstimator(
        replace(SETTINGS, round_trips=4, variance_factor=0, gain_up=2, gain_down=8)
    )
    found = []
    for round_trip_us in (200, 400, 140):
        estimator.sample(round_trip_us)
        found.append(estimator.timeout_us())

    assert found == [4 * 200, 4 * 300, 4 * 280]


def test_an_answer_to_a_retransmission_is_no_sample() -> None:
    estimator = RoundTripEstimator(SETTINGS)
    estimator.sample(5_000, transmissions=2)

    assert estimator.timeout_us() == 1_000


def test_the_timeout_doubles_with_every_retransmission_up_to_its_maximum() -> None:
    estimator = RoundTripEstimator(SETTINGS)
    estimator.sample(200)

    assert [estimator.timeout_us(n) for n in (1, 2, 3, 9)] == [600, 1_200, 2_400, 10_000]


@given(st.lists(st.integers(-5, 50_000), min_size=1))
def test_the_timeout_stays_within_its_bounds(samples: list[int]) -> None:
    estimator = RoundTripEstimator(SETTINGS)
    for sample in samples:
        estimator.sample(sample)

    assert 100 <= estimator.timeout_us() <= 10_000


def test_a_steady_round_trip_brings_the_timeout_near_it() -> None:
    estimator = RoundTripEstimator(SETTINGS)
    for _ in range(100):
        estimator.sample(1_000)

    assert 1_000 <= estimator.timeout_us() <= 1_020


def test_several_threads_can_use_a_shared_cache() -> None:
    cache: SharedCache[tuple[int, int], int] = SharedCache(4)

    def use(thread: int) -> int:
        found = 0
        for number in range(50_000):
            cache.put((thread, number), number)
            found += cache.get((thread, number)) == number
        return found

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)  # Threads change places as often as they can.
    try:
        with ThreadPoolExecutor(8) as threads:
            assert min(threads.map(use, range(8))) > 0
    finally:
        sys.setswitchinterval(before)
