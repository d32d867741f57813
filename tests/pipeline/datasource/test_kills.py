"""Nothing is lost and nothing comes twice when a worker, the node and the driver are killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.pipeline.datasource.killed import each_once
from tests.pipeline.datasource.kills import run


@pytest.mark.parametrize(
    ("found", "problem"),
    [([1, 2, 3], ""), ([3, 1], "lost: [2]"), ([1, 2, 3, 2], "twice: [2]"), ([1, 2, 3, 4], "never")],
)
def test_lost_and_repeated_events_are_found(found: list[int], problem: str) -> None:
    assert each_once(found, [1, 2, 3]).startswith(problem)
    assert bool(each_once(found, [1, 2, 3])) == bool(problem)


def test_a_killed_relay_loses_and_repeats_nothing(tmp_path: Path) -> None:
    # The driver first: after the last kill all may have been relayed already.
    kinds = ["driver", *("worker", "node") * 4, "worker"]

    outcome = run(tmp_path, kinds, Random(1), is_topic=False)

    assert outcome.problem == ""
    assert outcome.kills == {"driver": 1, "worker": 5, "node": 4}
    assert outcome.starts >= 2
    assert outcome.published == 7 * len(kinds)
