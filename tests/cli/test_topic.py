"""Topics between terminals: nodes that run as processes, and the commands that talk to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Commands, RunningNode, commands

TOPIC = "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua"


@pytest.fixture(scope="module")
def running() -> Iterator[Commands]:
    with commands() as made:
        yield made


@pytest.fixture(scope="module")
def two(
    running: Commands, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunningNode, RunningNode]:
    folder = tmp_path_factory.mktemp("two")
    first = running.node(folder / "a")
    return first, running.node(folder / "b", "--bootstrap", first.address)


def test_a_topic_is_made_shown_published_in_and_read(
    running: Commands, two: tuple[RunningNode, RunningNode], tmp_path: Path
) -> None:
    a, b = two
    topic = running.output("topic", "create", "news", "--ordered", "--data", a.folder).strip()
    shown = json.loads(running.output("topic", "show", topic, "--data", b.folder, "--json"))
    assert (shown["name"], shown["ordered"], shown["topic"]) == ("news", True, topic)
    nothing = running.run("topic", "history", topic, "--data", a.folder)
    assert nothing == (0, "", "the topic has no events\n")
    first = running.output("topic", "publish", topic, "one", "--data", a.folder)
    reader = running.start("topic", "subscribe", topic, "--last", "5", "--data", b.folder, "--json")
    reader.wait_for_error(f"subscribed to {topic}")
    second = running.output("topic", "publish", topic, "two", "--data", b.folder, "--json")
    assert [json.loads(reader.line())["payload"] for _ in range(2)] == ["one", "two"]

    history = running.output("topic", "history", topic, "--data", b.folder, "--json")
    entries = [json.loads(line) for line in history.splitlines()]
    assert [entry["payload"] for entry in entries] == ["one", "two"]
    assert entries[1]["parents"] == [entries[0]["id"]]
    assert first == f"published {entries[0]['id']}\n"
    receipt = json.loads(second)
    assert (receipt["id"], receipt["topic"]) == (entries[1]["id"], topic)
    assert receipt["event"] not in ("", receipt["id"])
    after = running.output(
        "topic", "history", topic, "--since", entries[0]["id"], "--data", a.folder
    )
    assert after.strip().endswith("two")

    file = tmp_path / "news.car"
    exported = running.output("topic", "export", topic, str(file), "--data", b.folder, "--json")
    assert json.loads(exported)["blocks"] == 5
    c = running.node(tmp_path / "c")
    kept = running.output("topic", "import", str(file), "--data", c.folder, "--json")
    assert json.loads(kept) == {"file": str(file), "blocks": 5, "kept": 5}
    assert running.output("topic", "history", topic, "--last", "1", "--data", c.folder).endswith(
        "two\n"
    )


def test_a_topic_is_shown_in_words(running: Commands, two: tuple[RunningNode, RunningNode]) -> None:
    a, _ = two
    shown = []
    for options in (["--ordered"], []):
        topic = running.output("topic", "create", "words", *options, "--data", a.folder).strip()
        text = running.output("topic", "show", topic, "--data", a.folder)
        shown.append({line[:14].rstrip(): line[16:] for line in text.splitlines()})
    ordered, free = shown
    assert (ordered["name"], ordered["author"], ordered["ordered"]) == ("words", a.peer_id, "yes")
    assert (ordered["may publish"], ordered["may ask them"]) == (a.peer_id, "anybody")
    assert (free["may publish"], free["may ask them"], free["ordered"]) == ("anybody", "-", "no")
    assert free["version before"] == "-"
    assert free["subtopics"].startswith("meta bafyrei")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["publish", "science", "x"], 2, "no content id"),
        (
            ["history", TOPIC, "--last", "0"],
            2,
            "--last",
        ),
        (["history", TOPIC, "--since", "nonsense"], 2, "neither an event's content id"),
        (["subscribe", TOPIC, "--since", "nonsense"], 2, "neither an event's content id"),
        (["publish", TOPIC, "x", "--parent", "nonsense"], 2, "no content id"),
        (["create", ""], 2, "1 to 256 characters"),
        (["create", "x" * 257], 2, "1 to 256 characters"),
        (["import", "nowhere.car"], 1, "name a file that can be read"),
        (["import", __file__], 1, f"{__file__}: "),
    ],
)
def test_mistakes_are_named(
    running: Commands,
    two: tuple[RunningNode, RunningNode],
    arguments: list[str],
    code: int,
    problem: str,
) -> None:
    found, _, said = running.run("topic", *arguments, "--data", two[0].folder)

    assert (found, problem in said) == (code, True)
