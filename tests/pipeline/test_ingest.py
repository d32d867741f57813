"""Raw data becomes records, and every line that does not is kept with the reason."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import SparkSession

from smartpubsub.cli.main import main
from smartpubsub.errors import SmartPubSubError
from smartpubsub.pipeline import ingest_little, sources, stages
from smartpubsub.pipeline import lines as text_lines
from smartpubsub.pipeline.ingest import Judge
from smartpubsub.pipeline.lines import lines_between, lines_in
from smartpubsub.pipeline.little import NeedsSparkError
from smartpubsub.pipeline.mapping import mapping_of
from smartpubsub.pipeline.parsing import CsvParser, JsonParser, Parsed

NAMES = ("plain", "a.gz", "b.jsonl.bz2", "c.zst")
COMMENT = {
    "id": "c02s6r4",
    "author": "ann",
    "subreddit": "science",
    "body": "ação\nand more",
    "created_utc": "1192450635",
    "score": 5,
    "ups": "7",
    "edited": False,
}
GOOD = [
    COMMENT,
    # Dumps mix types, and leave fields out.
    {**COMMENT, "author": "[deleted]", "created_utc": 1192450636, "score": None},
    {**COMMENT, "author": "bob", "subreddit": "score", "link": {"a": [1]}},
]
BAD = {
    "{broken": "not a JSON object",
    '"a text"': "not a JSON object",
    json.dumps({**COMMENT, "score": "many"}): "score is not a number",
    json.dumps({**COMMENT, "ups": "NaN"}): "ups is not a number",
    json.dumps({**COMMENT, "created_utc": "soon"}): "created_utc is not a time",
    json.dumps({**COMMENT, "subreddit": "x" * 1025}): "a topic has more than 1024 bytes",
    json.dumps({"id": "x"}): "no topic, no number and no text",
}
BLANK = ["", " \t"]
NOT_UTF8 = b'{"subreddit": "\xff"}\n'
CONTENT = "\n".join([*map(json.dumps, GOOD), *BLANK, *BAD, ""]).encode() + NOT_UTF8


def compressed_with_a_long_window(content: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    # Of unknown size and in two frames, as programs write it that do not know what comes.
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    parts = []
    for half in (content[:100], content[100:]):
        stream = compressor.compressobj()
        parts += [stream.compress(half), stream.flush()]
    return b"".join(parts)


def ingest(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert main(["pipeline", "ingest", *map(str, arguments), "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.usefixtures("size")
def test_dumps_of_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "dumps", tmp_path / "out"
    folder.mkdir()
    contents = (
        CONTENT,
        gzip.compress(CONTENT),
        bz2.compress(CONTENT),
        compressed_with_a_long_window(CONTENT),
    )
    for name, content in zip(NAMES, contents, strict=True):
        (folder / name).write_bytes(content)

    document = ingest(capsys, folder, "--out", out)

    assert document["rows_in"] == {"lines": 4 * 11}
    assert document["rows_out"] == {"records": 4 * 3}
    assert document["bad"] == 4 * 8
    table = pq.read_table(out)
    rows = table.to_pylist()
    assert len({row["event_id"] for row in rows}) == 12
    for name in NAMES:
        first, second, third = (row for row in rows if row["source"] == name)
        assert first["topics"] == second["topics"] == ["science"]
        assert first["time"] == datetime(2007, 10, 15, 12, 17, 15, tzinfo=UTC)
        assert first["payload"].decode() == COMMENT["body"]
        assert (first["label"], first["key"]) == ("science", "c02s6r4")
        ranges = [(one["name"], one["lo"], one["hi"]) for one in first["ranges"]]
        assert ranges == [("score", 5, 5), ("ups", 7, 7)]
        assert [one["name"] for one in second["ranges"]] == ["ups"]
        assert second["author"] is None
        # An event cannot say a name twice, and the number says more.
        assert third["topics"] == []
    authors = Counter(row["author"] for row in rows if row["author"])
    assert sorted(authors.values()) == [4, 4]
    assert "ann" not in authors
    bad = pq.read_table(out / "_bad").to_pylist()
    reasons = {row["reason"] for row in bad}
    assert reasons == {*BAD.values(), "not UTF-8"}
    for name in NAMES:
        lines = {row["line"]: row["reason"] for row in bad if row["source"] == name}
        assert lines == {**BAD, '{"subreddit": "\ufffd"}': "not UTF-8"}
    assert len(bad) == 4 * 8


@pytest.mark.usefixtures("size")
def test_ingesting_again_replaces_what_it_makes_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(CONTENT)
    out = tmp_path / "out"
    ingest(capsys, tmp_path / "one", tmp_path / "two", "--out", out)
    before = pq.read_table(out).to_pylist()
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("source=two/*")}

    (tmp_path / "one").write_text(json.dumps(GOOD[0]) + "\n")
    ingest(capsys, tmp_path / "one", "--out", out)

    after = pq.read_table(out).to_pylist()
    assert Counter(row["source"] for row in after) == {"one": 1, "two": 3}
    assert [row for row in after if row["source"] == "two"] == [
        row for row in before if row["source"] == "two"
    ]
    assert kept == {path: path.stat().st_mtime_ns for path in out.rglob("source=two/*")}
    assert set(pq.read_table(out / "_bad")["source"].to_pylist()) == {"two"}
    # The salt stays, so whoever wrote in both is still the same.
    assert len({row["author"] for row in after if row["payload"] and row["author"]}) == 2


@pytest.fixture
def short_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are divided into short parts, by Spark and by us."""
    monkeypatch.setattr(sources, "PART_BYTES_MIN", 1_000)
    spark.conf.set("spark.sql.files.openCostInBytes", "1000")
    yield
    spark.conf.unset("spark.sql.files.openCostInBytes")


@pytest.mark.usefixtures("large", "short_parts")
def test_numbers_of_events_depend_on_the_data_only(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({**COMMENT, "id": f"c{number}"}) for number in range(400)]
    (tmp_path / "large").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "c.zst").write_bytes(compressed_with_a_long_window("\n".join(lines).encode()))
    (tmp_path / "another").write_text(lines[0], encoding="utf-8")
    names = ("large", "c.zst")
    found = []
    for cores, more in (("1", []), ("7", ["another"])):
        # What the number of cores would be.
        spark.conf.set("spark.sql.leafNodeDefaultParallelism", cores)
        try:
            out = tmp_path / cores
            ingest(capsys, *(tmp_path / name for name in (*names, *more)), "--out", out)
        finally:
            spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
        rows = pq.read_table(out).to_pylist()
        ids = {(row["source"], row["key"]): row["event_id"] for row in rows}
        found.append({key: id for key, id in ids.items() if key[0] in names})

    assert found[0] == found[1]
    assert len({*found[0].values()}) == len(found[0]) == 800


@pytest.mark.usefixtures("short_parts")
def test_tasks_divide_a_file_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(3)
    ends = ("\n", "\r\n", "\r", "\n\n")
    content = "".join("x" * rng.randrange(90) + rng.choice(ends) for _ in range(300)).encode()
    file = tmp_path / "file"
    file.write_bytes(content)
    begins = "_metadata.file_block_start"
    rows = spark.read.text(str(file)).selectExpr("value", f"{begins} as begins").collect()
    divided: dict[int, list[bytes]] = {}
    for row in rows:
        divided.setdefault(row["begins"], []).append(row["value"].encode())

    own = {
        part.start: [
            line
            for lines in lines_between(io.BytesIO(content), part.start, part.end)
            for line in lines.to_pylist()
        ]
        for part in sources.parts_of(str(file), len(content))
    }

    assert own == divided
    assert len(own) > 7


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_a_file_have_each_line_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    content = bytes(rng.choices(b"ab\n\r", k=rng.randrange(80)))
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", rng.randrange(1, 9))
    monkeypatch.setattr(text_lines, "BEYOND_BYTES", rng.randrange(1, 4))
    monkeypatch.setattr(text_lines, "LINES_PER_BATCH", rng.randrange(1, 5))
    size = rng.randrange(1, 20)

    found = [
        line
        for start in range(0, len(content), size)
        for lines in lines_between(io.BytesIO(content), start, min(start + size, len(content)))
        for line in lines.to_pylist()
    ]

    assert found == content.splitlines()


def test_little_data_needs_no_spark_and_gives_the_same(
    large: None, spark: SparkSession, tmp_path: Path
) -> None:
    assert large is None
    mapping = mapping_of({"topics": ["subreddit"], "ranges": ["score"], "author": "author"})
    (tmp_path / "a b=1.json").write_bytes(CONTENT)
    (tmp_path / "c.zst").write_bytes(compressed_with_a_long_window(CONTENT))
    (tmp_path / "d.csv").write_text("score,author,subreddit\r\n5,ann,x\r\n\r\n,bob\r\n")
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    found = []
    for session, name in ((None, "here"), (spark, "there")):
        out = str(tmp_path / name)
        summary = stages.ingest(session, paths, out, mapping=mapping, salt="salt")
        bad = f"{out}/_bad"
        tables = [pq.read_table(path).to_pylist() for path in (out, bad)]
        rows = [sorted(table, key=str) for table in tables]
        found.append(
            (summary.rows_in, summary.bad, [note.replace(out, "") for note in summary.notes], rows)
        )

    assert found[0] == found[1]
    assert found[0][1] > 0


def test_a_small_file_that_becomes_large_is_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_little, "BYTES_MAX", 1_000)
    content = json.dumps(COMMENT).encode() * 100
    for name, packed in (
        ("a.gz", gzip.compress(content)),
        ("b.zst", compressed_with_a_long_window(content)),
    ):
        (tmp_path / name).write_bytes(packed)
        with pytest.raises(NeedsSparkError):
            stages.ingest(None, [str(tmp_path / name)], str(tmp_path / "out"))


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
def test_a_damaged_file_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text("no such thing", encoding="utf-8")

    with pytest.raises(SmartPubSubError, match=f"a.{ending}"):
        stages.ingest(None, [str(path)], str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        (json.dumps({"line": 1, "position": [1.5]}), [(1, [1.5])]),
        ("{}", [(None, None)]),
        ("[]", []),
        ("[{}]", [(None, None)]),
        ("5", None),
        ("null", None),
        ("{broken", None),
        ("{'line': 1}", None),
        ('[{"line": "1"}, { "line": 2.5, "x": 1}]', [("1", None), (2.5, None)]),
        (' [{"line": "1"}, 5]', None),
        ('{"line": "1"} {"line": "2"}', None),
        ('\ufeff{"line": "1"}', [("1", None)]),
        ('{"line": NaN, "line": "2"}\r', [("2", None)]),
        ('{"line": "\\ud800"}', None),
        (" \t", []),
        ("[" * 100_000, None),
        ('{"line": ' + "[" * 2_000 + "]" * 2_000 + "}", None),
        ('{"line": ' + "1" * 5_000 + "}", None),
    ],
)
def test_lines_of_json(line: str, rows: list[tuple[object, object]] | None) -> None:
    parsed = JsonParser(["line", "position"])(pa.array([line.encode(), b'{"line": 7}']))

    expected = [(None, None)] if rows is None else rows
    assert [*zip(*parsed.columns.values(), strict=True)] == [*expected, (7, None)]
    assert parsed.problems == ({0: "not a JSON object"} if rows is None else {})
    assert len(parsed.lines) == len(expected) + 1


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("1,2", ("1", "2")),
        ('"a ""b""", c ', ('a "b"', " c ")),
        (",", ("", "")),
        ("1", None),
        ("1,2,3", None),
        ('"1', None),
        ('"1"2,3', None),
    ],
)
def test_lines_of_csv(line: str, row: tuple[str, str] | None) -> None:
    parser = CsvParser(["line", "position"], ["line", "position"], ",")

    parsed = parser(pa.array([line.encode(), b"", b" \t", b"\x00", b"7,8"]))

    assert [*zip(*parsed.columns.values(), strict=True)] == [row or (None, None), ("7", "8")]
    said = "not a row of the 2 columns of the header"
    assert parsed.problems == ({0: said} if row is None else {})


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        ("1192450635.25", datetime(2007, 10, 15, 12, 17, 15, 250_000, tzinfo=UTC)),
        (-1.5, datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)),
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01 10:00:00 UTC", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        (" 2024-05-01T10:00:00.5+02:00", datetime(2024, 5, 1, 8, 0, 0, 500_000, tzinfo=UTC)),
        (1e11, None),
        ("soon", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("9999-12-31T23:59:59-23:59", None),
        ([5], None),
    ],
)
def test_times(value: object, time: datetime | None) -> None:
    mapping = mapping_of({"topics": ["a"], "time": "t"})
    parsed = Parsed({"a": ["x", "x"], "t": [value, None]}, [b"", b""], {})

    judged = Judge("file", mapping, None).judged(parsed, [np.arange(2)])

    assert judged["time"].to_pylist() == [time, None]
    assert judged["reason"].to_pylist() == [None if time else "t is not a time", None]


def test_a_list_in_a_text_that_is_no_unicode_is_one_topic() -> None:
    mapping = mapping_of({"topics": ["t"]})
    lines = [rb'{"t": "[\"\\ud800\", \"a\"]"}', rb'{"t": "[\"b\", \"c\"]"}']
    parsed = JsonParser(mapping.columns())(pa.array(lines))

    judged = Judge("file", mapping, None).judged(parsed, [np.arange(2)])

    assert judged["topics"].to_pylist() == [[r'["\ud800", "a"]'], ["b", "c"]]
    assert judged["reason"].to_pylist() == [None, None]


def test_numbers_that_serve_as_texts_stay_as_they_are_written() -> None:
    mapping = mapping_of({"topics": ["t"], "payload": "p", "key": "k"})
    lines = [b'{"t": 1.10, "p": {"a": 1.5}, "k": 10000000000000000000000}', b'{"t": true}']
    parsed = JsonParser(mapping.columns())(pa.array(lines))

    rows = Judge("file", mapping, None).judged(parsed, [np.arange(2)]).to_pylist()

    assert [row["topics"] for row in rows] == [["1.10"], ["true"]]
    assert (rows[0]["payload"], rows[0]["key"]) == (b'{"a":1.5}', "1" + "0" * 22)


@pytest.mark.usefixtures("size")
def test_tables_with_a_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.toml").write_text(
        'topics = ["city", "tags"]\ntime = "at"\nauthor = "who"\n[ranges]\ntemp = "celsius"\n'
    )
    (tmp_path / "w.csv").write_text(
        "city,tags,celsius,at,who\n"
        'lisbon,,24.5,2024-05-01T10:00:00Z,"ann, b"\n'
        "porto,too,few\n"
        " \n"
        'faro,"[""hot""]",  many ,2024-05-01,"ann, b"\n'
        '"são paulo","[""hot"", ""dry""]",,2024-05-01,\n'
    )
    table = pa.table(
        {
            "city": ["oslo"],
            "tags": [["cold", "cold"]],
            "celsius": [-3.25],
            "at": pa.array([1_714_557_600_000_000], pa.timestamp("us", "UTC")),
            "who": ["cat"],
        }
    )
    pq.write_table(table, tmp_path / "w.parquet")
    arguments = ["--mapping", tmp_path / "m.toml", "--keep-authors", "--out", tmp_path / "out"]

    document = ingest(capsys, tmp_path / "w.csv", tmp_path / "w.parquet", *arguments)

    assert (document["rows_out"], document["bad"]) == ({"records": 3}, 2)
    rows = {row["topics"][0]: row for row in pq.read_table(tmp_path / "out").to_pylist()}
    assert rows["lisbon"]["ranges"] == [{"name": "temp", "lo": 24.5, "hi": 24.5}]
    assert rows["lisbon"]["author"] == "ann, b"
    assert rows["são paulo"]["topics"] == ["são paulo", "hot", "dry"]
    assert rows["são paulo"]["ranges"] == []
    assert rows["oslo"]["topics"] == ["oslo", "cold"]
    assert rows["oslo"]["ranges"] == [{"name": "temp", "lo": -3.25, "hi": -3.25}]
    assert rows["oslo"]["time"] == rows["lisbon"]["time"]
    bad = pq.read_table(tmp_path / "out" / "_bad").to_pylist()
    assert {row["line"]: row["reason"] for row in bad} == {
        "porto,too,few": "not a row of the 5 columns of the header",
        'faro,"[""hot""]",  many ,2024-05-01,"ann, b"': "celsius is not a number",
    }


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    ("name", "mapping", "code", "said"),
    [
        ("absent", None, 1, "no such file or folder"),
        ("empty", None, 1, "empty is empty"),
        ("blank", None, 1, "there are no lines in blank"),
        ("folder", None, 1, "folder is empty"),
        ("a.csv", None, 1, "a.csv is csv, which needs a mapping"),
        ("a.csv", 'topics = ["b"]', 1, "a.csv has no column 'b', only a"),
        ("a.csv", 'topic = "b"', 1, "unknown key 'topic'"),
        ("a.csv", "topics = ", 1, "m.toml is not TOML"),
    ],
)
def test_what_cannot_be_ingested(
    name: str,
    mapping: str | None,
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "blank").write_text("\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.csv").write_text("a\n1\n")
    arguments = [str(tmp_path / name), "--out", str(tmp_path / "out")]
    if mapping is not None:
        (tmp_path / "m.toml").write_text(mapping)
        arguments += ["--mapping", str(tmp_path / "m.toml")]

    assert main(["pipeline", "ingest", *arguments]) == code

    errors = capsys.readouterr().err
    assert said in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "events need topics"),
        ({"topics": "city"}, "topics is a list of columns"),
        ({"topics": [5]}, "topics is the name of a column"),
        ({"topics": ["a"], "time": ""}, "time is the name of a column"),
        ({"topics": ["a"], "format": "xml"}, "format is one of json, csv, parquet"),
    ],
)
def test_a_mapping_that_cannot_be_used(content: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mapping_of(content)


@pytest.mark.parametrize("content", [b"", b"a", b"a\n", b"a\n\nb", b"\n" * 3])
def test_lines_of_a_compressed_file_are_those_of_the_file(content: bytes) -> None:
    compressed = compressed_with_a_long_window(content)

    assert [
        line for lines in lines_in(io.BytesIO(compressed)) for line in lines.to_pylist()
    ] == content.splitlines()


@pytest.mark.usefixtures("size")
def test_where_bad_lines_are_and_why_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    good = json.dumps(COMMENT)
    (tmp_path / "before").write_text("{broken\n" * 9, encoding="utf-8")
    (tmp_path / "now").write_text(f"{good}\n{{}}\n{{broken\n{{broken\n", encoding="utf-8")
    said = []
    for name in ("before", "now"):
        assert main(["pipeline", "ingest", str(tmp_path / name), "--out", str(out)]) == 0
        said += capsys.readouterr().err.splitlines()

    # On a busy machine there may be lines between that say how far it is.
    assert [line for line in said if line.startswith("smartpubsub: ")] == [
        f"smartpubsub: all lines are bad and kept in {out}/_bad, mostly: not a JSON object (9)",
        f"smartpubsub: 3 of 4 lines are bad and kept in {out}/_bad, mostly:"
        " not a JSON object (2); no topic, no number and no text (1)",
    ]
