"""How benchmarks show what they do and have found."""

from collections.abc import Callable

import click

from smartpubsub.bench.report import Report
from smartpubsub.cli.output import print_json


def show(run: Callable[[Callable[[str], None]], Report], as_json: bool) -> None:
    """Run a benchmark, and print its report."""
    report = run(lambda step: click.echo(step, err=True))
    if as_json:
        print_json(report.document())
    else:
        click.echo(report.text())
