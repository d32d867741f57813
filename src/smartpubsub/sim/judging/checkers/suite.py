"""All checks of a run that is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from smartpubsub.sim.judging.checkers.bounds import check_bounds, check_refusals
from smartpubsub.sim.judging.checkers.convictions import check_convictions
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.losses import check_delivery, check_healing, check_survival
from smartpubsub.sim.judging.checkers.once import check_once
from smartpubsub.sim.judging.checkers.order import check_order
from smartpubsub.sim.judging.checkers.state import check_state
from smartpubsub.sim.judging.checkers.summaries import check_summaries
from smartpubsub.sim.judging.checkers.unsubscribes import check_lapses, check_unsubscribes
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.checkers.wanted import check_wanted

CHECKS: Mapping[str, Callable[[Facts], Judgement]] = MappingProxyType(
    {
        "delivery": check_delivery,
        "wanted": check_wanted,
        "once": check_once,
        "survival": check_survival,
        "order": check_order,
        "summaries": check_summaries,
        "unsubscribes": check_unsubscribes,
        "lapses": check_lapses,
        "bounds": check_bounds,
        "refusals": check_refusals,
        "healing": check_healing,
        "state": check_state,
        "convictions": check_convictions,
    }
)
"""The checkers, by the names under which results count their cases."""

EVENT_CHECKS = ("delivery", "wanted", "once", "survival", "order", "healing")
"""The checkers that judge events and deliveries."""

LISTED_MAX = 20
"""How many violations of each checker are listed, so that each checker gets a place."""


@dataclass(kw_only=True)
class Findings:
    """The findings of all checkers."""

    violations: list[Violation] = field(default_factory=list)
    """The earliest violations of each checker, and how many more there are."""
    judged: Counter[str] = field(default_factory=Counter)
    """How many cases each checker judged."""
    excused: dict[str, Counter[str]] = field(default_factory=dict)
    """How many cases each checker excused, by reason; only checkers that excused any."""

    def add(self, name: str, judgement: Judgement) -> None:
        """Add the findings of a checker."""
        self.violations += _listed(judgement.violations)
        self.judged[name] += judgement.judged
        self._excuse(name, judgement.excused)

    def add_counts(self, other: Findings) -> None:
        """Add the counts of another run."""
        for name, cases in other.judged.items():
            self.judged[name] += cases
        for name, reasons in other.excused.items():
            self._excuse(name, reasons)

    def _excuse(self, name: str, reasons: Mapping[str, int]) -> None:
        if reasons:
            self.excused.setdefault(name, Counter()).update(reasons)

    def counts(self) -> dict[str, object]:
        """The counts of judged and excused cases as a JSON document."""
        return {
            "judged": dict(self.judged),
            "excused": {name: dict(reasons) for name, reasons in self.excused.items()},
        }


def check_all(facts: Facts) -> Findings:
    """Run all checkers on a run that is over."""
    findings = Findings()
    for name, check in CHECKS.items():
        findings.add(name, check(facts))
    return findings


def _listed(found: Iterable[Violation]) -> list[Violation]:
    in_order = sorted(found, key=lambda violation: violation.at_us)
    listed = in_order[:LISTED_MAX]
    if len(in_order) > LISTED_MAX:
        more = f"and {len(in_order) - LISTED_MAX:,} more like these, {len(in_order):,} in all"
        listed.append(in_order[LISTED_MAX]._replace(what=more))
    return listed
