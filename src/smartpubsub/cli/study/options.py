"""The common options of all studies, and their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, asdict
from typing import Any, ClassVar, Protocol, TypeVar

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.output import print_json
from smartpubsub.cli.sim.text import table

NODES_MIN = 10
NODES_MAX = 100_000

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

seed_option = click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the simulated worlds."
)


class Finding(Protocol):
    """A row of a study's result, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def violations(self) -> int:
        """The number of violations in its run."""
        ...


def nodes_option(default: int) -> Callable[[Decorated], Decorated]:
    """The option for the number of nodes, with a default that suits the study."""
    return click.option(
        "--nodes",
        type=click.IntRange(NODES_MIN, NODES_MAX),
        default=default,
        show_default=True,
        help="The number of nodes.",
    )


def show(
    found: Sequence[Finding], head: Sequence[str], rows: Sequence[Sequence[str]], *, as_json: bool
) -> None:
    """Print the result; the exit code is 1 if there were violations."""
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        click.echo(table(head, rows))
    violations = max(finding.violations for finding in found)
    if violations:
        click.echo(f"up to {violations:,} violations in a run", err=True)
        click.get_current_context().exit(FAILURE)
