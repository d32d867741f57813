"""A node that takes connections and does not answer, because it is paused or overloaded."""

import socket
from pathlib import Path

import pytest

from smartpubsub.client import lines
from smartpubsub.client.blocking_socket import BlockingNetwork, run
from smartpubsub.client.lines import LineTransport
from smartpubsub.node.control.limits import socket_path
from smartpubsub.node.errors import LostNodeError


def test_a_client_says_which_node_it_waits_for_and_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "NOTICE_S", 0.01)
    monkeypatch.setattr(lines, "ANSWER_S_MAX", 0.02)
    told: list[str] = []
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(socket_path(str(tmp_path)))
        silent.listen()
        transport = LineTransport(BlockingNetwork(str(tmp_path)), told.append)
        with pytest.raises(LostNodeError, match="does not answer; look at its log"):
            run(transport.ask("info", {}))
    assert told == [f"waiting for the node in {tmp_path} to answer, up to 0.02 seconds"]
