"""A route as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smartpubsub.cli.output import counted
from smartpubsub.cli.sim.text import table
from smartpubsub.sim.experiments.route import Journey, Route, Stop

KEY_DIGITS_SHOWN = 12
FILTERS_SHOWN = 3
CHILDREN_SHOWN = 8


def route_text(route: Route) -> str:
    """A route in indented lines."""
    return "\n".join(
        [
            f"{route.predicate} has {counted(len(route.attributes), 'attribute')}",
            *_indented(_attribute_lines(route)),
            f"as a subscription of {route.start} it is kept under {route.kept_under}",
            *_indented(_stops_lines(route)),
            f"as an event of {route.start}",
            *_indented(_journey_lines(route.journeys)),
            *_indented([_outcome(route)]),
        ]
    )


def _indented(lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _attribute_lines(route: Route) -> list[str]:
    rows = [
        [
            found.name,
            f"key {found.key[:KEY_DIGITS_SHOWN]}...",
            f"rendezvous {found.rendezvous}",
            f"keeps {counted(found.filters, 'filter')}",
            f"has {found.children:,} children",
        ]
        for found in route.attributes
    ]
    return table(rows[0], rows[1:], left=len(rows[0])).splitlines()


def _stops_lines(route: Route) -> Iterator[str]:
    came_from = ""
    for stop in route.stops:
        yield from _stop_lines(route, stop, came_from)
        came_from = stop.node


def _stop_lines(route: Route, stop: Stop, came_from: str) -> Iterator[str]:
    if stop.node == route.tree.rendezvous:
        yield f"{stop.node}, the rendezvous"
    elif stop.role is None:
        yield f"{stop.node}, not in the tree so far"
    else:
        yield f"{stop.node}, which announces: {_few(stop.shows)}"
    if stop.own:
        yield f"  own: {_few(stop.own)}"
    children = sorted(stop.children, key=lambda child: child.node != came_from)
    for child in children[:CHILDREN_SHOWN]:
        line = f"  from {child.node}: {_few(child.filters)}"
        if child.shortcut:
            line += f"; events go directly to {child.shortcut}"
        if child.backups:
            line += f"; backups {', '.join(child.backups)}"
        yield line
    if len(stop.children) > CHILDREN_SHOWN:
        yield f"  and from {len(stop.children) - CHILDREN_SHOWN:,} more"
    if stop.backups:
        yield f"  replicas at {', '.join(stop.backups)}"
    if stop.offers:
        yield f"  offers a shortcut past itself to {stop.offers}"


def _journey_lines(journeys: Sequence[Journey]) -> Iterator[str]:
    for way in journeys:
        line = f"by {way.attribute}: {' > '.join(way.up)}, "
        if way.receivers:
            line += f"and down to {counted(len(way.receivers), 'node')}"
            line += f" in {counted(way.messages_down, 'message')}"
        else:
            line += "where no node wants it"
        if way.shortcuts_taken:
            line += f", {counted(way.shortcuts_taken, 'shortcut')} taken"
        yield line


def _outcome(route: Route) -> str:
    wanted, received = len(route.wanted_by), len(route.received_by)
    if not wanted:
        return "no node wants it"
    return f"{received:,} of the {counted(wanted, 'node')} that want it would get it"


def _few(filters: Sequence[str]) -> str:
    shown = ", ".join(filters[:FILTERS_SHOWN]) or "nothing"
    more = len(filters) - FILTERS_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
