"""What the commands have in common that run a node or talk to one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smartpubsub.errors import SmartPubSubError

if TYPE_CHECKING:
    from smartpubsub.node.configuration import NodeConfig
    from smartpubsub.node.control_client import ControlClient

_FLAG = "--"

data_option = click.option(
    "--data",
    metavar="DIR",
    help="The node's data folder.  [default: ~/.smartpubsub]",
)


@contextmanager
def node_packages() -> Iterator[None]:
    """Say how to get what a node needs, if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SmartPubSubError(
            f"a node needs {error.name}; install it with: pip install 'smartpubsub[node]'"
        ) from None


def configured(options: Mapping[str, object], file: Path | None = None) -> NodeConfig:
    """The configuration that options, the environment and a file give."""
    with node_packages():
        from smartpubsub.node.configuration import ConfigError, load_config
    try:
        return load_config(options, file=file)
    except ConfigError as error:
        if error.place.startswith(_FLAG):
            raise click.BadParameter(error.problem, param_hint=error.place) from None
        raise


@contextmanager
def running_node(data: str | None) -> Iterator[ControlClient]:
    """A connection to the node that runs in a data folder."""
    config = configured({"data": data})
    from smartpubsub.node.control_client import ControlClient

    with ControlClient(config.data) as client:
        yield client


def print_json_line(document: Any) -> None:
    """One of many documents, or one for programs that read line by line."""
    click.echo(json.dumps(document))
