"""Comparing protocols in the same world."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from smartpubsub.cli.main import main
from smartpubsub.cli.sim.compare import HEAD, choices
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.protocols.scoutsubs.spec import VARIANTS
from tests.sim.broken import Pushy, boastful, spec_with

Captured = pytest.CaptureFixture[str]


TWO = ["--protocol", "floodsub", "--protocol", "gossipsub"]


def test_one_row_for_each(capsys: Captured) -> None:
    assert main(["sim", "compare", "--nodes", "15", *TWO]) == 0

    head, *rows = capsys.readouterr().out.splitlines()
    assert all(column in head for column in HEAD)
    assert [row.split()[0] for row in rows] == ["floodsub", "gossipsub"]


def test_that_all_get_topics_for_the_sake_of_one_is_said(capsys: Captured) -> None:
    options = ["--nodes", "10", "--events", "20"]
    pulsarcast = ["--protocol", "floodsub", "--protocol", "pulsarcast"]
    assert main(["sim", "compare", *pulsarcast, *options]) == 0
    said = capsys.readouterr().err
    assert "note: pulsarcast has topics only, so in this run all protocols get" in said
    assert "the scenario normal with topics" in said

    for others in (["--protocol", "floodsub"], [*pulsarcast, "--scenario", "reddit"]):
        assert main(["sim", "compare", *others, *options]) == 0
        assert "note:" not in capsys.readouterr().err


def test_who_is_left_out_is_said(tmp_path: Path, capsys: Captured) -> None:
    lines = [
        {"node": "a", "create_topic": "news"},
        {"node": "b", "subscribe": "news"},
        {"settle": True},
        {"node": "c", "publish": "news"},
    ]
    workload = tmp_path / "topics.jsonl"
    workload.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ["sim", "compare", "--workload", str(workload), "--variant", "base-reliable"]

    assert main([*command, "--json"]) == 0
    told = capsys.readouterr()
    assert "note: pulsarcast has topics only and is left out" in told.err
    assert "pulsarcast" not in {document["protocol"] for document in json.loads(told.out)}

    assert main([*command, "--protocol", "floodsub", "--protocol", "pulsarcast", "--json"]) == 0
    told = capsys.readouterr()
    assert "note:" not in told.err
    assert [document["delivered"] for document in json.loads(told.out)] == [1, 1]


@patch.dict(PROTOCOLS.specs)  # Which gives them back in their order.
def test_all_by_default(capsys: Captured) -> None:
    for name in set(PROTOCOLS.specs) - {"floodsub", "gossipsub"}:
        del PROTOCOLS.specs[name]

    assert main(["sim", "compare", "--nodes", "5", "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["protocol"] for document in documents] == list(PROTOCOLS.specs)


def test_the_world_is_the_same_and_the_documents_are_those_of_run(capsys: Captured) -> None:
    options = ["--nodes", "15", "--scenario", "power-law", "--seed", "3"]
    assert main(["sim", "compare", "--json", *TWO, *options]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert main(["sim", "run", "--protocol", "gossipsub", "--json", *options]) == 0
    alone = json.loads(capsys.readouterr().out)

    flood, gossip = documents
    assert flood["expected"] == gossip["expected"] > 0
    assert flood["trace_digest"] != gossip["trace_digest"] == alone["trace_digest"]
    assert flood["carried_for_nothing"] > gossip["carried_for_nothing"] > 0
    assert set(gossip) == {*alone, "messages_per_delivery", "carried_for_nothing"}


def test_variants_are_for_those_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "boastful", boastful("boastful"))

    assert choices(["floodsub", "boastful", "floodsub"], VARIANTS[:2]) == [
        ("floodsub", ""),
        ("boastful", VARIANTS[0]),
        ("boastful", VARIANTS[1]),
    ]


def test_violations_end_it_with_1(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "pushy", spec_with("pushy", Pushy))

    arguments = ["--nodes", "8", "--protocol", "pushy", "--protocol", "floodsub"]
    assert main(["sim", "compare", *arguments]) == 1
    assert "pushy: 1 violations" in capsys.readouterr().err


def test_an_interrupt_gives_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StderrProgress, "tick", interrupt)

    assert main(["sim", "compare", "--nodes", "8", "--json"]) == 130
    (document,) = json.loads(capsys.readouterr().out)
    assert document["interrupted"] is True


def test_an_unknown_protocol_ends_it_with_2(capsys: Captured) -> None:
    assert main(["sim", "compare", "--protocol", "floodsub", "--protocol", "no-such"]) == 2
    assert "'no-such' is not a protocol" in capsys.readouterr().err
