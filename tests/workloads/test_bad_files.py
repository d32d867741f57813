"""What is wrong with a file is said with the number of the line and what to do."""

import gzip
import json
from pathlib import Path

import pytest

from smartpubsub.workloads import WorkloadError, read_workload
from tests.workloads.said import read, written

GOOD = {"node": "n1", "subscribe": "a"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "double quotes, column 2; write one JSON object on each line"),
        ("[1]", "expected an object such as "),
        ("3.5", "found 3.5; write one on each line"),
        (json.dumps("x" * 99), f'found "{"x" * 39}...;'),
        ('{"node": "n1", "node": "n2", "crash": true}', "'node' is repeated"),
        ("[" * 100_000, "brackets within brackets"),
        ('{"node": "n1", "publish": "a", "at_ms": NaN}', "NaN is not a number in JSON"),
        ('{"node": "n1", "publish": "a", "at_ms": 1e999}', "at_ms lies between 0 and"),
        (
            f'{{"node": "n1", "publish": "a", "at_ms": {"9" * 5000}}}',
            "a number has more than 4300 digits; write a shorter one",
        ),
        ({"node": "n1", "subcribe": "a"}, "unknown key 'subcribe'; the keys are at_ms, "),
        ({"node": "n1"}, "nothing to do; write one of subscribe, "),
        ({"node": "n1", "subscribe": "a", "publish": "a"}, "subscribe and publish in one line"),
        ({"subscribe": "a"}, "node is a text in quotes, and it is missing"),
        ({"node": 7, "subscribe": "a"}, "node is a text in quotes, found 7"),
        ({"node": "", "subscribe": "a"}, "the name of a node has 1 to 1024 bytes"),
        ({"node": "n" * 1025, "subscribe": "a"}, "the name of a node has 1 to 1024 bytes"),
        ({"node": "\ud800", "subscribe": "a"}, "node contains half of a surrogate pair"),
        ({"node": "n1", "subscribe": ["a"]}, "subscribe is a text in quotes, found a list"),
        ({"node": "n1", "subscribe": "a/b[2,1]"}, "subscribe: column 5: the lower bound 2 is"),
        ({"node": "n1", "publish": "a//b"}, "publish: column 3: expected an attribute name"),
        ({"node": "n1", "publish": "a", "payload": 5}, "payload is a text in quotes, found 5"),
        (
            {"node": "n1", "publish": "a", "payload": None},
            "payload is a text in quotes, found null",
        ),
        ({"node": "n1", "publish": "a", "payload": "\udfff"}, "payload contains half of"),
        (
            {"node": "n1", "publish": "a", "payload": "é" * 262_145},
            "payload has 524,290 bytes, and an event carries at most 524,288 bytes; publish less",
        ),
        ({"node": "n1", "subscribe": "a", "payload": "x"}, "payload has no meaning beside subscr"),
        ({"node": "n1", "publish": "a", "ordered": True}, "ordered has no meaning beside publish"),
        ({"node": "n1", "create_topic": "a", "ordered": 1}, "ordered is true or false, found 1"),
        ({"node": "n1", "create_topic": ""}, "create_topic: attribute '': a name is empty"),
        ({"node": "n1", "crash": False}, "crash can only be true, found false"),
        ({"node": "n1", "idle": True, "at_ms": 1}, "at_ms has no meaning beside idle"),
        ({"node": "n1", "settle": True}, "node has no meaning beside settle"),
        ({"node": "n1", "publish": "a", "at_ms": -1}, "at_ms lies between 0 and"),
        ({"node": "n1", "publish": "a", "at_ms": True}, "at_ms is a number of milliseconds"),
        (
            {"node": "n1", "publish": "a", "at_ms": "5"},
            'at_ms is a number of milliseconds, found "5"',
        ),
        ({"node": "n1", "unsubscribe": "b"}, "'n1' has no subscription 'b' at this time"),
        ({"node": "n2", "unsubscribe": "a"}, "'n2' has no subscription 'a' at this time"),
        ({"node": "n1", "restart": True}, "'n1' is not down; crash it or have it leave first"),
        ({"type": "user", "node": "n1"}, "unknown key 'type'"),
    ],
)
def test_a_bad_line_is_named(line: object, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, "", line, GOOD)

    with pytest.raises(WorkloadError) as caught:
        read_workload(path)

    assert str(caught.value).startswith(f"{path}:3: ")
    assert problem in caught.value.problem
    assert (caught.value.path, caught.value.line) == (path, 3)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (
            [
                {"node": "n1", "publish": "a", "at_ms": 5},
                {"node": "n1", "publish": "a", "at_ms": 4},
            ],
            ":2: at_ms 4 lies before 5,",
        ),
        (
            [
                {"node": "n1", "publish": "a"},
                {"node": "n1", "publish": "a"},
                {"node": "n1", "publish": "a", "at_ms": 9.5},
            ],
            ":3: at_ms 9.5 lies before 10,",
        ),
        (
            [{"node": "n1", "crash": True}, {"node": "n1", "crash": True}],
            ":2: 'n1' is down already",
        ),
        (
            [GOOD, {"node": "n1", "unsubscribe": "a"}, {"node": "n1", "unsubscribe": "a"}],
            ":3: 'n1' has no subscription 'a'",
        ),
        (
            [{"node": "n1", "create_topic": "t"}, {"node": "n1", "create_topic": "t"}],
            ":2: the topic 't' was created in line 1",
        ),
        (
            [{"node": "n1", "create_topic": "t"}, {"node": "n1", "subscribe": "u"}],
            ":2: subscribe: there is no topic 'u'",
        ),
        (
            [
                {"node": "n1", "publish": "t", "at_ms": 1},
                {"node": "n1", "create_topic": "t", "at_ms": 2},
            ],
            ":1: publish: there is no topic 't'",
        ),
        ([], ": the file is empty; write lines"),
        (["", "  "], ": the file is empty; write lines"),
        ([{"node": "n1", "idle": True}], ": nothing happens in this file"),
    ],
)
def test_what_cannot_happen_is_named(lines: list[object], problem: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path, *lines)

    assert str(caught.value).startswith(f"{tmp_path / 'workload.jsonl'}{problem}")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b'\n{"node": "\xe9"}\n')

    with pytest.raises(WorkloadError, match=":2: byte 11 of the line is not UTF-8"):
        read_workload(path)


def test_a_line_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smartpubsub.workloads.lines.LINE_BYTES_MAX", 40)

    with pytest.raises(WorkloadError, match=":2: a line has at most 40 bytes"):
        read(tmp_path, GOOD, {"node": "n1", "publish": "a", "payload": "long"})


def test_too_many_lines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smartpubsub.workloads.lines.LINES_MAX", 2)

    with pytest.raises(WorkloadError, match="more than 2 lines"):
        read(tmp_path, GOOD, GOOD, GOOD)


@pytest.mark.parametrize("cut", [slice(0, -9), slice(0, 12)])
def test_a_damaged_compressed_file_is_named(cut: slice, tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode() * 50)[cut])

    with pytest.raises(WorkloadError, match=r"w\.jsonl\.gz: the compressed file is damaged"):
        read_workload(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"none\.jsonl: No such file or directory"):
        read_workload(tmp_path / "none.jsonl")
