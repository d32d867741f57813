"""smartpubsub node run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from smartpubsub.cli.node.log import LEVELS, start_log
from smartpubsub.cli.node.options import (
    configured,
    data_option,
    node_packages,
    print_json_line,
    tell_wait,
)
from smartpubsub.cli.output import json_option
from smartpubsub.sim.experiments.stacks import STACKS, VARIANTS

if TYPE_CHECKING:
    from smartpubsub.node.api.node import Node


@click.command()
@data_option
@click.option(
    "--listen",
    metavar="MULTIADDR",
    multiple=True,
    help="Where to listen, as often as wanted.  [default: /ip4/0.0.0.0/tcp/4001]",
)
@click.option(
    "--bootstrap",
    metavar="MULTIADDR",
    multiple=True,
    help="A peer by way of which the node finds its place, as often as wanted.",
)
@click.option(
    "--mdns", is_flag=True, default=None, help="Find peers in the local network, and be found."
)
@click.option("--protocol", type=click.Choice([*STACKS]), help="What the network speaks.")
@click.option("--variant", type=click.Choice(VARIANTS), help="Of ScoutSubs.")
@click.option("--backups", metavar="N", help="How many nodes keep copies of what this one keeps.")
@click.option("--region", metavar="NAME", help="Where the node is, for groups that it joins.")
@click.option("--capacity", metavar="N", help="How many others it is ready to serve in groups.")
@click.option(
    "--limit",
    "limits",
    metavar="NAME=N",
    multiple=True,
    help="The most that the node takes of something, as often as wanted.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="A TOML file with settings.  [default: config.toml in the data folder]",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Where metrics are served over HTTP.  [default: off]"
)
@click.option("--log-level", type=click.Choice(LEVELS), help="What is written to standard error.")
@json_option
def run(
    data: str | None,
    listen: tuple[str, ...],
    bootstrap: tuple[str, ...],
    mdns: bool | None,
    protocol: str | None,
    variant: str | None,
    backups: str | None,
    region: str | None,
    capacity: str | None,
    limits: tuple[str, ...],
    file: Path | None,
    metrics: str | None,
    log_level: str | None,
    as_json: bool,
) -> None:
    """Run a node until it is told to end.

    Prints who the node is and where it can be reached when it is ready. Ctrl-C ends it, and the
    exit code is 0 then. Options win over variables such as SMARTPUBSUB_LISTEN, and these over the
    file.

    \b
    Examples:
      smartpubsub node run --mdns
      smartpubsub node run --data b --listen /ip4/127.0.0.1/tcp/0 --bootstrap ADDRESS
      smartpubsub node run --limit connection_count_max=50 --limit messages_per_s_max=1000
      SMARTPUBSUB_LOG_LEVEL=debug smartpubsub node run --config my.toml --json
    """
    options = {
        "data": data,
        "listen": listen,
        "bootstrap": bootstrap,
        "mdns": mdns,
        "protocol": protocol,
        "variant": variant,
        "backups": backups,
        "region": region,
        "capacity": capacity,
        "metrics": metrics,
        "log_level": log_level,
    }
    config = configured(options, file, limits)
    with node_packages():
        from smartpubsub.cli.node.service import run_node
    start_log(config.log_level)
    run_node(config, lambda node: tell(node, as_json), tell_wait)


def tell(node: Node, as_json: bool) -> None:
    """Say that a node is ready, and how to reach it."""
    metrics = f"http://{node.metrics_at}/metrics" if node.metrics_at else None
    if as_json:
        print_json_line(
            {
                "peer_id": node.peer_id,
                "addresses": node.addresses,
                "metrics": metrics,
                "ready": True,
            }
        )
        return
    click.echo(f"peer id  {node.peer_id}")
    for address in node.addresses:
        click.echo(f"address  {address}")
    if metrics:
        click.echo(f"metrics  {metrics}")
    click.echo("ready")
