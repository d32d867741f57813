"""Simulated runs do what they did when their digests were kept; `bin/golden` checks all of them."""

import json

import pytest

from tests.golden.__main__ import DIGESTS
from tests.golden.cases import Case, cases

KEPT = json.loads(DIGESTS.read_text())
RUNS_BETWEEN = 12
FIRST_RUN = 1
"""Of so many runs the test suite does one, from one on with which none takes minutes."""


def test_every_case_has_a_digest() -> None:
    assert [case.name for case in cases()] == list(KEPT)


@pytest.mark.parametrize("case", list(cases())[FIRST_RUN::RUNS_BETWEEN], ids=lambda case: case.name)
def test_a_run_is_what_it_was(case: Case) -> None:
    assert list(case.record()) == KEPT[case.name]
