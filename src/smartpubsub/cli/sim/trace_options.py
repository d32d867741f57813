"""The trace options of all commands that write a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from smartpubsub.sim.traces.trace_files import TRACE_FORMATS

Command = Callable[..., None]


def trace_options(command: Command) -> Command:
    """Give a command `folder` and `trace_format`."""
    command = click.option(
        "--trace-format",
        type=click.Choice([*TRACE_FORMATS]),
        default="parquet",
        show_default=True,
        help="The format of the trace; pipeline measure reads Parquet only.",
    )(command)
    return click.option(
        "--trace",
        "folder",
        type=click.Path(path_type=Path),
        help="Write a trace of everything that happens into this new folder.",
    )(command)
