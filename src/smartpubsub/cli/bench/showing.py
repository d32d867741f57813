"""The common part of benchmark commands: the option --seed, progress, and the report."""

from collections.abc import Callable
from typing import Any

import click

from smartpubsub.bench.report import Report
from smartpubsub.cli.output import print_json


def seed_option(of: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --seed of the generated data."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help=f"Seed of the {of}.",
    )


def show(run: Callable[[Callable[[str], None]], Report], as_json: bool) -> None:
    """Run a benchmark, and print its report."""
    print_report(run(print_step), as_json)


def print_step(step: str) -> None:
    """Print the step that begins."""
    click.echo(step, err=True)


def print_report(report: Report, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print_json(report.document())
    else:
        click.echo(report.text())
