"""The progress of a campaign, and an estimate of the remaining time."""

from __future__ import annotations

import time

from smartpubsub.pipeline.campaign import weight
from smartpubsub.pipeline.one_run import CampaignFolder
from smartpubsub.pipeline.plan import Plan

_BAR_CHARACTERS = 24


class CampaignProgress:
    """Counts finished runs, which are more informative than finished Spark tasks."""

    def __init__(self, plan: Plan, folder: CampaignFolder) -> None:
        self._folder = folder
        self._weights = {id: weight(run) for id, run in plan.runs.items()}
        self._began_at = time.monotonic()
        self._kept = self._there()

    def __call__(self) -> str | None:
        """The current progress as text; None once all runs are done."""
        there = self._there()
        if len(there) == len(self._weights):
            return None
        done, total = self._weight(there), self._weight(self._weights)
        share = done / total
        bar = "#" * round(share * _BAR_CHARACTERS)
        text = f"[{bar:.<{_BAR_CHARACTERS}}] {len(there):,} of {len(self._weights):,} runs"
        gained = done - self._weight(self._kept)
        if gained <= 0:
            return text
        left_s = (time.monotonic() - self._began_at) * (total - done) / gained
        return f"{text}, about {_duration(left_s)} left"

    def _there(self) -> list[str]:
        names = [path.stem.removeprefix("run=") for path in self._folder.results.glob("run=*")]
        return [name for name in names if name in self._weights]

    def _weight(self, ids: list[str] | dict[str, float]) -> float:
        return sum(self._weights[id] for id in ids)


def _duration(seconds: float) -> str:
    """A rough duration.

    >>> _duration(4.4), _duration(150), _duration(9000)
    ('4 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{-(-seconds // 60):.0f} min"
    return f"{seconds / 3600:.1f} h"
