"""The stage `match` finds what the definition of matching says, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from smartpubsub.bench.sql_match import sql_matches
from smartpubsub.cli.main import main
from smartpubsub.matching import Index
from smartpubsub.pipeline import match, stages
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.match import PAIRS_PER_BATCH, matches, pairs
from smartpubsub.pipeline.match_files import EVENTS_PER_BATCH
from smartpubsub.predicates import Predicate
from tests.pipeline.given import (
    generated,
    matches_by_definition,
    numbered,
    pairs_in,
    table_in,
)

pytestmark = pytest.mark.usefixtures("spark")


def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    words = ["--events", "events", "--subscriptions", "subscriptions", "--out", "matches"]
    paths = [word if word.startswith("--") else str(folder / word) for word in words]
    assert main(["pipeline", "match", *paths, "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.usefixtures("size")
def test_every_pair_that_matches_is_found_by_the_stage_and_by_sql(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    events, wanted = generated(300, 400, seed=1)
    expected = matches_by_definition(events, wanted)
    published = table_in(tmp_path / "events", numbered("event_id", events), files=3)
    subscribed = table_in(tmp_path / "subscriptions", numbered("subscription_id", wanted))

    document = run(tmp_path, capsys)

    assert pairs_in(tmp_path / "matches") == expected
    assert document["rows_in"] == {"events": 300, "subscriptions": 400}
    assert document["rows_out"] == {"matches": len(expected)}
    oracle = sql_matches(*(spark.read.parquet(str(path)) for path in (published, subscribed)))
    assert sorted(map(tuple, oracle.collect())) == expected


@pytest.mark.usefixtures("size")
def test_equal_subscriptions_and_events_are_not_merged_and_numbers_are_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "12345678901234567890"
    events = ["surf", "surf", f"price={long}1", f"price={long}2/surf"]
    wanted = ["surf", f"price[{long}1,{long}1]", "surf", f"price[,{long}2]"]
    # Tables of others need not have more than the number and the text.
    table = pa.table({"event_id": range(4), "predicate": events})
    table_in(tmp_path / "events", table)
    table = pa.table({"subscription_id": range(4), "predicate": wanted, "more": [None] * 4})
    table_in(tmp_path / "subscriptions", table)

    run(tmp_path, capsys)

    expected = [(0, 0), (0, 2), (1, 0), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2), (3, 3)]
    assert pairs_in(tmp_path / "matches") == expected


def test_a_second_run_replaces_the_first_and_the_folder_holds_parquet_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("event", "subscription"):
        table = numbered(f"{name}_id", [Predicate.parse("surf")])
        table_in(tmp_path / f"{name}s", table)

    run(tmp_path, capsys)
    run(tmp_path, capsys)

    assert pairs_in(tmp_path / "matches") == [(0, 0)]
    names = [path.name for path in (tmp_path / "matches").iterdir()]
    assert all(name.endswith(".parquet") or name[0] in "_." for name in names)


@pytest.mark.usefixtures("large")
def test_one_large_part_of_a_file_is_shared_by_all_cores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 2 * EVENTS_PER_BATCH + 7
    numbers = pa.array(range(count), pa.int32())
    events = pa.table({"event_id": numbers, "topics": [["surf"]] * count})
    table_in(tmp_path / "events", events)
    table_in(tmp_path / "subscriptions", numbered("subscription_id", [Predicate.parse("surf")]))

    run(tmp_path, capsys)

    assert pairs_in(tmp_path / "matches") == [(number, 0) for number in range(count)]


def test_more_pairs_than_the_driver_holds_are_found_by_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "BATCHES_HERE_MAX", 1)
    monkeypatch.setattr(match, "PAIRS_PER_BATCH", 2)
    for name in ("event", "subscription"):
        table_in(tmp_path / f"{name}s", numbered(f"{name}_id", [Predicate.parse("surf")] * 2))

    run(tmp_path, capsys)

    assert pairs_in(tmp_path / "matches") == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_nobody_subscribes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_in(tmp_path / "events", numbered("event_id", [Predicate.parse("surf")]))
    table_in(tmp_path / "subscriptions", numbered("subscription_id", []))

    assert run(tmp_path, capsys)["rows_out"] == {"matches": 0}


def test_one_event_that_everybody_wants_is_handed_over_in_parts() -> None:
    index = Index()
    for key in range(3 * PAIRS_PER_BATCH // 2):
        index.add(key, "surf")
    # All pairs together would be 150 MB, and no more than a few parts are there at any time.
    events = numbered("event_id", [Predicate.parse("surf")] * 100)

    found = 0
    for batch in pairs(index, events):
        assert batch.num_rows <= PAIRS_PER_BATCH
        found += batch.num_rows
        assert pa.total_allocated_bytes() < 80_000_000

    assert found == 100 * len(index)


@pytest.mark.parametrize(
    ("subscriptions", "said"),
    [
        ({"subscription_id": [1, 1], "predicate": ["a", "b"]}, "subscription_id 1 is repeated"),
        ({"subscription_id": [1, None], "predicate": ["a", "b"]}, "subscription_id is null"),
        ({"subscription_id": [1, 2], "predicate": ["a", "b["]}, "row 1: column 3"),
    ],
)
def test_subscriptions_that_cannot_be_used_are_one_line(
    subscriptions: dict[str, list[object]],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = table_in(tmp_path / "e", numbered("event_id", [Predicate.parse("a")]))
    wanted = table_in(tmp_path / "s", pa.table(subscriptions))

    arguments = ["--events", str(events), "--subscriptions", str(wanted)]
    assert main(["pipeline", "match", *arguments, "--out", str(tmp_path / "m")]) == 1

    errors = capsys.readouterr().err
    assert said in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.usefixtures("size")
def test_an_event_that_cannot_be_read_in_a_task_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = table_in(tmp_path / "e", pa.table({"event_id": [1], "predicate": ["a["]}))
    wanted = table_in(tmp_path / "s", numbered("subscription_id", [Predicate.parse("a")]))

    arguments = ["--events", str(events), "--subscriptions", str(wanted)]
    assert main(["pipeline", "match", *arguments, "--out", str(tmp_path / "m")]) == 1

    errors = capsys.readouterr().err
    assert errors.startswith("smartpubsub: row 0: column 3")
    assert len(errors.splitlines()) == 1


def test_the_stage_is_a_function_of_tables(spark: SparkSession) -> None:
    events = spark.createDataFrame(numbered("event_id", [Predicate.parse("a/b=1")]))
    wanted = spark.createDataFrame(numbered("subscription_id", [Predicate.parse("b[0,2]")]))

    assert [tuple(row) for row in matches(events, wanted).collect()] == [(0, 0)]


def test_little_data_needs_no_spark(tmp_path: Path) -> None:
    events, wanted = generated(30, 20, seed=5)
    table_in(tmp_path / "e", numbered("event_id", events), files=2)
    table_in(tmp_path / "s", numbered("subscription_id", wanted))
    paths = (str(tmp_path / "e"), str(tmp_path / "s"))

    summary = stages.match(None, *paths, str(tmp_path / "m"))

    assert pairs_in(tmp_path / "m") == matches_by_definition(events, wanted)
    assert summary.rows_in == {"events": 30, "subscriptions": 20}
    for out in ("e", "e/below", "m/../e"):
        with pytest.raises(PipelineError, match="would overwrite"):
            stages.match(None, *paths, str(tmp_path / out))
