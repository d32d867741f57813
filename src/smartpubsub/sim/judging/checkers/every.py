"""All that can be checked when a run is over."""

from __future__ import annotations

from smartpubsub.sim.judging.checkers.bounds import check_bounds, check_refusals
from smartpubsub.sim.judging.checkers.facts import Facts
from smartpubsub.sim.judging.checkers.losses import (
    check_completeness,
    check_healing,
    check_survival,
)
from smartpubsub.sim.judging.checkers.once import check_once
from smartpubsub.sim.judging.checkers.order import check_order
from smartpubsub.sim.judging.checkers.summaries import check_summaries
from smartpubsub.sim.judging.checkers.unsubscribes import check_lapses, check_unsubscribes
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.checkers.wanted import check_wanted

CHECKS = (
    check_completeness,
    check_wanted,
    check_once,
    check_survival,
    check_order,
    check_summaries,
    check_unsubscribes,
    check_lapses,
    check_bounds,
    check_refusals,
    check_healing,
)

LISTED_MAX = 20
"""How many violations are listed of each check, so that none crowds out another."""


def check_all(facts: Facts) -> list[Violation]:
    """What each check finds: the earliest few, and how many more there are."""
    return [violation for check in CHECKS for violation in _listed(check(facts))]


def _listed(found: list[Violation]) -> list[Violation]:
    found.sort(key=lambda violation: violation.at_us)
    listed = found[:LISTED_MAX]
    if len(found) > LISTED_MAX:
        more = f"and {len(found) - LISTED_MAX:,} more like these, {len(found):,} in all"
        listed.append(found[LISTED_MAX]._replace(what=more))
    return listed
