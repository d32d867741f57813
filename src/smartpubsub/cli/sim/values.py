"""Option values with a syntax of their own."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

from smartpubsub.sim.adversaries.kinds import Adversary, AdversaryError
from smartpubsub.sim.experiments.options import Churning, Cutting

SECONDS_MAX = 1_000_000.0
SECONDS_MIN = 0.001


class FiniteRange(click.FloatRange):
    """A number between two bounds; NaN is refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a number between {self.min} and {self.max}", param, ctx)
        return number


class ChurnType(click.ParamType[Churning]):
    """Mean seconds up, mean seconds down, and the share of nodes, separated by colons."""

    name = "UP:DOWN[:SHARE]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Churning:
        if isinstance(value, Churning):
            return value
        up_s, down_s, share = _numbers(self, value, SECONDS_MIN, param, ctx)
        return Churning(up_s, down_s, 1.0 if share is None else share)


class CutType(click.ParamType[Cutting]):
    """The start and the duration in seconds, and the share of nodes, separated by colons."""

    name = "AT:FOR[:SHARE]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Cutting:
        if isinstance(value, Cutting):
            return value
        at_s, for_s, share = _numbers(self, value, 0, param, ctx)
        return Cutting(at_s, for_s) if share is None else Cutting(at_s, for_s, share)


class AdversaryType(click.ParamType[Adversary]):
    """A kind of adversary, the share of nodes, and an option of the kind, separated by colons."""

    name = "KIND:SHARE[:OPTION]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Adversary:
        if isinstance(value, Adversary):
            return value
        try:
            return Adversary.parse(str(value))
        except AdversaryError as error:
            self.fail(str(error), param, ctx)


def _numbers(
    kind: click.ParamType[Any],
    value: Any,
    seconds_min: float,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> tuple[float, float, float | None]:
    """Two times, and a share that may be left out."""
    parts = str(value).split(":")
    if len(parts) not in (2, 3):
        whole, _, _ = kind.name.partition("[")
        kind.fail(f"{value!r} is not of the form {whole} or {whole}:SHARE", param, ctx)
    seconds = FiniteRange(seconds_min, SECONDS_MAX)
    first, second = (seconds.convert(part, param, ctx) for part in parts[:2])
    share = FiniteRange(0, 1).convert(parts[2], param, ctx) if parts[2:] else None
    return first, second, share
