"""What a node needs is found, or how to get it is said."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from smartpubsub.cli.checks import Check
from smartpubsub.cli.node import health as node_health
from smartpubsub.node.transport import patches
from smartpubsub.node.transport.connections import ListenError

PORT_ZERO = "/ip4/127.0.0.1/tcp/0"


def fail_with(error: Exception) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


def assert_verdict(check: Check, *, ok: bool, found: str) -> None:
    assert (check.ok, check.found) == (ok, found)
    assert bool(check.remedy) is not ok


def test_the_patched_libp2p_is_found() -> None:
    assert_verdict(node_health.check_libp2p(), ok=True, found=patches.VERSION)


def test_libp2p_that_is_missing_or_another_is_named() -> None:
    missing = fail_with(ModuleNotFoundError("No module named 'libp2p'", name="libp2p"))
    assert_verdict(node_health.check_libp2p(missing), ok=False, found="libp2p cannot be imported")

    def another() -> str:
        patches.apply("0.9.0")
        return "0.9.0"

    check = node_health.check_libp2p(another)
    assert not check.ok
    assert "libp2p 0.9.0 is installed, but a node runs on 0.8.1 only" in check.found


def test_without_libp2p_nothing_is_said_of_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = fail_with(ModuleNotFoundError(name="libp2p"))
    monkeypatch.setattr(node_health, "patched_version", missing)

    assert [check.name for check in node_health.node_checks()] == ["libp2p", "Node.js 20+"]


def test_two_peers_connect() -> None:
    assert_verdict(node_health.check_connection(), ok=True, found="two peers can connect")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ListenError("cannot listen on it"), "cannot listen on it"),
        (ExceptionGroup("both", [ExceptionGroup("deep", [OSError("refused")])]), "refused"),
    ],
)
def test_peers_that_do_not_connect(error: Exception, found: str) -> None:
    def connect() -> None:
        raise error

    assert_verdict(node_health.check_connection(connect), ok=False, found=found)


def test_a_data_folder_that_is_there_or_can_be_made(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "deep" / "down"):
        assert_verdict(node_health.check_data_folder(folder), ok=True, found=str(folder))
    assert [*tmp_path.iterdir()] == []


def test_a_data_folder_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    check = node_health.check_data_folder(file / "below")

    assert_verdict(check, ok=False, found=f"no files can be created in {file}")


def test_a_port_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"/ip4/127.0.0.1/tcp/{server.getsockname()[1]}"
        check = node_health.check_listening([PORT_ZERO, address])
    assert_verdict(check, ok=False, found=f"{address}: Address already in use")
    assert node_health.check_listening([PORT_ZERO, address]).ok


def test_settings_that_are_wrong_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMARTPUBSUB_BACKUPS", "many")

    (check,) = node_health.settings_checks()

    assert not check.ok
    assert "SMARTPUBSUB_BACKUPS: expected a whole number" in check.found


@pytest.mark.parametrize(
    ("missing", "answer", "ok", "found"),
    [
        ("", "v20.20.2\n", True, "v20.20.2"),
        ("", "v18.0.1\n", False, "v18.0.1"),
        ("", "", False, "no answer"),
        ("npm", "v20.20.2\n", False, "no npm"),
    ],
)
def test_javascript(missing: str, answer: str, ok: bool, found: str) -> None:
    check = node_health.check_javascript(
        lambda program: None if program == missing else f"/usr/bin/{program}", lambda: answer
    )

    assert_verdict(check, ok=ok, found=found)
