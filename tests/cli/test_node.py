"""Nodes that run as processes, and the commands that talk to them."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import base58
import click
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from smartpubsub.cli import main as cli
from smartpubsub.cli.node import service
from smartpubsub.cli.node.info import subscription_text
from smartpubsub.cli.pub import payload_of
from smartpubsub.kademlia.keys import key_of
from smartpubsub.node.api.receipts import Receipt
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX
from tests.cli.running import LOOPBACK, Commands, RunningNode, commands

Captured = pytest.CaptureFixture[str]


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


# --- publishing and subscribing ---


def test_an_event_goes_from_one_node_to_another(
    running: Commands, two: tuple[RunningNode, RunningNode]
) -> None:
    a, b = two
    sub = running.start("sub", "rain/mm[1,5]", "--data", a.folder, "--limit", "1", "--json")
    sub.wait_for_error("subscribed to rain/mm[1,5]")

    receipt = running.output(
        "pub", "rain/mm=2", "bring boots", "--data", b.folder, "--wait", "all", "--json"
    )

    assert Receipt.read(json.loads(receipt)).verify()
    code, output, _ = sub.ended()
    assert code == 0
    event = json.loads(output)
    assert event.pop("cid").startswith("bafyrei")
    assert datetime.fromisoformat(event.pop("created")) <= datetime.now(UTC)
    assert event == {
        "id": json.loads(receipt)["id"],
        "publisher": b.peer_id,
        "event": "rain/mm=2",
        "payload": "bring boots",
        "hops": 1,
        "dropped_before": 0,
    }


def test_what_is_published_can_come_from_standard_input_and_be_no_text(
    running: Commands, two: tuple[RunningNode, RunningNode], tmp_path: Path
) -> None:
    a, b = two
    sub = running.start("sub", "noise", "--data", a.folder, "--json")
    text = running.start("sub", "noise", "--data", a.folder)
    sub.wait_for_error("subscribed")
    text.wait_for_error("subscribed")
    (tmp_path / "payload").write_bytes(b"\xff\x1b[2J\n")

    with (tmp_path / "payload").open("rb") as payload:
        pub = running.start("pub", "noise", "-", "--wait", "all", "--data", b.folder, stdin=payload)
        assert pub.ended()[0] == 0

    assert json.loads(sub.line())["payload_base64"] == "/xtbMkoK"
    assert text.line() == "noise  \\xff\\x1b[2J\\n\n"
    assert sub.ended(signal.SIGINT)[0] == 130
    assert text.ended(signal.SIGINT)[0] == 130


def test_a_node_tells_about_itself(running: Commands, two: tuple[RunningNode, RunningNode]) -> None:
    a, b = two
    info = json.loads(running.output("node", "info", "--data", a.folder, "--json"))
    assert info["peer_id"] == a.peer_id
    assert info["addresses"] == a.said["addresses"]
    assert (info["protocol"], info["variant"]) == ("scoutsubs", "redirect-reliable")
    assert info["process"] == a.running.process.pid

    assert running.output("node", "peers", "--data", b.folder) == f"{a.address}\n"
    peers = json.loads(running.output("node", "peers", "--data", b.folder, "--json"))
    assert peers == [a.address]


def test_what_a_node_has_counted_is_printed_and_served(running: Commands, tmp_path: Path) -> None:
    node = running.node(tmp_path, "--metrics", "127.0.0.1:0")
    printed = running.output("node", "info", "--metrics", "--data", node.folder)
    with urlopen(node.said["metrics"]) as answer:
        served = answer.read().decode()

    for text in (printed, served):
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert families["smartpubsub_stored_bytes"].samples[0].value > 0
    in_json = json.loads(running.output("node", "info", "--metrics", "--json", "--data", tmp_path))
    assert in_json["metrics"].splitlines()[0] == printed.splitlines()[0]


def test_only_its_user_can_talk_to_a_node(two: tuple[RunningNode, RunningNode]) -> None:
    folder = two[0].folder
    assert stat.S_IMODE((folder / "control.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_in_use_is_told(running: Commands, two: tuple[RunningNode, RunningNode]) -> None:
    a, _ = two
    code, output, errors = running.run("node", "run", "--data", a.folder, "--listen", LOOPBACK)
    assert (code, output) == (1, "")
    assert f"is in use by the node with process id {a.running.process.pid}" in errors
    assert "Traceback" not in errors


def test_an_address_in_use_is_told(
    running: Commands, two: tuple[RunningNode, RunningNode], tmp_path: Path
) -> None:
    taken = two[0].address.partition("/p2p/")[0]
    code, _, errors = running.run("node", "run", "--data", tmp_path, "--listen", taken)
    assert code == 1
    assert f"cannot listen on {taken}" in errors
    assert "Traceback" not in errors


# --- ending and starting again ---


def test_a_kept_subscription_outlives_a_node_that_is_killed(
    running: Commands, two: tuple[RunningNode, RunningNode], tmp_path: Path
) -> None:
    a, _ = two
    node = running.node(tmp_path, "--bootstrap", a.address)
    kept = running.output("sub", "snow", "--keep", "--limit", "0", "--json", "--data", tmp_path)
    number = json.loads(kept)["subscription"]

    node.running.kill()
    again = running.node(tmp_path, "--bootstrap", a.address)
    assert again.peer_id == node.peer_id
    wanted = f"{number}  snow  in force, 0 events waiting"
    running.until(wanted, "node", "info", "--data", tmp_path)
    running.output("pub", "snow", "ski", "--wait", "all", "--data", a.folder)

    assert running.output("sub", "snow", "--limit", "1", "--keep", "--data", tmp_path) == (
        f"subscription {number}\nsnow  ski\n"
    )
    assert running.output("unsub", str(number), "--data", tmp_path) == ""
    code, _, errors = running.run("unsub", str(number), "--data", tmp_path)
    assert (code, errors) == (
        1,
        f"smartpubsub: there is no subscription {number}; there are none\n",
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_node_ends_when_it_is_told_to(
    how: signal.Signals, running: Commands, tmp_path: Path
) -> None:
    environ = os.environ | {"SMARTPUBSUB_LISTEN": LOOPBACK, "SMARTPUBSUB_PROTOCOL": "floodsub"}
    node = running.start("node", "run", "--data", tmp_path, environ=environ)
    assert node.line().startswith("peer id  12D3KooW")
    assert node.line().startswith("address  /ip4/127.0.0.1/tcp/")
    assert node.line() == "ready\n"
    sub = running.start("sub", "rain", "--data", tmp_path)
    sub.wait_for_error("subscribed")

    code, output, errors = node.ended(how)

    assert (code, output) == (0, "")
    assert "message=ready" in errors
    assert errors.splitlines()[-1].endswith("message=ended")
    assert "Traceback" not in errors
    assert not (tmp_path / "control.sock").exists()
    code, _, errors = sub.ended()
    assert code == 1
    assert errors.endswith(f"smartpubsub: the node in {tmp_path} has ended; start it again\n")


def test_a_node_that_finds_nobody_can_be_ended(running: Commands, tmp_path: Path) -> None:
    nobody = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWPH332bRWJqRHHycmLGka4odL32rmfUjCFvvDaqCfKXhE"
    node = running.start(
        "node", "run", "--data", tmp_path, "--listen", LOOPBACK, "--bootstrap", nobody
    )
    node.wait_for_error("message=starting")
    code, output, errors = node.ended(signal.SIGINT)
    assert (code, output) == (0, "")
    assert "Traceback" not in errors


# --- mistakes ---


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["node", "run", "--listen", "here"], "--listen: expected addresses /ip4/"),
        (["node", "run", "--bootstrap", LOOPBACK], "--bootstrap: expected addresses that end"),
        (["node", "run", "--backups", "-1"], "--backups: expected a whole number"),
        (["node", "run", "--resilience", "iron"], "--resilience: expected crash, audited or byz"),
        (["node", "run", "--protocol", "smoke"], "'smoke' is not a protocol; there are: scoutsubs"),
        (["node", "run", "--log-level", "loud"], "'loud' is not one of 'debug'"),
        (["node", "run", "--limit", "data=1"], "--limit: expected NAME=N, where NAME is one of"),
        (["node", "run", "--limit", "stream_count_max"], "--limit stream_count_max: expected a wh"),
        (["node", "run", "--limit", "stream_count_max=3"], "a whole number from 4 to 10000"),
        (["node", "run", "--metrics", "9464"], "--metrics: expected off, or a host and a port"),
        (["node", "info", "surplus"], "unexpected extra argument"),
        (["pub"], "Missing argument 'EVENT'"),
        (["pub", "a["], "EVENT, column 3"),
        (["pub", "a", "b", "--wait", "long"], "'long' is not one of"),
        (["sub", "a["], "PREDICATE, column 3"),
        (["sub", "a", "--limit", "-1"], "-1 is not in the range"),
        (["sub", "a", "--since", "yesterday"], "'yesterday' is neither an event's id, nor a time"),
        (
            ["sub", "a", "--since", "2026-01-01", "--last", "1"],
            "--since and --last exclude each other",
        ),
        (["sub", "a", "--last", "0"], "0 is not in the range"),
        (["unsub", "surf"], "'surf' is not the number of a subscription; sub --keep prints it"),
        (["unsub", "--", "-1"], "'-1' is not the number of a subscription"),
        (["node", "run", "--data", __file__], "--data: expected the path of a folder, which is"),
        (["node", "info", "--data", f"{__file__}/x"], "--data: expected the path of a folder"),
    ],
)
def test_a_wrong_use_ends_with_2(arguments: list[str], problem: str, capsys: Captured) -> None:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert problem in captured.err


@pytest.mark.parametrize(
    "arguments", [["node", "info"], ["node", "peers"], ["pub", "a"], ["sub", "a"], ["unsub", "1"]]
)
def test_where_no_node_runs_it_is_said_how_to_start_one(
    arguments: list[str], tmp_path: Path, capsys: Captured
) -> None:
    assert cli.main([*arguments, "--data", str(tmp_path)]) == 1
    assert capsys.readouterr() == (
        "",
        f"smartpubsub: no node runs in {tmp_path};"
        f" start one with: smartpubsub node run --data {tmp_path}\n",
    )


def test_a_payload_that_is_too_long_is_told() -> None:
    assert len(payload_of("x" * PAYLOAD_BYTES_MAX)) == PAYLOAD_BYTES_MAX
    with pytest.raises(click.BadParameter, match="an event carries at most 524,288 bytes; publish"):
        payload_of("x" * (PAYLOAD_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("waiting", "said"), [(0, "0 events"), (1, "1 event"), (9_999, "9,999 events")]
)
def test_what_waits_is_counted_in_words(waiting: int, said: str) -> None:
    info = {"subscription": 7, "predicate": "a", "state": "in force", "is_taken": False}
    info |= {"waiting": waiting, "dropped": 0}
    assert subscription_text(info) == f"7  a  in force, {said} waiting"
    assert subscription_text(info | {"dropped": 3}) == f"7  a  in force, {said} waiting, 3 dropped"


def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "config.toml").write_text("backups = 'many'\n")
    assert cli.main(["node", "run", "--data", str(tmp_path)]) == 2
    assert f"smartpubsub: {tmp_path}/config.toml:backups: expected" in capsys.readouterr().err


def test_what_was_acknowledged_survives_when_all_nodes_are_killed(
    running: Commands, tmp_path: Path
) -> None:
    alone = ("--backups", "0")  # Nobody else has a copy.
    a = running.node(tmp_path / "a", *alone)
    b = running.node(tmp_path / "b", *alone, "--bootstrap", a.address)
    name = next(n for n in map(str, range(100)) if is_closer(a.peer_id, b.peer_id, n))
    running.output("sub", name, "--keep", "--limit", "0", "--data", b.folder)
    b.running.kill()
    receipt = json.loads(running.output("pub", name, "sunny", "--json", "--data", a.folder))
    a.running.kill()

    again = [
        running.start("node", "run", "--data", node.folder, "--listen", node.listen, *alone)
        for node in (a, b)
    ]
    assert all(node.line() for node in again)
    got = running.output("sub", name, "--keep", "--limit", "1", "--json", "--data", b.folder)
    event = json.loads(got.splitlines()[1])
    assert (event["id"], event["payload"]) == (receipt["id"], "sunny")


def is_closer(peer_id: str, other_id: str, name: str) -> bool:
    """Whether a peer lies closer to a name than another does."""
    key = key_of(name.encode())
    distance, other = (key_of(base58.b58decode(id)) ^ key for id in (peer_id, other_id))
    return distance < other


# --- a private network ---


def test_a_key_made_by_the_command_is_that_of_two_nodes(running: Commands, tmp_path: Path) -> None:
    key = tmp_path / "swarm.key"
    assert running.output("node", "network-key", key) == f"{key}\n"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600

    first = running.node(tmp_path / "a", "--network-key", str(key))
    second = running.node(tmp_path / "b", "--network-key", str(key), "--bootstrap", first.address)

    found = json.loads(running.output("node", "peers", "--data", second.folder, "--json"))
    assert first.peer_id in str(found)


def test_a_missing_key_is_named_with_the_remedy(capsys: Captured, tmp_path: Path) -> None:
    place = ("--data", str(tmp_path / "a"), "--listen", LOOPBACK)
    code = cli.main(["node", "run", *place, "--network-key", str(tmp_path / "none.key")])
    assert code == 2
    assert "smartpubsub node network-key" in capsys.readouterr().err


def test_a_start_that_takes_long_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    said: list[str] = []

    class SlowNode:
        start_phase = "reading what is stored in x"

        async def __aenter__(self) -> None:
            assert told.wait(60)  # A core that reads much blocks the event loop.

        async def __aexit__(self, *_: object) -> None:
            pass

    def on_wait(what: str) -> None:
        said.append(what)
        told.set()

    async def main() -> None:
        node: Any = SlowNode()
        async with service.started(node, on_wait):
            pass

    monkeypatch.setattr(service, "NOTICE_S", 0.01)
    trio.run(main)
    assert said == ["reading what is stored in x"]
