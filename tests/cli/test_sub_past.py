"""smartpubsub sub from the past on, between terminals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Commands, commands


@pytest.fixture(scope="module")
def running() -> Iterator[Commands]:
    with commands() as made:
        yield made


def test_earlier_events_come_first_with_their_content_ids(
    running: Commands, tmp_path: Path
) -> None:
    a = running.node(tmp_path / "a")
    b = running.node(tmp_path / "b", "--bootstrap", a.address)
    for force in (3, 4, 5):  # Each in a process of its own.
        running.output("pub", f"wind/force={force}", f"{force}!", "--data", a.folder)

    sub = running.start("sub", "wind/force[4,]", "--last", "9", "--data", b.folder, "--json")
    sub.wait_for_error("2 earlier events; history reaches back to 2")
    four, five = (json.loads(sub.line()) for _ in range(2))
    running.output("pub", "wind/force=6", "--data", b.folder)
    six = json.loads(sub.line())
    assert [event["event"] for event in (four, five, six)] == [
        f"wind/force={force}" for force in (4, 5, 6)
    ]
    assert [event["payload"] for event in (four, five, six)] == ["4!", "5!", ""]

    command = ("sub", "wind", "--since", four["id"], "--limit", "2", "--data", a.folder, "--json")
    again = [json.loads(line) for line in running.output(*command).splitlines()]
    assert [event["cid"] for event in again] == [five["cid"], six["cid"]]
    assert all(event["cid"].startswith("bafyrei") for event in again)

    code, output, problem = running.run("sub", "wind", "--since", "ab-1-2", "--data", a.folder)
    assert (code, output) == (1, "")
    assert "no node keeps an event ab-1-2 that matches" in problem
