"""Topics between terminals: nodes that run as processes, and the commands that talk to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartpubsub.protocols.car import read_car, write_car
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
    assert first == f"{entries[0]['id']}\n"
    receipt = json.loads(second)
    assert (receipt["id"], receipt["topic"]) == (entries[1]["id"], topic)
    assert receipt["event"] not in ("", receipt["id"])
    after = running.output(
        "topic", "history", topic, "--since", entries[0]["id"], "--data", a.folder
    )
    assert after.strip().endswith("two")
    for command in ("history", "subscribe"):
        code, said, problem = running.run(
            *("topic", command, topic, "--since", TOPIC, "--data", b.folder)
        )
        assert (code, said) == (1, "")
        assert f"no event {TOPIC} is known in the topic {topic}" in problem

    listed = json.loads(running.output("topic", "list", "--data", b.folder, "--json"))
    of_others = [t for t in listed if t["topic"] == topic]
    assert [(t["name"], t["is_own"], t["subscriptions"]) for t in of_others] == [("news", False, 1)]
    own = running.output("topic", "list", "--data", a.folder).splitlines()
    assert any(line.startswith(f"{topic}  2 events    news  (own") for line in own)

    file = tmp_path / "news.car"
    exported = running.output("topic", "export", topic, str(file), "--data", b.folder, "--json")
    assert json.loads(exported)["blocks"] == 5
    for place in (tmp_path / "none" / "news.car", Path("/dev/full")):
        _, _, problem = running.run("topic", "export", topic, str(place), "--data", b.folder)
        assert problem.startswith(f"smartpubsub: {place}: No s")
        assert problem.endswith("; name a file that can be written\n")
    c = running.node(tmp_path / "c")
    kept = running.output("topic", "import", str(file), "--data", c.folder, "--json")
    assert json.loads(kept) == {"file": str(file), "blocks": 5, "kept": 5}
    assert running.output("topic", "history", topic, "--last", "1", "--data", c.folder).endswith(
        "two\n"
    )
    assert reader.process.stdout is not None
    reader.process.stdout.close()  # As head does when it has enough.
    running.output("topic", "publish", topic, "three", "--data", b.folder)
    assert reader.ended() == (0, "", f"subscribed to {topic}\n")


def test_a_topic_is_shown_in_words(running: Commands, two: tuple[RunningNode, RunningNode]) -> None:
    a, _ = two
    shown = []
    for options in (["--ordered"], []):
        topic = running.output("topic", "create", "words", *options, "--data", a.folder).strip()
        text = running.output("topic", "show", topic, "--data", a.folder)
        shown.append({line[:14].rstrip(): line[16:] for line in text.splitlines()})
    ordered, free = shown
    assert (ordered["name"], ordered["author"], ordered["ordered"]) == ("words", a.peer_id, "yes")
    assert (ordered["may publish"], ordered["may ask them"]) == (a.peer_id, "anyone")
    assert (free["may publish"], free["may ask them"], free["ordered"]) == ("anyone", "-", "no")
    assert free["versions"].startswith("1 bafyrei")
    assert free["sub-topics"].startswith("meta bafyrei")
    assert (free["kept here"].partition(",")[0], free["pinned"]) == ("0 events", "no")


def test_a_kept_subscription_outlives_a_kill_with_no_gap_and_no_repeat(
    running: Commands, tmp_path: Path
) -> None:
    a = running.node(tmp_path / "a")
    b = running.node(tmp_path / "b", "--bootstrap", a.address)
    topic = running.output("topic", "create", "log", "--ordered", "--data", a.folder).strip()

    def publish(*payloads: str) -> None:
        for payload in payloads:  # Two nodes of which one is dead acknowledge nothing.
            running.output(
                *("topic", "publish", topic, payload, "--wait", "nothing", "--data", a.folder)
            )

    def kept(limit: int) -> tuple[str, list[str]]:
        number, *events = running.output(
            *("topic", "subscribe", topic, "--keep", "--json", "--limit", str(limit)),
            *("--data", b.folder),
        ).splitlines()
        return number, [json.loads(event)["payload"] for event in events]

    first, _ = kept(0)
    publish("1", "2", "3")
    assert kept(2) == (first, ["1", "2"])
    b.running.kill()
    publish("4")
    b = running.node(tmp_path / "b", "--bootstrap", a.address, "--listen", b.listen)
    publish("5")
    assert kept(3) == (first, ["3", "4", "5"])
    info = json.loads(running.output("node", "info", "--json", "--data", b.folder))
    assert [wish["waiting"] for wish in info["subscriptions"]] == [0]
    running.output("unsub", str(json.loads(first)["subscription"]), "--data", b.folder)
    info = json.loads(running.output("node", "info", "--json", "--data", b.folder))
    assert info["subscriptions"] == []


def test_rules_and_versions_are_said_by_options(
    running: Commands, two: tuple[RunningNode, RunningNode]
) -> None:
    a, b = two
    surf = running.output("topic", "create", "surf", "--data", b.folder).strip()
    code, first, said = running.run(
        *("topic", "create", "board", "--allow", b.peer_id, "--request", "nobody"),
        *("--linking", "custom", "--sub-topic", f"surf={surf}", "--data", a.folder),
    )
    first = first.strip()
    assert (code, said) == (
        0,
        "note: this node itself cannot publish in it; --allow self would permit that\n",
    )
    refused = running.run("topic", "publish", first, "x", "--data", a.folder)
    assert (refused[0], "does not allow this node to publish" in refused[2]) == (1, True)
    assert f"publishing in the topic {first} was refused" in refused[2]
    root = running.output(
        "topic", "publish", first, "root", "--parent", "none", "--data", b.folder, "--json"
    )
    root_id = json.loads(root)["id"]
    for command in (["publish", root_id, "x"], ["history", root_id], ["subscribe", root_id]):
        code, _, problem = running.run("topic", *command, "--data", b.folder)
        assert (code, f"is an event; name the topic that it is in, {first}" in problem) == (1, True)
    made = json.loads(
        running.output(
            *("topic", "update", first, "--request", a.peer_id, "--no-sub-topic", "surf"),
            *("--sub-topic", f"waves={surf}", "--data", a.folder, "--json"),
        )
    )
    assert (made["version"], made["requesters"], made["linking"]) == (2, [a.peer_id], "custom")
    answer = running.output(
        *("topic", "publish", first, "answer", "--parent", root_id, "--data", a.folder, "--json")
    )
    entries = running.output("topic", "history", made["topic"], "--data", b.folder, "--json")
    last = json.loads(entries.splitlines()[-1])
    assert (last["id"], last["parents"]) == (json.loads(answer)["id"], [root_id])
    assert (last["author"], last["publisher"]) == (a.peer_id, b.peer_id)

    text = running.output("topic", "show", first, "--data", b.folder)
    assert f"versions        2 {made['topic']} " in text
    assert f"\n                1 {first} " in text
    assert f"waves {surf}" in text
    assert f"surf {surf}" not in text.replace(f"waves {surf}", "")
    pin = running.run("topic", "pin", first, "--data", b.folder)
    assert pin == (0, f"all of {first} is kept from now on\n", "")
    pinned = json.loads(running.output("topic", "show", first, "--data", b.folder, "--json"))
    assert pinned["kept"]["is_pinned"]
    unpin = running.run("topic", "unpin", first, "--data", b.folder)
    assert unpin == (0, f"{first} is kept within the limits of the node\n", "")
    other = running.run("topic", "update", surf, "--allow", "self", "--data", a.folder)
    assert (other[0], f"the author of 'surf' is {b.peer_id}" in other[2]) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["publish", "science", "x"], 1, "knows no topic 'science'"),
        (
            ["history", TOPIC, "--last", "0"],
            2,
            "--last",
        ),
        (["history", TOPIC, "--since", "nonsense"], 2, "neither an event's id"),
        (["subscribe", TOPIC, "--since", "nonsense"], 2, "neither an event's id"),
        (["publish", TOPIC, "x", "--parent", "nonsense"], 2, "no content id"),
        (["publish", TOPIC, "x", "--parent", "none", "--parent", TOPIC], 2, "give it alone"),
        (["create", ""], 2, "1 to 256 characters"),
        (["create", "x", "--allow", "nobody-at-all"], 2, "neither a peer id"),
        (["create", "x", "--allow", "anyone", "--allow", "self"], 2, "give it alone"),
        (
            ["create", "x", "--ordered", "--request", "anyone"],
            2,
            "--ordered determines who may publish",
        ),
        (["create", "x", "--sub-topic", "surf"], 2, "is not NAME=TOPIC"),
        (["create", "x", "--sub-topic", f"meta={TOPIC}"], 2, "every topic's own"),
        (["update", TOPIC], 2, "nothing to change"),
        (["create", "x" * 257], 2, "1 to 256 characters"),
        (["import", "nowhere.car"], 2, "name a file that can be read"),
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


def test_what_is_missing_of_history_is_said(running: Commands, tmp_path: Path) -> None:
    whole, part, again = (tmp_path / name for name in ("whole.car", "part.car", "again.car"))
    node = running.node(tmp_path / "a")
    topic = running.output("topic", "create", "news", "--data", node.folder).strip()
    for payload in ("one", "two", "three"):
        running.output("topic", "publish", topic, payload, "--data", node.folder)
    running.output("topic", "export", topic, str(whole), "--data", node.folder)
    with whole.open("rb") as file:
        roots, blocks = read_car(file)
        kept = [block for block in blocks if b"two" not in block]
    with part.open("wb") as file:
        write_car(file, roots, kept)

    other = running.node(tmp_path / "b")
    running.output("topic", "import", str(part), "--data", other.folder)
    code, said, note = running.run("topic", "history", topic, "--data", other.folder, "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    (missing,) = lines[0]["gaps"]["missing"]
    assert (code, [line.get("payload") for line in lines]) == (0, [None, "one", "three"])
    assert lines[2]["parents"] == [missing]
    assert note.startswith(f"note: 1 event of the topic was not found: {missing}; try again")
    _, _, note = running.run("topic", "export", topic, str(again), "--data", other.folder)
    assert f"not found: {missing}" in note
    shown = json.loads(running.output("topic", "show", topic, "--data", other.folder, "--json"))
    assert not shown["kept"]["is_whole"]
    running.output("topic", "import", str(whole), "--data", other.folder)
    shown = json.loads(running.output("topic", "show", topic, "--data", other.folder, "--json"))
    assert shown["kept"]["is_whole"]
    entries = running.output("topic", "history", topic, "--data", other.folder)
    assert len(entries.splitlines()) == 3
