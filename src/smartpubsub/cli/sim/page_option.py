"""The option --page: a web page of the whole network, during a run and after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from smartpubsub.gateway.scene import Scene

page_option = click.option(
    "--page",
    "page_port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve a page of the network on this port of 127.0.0.1, until Ctrl-C; 0 takes a free one.",
)


@contextmanager
def shown(
    port: int | None, title: str, nodes: int, *, is_live: bool, can_kill: bool = False
) -> Iterator[Scene | None]:
    """Serve the page of a network, if a port is given."""
    if port is None:
        yield None
        return
    # Only a run with a page needs the gateway's packages.
    from smartpubsub.gateway.scene import Scene
    from smartpubsub.gateway.scene_server import scene_page
    from smartpubsub.node.config_values import Endpoint

    scene = Scene(title, nodes, is_live=is_live, can_kill=can_kill)
    with (
        TemporaryDirectory() as folder,
        scene_page(scene, Endpoint("127.0.0.1", port), Path(folder)) as url,
    ):
        click.echo(f"the page of the network: {url}", err=True)
        yield scene


def stay(scene: Scene | None) -> None:
    """Serve the page after the run until Ctrl-C."""
    if scene is not None:
        scene.end()
        click.echo("the run is over; Ctrl-C ends the page", err=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
