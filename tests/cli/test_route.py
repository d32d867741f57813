"""The command that shows which way a predicate takes."""

import json
from pathlib import Path

import pytest

from smartpubsub.cli.main import main

Captured = pytest.CaptureFixture[str]

SUBSCRIPTIONS = """\
{"node": "ann", "subscribe": "surf/price[10,20]"}
{"node": "bob", "subscribe": "surf"}
{"node": "$cid$", "publish": "surf/price=15"}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "subscriptions.jsonl"
    path.write_text(SUBSCRIPTIONS, encoding="utf-8")
    return str(path)


def test_the_text_tells_the_whole_way(capsys: Captured) -> None:
    assert main(["route", "surf/trip/price[1000,1400]"]) == 0

    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "surf/trip/price[1000,1400] has 3 attributes"
    assert lines[1].split()[:3] == ["surf", "key", "0199311728be..."]
    assert any("it is kept under surf" in line for line in lines)
    assert any(line.endswith(", the rendezvous") for line in lines)
    assert any(line.startswith("    replicas at ") for line in lines)
    assert lines[-1].strip() == "18 of the 18 nodes that want it would get it"
    assert captured.err == ""


def test_the_document_says_what_the_text_says(file: str, capsys: Captured) -> None:
    arguments = ["--subscriptions", file, "--from", "$cid$", "--variant", "base-reliable"]
    assert main(["route", "surf/price=15", *arguments, "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["seed"], found["variant"]) == (3, 1, "base-reliable")
    assert (found["predicate"], found["kept_under"]) == ("surf/price=15", "surf")
    assert [attribute["name"] for attribute in found["attributes"]] == ["surf", "price"]
    assert found["start"] == found["stops"][0]["node"] == "$cid$"
    assert found["stops"][-1]["node"] == found["tree"]["rendezvous"]
    assert sorted(found["received_by"]) == sorted(found["wanted_by"]) == ["ann", "bob"]
    assert [way["attribute"] for way in found["journeys"]] == ["surf", "price"]


def test_a_node_is_given_by_name_or_by_number(capsys: Captured) -> None:
    starts = []
    for given in ("n8", "7"):
        assert main(["route", "ipfs", "--nodes", "12", "--from", given, "--json"]) == 0
        starts.append(json.loads(capsys.readouterr().out)["start"])

    assert starts == ["n8", "n8"]


def test_what_nobody_wants_is_said_to_be_so(file: str, capsys: Captured) -> None:
    assert main(["route", "rain", "--subscriptions", file, "--nodes", "5"]) == 0

    out = capsys.readouterr().out
    assert "where no node wants it" in out
    assert out.endswith("no node wants it\n")


def test_the_tree_is_drawn_and_the_same_every_time(
    file: str, tmp_path: Path, capsys: Captured
) -> None:
    charts = [tmp_path / name for name in ("one.svg", "other.svg")]
    for chart in charts:
        arguments = ["--subscriptions", file, "--from", "$cid$", "--plot", str(chart)]
        assert main(["route", "surf", *arguments]) == 0

    text = charts[0].read_text(encoding="utf-8")
    assert text == charts[1].read_text(encoding="utf-8")
    assert ">surf by surf<" in text
    assert ">$cid$<" in text
    assert "rendezvous" in text
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["surf//bali"], "PREDICATE, column 6: expected an attribute name"),
        (["surf", "--from", "eve"], "no node 'eve'; the names are n1 to n60, the numbers 0 to 59"),
        (["surf", "--from", "60"], "no node '60'"),
        (["surf", "--nodes", "0"], "--nodes"),
        (["surf", "--variant", "fast"], "'fast' is not one of"),
        (["surf", "--plot", "tree.txt"], "ends in .png or .svg"),
        (["surf", "--scenario", "normal", "--subscriptions", "f"], "leave one out"),
        ([], "PREDICATE"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], complaint: str, capsys: Captured) -> None:
    assert main(["route", *arguments]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err


def test_a_file_that_does_not_fit_is_told_in_one_line(
    file: str, tmp_path: Path, capsys: Captured
) -> None:
    absent = str(tmp_path / "absent.jsonl")
    for arguments in (["--subscriptions", absent], ["--subscriptions", file, "--nodes", "2"]):
        assert main(["route", "surf", *arguments]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
