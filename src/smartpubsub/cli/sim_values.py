"""Values that are written on a command line in a form of their own."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

from smartpubsub.sim.options import Churning

SECONDS_MAX = 1_000_000.0
SECONDS_MIN = 0.001


class FiniteRange(click.FloatRange):
    """A number between two others; what is not a number is between none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a number between {self.min} and {self.max}", param, ctx)
        return number


class ChurnType(click.ParamType[Churning]):
    """Mean seconds up, mean seconds down, and the share of nodes, with colons between."""

    name = "UP:DOWN[:SHARE]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Churning:
        if isinstance(value, Churning):
            return value
        parts = str(value).split(":")
        if len(parts) not in (2, 3):
            self.fail(f"{value!r} is not of the form UP:DOWN or UP:DOWN:SHARE", param, ctx)
        seconds = FiniteRange(SECONDS_MIN, SECONDS_MAX)
        up_s, down_s = (seconds.convert(part, param, ctx) for part in parts[:2])
        share = FiniteRange(0, 1).convert(parts[2], param, ctx) if parts[2:] else 1.0
        return Churning(up_s, down_s, share)
