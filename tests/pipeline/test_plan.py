"""Plans say what is run, or what is wrong with them."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from smartpubsub.pipeline.plan import Plan, read_plan
from smartpubsub.pipeline.plan_values import KEYS, PlanError
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from smartpubsub.sim.experiments.options import Churning, SimOptions

PLANS = Path(__file__).parents[2] / "plans"


def plan_of(text: str, folder: Path) -> Plan:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def test_lists_are_run_with_each_other(tmp_path: Path) -> None:
    plan = plan_of(
        """
        [defaults]
        nodes = 9
        [[experiment]]
        name = "all"
        protocol = ["scoutsubs", "floodsub"]
        seed = { from = 3, to = 5 }
        nodes = [5, 9]
        [[experiment]]
        protocol = "gossipsub"
        churn = { up_s = 30, down_s = 5 }
        """,
        tmp_path,
    )

    runs = list(plan.runs.values())
    told = [(run.protocol, run.options.seed, run.options.nodes) for run in runs]
    assert told[:4] == [("scoutsubs", 3, 5), ("scoutsubs", 3, 9), *told[2:4]]
    assert len(runs) == 13
    assert (runs[-1].experiment, runs[-1].options.nodes) == ("experiment 2", 9)
    assert runs[-1].options.churn == Churning(30.0, 5.0, 1.0)
    assert [run.experiment for run in runs[:12]] == ["all"] * 12


def test_a_run_is_there_once(tmp_path: Path) -> None:
    block = (
        '[[experiment]]\nprotocol = "floodsub"\nvariant = ["base-reliable", "base-unreliable"]\n'
    )

    assert len(plan_of(block + block, tmp_path).runs) == 1


def test_ids_are_the_same_in_every_plan_and_differ_between_runs(tmp_path: Path) -> None:
    block = '[[experiment]]\nprotocol = ["floodsub", "scoutsubs"]\nseed = 1\n'
    renamed = f'title = "x"\n{block}name = "y"\ntraces = true\n'
    other = block.replace("seed = 1", "seed = 2")

    ids = list(plan_of(block, tmp_path).runs)

    assert list(plan_of(renamed, tmp_path).runs) == ids
    assert not set(ids) & set(plan_of(other, tmp_path).runs)
    assert len(set(ids)) == 2
    # Results lie under these names, so a change loses them.
    assert ids[0] == "r8d6c661662095d5"


def test_an_id_follows_what_is_in_a_workload_file(tmp_path: Path) -> None:
    block = '[[experiment]]\nprotocol = "floodsub"\nworkload = "{}.jsonl"\n'
    for name, line in (("a", "surf"), ("b", "surf"), ("c", "ski")):
        text = f'{{"node": "n1", "subscribe": "{line}"}}\n'
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")

    ids = [next(iter(plan_of(block.format(name), tmp_path).runs)) for name in "abc"]

    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "experiment: a plan has one block [[experiment]] or more"),
        ("x = ", "not TOML: "),
        ("colour = 1", "colour: no such key; there are title, about"),
        ("[[experiment]]\nnodes = 5", "experiment 1: protocol: say which, one or more of"),
        (
            '[[experiment]]\nprotocol = "scoutsub"',
            "experiment 1: protocol: 'scoutsub' is not a protocol; there are scoutsubs,",
        ),
        (
            '[[experiment]]\nname = "big"\nprotocol = "floodsub"\nnodes = [5, 0]',
            "experiment 'big': nodes: a whole number from 1 to 1,000,000, found 0",
        ),
        (
            '[[experiment]]\nprotocol = "floodsub"\nscenario = "calm"',
            "experiment 1: scenario: 'calm' is none of normal, sub-burst,",
        ),
        ('[[experiment]]\nprotocol = "floodsub"\nloss = 1.5', "loss: a number from 0 to 1, found"),
        ('[[experiment]]\nprotocol = "floodsub"\nseed = []', "seed: 1 to 100,000 values, found 0"),
        (
            '[[experiment]]\nprotocol = "floodsub"\nseed = { from = 1 }',
            "seed: a value, a list, or { from = 1, to = 10 }",
        ),
        ('[[experiment]]\nprotocol = "floodsub"\nnode = 5', "experiment 1: node: no such key;"),
        ('[[experiment]]\nprotocol = [["floodsub"]]', "protocol: a list is not a protocol"),
        (
            '[[experiment]]\nprotocol = "floodsub"\nchurn = "1:2"',
            "churn: { up_s = 30, down_s = 5 }",
        ),
        ('[[experiment]]\nprotocol = "floodsub"\nworkload = "no.jsonl"', "workload: no file"),
        ('[[experiment]]\nprotocol = "floodsub"\ntraces = 1', "traces: true or false, found 1"),
        ('paper = "x"\n[[experiment]]\nprotocol = "floodsub"', "paper: 'x' is none of"),
    ],
)
def test_what_is_wrong_is_named_with_its_key_and_the_remedy(
    text: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(text, tmp_path)

    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "plan.toml"))
    assert "\n" not in str(caught.value)


def test_a_scenario_beside_a_workload_file_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_text('{"node": "a", "subscribe": "b"}\n', encoding="utf-8")
    text = '[[experiment]]\nprotocol = "floodsub"\nworkload = "w.jsonl"\nscenario = "normal"\n'

    with pytest.raises(PlanError, match="scenario has no meaning beside workload"):
        plan_of(text, tmp_path)


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.toml")), ids=lambda path: path.name)
def test_plans_that_come_with_the_project_can_be_read(path: Path) -> None:
    plan = read_plan(path)

    assert plan.title
    assert plan.runs
    for run in plan.runs.values():
        assert shlex.split(run.command)[:5] == [
            "smartpubsub",
            "sim",
            "run",
            "--protocol",
            run.protocol,
        ]


@pytest.mark.parametrize("name", ["smartpubsub-2021", "smartpubsub-small"])
def test_the_smartpubsub_plans_have_every_scenario_for_all_protocols(name: str) -> None:
    runs = read_plan(PLANS / f"{name}.toml").runs.values()

    scenarios = {"normal", "sub-burst", "event-burst", "fault"}
    for protocol in (spec.name for spec in PROTOCOLS.specs.values() if not spec.has_only_topics):
        mine = [run for run in runs if run.protocol == protocol]
        assert scenarios <= {str(run.options.scenario) for run in mine}
    scouts = [run for run in runs if run.protocol == "scoutsubs"]
    for variant in VARIANTS:
        assert scenarios <= {str(r.options.scenario) for r in scouts if r.variant == variant}
    assert "replication" in {run.options.scenario for run in scouts}


@pytest.mark.parametrize("name", ["pulsarcast-2021", "pulsarcast-small"])
def test_the_pulsarcast_plans_have_both_orders_over_both_links(name: str) -> None:
    runs = read_plan(PLANS / f"{name}.toml").runs.values()

    found = {
        (run.protocol, run.options.ordered, run.options.network.jitter_us // 1000) for run in runs
    }
    assert found == {
        ("pulsarcast", False, 0),
        ("pulsarcast", True, 0),
        ("pulsarcast", False, 300),
        ("pulsarcast", True, 300),
        *(
            (protocol, False, jitter)
            for protocol in ("floodsub", "gossipsub")
            for jitter in (0, 300)
        ),
    }
    assert {run.options.scenario for run in runs} == {"reddit"}


def test_a_plan_has_every_option_of_a_run() -> None:
    assert {field.name for field in fields(SimOptions)} == KEYS.keys() - {"protocol", "variant"}
