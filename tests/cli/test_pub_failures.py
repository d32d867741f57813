"""What pub, group publish and topic publish print if they fail, and publishing by key in all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PROGRAM, Commands, RunningNode, commands


@pytest.fixture(scope="module")
def running() -> Iterator[Commands]:
    with commands() as made:
        yield made


@pytest.fixture(scope="module")
def node(running: Commands, tmp_path_factory: pytest.TempPathFactory) -> RunningNode:
    return running.node(tmp_path_factory.mktemp("node"))


def failure(running: Commands, *arguments: str | Path) -> dict[str, Any]:
    """The document of a publish that fails; standard error has one line with the same reason."""
    code, output, errors = running.run(*arguments, "--json")
    assert code == 1
    told: dict[str, Any] = json.loads(output)
    assert list(told) == ["id", "reason", "state"]
    assert errors == f"smartpubsub: {told['reason']}\n"
    return told


def test_too_few_replicas_are_told_with_id_and_state(running: Commands, node: RunningNode) -> None:
    arguments = ("pub", "surf/price=15", "--replicas-min", "3", "--data", node.folder)
    told = failure(running, *arguments)
    assert told["state"] == "acknowledged"
    assert f"the event is published as {told['id']}, but only 1 of the 3" in told["reason"]
    known = json.loads(running.output("event", told["id"], "--data", node.folder, "--json"))
    assert known["state"] == "acknowledged"


def test_refused_events_are_told_with_id_and_state(running: Commands, node: RunningNode) -> None:
    topic = running.output("topic", "create", "news", "--data", node.folder).strip()
    in_topic = ("topic", "publish", topic, "hello", "--parent", "none")
    for arguments in (("group", "publish", "surf", "surf"), in_topic):
        told = failure(running, *arguments, "--data", node.folder)
        assert told["state"] == "refused"
        known = json.loads(running.output("event", told["id"], "--data", node.folder, "--json"))
        assert known["state"] == "refused"
        assert known["reason"] in told["reason"]


def test_without_an_event_there_is_no_id(
    running: Commands, node: RunningNode, tmp_path: Path
) -> None:
    for arguments in (("pub", "surf"), ("group", "publish", "surf", "surf")):
        told = failure(running, *arguments, "--data", tmp_path)
        assert (told["id"], told["state"]) == (None, "unpublished")
        assert "no node runs" in told["reason"]
    by_key = ("--key", "order-17", "--data", node.folder)
    running.output("pub", "order", *by_key)
    told = failure(running, "pub", "order", "another", *by_key)
    assert (told["id"], told["state"]) == (None, "unpublished")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_an_event_is_published_without_standard_streams(node: RunningNode, closed: str) -> None:
    pub = [sys.executable, "-c", PROGRAM, "pub", "quiet", "--data", str(node.folder)]
    result = subprocess.run(["sh", "-c", f'"$0" "$@" {closed}', *pub], capture_output=True)
    assert (result.returncode, b"Traceback" in result.stderr) == (0, False)


def test_an_event_is_published_although_nothing_reads_its_id(node: RunningNode) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pub = [sys.executable, "-c", PROGRAM, "pub", "quiet", "--data", str(node.folder)]
    try:
        result = subprocess.run(pub, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert result.returncode == 0
    assert "Broken pipe" not in result.stderr


def test_topics_and_groups_take_keys_and_overflow_policies(
    running: Commands, node: RunningNode
) -> None:
    data = ("--data", node.folder)
    topic = running.output("topic", "create", "orders", *data).strip()
    running.output("group", "create", "order", *data)
    for publish in (("topic", "publish", topic), ("group", "publish", "order", "order")):
        ids = [running.output(*publish, "two shirts", "--key", "17", *data) for _ in range(2)]
        assert ids[0] == ids[1]
    assert len(running.output("topic", "history", topic, *data).splitlines()) == 1
    shown = running.output(
        *("topic", "subscribe", topic, "--last", "1", "--limit", "1", "--overflow", "block"), *data
    )
    assert shown.endswith("two shirts\n")
    join = ("group", "join", "order", "--owner", node.peer_id, "--limit", "0")
    assert running.output(*join, "--overflow", "error", *data) == ""
