"""smartpubsub circle."""

import io
import json
import sys
from pathlib import Path

import pytest

from smartpubsub import Circle
from smartpubsub.cli.main import main
from smartpubsub.node.identity import identity_in

Captured = pytest.CaptureFixture[bytes]
PEER = "12D3KooWPH332bRWJqRHHycmLGka4odL32rmfUjCFvvDaqCfKXhE"


def fed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_an_owner_hands_out_keys_and_replaces_them(
    tmp_path: Path, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, member = tmp_path / "owner", tmp_path / "member"
    peers = [str(identity_in(folder)) for folder in (owner, member)]
    letter, data = str(tmp_path / "letter"), ["--data", str(owner)]
    of_member = ["--owner", peers[0], "--data", str(member)]

    assert main(["circle", "add", "plans", peers[1], "--letter", letter, *data]) == 0
    assert main(["circle", "join", "plans", letter, *of_member]) == 0
    assert main(["circle", "seal", "plans", "at dawn", *of_member]) == 0
    said = capsysbinary.readouterr()
    written = said.out
    assert said.err.decode().splitlines() == [
        f"plans: 1 member, key 1; the letter is in {letter}",
        "plans: key 1 is known here",
    ]
    fed(monkeypatch, written)
    assert main(["circle", "open", "plans", *data]) == 0
    assert capsysbinary.readouterr().out == b"at dawn"

    assert main(["circle", "remove", "plans", peers[1], *data]) == 0
    assert capsysbinary.readouterr().err == b"plans: 0 members, key 2\n"
    assert main(["circle", "show", "plans", "--json", *data]) == 0
    shown = json.loads(capsysbinary.readouterr().out)
    assert shown == {"name": "plans", "owner": peers[0], "number": 2, "members": []}
    fed(monkeypatch, Circle(owner, "plans").dumps("at dusk"))
    assert main(["circle", "open", "plans", *of_member]) == 1
    assert b"its key is not known here" in capsysbinary.readouterr().err


def test_showing_a_circle_makes_none(tmp_path: Path, capsysbinary: Captured) -> None:
    assert main(["circle", "show", "plans", "--data", str(tmp_path)]) == 0
    assert b"key     none; circle add makes one" in capsysbinary.readouterr().out
    assert not list((tmp_path / "circles").iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["add", "plans", "nobody"], 2, b"'nobody' is not the peer id of a node"),
        (["join", "plans", "absent", "--owner", "x"], 2, b"LETTER: absent: No such file"),
        (["remove", "plans", PEER], 1, b"is no member"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], code: int, problem: bytes, tmp_path: Path, capsysbinary: Captured
) -> None:
    assert main(["circle", *arguments, "--data", str(tmp_path)]) == code
    assert problem in capsysbinary.readouterr().err
