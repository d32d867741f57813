"""Experiments as they are written down."""

import shlex
from pathlib import Path

import click
import pytest

from smartpubsub.cli.sim.options import sim_options
from smartpubsub.cli.sim.protocols import protocol_option, variant_option
from smartpubsub.sim.experiments.options import Churning, Cutting, OptionsError, SimOptions


@pytest.mark.parametrize(
    ("protocol", "variant", "options"),
    [
        ("floodsub", "", SimOptions()),
        ("scoutsubs", "base-reliable", SimOptions(scenario="fault", faults=1, crash="mid")),
        ("scoutsubs", "", SimOptions(workload=Path("a b.jsonl"), loss=0.25)),
        ("gossipsub", "", SimOptions(churn=Churning(30.0, 5.0), ordered=True)),
        ("floodsub", "", SimOptions(cut=Cutting(1.0, 2.5, 0.25))),
    ],
)
def test_the_command_runs_the_same_again(protocol: str, variant: str, options: SimOptions) -> None:
    read: list[tuple[SimOptions, str, str]] = []

    @click.command()
    @protocol_option
    @variant_option
    @sim_options
    def command(options: SimOptions, /, *, protocol: str, variant: str) -> None:
        read.append((options, protocol, variant))

    words = shlex.split(options.command(protocol, variant))
    assert words[:3] == ["smartpubsub", "sim", "run"]
    command.main(words[3:], standalone_mode=False)

    assert read == [(options, protocol, variant)]


def test_a_scenario_and_a_file_contradict_each_other() -> None:
    with pytest.raises(OptionsError, match="--scenario has no meaning beside --workload"):
        SimOptions(scenario="normal", workload=Path("x")).check()
