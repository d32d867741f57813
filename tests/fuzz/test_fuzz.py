"""Fuzzing finds defects, says how to repeat them, and knows those that it has found."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.targets import TARGETS


def fail_sometimes(rng: Random) -> None:
    if rng.random() < 0.2:
        raise KeyError("a defect")


def test_a_defect_is_found_once_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "broken", fail_sometimes)

    assert fuzz.main(["broken", "--minutes", "0.005", "--seed", "x", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (case,) = found["failures"].values()
    assert case.startswith("broken:x-")
    assert fuzz.main(["--case", case]) == 1
    assert "KeyError: 'a defect'" in capsys.readouterr().err


@pytest.mark.parametrize("target", TARGETS)
def test_a_case_is_the_same_every_time(target: str) -> None:
    assert fuzz.failure_of(target, "1") == ""


def test_what_was_found_once_is_repaired() -> None:
    for case in json.loads(fuzz.CORPUS.read_text()):
        target, _, seed = case.partition(":")
        assert not fuzz.failure_of(target, seed), case
