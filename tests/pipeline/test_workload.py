"""Workloads become tables and files, and nothing is lost or merged on the way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from smartpubsub.cli.main import main
from smartpubsub.cli.pipeline import workload as pipeline_workload
from smartpubsub.pipeline.published import PUBLISHED, published_workload
from smartpubsub.pipeline.workload_tables import tables_of, workload_of
from smartpubsub.workloads import read_workload
from smartpubsub.workloads.actions import Publish, Subscribe, Workload
from tests.pipeline.given import records, table_in
from tests.workloads.strategies import workloads

OURS = """\
{"node": "idle one", "idle": true}
{"node": "a", "subscribe": "surf/price[10,20]"}
{"node": "b", "subscribe": "surf/price[10,20]"}
{"node": "b", "subscribe": "surf/price[10,20]"}
{"node": "a", "publish": "surf/price=12345678901234567890.5", "payload": "ação"}
{"node": "a", "publish": "surf/price=15"}
{"node": "a", "publish": "surf/price=15"}
{"node": "b", "unsubscribe": "surf/price[10,20]", "at_ms": 100}
{"node": "b", "crash": true, "at_ms": 200.5}
{"node": "b", "restart": true}
{"settle": true}
{"node": "c", "subscribe": "s%20p/temp[,3]"}
{"node": "c", "publish": "temp=2007-01-31"}
"""
REDDIT = """\
{"type":"topic","node":"node-1","name":"reddit.com","author":"u1","totalNumberEvents":3}
{"type":"user","node":"node-2","name":"u2","events":[{"internalId":7,"topic":"science","ups":3},\
{"internalId":2,"topic":"reddit.com","ups":1}],"subscriptions":{"politics":true}}
{"type":"user","node":"node-1","name":"u1","events":[{"internalId":3,"topic":"reddit.com"}]}
"""


def run(*arguments: object) -> None:
    assert main(["pipeline", "workload", *map(str, arguments), "--json"]) == 0


@given(workload=workloads())
@settings(max_examples=60)
def test_tables_say_all_that_a_workload_says(workload: Workload) -> None:
    assert workload_of(tables_of(workload)) == workload


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("content", [OURS, REDDIT], ids=["ours", "reddit"])
def test_a_file_becomes_tables_and_the_same_file_again(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "given.jsonl"
    file.write_text(content)
    given = read_workload(file)

    run("--from", file, "--out", tmp_path / "w")
    document = json.loads(capsys.readouterr().out)
    run("--from", tmp_path / "w", "--to", tmp_path / "again.jsonl.gz")

    assert read_workload(tmp_path / "again.jsonl.gz") == given
    for name, key, kind in (
        ("events", "event_id", Publish),
        ("subscriptions", "subscription_id", Subscribe),
    ):
        actions = [action for action in given.actions() if isinstance(action, kind)]
        rows = pq.read_table(tmp_path / "w" / name).sort_by(key).to_pylist()
        assert [row[key] for row in rows] == list(range(len(actions)))
        assert [row["predicate"] for row in rows] == [str(action.predicate) for action in actions]
        assert document["rows_out"][name] == len(rows)
        paths = [path.name for path in (tmp_path / "w" / name).iterdir()]
        assert all(path.endswith(".parquet") or path[0] in "_." for path in paths)


@pytest.mark.usefixtures("spark")
def test_nobody_publishes(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"node": "a", "subscribe": "surf"}\n')

    run("--from", tmp_path / "f", "--out", tmp_path / "w")
    run("--from", tmp_path / "w", "--to", tmp_path / "again")

    assert pq.read_table(tmp_path / "w" / "events").num_rows == 0
    assert read_workload(tmp_path / "again") == read_workload(tmp_path / "f")


@pytest.mark.usefixtures("spark")
def test_published_distributions_have_names(tmp_path: Path) -> None:
    run("--published", "smartpubsub-60", "--to", tmp_path / "f", "--out", tmp_path / "w")

    assert read_workload(tmp_path / "f") == published_workload("smartpubsub-60")
    subscriptions = pq.read_table(tmp_path / "w" / "subscriptions")
    assert Counter(subscriptions["predicate"].to_pylist())["ipfs"] == 54
    assert tuple(PUBLISHED) == pipeline_workload.PUBLISHED


@pytest.mark.usefixtures("spark")
class TestRecords:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        table_in(tmp_path / "records", records(200, authors=30))
        return tmp_path

    def test_whoever_publishes_subscribes(self, folder: Path) -> None:
        run("--events", folder / "records", "--nodes", 7, "--out", folder / "w")

        events = pq.read_table(folder / "w" / "events").sort_by("at_us").to_pylist()
        wanted = pq.read_table(folder / "w" / "subscriptions").to_pylist()
        given = pq.read_table(folder / "records").sort_by([("time", "ascending")]).to_pylist()
        assert [event["event_id"] for event in events] == [row["event_id"] for row in given]
        assert [event["at_us"] for event in events] == [10_000 * n for n in range(200)]
        nodes: dict[str, str] = {}
        for event, row in zip(events, given, strict=True):
            assert nodes.setdefault(row["author"], event["node"]) == event["node"]
        assert set(nodes.values()) == {f"n{number}" for number in range(1, 8)}
        published = {(event["node"], topic) for event in events for topic in event["topics"]}
        assert published == {(row["node"], row["predicate"]) for row in wanted}
        assert len(wanted) == len(published)

    def test_what_nobody_wrote_is_spread_over_all(self, folder: Path) -> None:
        table = records(200, authors=1)
        nobody = table.set_column(2, "author", pa.nulls(200, pa.string()))
        table_in(folder / "anonymous", nobody)

        run("--events", folder / "anonymous", "--nodes", 7, "--out", folder / "w")

        published = Counter(pq.read_table(folder / "w" / "events")["node"].to_pylist())
        assert len(published) == 7
        assert published.total() == 200

    def test_what_no_subscription_could_match_is_left_out(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        texts = records(3, authors=2, seed=2)
        for name in ("topics", "ranges"):
            number = texts.schema.get_field_index(name)
            nothing = pa.array([[]] * 3, texts.schema.field(number).type)
            texts = texts.set_column(number, name, nothing)
        table_in(folder / "texts", texts)
        table_in(folder / "mixed", pa.concat_tables([records(4, authors=2), texts]))

        run("--events", folder / "mixed", "--nodes", 2, "--out", folder / "w")

        output = capsys.readouterr()
        document = json.loads(output.out)
        assert (document["rows_in"], document["left_out"]) == ({"records": 7}, 3)
        assert document["rows_out"]["events"] == 4
        assert "3 of 7 records have neither topics nor numbers and are left out" in output.err
        arguments = ["--events", str(folder / "texts"), "--nodes", "2", "--out"]
        assert main(["pipeline", "workload", *arguments, str(folder / "none")]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "no record has a topic or a number; give topics to texts with" in line
        assert not (folder / "none").exists()

    def test_the_file_of_it_says_the_same(self, folder: Path) -> None:
        run("--events", folder / "records", "--nodes", 7, "--out", folder / "w")
        run("--events", folder / "records", "--nodes", 7, "--to", folder / "direct.jsonl")
        run("--from", folder / "w", "--to", folder / "by-tables.jsonl")

        direct = (folder / "direct.jsonl").read_text()
        assert direct == (folder / "by-tables.jsonl").read_text()
        assert len(read_workload(folder / "direct.jsonl").names) == 7

    def test_by_power_law_few_have_most_and_chance_is_the_seed(self, folder: Path) -> None:
        arguments = ["--events", folder / "records", "--nodes", 20, "--by", "power-law"]
        for seed, name in ((1, "a"), (1, "b"), (2, "c")):
            run(*arguments, "--subscriptions-per-node", 5, "--seed", seed, "--to", folder / name)

        texts = {name: (folder / name).read_text() for name in "abc"}
        assert texts["a"] == texts["b"] != texts["c"]
        workload = read_workload(folder / "a")
        published = Counter(a.node for a in workload.actions() if isinstance(a, Publish))
        assert published.total() == 200
        assert published.most_common(1)[0][0] == 0
        assert published[0] > 3 * 200 / 20
        assert sum(isinstance(a, Subscribe) for a in workload.actions()) == 100

    def test_given_tables_say_who_does_what(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        authors = [f"author-{number}" for number in range(30)]
        homes = pa.table({"author": authors, "node": ["left", "right"] * 15})
        table_in(folder / "homes", homes)
        table_in(folder / "few", homes.slice(0, 3))
        second = pa.table({"author": ["author-0"], "node": ["right"]})
        table_in(folder / "doubled", pa.concat_tables([homes, second]))
        wishes = pa.table({"node": ["third", "left"], "predicate": ["surf/price[1,2]", "surf"]})
        table_in(folder / "wishes", wishes)
        arguments = ["--events", folder / "records", "--by", "tables", "--subscriptions"]

        run(*arguments, folder / "wishes", "--publishers", folder / "homes", "--to", folder / "f")

        workload = read_workload(folder / "f")
        assert workload.names == ("left", "right", "third")
        assert {str(a.predicate) for a in workload.phases[0]} == {"surf", "surf/price[1,2]"}  # type: ignore[union-attr]
        assert len(workload.phases[1]) == 200
        capsys.readouterr()
        for homes_of, problem in (
            ("few", "has no node in the table of publishers"),
            ("doubled", "the author 'author-0' has several nodes in the table of publishers"),
        ):
            words = [
                *arguments,
                folder / "wishes",
                "--publishers",
                folder / homes_of,
                "--to",
                folder / "f",
            ]
            assert main(["pipeline", "workload", *map(str, words)]) == 1
            assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--events", "e", "--out", "w"],
        ["--from", "f"],
        ["--from", "f", "--events", "e", "--nodes", "3", "--out", "w"],
        ["--from", "f", "--nodes", "3", "--out", "w"],
        ["--events", "e", "--by", "tables", "--out", "w"],
        ["--events", "e", "--nodes", "3", "--publishers", "p", "--out", "w"],
        ["--published", "nothing", "--out", "w"],
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "workload", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "given is empty"),
        ('{"node": "a", "subscribe": "surf"}\n{"node": "a", "publish": "["}\n', "given:2: "),
        (None, "no such file or folder"),
    ],
)
def test_a_file_that_is_no_workload(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "given").write_text(content)

    arguments = ["--from", str(tmp_path / "given"), "--out", str(tmp_path / "w")]
    assert main(["pipeline", "workload", *arguments]) == 1

    errors = capsys.readouterr().err
    assert said in errors
    assert len(errors.splitlines()) == 1
