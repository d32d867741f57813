"""Crashes hit neighbours in the key space and a rendezvous, never a publisher."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.kademlia.keys import key_of
from smartpubsub.workloads import SCENARIOS, ScenarioOptions, WorkloadError, scenario
from smartpubsub.workloads.actions import CrashNode, Publish, Workload
from tests.workloads.said import keys

NAMES = sorted(SCENARIOS.keys() - {"reddit", "small"})


def disturbed(
    name: str, faults: int, crash: Literal["before", "mid"], nodes: int = 60, seed: int = 1
) -> Workload:
    options = ScenarioOptions(faults=faults, crash=crash)
    return scenario(name, keys=keys(nodes), seed=seed, options=options)


def crashes(workload: Workload) -> list[CrashNode]:
    return [action for action in workload.actions() if isinstance(action, CrashNode)]


def events(workload: Workload) -> list[Publish]:
    return [action for action in workload.actions() if isinstance(action, Publish)]


@given(
    st.sampled_from(NAMES),
    st.integers(1, 5),
    st.sampled_from(["before", "mid"]),
    st.integers(50, 90),
    st.integers(0, 1000),
)
def test_victims_are_neighbours_with_a_rendezvous_and_without_publishers(
    name: str, faults: int, crash: Literal["before", "mid"], nodes: int, seed: int
) -> None:
    workload = disturbed(name, faults, crash, nodes, seed)
    victims = {crash.node for crash in crashes(workload)}

    assert len(crashes(workload)) == len(victims) == faults
    assert victims.isdisjoint(event.node for event in events(workload))
    around = sorted(range(nodes), key=keys(nodes).__getitem__)
    places = {around.index(victim) for victim in victims}
    begins = [place for place in places if (place - 1) % nodes not in places]
    assert len(begins) == 1
    names = {key_of(n.encode()) for event in events(workload) for n in event.predicate.attributes}
    closest = {min(range(nodes), key=lambda n: keys(nodes)[n] ^ wanted) for wanted in names}
    assert victims & closest


@given(st.sampled_from(NAMES), st.sampled_from(["before", "mid"]), st.integers(0, 1000))
def test_who_has_crashed_does_nothing_more(
    name: str, crash: Literal["before", "mid"], seed: int
) -> None:
    workload = disturbed(name, 3, crash, seed=seed)

    down: set[int] = set()
    for phase in workload.phases:
        times = [action.at_us for action in phase]
        assert times == sorted(times)
        assert times[0] >= 0
        for action in phase:
            assert action.node not in down
            if isinstance(action, CrashNode):
                down.add(action.node)


@pytest.mark.parametrize("name", NAMES)
def test_crash_before_comes_a_millisecond_before_the_first_event(name: str) -> None:
    workload = disturbed(name, 2, "before")

    phase = next(phase for phase in workload.phases if any(isinstance(a, Publish) for a in phase))
    first = next(action for action in phase if isinstance(action, Publish))
    assert {action.at_us for action in phase if isinstance(action, CrashNode)} == {
        first.at_us - 1_000
    }


def test_crash_mid_comes_when_the_middle_event_is_on_its_way() -> None:
    workload = disturbed("fault", 2, "mid")

    assert [event.at_us for event in events(workload)] == [i * 100_000 for i in range(6)]
    assert [crash.at_us for crash in crashes(workload)] == [325_000] * 2


def test_crash_mid_of_replication_is_in_the_third_stage() -> None:
    workload = disturbed("replication", 2, "mid", nodes=75)

    assert [any(isinstance(a, CrashNode) for a in phase) for phase in workload.phases] == [
        place == 5 for place in range(8)
    ]


def test_roles_are_changed_where_nearly_all_publish() -> None:
    undisturbed = scenario("event-burst", keys=keys(60), seed=1)
    workload = disturbed("event-burst", 6, "mid")

    assert len({event.node for event in events(workload)}) == 54
    assert [event.predicate for event in events(workload)] == [
        event.predicate for event in events(undisturbed)
    ]


def test_more_crashes_than_nodes_that_keep_quiet_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"54 of 60 nodes publish, .* so 7 cannot; take fewer"):
        disturbed("event-burst", 7, "before")
