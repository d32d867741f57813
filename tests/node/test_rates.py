"""Token buckets by peer and kind."""

from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.node.transport.rates import Rates

REPEATABLE = settings(deadline=None, database=None, derandomize=True)


def test_what_keeps_to_the_rate_never_waits() -> None:
    rates = Rates(10, 5)
    for tick in range(100):
        assert rates.delay_s(b"p", {"a": 1}, tick / 10) == 0
        rates.take(b"p", {"a": 1}, tick / 10)


def test_a_second_worth_may_come_at_once_and_then_has_to_be_made_up() -> None:
    rates = Rates(10, 5)
    rates.take(b"p", {"a": 10}, 0)
    assert rates.delay_s(b"p", {"a": 1}, 0) == 0
    rates.take(b"p", {"a": 25}, 0)
    assert rates.delay_s(b"p", {"a": 1}, 0) == 2.5
    assert rates.delay_s(b"p", {"a": 1}, 2) == 0.5
    assert rates.delay_s(b"p", {"a": 1}, 3) == 0


def test_kinds_and_peers_do_not_wait_for_each_other() -> None:
    rates = Rates(10, 5)
    rates.take(b"p", {"a": 100}, 0)
    assert rates.delay_s(b"p", {"b": 1}, 0) == 0
    assert rates.delay_s(b"q", {"a": 1}, 0) == 0
    assert rates.delay_s(b"p", {"a": 1, "b": 1}, 0) == 9


def test_of_many_peers_those_heard_last_are_remembered() -> None:
    rates = Rates(10, 2)
    for peer in (b"p", b"q", b"p", b"r"):
        rates.take(peer, {"a": 20}, 0)
    assert len(rates) == 2
    assert [rates.delay_s(peer, {"a": 1}, 0) > 0 for peer in (b"p", b"q", b"r")] == [
        True,
        False,
        True,
    ]


@REPEATABLE
@given(
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 50)), max_size=50),
    st.integers(1, 20),
)
def test_however_it_comes_no_more_passes_than_the_rate_allows(
    arrivals: list[tuple[float, int]], per_s: int
) -> None:
    rates = Rates(per_s, 5)
    now, passed = 0.0, 0
    for pause, count in arrivals:
        now += pause
        delay_s = rates.delay_s(b"p", {"a": count}, now)
        rates.take(b"p", {"a": count}, now)
        now += delay_s
        assert passed <= per_s * (now + 1) + 1e-6
        passed += count


def test_rare_kinds_may_come_in_bursts_and_are_made_up_for_slowly() -> None:
    rates = Rates(10, 5)
    rates.rare_kinds.add("a")
    rates.take(b"p", {"a": 10}, 0)
    assert rates.delay_s(b"p", {"a": 1}, 0) == 0
    rates.take(b"p", {"a": 2}, 0)
    assert rates.delay_s(b"p", {"a": 1}, 0) == 2
