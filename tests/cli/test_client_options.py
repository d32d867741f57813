"""Options of the commands that use a running node."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartpubsub import connect
from smartpubsub.cli import main as cli
from tests.cli.running import Running
from tests.client.running import running_node

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("node")
    with running_node(folder):
        yield str(folder)


def test_a_payload_comes_from_a_file(data: str, tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "offer"
    file.write_bytes(b"\x00\xff")
    assert cli.main(["pub", "file", "--file", str(file), "--data", data]) == 0
    with connect(data=data) as node, node.subscribe("file", last=1) as events:
        assert events.get(timeout_s=60).payload == b"\x00\xff"
    assert cli.main(["pub", "file", "text", "--file", str(file), "--data", data]) == 2
    assert cli.main(["pub", "file", "--file", str(tmp_path / "none"), "--data", data]) == 2
    assert "No such file" in capsys.readouterr().err


def test_conditions_periods_and_raw_payloads(
    data: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for price in (15, 25):
        assert cli.main(["pub", f"raw/price={price}", f"{price}\n", "--data", data]) == 0
    capfdbinary.readouterr()
    condition = ["sub", "--where", "raw and price <= 20", "--since", "1h", "--limit", "1"]
    assert cli.main([*condition, "--raw", "--data", data]) == 0
    assert capfdbinary.readouterr().out == b"15\n"
    assert cli.main(["sub", "raw", "--raw", "--json", "--data", data]) == 2


def test_a_command_is_run_for_each_event(data: str, tmp_path: Path) -> None:
    for text in ("first", "second"):
        assert cli.main(["pub", "exec", text, "--data", data]) == 0
    out = tmp_path / "out"
    read = ["sub", "exec", "--last", "2", "--limit", "2", "--data", data]
    assert cli.main([*read, "--exec", f'(cat; echo " $EVENT") >> {out}']) == 0
    assert out.read_text() == "first exec\nsecond exec\n"
    assert cli.main([*read, "--exec", "exit 7"]) == 7


def test_topics_have_local_names(data: str, capsys: Captured) -> None:
    assert cli.main(["topic", "create", "news", "--data", data]) == 0
    assert cli.main(["topic", "publish", "news", "hello", "--data", data]) == 0
    capsys.readouterr()
    assert cli.main(["topic", "history", "news", "--json", "--data", data]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["payload"] == "hello"
    assert cli.main(["topic", "show", "olds", "--data", data]) == 1
    assert "the names that the node knows: 'news'" in capsys.readouterr().err


def test_unsub_says_what_there_is(data: str, capsys: Captured) -> None:
    assert cli.main(["sub", "kept", "--keep", "--limit", "0", "--data", data]) == 0
    number = capsys.readouterr().out.split()[1]
    assert cli.main(["unsub", "99", "--data", data]) == 1
    assert f"there is no subscription 99; there are {number} (kept)" in capsys.readouterr().err
    assert cli.main(["unsub", number, "--data", data]) == 0


def test_a_command_ends_on_sigterm_as_on_an_interrupt(data: str) -> None:
    sub = Running("sub", "never", "--data", data, environ=dict(os.environ))
    sub.wait_for_error("waiting for events")
    exit_code, _, errors = sub.ended(signal.SIGTERM)
    assert exit_code == 130
    assert "Traceback" not in errors
