"""What commands say to mistakes, and their exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartpubsub.cli.main import main
from tests.cli.running import Commands, RunningNode, commands, run_here

UNKNOWN = "9f86d081884c7d65-1767225600-3"


@pytest.fixture(scope="module")
def running() -> Iterator[Commands]:
    with commands() as made:
        yield made


@pytest.fixture(scope="module")
def node(running: Commands, tmp_path_factory: pytest.TempPathFactory) -> RunningNode:
    return running.node(tmp_path_factory.mktemp("node"))


def said(node: RunningNode, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that asks the node."""
    return run_here(*arguments, "--data", str(node.folder))


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("pub", "a/b/c/d/e/f"), 2, "more than 5 attributes"),
        (("pub", "a", "--replicas-min", "7"), 2, "replicas_min is between 0 and 3"),
        (("sub", "a", "--since", "2999-01-01"), 2, "is in the future"),
        (("sub", "a", "--since", "yesterday"), 2, "nor a period such as 1h"),
        (("unsub", "99"), 1, "there is no subscription 99"),
        (("group", "end", "a"), 1, "this node owns no group a"),
        (("topic", "show", "x"), 1, "this node knows no topic 'x'"),
    ],
)
def test_2_is_for_what_was_written_and_1_for_what_failed(
    node: RunningNode,
    arguments: tuple[str, ...],
    code: int,
    problem: str,
) -> None:
    ended, _, errors = said(node, *arguments)
    assert (ended, problem in errors) == (code, True), errors


def test_a_wrong_configuration_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "node.toml").write_text("backups = -1\n")
    assert main(["node", "run", "--config", str(tmp_path / "node.toml")]) == 2
    assert main(["node", "run", "--config", str(tmp_path / "none.toml")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_an_unknown_event_is_a_failure(
    node: RunningNode,
) -> None:
    code, output, _ = said(node, "event", UNKNOWN)
    assert (code, output.partition(":")[0]) == (1, "unknown")


def test_a_file_that_is_too_long_is_blamed(node: RunningNode, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    code, _, errors = said(node, "pub", "a", "--file", str(tmp_path / "big"))
    assert code == 2
    assert f"--file {tmp_path / 'big'}: an event carries at most" in errors


def test_history_since_an_event_that_does_not_match_says_so(
    node: RunningNode,
) -> None:
    id = said(node, "pub", "tide")[1].strip()
    code, _, errors = said(node, "sub", "wind", "--since", id, "--limit", "1")
    assert code == 1
    assert f"{id} that matches wind: it was dropped, or does not match" in errors


def test_a_kept_subscription_goes_on_with_a_line_on_screen(
    running: Commands, node: RunningNode
) -> None:
    keep = ("sub", "kelp", "--keep", "--data", node.folder)
    number = running.output(*keep, "--limit", "0").split()[1]
    id = running.output("pub", "kelp", "--data", node.folder).strip()
    assert running.output("pub", "kelp", "--id", id, "--data", node.folder).strip() == id
    passing = running.start("sub", "kelp", "--data", node.folder)
    passing.wait_for_error(f"subscription {number} keeps the same predicate, and its events wait")
    first = running.start(*keep)
    first.wait_for_error(f"this continues subscription {number}, which was kept; events that wait")
    second = running.start(*keep)
    second.wait_for_error(f"subscription {number} keeps the same predicate for another reader")


def test_info_tells_of_the_network_and_the_log_of_peers(running: Commands, tmp_path: Path) -> None:
    key = tmp_path / "swarm.key"
    running.output("node", "network-key", key)
    private = ("--network-key", str(key))
    a = running.node(tmp_path / "a", *private)
    b = running.node(tmp_path / "b", *private, "--bootstrap", a.address)
    a.running.wait_for_error(f"message=connected peer={b.peer_id}")
    assert "private: only nodes with" in running.output("node", "info", "--data", a.folder)
    b.running.kill()
    a.running.wait_for_error(f'message="a peer has left" peer={b.peer_id}')
