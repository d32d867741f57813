"""Where the trace of a run goes, for all commands that write one."""

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
        help="In which form; pipeline measure reads Parquet only.",
    )(command)
    return click.option(
        "--trace",
        "folder",
        type=click.Path(path_type=Path),
        help="A new folder, to write there all that happens.",
    )(command)
