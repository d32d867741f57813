"""Readers that do not read, and nodes and readers that are killed, as processes."""

from __future__ import annotations

import base64
import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from smartpubsub.client.commands import ControlClient
from smartpubsub.node.errors import ControlError
from tests.cli.running import Commands, RunningNode, commands

PAYLOAD = base64.b64encode(bytes(1_500)).decode()
KILLS = 4


@pytest.fixture(scope="module")
def running() -> Iterator[Commands]:
    with commands() as made:
        yield made


def publish(client: ControlClient, number: int, wait: str = "all") -> str:
    """Publish a numbered event; its id."""
    event = f"surf/number={number}"
    return str(client.ask("publish", event=event, payload=PAYLOAD, wait=wait)["id"])


def waiting(folder: Path) -> list[int]:
    """How many events wait for each subscription."""
    with ControlClient(folder) as client:
        return [info["waiting"] for info in client.ask("subscriptions")]


def read_all(running: Commands, folder: Path, count: int) -> list[dict[str, Any]]:
    """The next events of the kept subscription, as sub prints them."""
    output = running.output(
        *("sub", "surf", "--keep", "--json", "--limit", str(count), "--data", folder)
    )
    return [json.loads(line) for line in output.splitlines()[1:]]


def test_a_sub_whose_output_is_not_read_holds_up_nothing(running: Commands, tmp_path: Path) -> None:
    a = running.node(tmp_path / "a")
    b = running.node(tmp_path / "b", "--bootstrap", a.address)
    unread = running.start("sub", "surf", "--json", "--data", b.folder)
    unread.wait_for_error("subscribed")
    count = 2_500
    with ControlClient(a.folder) as publisher, ControlClient(b.folder) as reader:
        _, events = reader.subscribe("surf", limit=count + 1)
        got: list[str] = []
        reading = threading.Thread(
            target=lambda: got.extend(line["event"]["event"] for line in events)
        )
        reading.start()
        for number in range(count):
            publish(publisher, number, "nothing" if number % 50 else "rendezvous")
        publish(publisher, count)
        reading.join()
        assert len(got) == count + 1
        with ControlClient(b.folder) as other:
            other.ask("publish", event="rain", wait="all")
            [info, *_] = other.ask("subscriptions")
        assert info["waiting"] == 1_000
    printed = [json.loads(unread.line())]
    while printed[-1]["event"] != f"surf/number={count}":
        printed.append(json.loads(unread.line()))
    dropped = sum(event["dropped_before"] for event in printed)
    assert dropped > 0
    assert len(printed) + dropped == count + 1
    _, _, errors = unread.ended(signal.SIGINT)
    assert f"note: {dropped:,} events came too fast and were dropped" in errors


def test_no_acknowledged_event_of_a_kept_subscription_is_lost_by_kill_9(
    running: Commands, tmp_path: Path
) -> None:
    rng = Random(3)
    a = running.node(tmp_path / "a")
    b: RunningNode | None = None
    acknowledged: list[str] = []
    number = 0
    for _ in range(KILLS):
        b = running.node(tmp_path / "b", "--bootstrap", a.address)
        if not number:
            running.output("sub", "surf", "--keep", "--limit", "0", "--data", b.folder)
        killer = threading.Timer(rng.uniform(0.05, 0.6), b.running.process.kill)
        with ControlClient(b.folder) as client:
            # The node acknowledges its own events, which is when its subscription has them.
            killer.start()
            try:
                while True:
                    number += 1
                    acknowledged.append(publish(client, number))
            except ControlError:
                pass
        killer.join()
        b.running.process.wait()
    again = running.node(tmp_path / "b", "--bootstrap", a.address)
    assert acknowledged
    [count] = waiting(again.folder)
    assert count >= len(acknowledged)
    half = count // 2
    got = read_all(running, again.folder, half)
    again.running.process.kill()
    last = running.node(tmp_path / "b", "--bootstrap", a.address)
    # An event that was under way when the node was killed may come now.
    [rest] = waiting(last.folder)
    assert rest >= count - half
    got += read_all(running, last.folder, rest)
    ids = [event["id"] for event in got]
    assert len(set(ids)) == len(ids)
    assert [id for id in ids if id in set(acknowledged)] == acknowledged


def test_a_node_has_stored_what_it_has_confirmed_to_others(
    running: Commands, tmp_path: Path
) -> None:
    a = running.node(tmp_path / "a")
    b = running.node(tmp_path / "b", "--bootstrap", a.address)
    running.output("sub", "surf", "--keep", "--limit", "0", "--data", b.folder)
    with ControlClient(a.folder) as publisher:
        confirmed = [publish(publisher, number) for number in range(40)]
    b.running.process.kill()
    b.running.process.wait()
    running.node(tmp_path / "b", "--bootstrap", a.address)
    assert [event["id"] for event in read_all(running, b.folder, 40)] == confirmed


def test_a_reader_that_is_killed_gets_what_it_did_not_acknowledge_again(
    running: Commands, tmp_path: Path
) -> None:
    running.node(tmp_path)
    running.output("sub", "surf", "--keep", "--limit", "0", "--data", tmp_path)
    with ControlClient(tmp_path) as publisher:
        ids = [publish(publisher, number) for number in range(200)]
    reader = running.start("sub", "surf", "--keep", "--json", "--data", tmp_path)
    lines = [reader.line() for _ in range(51)]
    reader.process.kill()
    while (line := reader.line()).endswith("\n"):
        lines.append(line)
    printed = [json.loads(line)["id"] for line in lines[1:]]
    again = running.start("sub", "surf", "--keep", "--json", "--data", tmp_path)
    again.line()
    rest = [json.loads(again.line())["id"]]
    while rest[-1] != ids[-1]:
        rest.append(json.loads(again.line())["id"])
    assert printed == ids[: len(printed)]
    assert rest == ids[-len(rest) :]
    assert len(printed) + len(rest) >= len(ids)


def test_pub_by_key_publishes_once_and_event_tells_the_state(
    running: Commands, tmp_path: Path
) -> None:
    node = running.node(tmp_path)
    arguments = ("pub", "order", "17", "--key", "order-17", "--data", tmp_path)
    id = running.output(*arguments).strip()
    assert running.output(*arguments).strip() == id
    node.running.kill()
    running.node(tmp_path)
    assert running.output(*arguments).strip() == id
    code, _, errors = running.run("pub", "order", "18", "--key", "order-17", "--data", tmp_path)
    assert code == 1
    assert f"the key 'order-17' belongs to the event {id}" in errors
    shown = running.output("event", id, "--data", tmp_path)
    assert shown.startswith("acknowledged: the network has it\nkey  order-17\nreplica  order  12D3")
    known = json.loads(running.output("event", id, "--json", "--data", tmp_path))
    assert (known["id"], known["state"], known["key"]) == (id, "acknowledged", "order-17")
    code, unknown, _ = running.run("event", "0102-3-4", "--json", "--data", tmp_path)
    assert (code, json.loads(unknown)["state"]) == (1, "unknown")
    code, _, errors = running.run("event", "surf", "--data", tmp_path)
    assert (code, "is no id of an event" in errors) == (2, True)


def test_a_command_that_waits_says_for_what(running: Commands, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It takes connections and says nothing.
        port = silent.getsockname()[1]
        peer = f"/ip4/127.0.0.1/tcp/{port}/p2p/12D3KooWPH332bRWJqRHHycmLGka4odL32rmfUjCFvvDaqCfKXhE"
        node = running.start(
            *("node", "run", "--data", tmp_path, "--listen", "/ip4/127.0.0.1/tcp/0"),
            *("--bootstrap", peer, "--log-level", "error"),
        )
        node.wait_for_error(f"smartpubsub: waiting for an answer of {peer}, up to 30 seconds")
