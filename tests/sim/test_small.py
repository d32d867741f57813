"""Small networks through departures, crashes and returns: nothing lost, and no long waits."""

import pytest

from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import run

PROTOCOLS = ("scoutsubs", "fastdelivery", "pulsarcast")
DEPARTURE_MS_MAX = 1_000
REFUSAL_MS_MAX = 2_000
"""A node finds out with its next message, and an event that was under way is retransmitted."""
SILENCE_MS_MAX = 5_000
"""A node that merely does not answer is found gone after a detection timeout."""


def longest_publish_ms(protocol: str, options: SimOptions) -> float:
    """Run the scenario small, in which nothing is lost or comes twice."""
    found = run(options.experiment(protocol, "", options.load([protocol])), "small").document()
    assert (found["missing"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["published"] == found["injected"]
    publish_ms = found["publish_ms"]
    assert isinstance(publish_ms, dict)
    longest_ms = publish_ms["max"]
    assert isinstance(longest_ms, float | int)
    return longest_ms


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_departures_publishing_takes_less_than_a_second(protocol: str, nodes: int) -> None:
    options = SimOptions(scenario="small", nodes=nodes, faults=0)
    assert longest_publish_ms(protocol, options) <= DEPARTURE_MS_MAX


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_crashes_of_processes_publishing_takes_one_retransmission(
    protocol: str, nodes: int
) -> None:
    options = SimOptions(scenario="small", nodes=nodes, refuse=True)
    assert longest_publish_ms(protocol, options) <= REFUSAL_MS_MAX


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_crashes_of_machines_publishing_takes_one_detection_timeout(
    protocol: str, nodes: int
) -> None:
    options = SimOptions(scenario="small", nodes=nodes)
    assert longest_publish_ms(protocol, options) <= SILENCE_MS_MAX
