"""The summary of a stage, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, repr=False)
class Summary:
    """The input, the output and the duration of a stage; a prompt or a notebook shows the text."""

    stage: str
    rows_in: Mapping[str, int]
    rows_out: Mapping[str, int]
    seconds: float
    bad: int = 0
    """Bad rows, which are set aside."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Further results of this stage."""
    notes: tuple[str, ...] = ()
    """Notes for the user about the result, one line each."""

    def document(self) -> dict[str, object]:
        """The summary for JSON."""
        return {
            "stage": self.stage,
            "rows_in": dict(self.rows_in),
            "rows_out": dict(self.rows_out),
            "bad": self.bad,
            "seconds": round(self.seconds, 3),
            **self.more,
        }

    def __repr__(self) -> str:
        return "\n".join([self.text(), *self.notes])

    def text(self) -> str:
        """The summary as text, without lists."""
        rows = [
            *((f"{name} in", f"{count:,}") for name, count in self.rows_in.items()),
            *((f"{name} out", f"{count:,}") for name, count in self.rows_out.items()),
            *([("bad", f"{self.bad:,}")] if self.bad else []),
            *(
                (name.replace("_", " "), _shown(value))
                for name, value in self.more.items()
                if not isinstance(value, list)
            ),
            ("seconds", f"{self.seconds:,.1f}"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:>14}" for name, value in rows)


def _shown(value: object) -> str:
    """A value as text.

    >>> _shown({"1": 0.5, "2": 0.25}), _shown(1000)
    ('1: 0.5, 2: 0.25', '1,000')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_shown(one)}" for name, one in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
