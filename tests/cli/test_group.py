"""Groups between terminals: nodes that run as processes, and the commands that talk to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from smartpubsub.cli.group.group import group
from tests.cli.running import Commands, RunningNode, commands


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


def test_a_group_is_made_found_joined_published_in_and_left(
    running: Commands, two: tuple[RunningNode, RunningNode]
) -> None:
    a, b = two
    group = "apple/price[0,1]"
    made = json.loads(running.output("group", "create", group, "--data", a.folder, "--json"))
    assert made == {"group": group, "owner": a.address}
    found = json.loads(running.output("group", "search", "apple", "--data", b.folder, "--json"))
    assert found == [{"group": group, "owner": a.address}]
    join = running.start(
        "group", "join", group, "--wanted", "apple/price[0,0.5]", "--data", b.folder, "--json"
    )
    join.wait_for_error(f"in the group {group}")
    for price, said in (("0.9", "dear"), ("0.4", "cheap")):
        event = f"apple/price={price}"
        running.output("group", "publish", group, event, said, "--wait", "all", "--data", a.folder)
    listed = json.loads(running.output("group", "list", "--data", a.folder, "--json"))
    assert [(g["group"], g["is_own"], g["members"]) for g in listed] == [(group, True, 1)]
    joined = running.output("group", "list", "--data", b.folder)
    assert joined == f"{group}  {a.peer_id}  (joined)\n"
    shown = json.loads(join.line())
    assert (shown["event"], shown["payload"], shown["hops"]) == ("apple/price=0.4", "cheap", 1)
    assert running.output("group", "leave", group, "--data", b.folder) == f"left {group}\n"
    assert join.ended()[:2] == (0, "")
    code, _, problem = running.run("group", "leave", group, "--data", b.folder)
    assert (code, "join it first" in problem) == (1, True)


def test_a_private_group_is_joined_by_invitation(
    running: Commands, two: tuple[RunningNode, RunningNode]
) -> None:
    a, b = two
    running.output("group", "create", "meeting", "--private", "--data", a.folder)
    code, _, problem = running.run(
        "group", "join", "meeting", "--owner", a.address, "--data", b.folder
    )
    assert (code, "invitation" in problem) == (1, True)
    code, _, problem = running.run("group", "join", "meeting", "--data", b.folder)
    assert (code, "--owner" in problem) == (1, True)
    invitation = running.output("group", "invite", "meeting", b.peer_id, "--data", a.folder)
    join = running.start(
        *("group", "join", "meeting", "--owner", a.address, "--limit", "1"),
        *("--invitation", invitation.strip(), "--data", b.folder),
    )
    join.wait_for_error("in the group meeting")
    running.output("group", "publish", "meeting", "meeting/agenda", "at ten", "--data", a.folder)
    assert join.ended()[:2] == (0, "meeting/agenda  at ten\n")


def test_what_cannot_be_is_refused(running: Commands, two: tuple[RunningNode, RunningNode]) -> None:
    a, b = two
    running.output("group", "create", "pear", "--unadvertised", "--data", a.folder)
    assert running.output("group", "search", "pear", "--data", b.folder) == ""
    running.output("group", "advertise", "pear", "--data", a.folder)
    for arguments, problem in (
        (("publish", "pear", "apple"), "does not match the predicate of the group"),
        (("advertise", "plum"), "owns no group"),
        (("invite", "plum", b.peer_id), "owns no group"),
        (("create", "pear", "--private"), "not private"),
        (("create", "pear", "--unadvertised"), "is advertised already"),
    ):
        code, _, said = running.run("group", *arguments, "--data", a.folder)
        assert (code, problem in said) == (1, True), said
    code, _, said = running.run("group", "publish", "pear", "pear", "--data", b.folder)
    assert (code, "only the owner" in said) == (1, True)
    code, _, said = running.run("group", "create", "a//b", "--data", a.folder)
    assert (code, "GROUP" in said) == (2, True)


def test_a_join_beyond_the_limit_says_what_to_do(
    running: Commands, two: tuple[RunningNode, RunningNode], tmp_path: Path
) -> None:
    a, _ = two
    (tmp_path / "config.toml").write_text("group_count_max = 1\n")
    c = running.node(tmp_path, "--bootstrap", a.address)
    for name in ("fig", "date"):
        running.output("group", "create", name, "--data", a.folder)
    join = running.start("group", "join", "fig", "--owner", a.address, "--data", c.folder)
    join.wait_for_error("in the group fig")
    for more in ((), ("--and-sub",)):
        arguments = ("group", "join", "date", "--owner", a.address, "--data", c.folder, *more)
        code, out, problem = running.run(*arguments)
        assert (code, out) == (1, "")
        assert "leave one, or raise its limit group_count_max" in problem.splitlines()[-1]
    running.output("group", "leave", "fig", "--data", c.folder)
    arguments = ("group", "join", "date", "--owner", a.address, "--data", c.folder)
    join = running.start(*arguments, "--and-sub", "--limit", "1")
    join.wait_for_error("in the group date")
    running.output("group", "publish", "date", "date", "ripe", "--everywhere", "--data", a.folder)
    assert join.ended()[:2] == (0, "date  ripe\n")


def test_a_private_group_stays_private(
    running: Commands, two: tuple[RunningNode, RunningNode]
) -> None:
    a, b = two
    running.output("group", "create", "secret", "--private", "--data", a.folder)
    for arguments, problem in (
        (("create", "secret"), "it exists already and is private"),
        (("create", "secret", "--unadvertised"), "it exists already and is private"),
        (("advertise", "secret"), "is private"),
    ):
        code, _, said = running.run("group", *arguments, "--data", a.folder)
        assert (code, problem in said) == (1, True), said
    code, _, said = running.run("group", "join", "secret", "--owner", a.address, "--data", b.folder)
    assert (code, "invitation" in said) == (1, True), said
    assert running.output("group", "search", "secret", "--data", b.folder) == ""
    running.output("group", "create", "secret", "--private", "--data", a.folder)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["invite", "pear", "12D3KooWnonsense"], "neither a peer id"),
        (["join", "pear", "--owner", "0Il"], "neither a peer id"),
        (["join", "pear", "--owner", "/ip4/127.0.0.1/tcp/1"], "neither a peer id"),
        (["join", "pear", "--owner", "/ip4/nowhere"], "neither a peer id"),
        (["leave", "pear", "--owner", "nobody"], "neither a peer id"),
        (["join", "pear", "--invitation", "?"], "no invitation"),
    ],
)
def test_what_names_nobody_is_a_mistake_in_use(
    arguments: list[str], problem: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(group, [*arguments, "--data", str(tmp_path)])

    assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr
