"""Results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.sim.judging.checkers.suite import EVENT_CHECKS
from smartpubsub.sim.judging.checkers.violation import Violation
from smartpubsub.sim.judging.result import Result

VIOLATIONS_SHOWN = 5


def result_text(result: Result) -> str:
    """The result of a simulated run in a few lines."""
    found: dict[str, Any] = result.document()
    took = (
        f"{found['wall_s']:,} s for {found['simulated_s']:,} simulated,"
        f" {found['peak_rss_mb']:,} MB at most"
    )
    return lines_of(found, took, result.violations)


def lines_of(found: dict[str, Any], took: str, violations: Sequence[Violation]) -> str:
    """The result of a simulated or a real run in a few lines."""
    lines = [
        ("ran", _what_ran(found)),
        ("events", f"{found['injected']:,} injected, {found['published']:,} acknowledged"),
        (
            "delivered",
            _delivered(found),
        ),
        (
            "duplicates",
            f"{found['app_duplicates']:,} at applications,"
            f" {found['wire_duplicates']:,} on the wire",
        ),
        ("latency", _latency(found["latency_ms"])),
        ("on the path", _on_the_path(found["path_floor_ms"]["mean"])),
        ("hops", f"mean {found['hops']['mean']:,}, max {found['hops']['max']:,}"),
        *_per_event("of publisher", found["publisher_sends_per_event"]),
        *_per_event("far copies", found["region_crossings_per_event"]),
        ("subscribing", _latency(found["subscription_latency_ms"])),
        ("publishing", _latency(found["publish_ms"])),
        ("sent", f"{found['messages']:,} messages, {found['bytes']:,} bytes"),
        ("took", took),
        ("digest", found["trace_digest"]),
    ]
    if found["pace_ms"]:
        lines.insert(2, ("pace", f"one event every {found['pace_ms']:,} ms"))
    if found["order_violations"] is not None:
        lines.insert(4, ("out of order", f"{found['order_violations']:,}"))
    lines += _count_lines(found["judged"], found["excused"])
    if found["interrupted"]:
        lines.append(("interrupted", "this is the result until then"))
    text = "\n".join(f"{name:<14}{value}" for name, value in lines)
    return "\n".join([text, *violation_lines(violations)])


def count_lines(judged: Mapping[str, int], excused: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How many cases each checker judged and excused."""
    return [f"{name:<14}{value}" for name, value in _count_lines(judged, excused)]


def _count_lines(
    judged: Mapping[str, int], excused: Mapping[str, Mapping[str, int]]
) -> list[tuple[str, str]]:
    cases = [f"{name} {count:,}" for name, count in judged.items() if count]
    reasons = [
        f"{name} {sum(found.values()):,} ({', '.join(found)})" for name, found in excused.items()
    ]
    idle = [name for name, count in judged.items() if not count]
    if not any(judged.get(name) for name in EVENT_CHECKS):
        cases.insert(0, "nothing about events")
    return [
        ("judged", ", ".join(cases)),
        ("excused", ", ".join(reasons) or "nothing"),
        ("not judged", ", ".join(idle) or "nothing"),
    ]


def _delivered(found: dict[str, Any]) -> str:
    if not found["expected"]:
        return f"nothing was owed, {found['unexpected']:,} unexpected"
    return (
        f"{found['delivered']:,} of {found['expected']:,}"
        f" ({percent(found['coverage_injected'])}), {found['missing']:,} missing,"
        f" {found['unexpected']:,} unexpected"
    )


def violation_lines(violations: Sequence[Violation]) -> list[str]:
    """The first few violations, and how many more there are."""
    if not violations:
        return ["violations    none"]
    first = sorted(violations, key=lambda violation: violation.at_us)[:VIOLATIONS_SHOWN]
    lines = [f"violations    {len(violations):,}", *(f"  {violation_line(v)}" for v in first)]
    if len(violations) > len(first):
        lines.append(f"  and {len(violations) - len(first):,} more")
    return lines


def violation_line(violation: Violation) -> str:
    """A violation in one line."""
    return f"{violation.at_us / SECOND:.6f} s  invariant {violation.invariant}: {violation.what}"


def percent(share: float) -> str:
    """A percentage, rounded down so that only 1 gives 100 %.

    >>> percent(1.0), percent(0.99999), percent(0.5)
    ('100 %', '99.99 %', '50.00 %')
    """
    return "100 %" if share == 1 else f"{int(share * 10_000) / 100:.2f} %"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows below a head; the first columns are left-aligned, the others right-aligned."""
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def _what_ran(found: dict[str, Any]) -> str:
    protocol = " ".join(filter(None, (found["protocol"], found["variant"])))
    return f"{protocol}, {found['scenario']}, {found['nodes']:,} nodes, seed {found['seed']}"


def _on_the_path(mean: float | None) -> str:
    return "not known with regions" if mean is None else f"mean {mean:,} ms of that"


def _per_event(name: str, found: dict[str, float]) -> list[tuple[str, str]]:
    text = f"mean {found['mean']:,}, max {found['max']:,} copies of an event"
    return [(name, text)] if found["max"] else []


def _latency(found: dict[str, float]) -> str:
    return f"{', '.join(f'{name} {value:,}' for name, value in found.items())} ms"
