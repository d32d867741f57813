"""What is written reads back as the same workload."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from smartpubsub.predicates import Predicate
from smartpubsub.workloads import (
    SCENARIOS,
    ScenarioOptions,
    WorkloadError,
    read_workload,
    scenario,
    write_workload,
)
from smartpubsub.workloads.actions import CreateTopic, Publish, Subscribe, Workload
from tests.workloads.said import keys
from tests.workloads.strategies import workloads

A = Predicate.parse("a")


@given(workload=workloads())
def test_reading_gives_what_was_written(
    workload: Workload, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.jsonl"
    write_workload(workload, path)

    assert read_workload(path) == workload


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_can_be_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.jsonl.gz"
    options = ScenarioOptions(events=None if name == "small" else 70)
    workload = scenario(name, keys=keys(60), seed=3, options=options)
    write_workload(workload, path)

    assert path.read_bytes().startswith(b"\x1f\x8b")
    assert read_workload(path) == workload


def test_a_plain_workload_needs_neither_times_nor_other_aids_to_prepare(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    phases = ((Subscribe(0, 0, A),), (Publish(1_500, 1, A, b"hi"),))
    write_workload(Workload(names=("n1", "n2"), phases=phases), path)

    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [
        {"node": "n1", "subscribe": "a"},
        {"node": "n2", "publish": "a", "payload": "hi", "at_ms": 1.5},
    ]


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        ([], "nothing happens"),
        ([Publish(0, 0, A, b"\xff")], "a payload is not UTF-8"),
        (
            [CreateTopic(0, 0, "t", False), Subscribe(0, 0, Predicate.parse("a=1"))],
            "'a=1' is not the name of a topic",
        ),
    ],
)
def test_what_a_file_cannot_say_is_refused(
    actions: list[Publish], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(WorkloadError, match=problem):
        write_workload(Workload(names=("n1",), phases=(tuple(actions),)), tmp_path / "no.jsonl")

    assert not (tmp_path / "no.jsonl").exists()


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    workload = Workload(names=("n1",), phases=((Subscribe(0, 0, A),),))

    with pytest.raises(WorkloadError, match="No such file or directory; choose another place"):
        write_workload(workload, tmp_path / "none" / "w.jsonl")
