"""Terms tell what records are about, and how well they do is measured."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.pipeline.classify import precision
from tests.pipeline.given import table_in

SUBJECTS = {
    "cats": ["whiskers", "mieze", "gato-bravo", "purring", "кошка"],
    "physics": ["quark", "photon", "ação", "boson", "naïve"],
}
USUAL = ["the", "people", "and", "today", "i've", "really", "of"]


def written(texts: list[str], labels: list[str | None], **more: list[object]) -> pa.Table:
    count = len(texts)
    ranges = more.get("ranges") or [[] for _ in range(count)]
    kind = pa.list_(pa.struct([("name", pa.string()), ("lo", pa.float64()), ("hi", pa.float64())]))
    return pa.table(
        {
            "event_id": pa.array(range(count), pa.int64()),
            "topics": [["given"]] * count,
            "ranges": pa.array(ranges, kind),
            "label": pa.array(labels, pa.string()),
            # Where there is no text, the payload is one.
            "payload": [text.encode() for text in texts],
            "source": ["given"] * count,
        }
    )


def classify(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    arguments = ["--events", str(folder / "in"), "--out", str(folder / "out"), "--json", *more]
    assert main(["pipeline", "classify", *arguments]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.usefixtures("spark")
def test_the_most_telling_words_become_topics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = Random(1)
    texts, labels = [], []
    for _ in range(60):
        label = rng.choice([*SUBJECTS])
        words = [*rng.sample(SUBJECTS[label], 2), *rng.sample(USUAL, 6)]
        rng.shuffle(words)
        texts.append(" ".join(words).upper() + "!")
        labels.append(label)
    texts += ["The, and... of", "unheard"]
    numbers: list[object] = [[{"name": "quark", "lo": 1.0, "hi": 1.0}] for _ in texts[:-2]]
    table = written(texts, [*labels, None, None], ranges=[*numbers, [], []])
    table_in(tmp_path / "in", table)

    document = classify(tmp_path, capsys, "--terms", "2")

    rows = pq.read_table(tmp_path / "out").sort_by("event_id").to_pylist()
    assert [row["event_id"] for row in rows] == list(range(60))
    for row, label in zip(rows, labels, strict=True):
        told = {part for word in SUBJECTS[label] for part in word.split("-")}
        assert set(row["topics"]) <= told
        # What is the name of a number already is not said twice.
        assert "quark" not in row["topics"]
        assert row["ranges"][0]["name"] == "quark"
    bad = pq.read_table(tmp_path / "out" / "_bad").to_pylist()
    assert {row["line"] for row in bad} == {"The, and... of", "unheard"}
    assert (document["rows_out"], document["bad"]) == ({"records": 60}, 2)
    assert document["precision_at"] == {"1": 1.0, "2": 1.0}


def test_precision_counts_the_terms_that_go_with_the_label(spark: SparkSession) -> None:
    # Of "a" all are right, and "b" goes with a label that is never its own in the other half.
    rows = [(number, ["a", "b"], "x") for number in range(40)]
    records = spark.createDataFrame(rows, "event_id long, topics array<string>, label string")

    found = [(row["k"], row["precision"]) for row in precision(records).collect()]
    assert found == [(1, 1.0), (2, 1.0)]

    rows = [(n, [f"only-{n}", "common"], "x" if n % 4 else "y") for n in range(400)]
    records = spark.createDataFrame(rows, "event_id long, topics array<string>, label string")

    (_, first), (_, both) = ((r["k"], r["precision"]) for r in precision(records).collect())
    # Nobody can know a term that is there once; the common one goes with the more common label.
    assert first == 0
    assert 0.3 < both < 0.45


@pytest.mark.usefixtures("spark")
def test_a_model_can_be_plugged_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_in(tmp_path / "in", written(["a bb ccc ccc", "dd e"], [None, None]))

    document = classify(
        tmp_path, capsys, "--terms", "2", "--model", "tests.pipeline.a_model:longest_words"
    )

    rows = pq.read_table(tmp_path / "out").sort_by("event_id").to_pylist()
    assert [row["topics"] for row in rows] == [["ccc"], ["dd", "e"]]
    assert "precision_at" not in document


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "no_such_module:terms"], "cannot be imported"),
        (["--model", "json:__doc__"], "is not a function"),
        (["--stop-words", "klingon"], "no stop words are known of 'klingon'"),
    ],
)
def test_what_cannot_be_chosen(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_in(tmp_path / "in", written(["a"], [None]))
    arguments = ["--events", str(tmp_path / "in"), "--out", str(tmp_path / "out"), *more]

    assert main(["pipeline", "classify", *arguments]) == 1

    errors = capsys.readouterr().err
    assert said in errors
    assert len(errors.splitlines()) == 1
