"""Events are kept for a few heartbeats, the newest few of them."""

from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.gossip_cache import MessageCache
from smartpubsub.protocols.baselines.gossip_settings import GossipSettings
from smartpubsub.protocols.baselines.messages import Copy
from tests.protocols.alone import Alone, event


@given(st.lists(st.sampled_from(["put", "shift"]), max_size=60), st.integers(1, 8))
def test_the_cache_keeps_the_newest_events_of_five_heartbeats(
    steps: list[str], count_max: int
) -> None:
    cache = MessageCache(GossipSettings(history_count_max=count_max))
    ages: dict[int, int] = {}
    for number, step in enumerate(steps):
        if step == "put":
            cache.put(Copy(event(number), 1), now=number)
            ages[number] = 0
        else:
            ages = {number: age + 1 for number, age in ages.items()}
            cache.shift()
        expected = [number for number, age in ages.items() if age < 5][-count_max:]

        assert len(cache) == len(expected)
        assert all(cache.get(event(number).id) is not None for number in expected)
        recent = [event(number).id for number in expected if ages[number] < 3]
        assert sorted(cache.recent()) == sorted(recent)


def test_an_event_that_comes_again_stays_in_its_window() -> None:
    cache = MessageCache(GossipSettings())
    first = cache.put(Copy(event(1), 1), now=0)
    assert cache.put(Copy(event(1), 1), now=200_000_000) is first
    for _ in range(GossipSettings().history_length):
        cache.check()
        cache.shift()
    assert len(cache) == 0


def test_an_event_that_comes_again_after_a_pause_of_minutes_is_cached_once() -> None:
    alone = Alone(3)
    alone.hear(1, event(1))
    for _ in range(5):  # Stopped again and again, each time for longer than ids are kept.
        alone.now += 126 * SECOND
        alone.hear(2, event(2 + alone.now), event(1), event(3 + alone.now))

    alone.take()
    alone.hear(3, event(1))
    assert not alone.take()  # It is known, and not forwarded again.
    alone.heartbeats(6)
    alone.core.check()
