"""An archive that follows a node has each block once, however often it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.pipeline import follow as follow_module
from smartpubsub.pipeline.archive_folder import Archived
from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import locked
from smartpubsub.pipeline.follow import Followed, Following, follow
from smartpubsub.protocols.blocks import cid_of, cid_text
from tests.pipeline.datasource.nodes import WAIT_S, node_in, published

Rows = list[dict[str, Any]]


def rows_in(path: Path) -> Rows:
    if not DeltaTable.is_deltatable(str(path)):
        return []
    rows: Rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return rows


def followed_until(
    spark: SparkSession, following: Following, is_enough: Callable[[], bool]
) -> Followed:
    """Follow until a batch has brought what is waited for."""
    over, late = threading.Event(), threading.Event()

    def give_up() -> None:
        late.set()
        over.set()

    def tell(_name: str, _done: Archived) -> None:
        if is_enough():
            over.set()

    timer = threading.Timer(WAIT_S, give_up)
    timer.start()
    try:
        done = follow(spark, following, over, tell)
    finally:
        timer.cancel()
    assert not late.is_set(), "it takes for ever"
    return done


def test_topics_and_predicates_are_archived_once_over_restarts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_module, "FILES_MAX", 2)
    folder, out = tmp_path / "node", tmp_path / "live"
    with node_in(folder) as client:
        topic = client.create_topic("news")
        following = Following(
            node=str(folder), out=str(out), topics=(topic.id,), predicates=("surf",), every_s=0.2
        )
        wanted = published(client, topic.id, range(5))

        def has(events: int, publications: int) -> bool:
            said = [row for row in rows_in(out / "events") if row["announces"] is None]
            return [len(said), len(rows_in(out / "publications"))] == [events, publications]

        client.publish("surf/price=3", b"early")
        followed_until(spark, following, lambda: has(5, 1))
        # What comes while nobody follows is there afterwards, and so is a new version.
        wanted += published(client, topic.id, [5])
        client.publish("surf/price=4", b"late")
        client.topic(topic.id).update(ordered=True)
        wanted += published(client, topic.id, [6])
        done = followed_until(spark, following, lambda: has(7, 2))
        client.topic(topic.id).export(tmp_path / "exported.car")

    assert done.counts["bad"] == 0
    events, publications = rows_in(out / "events"), rows_in(out / "publications")
    said = [row["cid"] for row in events if row["announces"] is None]
    assert sorted(said) == sorted(wanted)
    assert sorted(row["payload"] for row in publications) == [b"early", b"late"]
    for row in [*events, *publications, *rows_in(out / "topics")]:
        assert cid_text(cid_of(row["block"])) == row["cid"]
    # Files are joined, because each batch reads them all.
    assert len(DeltaTable(str(out / "publications")).file_uris()) == 1
    # It is an archive like any other, and has what the node exports, to the byte.
    again = tmp_path / "again.car"
    words = ["--from", str(out), "--topic", topic.id, "--to", str(again)]
    assert main(["pipeline", "archive", *words, "--json"]) == 0
    assert again.read_bytes() == (tmp_path / "exported.car").read_bytes()


def test_a_stream_that_fails_ends_it_with_one_line(spark: SparkSession, tmp_path: Path) -> None:
    following = Following(node=str(tmp_path / "no"), out=str(tmp_path / "a"), predicates=("surf",))

    with pytest.raises(PipelineError, match=r"option 'node': .* does not exist"):
        followed_until(spark, following, lambda: True)


def test_a_stream_that_cannot_start_ends_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Mock] = []

    def start(*_: object) -> Mock:
        if started:
            raise PipelineError("the second one")
        started.append(Mock())
        return started[0]

    monkeypatch.setattr(follow_module, "_start", start)
    following = Following(node="n", out="o", predicates=("surf", "rain"))

    with pytest.raises(PipelineError, match="the second one"):
        follow(Mock(), following, threading.Event(), Mock())

    started[0].stop.assert_called_once()


@pytest.mark.parametrize(
    "words",
    [
        ["--follow", "--out", "a"],
        ["--follow", "--predicate", "surf"],
        ["--follow", "a.car", "--predicate", "surf", "--out", "a"],
        ["a.car", "--predicate", "surf", "--out", "a"],
        ["--follow", "--predicate", "surf[", "--out", "a"],
        ["--follow", "--predicate", "surf", "--out", "a", "--format", "parquet"],
    ],
)
def test_options_that_do_not_fit_are_a_usage_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "archive", *words]) == 2
    said = capsys.readouterr().err
    assert "--follow" in said or "--predicate 'surf[': column 6" in said


def test_mistakes_are_reported_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "node")
    words = ["pipeline", "archive", "--follow", "--data", folder, "--out", str(tmp_path / "live")]
    assert main([*words, "--predicate", "surf"]) == 1
    assert "start one with" in capsys.readouterr().err
    with node_in(tmp_path / "node"):
        assert main([*words, "--topic", "news"]) == 1
        assert "knows no topic 'news'" in capsys.readouterr().err
        assert not (tmp_path / "live").exists()
        with locked(tmp_path / "live", "pipeline archive"):
            assert main([*words, "--predicate", "surf"]) == 1
        assert "another pipeline archive is running there" in capsys.readouterr().err
        words[-1] = str(tmp_path / "file")
        (tmp_path / "file").touch()
        assert main([*words, "--predicate", "surf"]) == 1
    assert "file is a file; choose a folder" in capsys.readouterr().err
