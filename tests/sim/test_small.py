"""Small networks through departures, crashes and returns: nothing lost, and no long waits."""

import pytest

from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import run

PROTOCOLS = ("scoutsubs", "fastdelivery", "pulsarcast")
PUBLISH_MS_MAX = 1_000


def document(
    protocol: str, nodes: int | None = None, faults: int | None = None
) -> dict[str, object]:
    options = SimOptions(scenario="small", nodes=nodes, faults=faults)
    return run(options.experiment(protocol, "", options.load([protocol])), "small").document()


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_departures_publishing_takes_less_than_a_second(protocol: str, nodes: int) -> None:
    found = document(protocol, nodes=nodes, faults=0)

    assert (found["missing"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["published"] == found["injected"]
    publish_ms = found["publish_ms"]
    assert isinstance(publish_ms, dict)
    assert publish_ms["max"] <= PUBLISH_MS_MAX


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_crashes_lose_nothing(protocol: str) -> None:
    found = document(protocol)

    assert (found["missing"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["published"] == found["injected"]
