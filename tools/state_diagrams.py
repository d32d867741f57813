"""Draws the state diagrams of the documentation while the site is built.

The diagrams are written in Mermaid, which repositories show as drawings. On the site each state is
a vertical line, and each transition an arrow between two lines, in the order of the text.
"""

import re
from html import escape
from typing import Any, NamedTuple

TRANSITION = re.compile(r"\s*(\w+) --> (\w+): (.+?)\s*")
COLUMN, ROW, HEAD, MARGIN = 150, 34, 30, 24
LOOP = 26


class Transition(NamedTuple):
    """A transition from a state to another, with its cause."""

    source: str
    target: str
    label: str


def read(text: str) -> list[Transition]:
    """Read a state diagram."""
    first, *lines = text.strip().splitlines()
    if first.strip() != "stateDiagram-v2":
        raise ValueError(f"expected a stateDiagram-v2, found {first!r}")
    transitions = []
    for line in filter(str.strip, lines):
        found = TRANSITION.fullmatch(line)
        if found is None:
            raise ValueError(f"expected 'a --> b: why', found {line!r}")
        transitions.append(Transition(*found.groups()))
    return transitions


def fence(
    source: str,
    language: str,  # noqa: ARG001 - the name that Markdown calls it by
    class_name: str,
    options: dict[str, Any],  # noqa: ARG001
    md: Any,  # noqa: ARG001
    **_: Any,
) -> str:
    """Convert a fenced block to a figure."""
    return (
        f'<figure class="{class_name}" style="width:100%">{svg(read(source))}'
        "<figcaption>Each line is a state, and each arrow a transition.</figcaption></figure>"
    )


def svg(transitions: list[Transition]) -> str:
    """Draw transitions."""
    states = list(dict.fromkeys(state for t in transitions for state in (t.source, t.target)))
    at = {state: MARGIN + COLUMN // 2 + COLUMN * number for number, state in enumerate(states)}
    width = 2 * MARGIN + COLUMN * len(states)
    height = HEAD + ROW * (len(transitions) + 1)
    said = "; ".join(f"{_name(t.source)} to {_name(t.target)}: {t.label}" for t in transitions)
    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img"'
        f' aria-label="{escape(said)}" style="max-width:100%" fill="none" stroke="currentColor"'
        ' font-size="13" font-family="inherit">'
    ]
    for state, x in at.items():
        parts.append(f'<path d="M{x} {HEAD}V{height}" stroke-opacity="0.25"/>')
        parts.append(_box(x, _name(state)))
    for number, transition in enumerate(transitions, 1):
        parts.append(_arrow(at, transition, HEAD + ROW * number))
    return "".join([*parts, "</svg>"])


def _name(state: str) -> str:
    return state.replace("_", " ")


def _box(x: int, name: str) -> str:
    wide = COLUMN - 30
    return f'<rect x="{x - wide // 2}" y="1" width="{wide}" height="{HEAD - 4}" rx="6"/>' + _text(
        x, HEAD // 2 + 3, name, "middle", weight="bold"
    )


def _arrow(at: dict[str, int], transition: Transition, y: int) -> str:
    start, end = at[transition.source], at[transition.target]
    if start == end:
        line = f"M{start} {y - 10}h{LOOP}v10h{-LOOP}"
        return f'<path d="{line}"/>{_head(end, y, -1)}' + _text(
            start + LOOP + 5, y, transition.label, "start"
        )
    way = 1 if end > start else -1
    middle = (start + end) // 2
    dot = f'<circle cx="{start}" cy="{y}" r="2.5" fill="currentColor"/>'
    line = f'<path d="M{start} {y}H{end}"/>{_head(end, y, way)}'
    return dot + line + _text(middle, y - 6, transition.label, "middle")


def _head(x: int, y: int, way: int) -> str:
    return f'<path d="M{x} {y}l{-8 * way} -4v8z" fill="currentColor" stroke="none"/>'


def _text(x: int, y: int, text: str, anchor: str, weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}"'
        f' fill="currentColor" stroke="none">{escape(text)}</text>'
    )
