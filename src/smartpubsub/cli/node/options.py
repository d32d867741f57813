"""Options and helpers of the commands that run a node or talk to one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smartpubsub.cli.extras import needing
from smartpubsub.client.blocking_socket import folder_of

if TYPE_CHECKING:
    from smartpubsub.client.commands import ControlClient
    from smartpubsub.node.configuration import NodeConfig

_LIMIT = "--limit"
ATTRIBUTES_MAX = 1_000
"""The highest limit; the node checks its own, which may be lower."""

data_option = click.option(
    "--data",
    metavar="DIR",
    help="The node's data folder.  [default: ~/.smartpubsub]",
)


def node_packages() -> AbstractContextManager[None]:
    """Name the command that installs a missing package of a node."""
    return needing("a node", "node")


def configured(
    options: Mapping[str, object], file: Path | None = None, limits: Sequence[str] = ()
) -> NodeConfig:
    """Read the configuration from options, the environment and a file.

    Limits have the form NAME=N.
    """
    with node_packages():
        from smartpubsub.node.configuration import ConfigError, load_config
    given = _given(limits)
    try:
        return load_config({**options, **given}, file=file)
    except ConfigError as error:
        if error.is_option:
            is_limit = error.place in given
            hint = f"{_LIMIT} {error.place}" if is_limit else f"--{error.place.replace('_', '-')}"
            raise click.BadParameter(error.problem, param_hint=hint) from None
        raise


def _given(limits: Sequence[str]) -> dict[str, str]:
    from smartpubsub.node.configuration import NodeLimits

    names = [entry.name for entry in fields(NodeLimits)]
    given = dict(text.partition("=")[::2] for text in limits)
    for name in given:
        if name not in names:
            problem = f"expected NAME=N, where NAME is one of {', '.join(names)}; found {name!r}"
            raise click.BadParameter(problem, param_hint=_LIMIT)
    return given


@contextmanager
def running_node(data: str | None) -> Iterator[ControlClient]:
    """Connect to the node that runs in a data folder.

    If an answer takes long, print on standard error what the command waits for.
    """
    from smartpubsub.client.commands import ControlClient

    with ControlClient(_folder(data), on_wait=report_wait) as client:
        yield client


def _folder(data: str | None) -> str:
    folder = Path(folder_of(data))
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        problem = f"expected the path of a folder; found {data!r}"
        raise click.BadParameter(problem, param_hint="--data")
    return str(folder)


def report_wait(what: str) -> None:
    """Print on standard error what a command waits for."""
    click.echo(f"smartpubsub: {what}", err=True)


def print_json_line(document: Any) -> None:
    """Print a JSON document on one line."""
    click.echo(json.dumps(document))
