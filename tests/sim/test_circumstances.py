"""What else can be so in a run: newcomers, earlier starts, messages that are really written."""

from typing import Any

import pytest

from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.protocols.pubsub import Bound, Tally
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.protocols.scoutsubs.spec import scout_settings
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.random_worlds import random_world
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging import result
from smartpubsub.workloads import ScenarioOptions, scenario
from tests.sim.broken import spec_with
from tests.sim.small import experiment_of, publish, subscribe

KNOWING_PREDICATES = ["scoutsubs", "fastdelivery", "floodsub", "gossipsub"]


def power_law(protocol: str, **circumstances: Any) -> Experiment:
    workload = scenario("power-law", keys=range(8), seed=1, options=ScenarioOptions(events=40))
    return Experiment(RunOptions(protocol=protocol, nodes=8, **circumstances), workload)


@pytest.mark.parametrize("protocol", KNOWING_PREDICATES)
def test_what_is_written_and_read_is_what_was_said(protocol: str) -> None:
    spoken, written = power_law(protocol), power_law(protocol, is_encoded=True)
    spoken.run()
    written.run()

    assert len(written.journal.deliveries) > 20
    assert written.trace.digest() == spoken.trace.digest()


@pytest.mark.parametrize("protocol", KNOWING_PREDICATES)
def test_nodes_of_a_later_incarnation_do_what_others_do(protocol: str) -> None:
    experiment = power_law(protocol, started_before=3)
    found = result.run(experiment, "power-law")

    assert found.verdict.missing == 0
    assert found.violations == []
    assert {id.incarnation for id in experiment.journal.events} == {3}


def test_newcomers_join_while_events_are_under_way() -> None:
    experiment = power_law("scoutsubs", newcomers_us=(10_000, 150_000))
    found = result.run(experiment, "power-law")

    assert len(experiment.world.hosts) == 10
    assert all(len(experiment.core(number).kademlia.table) > 4 for number in (8, 9))
    assert found.verdict.missing == 0
    assert found.violations == []


class Binging(Floodsub):
    """Keeps too much for a while, and nothing of that in the end."""

    tallies = 0

    def tally(self) -> Tally:
        self.tallies += 1
        return Tally((Bound("sweets", 6 if self.tallies == 2 else 0, 5),), {})

    def check(self) -> None:
        """Find nothing, so that the limits are looked at from outside only."""


def test_limits_are_watched_while_a_run_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "binging", spec_with("binging", Binging))
    experiment = experiment_of(
        (subscribe(0, "surf"),), (publish(1, "surf", at_ms=20_000),), protocol="binging"
    )
    found = result.run(experiment, "of its own")

    assert {violation.what for violation in found.violations} == {
        f"node {number} keeps 6 sweets, 5 at most" for number in range(5)
    }


def test_worlds_of_all_circumstances_are_made_up() -> None:
    options = [random_world(seed, "scoutsubs").options for seed in range(40)]

    assert {bool(each.newcomers_us) for each in options} == {False, True}
    assert {bool(each.started_before) for each in options} == {False, True}
    assert {each.is_encoded for each in options} == {False, True}
    settings = [scout_settings(each.protocol_options) for each in options]
    assert len({each.renew_us for each in settings}) == 2
    assert {each.fan_out_max for each in settings} == {0, 2, 4}
