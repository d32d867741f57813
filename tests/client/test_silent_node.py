"""A node that takes connections and does not answer, because it is paused or overloaded."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from smartpubsub.client import lines
from smartpubsub.client.blocking_socket import BlockingNetwork, run
from smartpubsub.client.lines import LineTransport
from smartpubsub.node.control.limits import socket_path
from smartpubsub.node.errors import LostNodeError


@contextmanager
def _listening(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(socket_path(str(folder)))
        silent.listen()
        yield silent


@pytest.mark.parametrize("do", ["info", "publish"])
def test_a_client_says_which_node_it_waits_for_and_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    monkeypatch.setattr(lines, "NOTICE_S", 0.01)
    monkeypatch.setattr(lines, "PROMPT_S", 0.01)
    monkeypatch.setattr(lines, "SILENT_S_MAX", 0.03)
    told: list[str] = []
    with _listening(tmp_path):
        transport = LineTransport(BlockingNetwork(str(tmp_path)), told.append)
        with pytest.raises(LostNodeError, match=r"does not answer.*continue it \(kill -CONT\)"):
            run(transport.ask(do, {}))
    assert told == [f"waiting for the node in {tmp_path} to answer, up to 0.03 seconds"]


@pytest.mark.parametrize("do", ["publish", "subscribe", "event"])
def test_a_silent_node_is_given_up_however_long_the_request_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    monkeypatch.setattr(lines, "NOTICE_S", 0.01)
    monkeypatch.setattr(lines, "PROMPT_S", 0.01)
    monkeypatch.setattr(lines, "SILENT_S_MAX", 0.03)
    with _listening(tmp_path):
        transport = LineTransport(BlockingNetwork(str(tmp_path)))
        with pytest.raises(LostNodeError):
            run(transport.open(do, {"deadline_s": 3_600.0}))


def test_a_node_that_waits_for_the_network_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers other requests meanwhile; this one it answers after three of them."""
    monkeypatch.setattr(lines, "NOTICE_S", 0.01)
    monkeypatch.setattr(lines, "PROBE_S", 0.01)
    probes: list[object] = []
    told: list[str] = []

    def serve() -> None:
        connection, _ = silent.accept()
        with connection, connection.makefile("rw") as file:
            asked = json.loads(file.readline())
            for line in file:
                probes.append(json.loads(line)["do"])
                answer = {"id": json.loads(line)["id"], "error": "not allowed"}
                if len(probes) == 3:
                    answer = {"id": asked["id"], "ok": "published"}
                file.write(json.dumps(answer) + "\n")
                file.flush()

    with _listening(tmp_path) as silent:
        Thread(target=serve, daemon=True).start()
        transport = LineTransport(BlockingNetwork(str(tmp_path)), told.append)
        assert run(transport.ask("publish", {})) == "published"
        run(transport.close())
    assert told == ["waiting for the network to acknowledge the event, up to 60 seconds"]
    assert probes == ["subscriptions"] * 3
