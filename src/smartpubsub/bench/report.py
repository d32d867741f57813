"""The result of a benchmark: figures, ratios between them, and the machine."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ratio:
    """One figure over another, with its minimum or maximum."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the ratio is within its bound."""
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def document(self) -> dict[str, object]:
        """The ratio for JSON."""
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        bound = {name: limit for name, limit in bounds.items() if limit is not None}
        return {"name": self.name, "value": rounded(self.value), **bound, "ok": self.ok}


@dataclass
class Report:
    """Figures by name, each with its unit, in the order of measurement."""

    machine: dict[str, object]
    figures: dict[str, tuple[float, str]] = field(default_factory=dict)
    ratios: list[Ratio] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        """Add a figure."""
        self.figures[name] = (value, unit)

    def value(self, name: str) -> float:
        """An earlier figure."""
        return self.figures[name][0]

    def compare(self, one: str, other: str, rest: str, *, at_least: float) -> None:
        """Add the ratio `one/other rest` of two figures, if both were measured."""
        name = f"{one}/{other} {rest}"
        figures = f"{one} {rest}", f"{other} {rest}"
        if all(figure in self.figures for figure in figures):
            quotient = self.value(figures[0]) / self.value(figures[1])
            self.ratios.append(Ratio(name, quotient, at_least))

    def limit(self, figure: str, *, at_most: float) -> None:
        """Add a figure that is itself a ratio, if it was measured."""
        if figure in self.figures:
            self.ratios.append(Ratio(figure, self.value(figure), at_most=at_most))

    def document(self) -> dict[str, object]:
        """The report for JSON."""
        return {
            "machine": self.machine,
            "figures": [
                {"name": name, "value": rounded(value), "unit": unit}
                for name, (value, unit) in self.figures.items()
            ],
            "ratios": [ratio.document() for ratio in self.ratios],
        }

    def text(self) -> str:
        """The report as text."""
        machine = [f"{name}: {value}" for name, value in self.machine.items()]
        figures = [
            f"{name:<44}{value:>16,.{3 if value < 100 else 0}f} {unit}"
            for name, (value, unit) in self.figures.items()
        ]
        ratios = [
            f"{'ok  ' if ratio.ok else 'MISS'} {ratio.name:<39}{ratio.value:>16,.2f}"
            + (f"  at least {ratio.at_least:.4g}" if ratio.at_least is not None else "")
            + (f"  at most {ratio.at_most:.4g}" if ratio.at_most is not None else "")
            for ratio in self.ratios
        ]
        return "\n".join(["Machine", *machine, "", "Figures", *figures, "", "Ratios", *ratios])


def rounded(value: float) -> float:
    """Round to four digits, the precision of measurements."""
    return float(f"{value:.4g}")
