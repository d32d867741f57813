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
    report_wait,
)
from smartpubsub.cli.output import json_option
from smartpubsub.cli.protocol_types import ProtocolName, VariantName

if TYPE_CHECKING:
    from smartpubsub.node.api.node import Node
    from smartpubsub.node.config_values import Endpoint


@click.command()
@data_option
@click.option(
    "--listen",
    metavar="MULTIADDR",
    multiple=True,
    help="An address to listen on; may be repeated.  [default: /ip4/0.0.0.0/tcp/4001]",
)
@click.option(
    "--announce",
    metavar="MULTIADDR",
    multiple=True,
    help="An address at which other nodes reach this node, behind NAT or in a container; may be"
    " repeated."
    "  [default: where it listens]",
)
@click.option(
    "--bootstrap",
    metavar="MULTIADDR",
    multiple=True,
    help="A peer through which the node joins the network; may be repeated.",
)
@click.option(
    "--network-key",
    metavar="FILE",
    help="The key of a private network, which `smartpubsub node network-key` makes.",
)
@click.option("--mdns", is_flag=True, default=None, help="Find peers in the local network by mDNS.")
@click.option(
    "--protocol",
    type=ProtocolName(),
    help="The protocol of subscriptions by content; every node has topics and groups too."
    "  [default: scoutsubs]",
)
@click.option("--variant", type=VariantName(), help="The variant of the protocol.")
@click.option("--backups", metavar="N", help="The number of replicas besides this node.")
@click.option(
    "--resilience",
    metavar="crash|audited|byzantine",
    help="What the network withstands: nodes that stop; nodes that drop events; or more nodes that"
    " lie, at a higher cost.  [default: audited]",
)
@click.option("--region", metavar="NAME", help="The node's region, for groups that it joins.")
@click.option("--capacity", metavar="N", help="How many members of a group it serves.")
@click.option(
    "--limit",
    "limits",
    metavar="NAME=N",
    multiple=True,
    help="A limit of the node, see docs/node.md; may be repeated.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="A TOML file with settings.  [default: config.toml in the data folder]",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve metrics over HTTP here.  [default: off]"
)
@click.option("--http", metavar="HOST:PORT", help="Serve the HTTP gateway here.  [default: off]")
@click.option("--log-level", type=click.Choice(LEVELS), help="What to log on standard error.")
@json_option
def run(
    data: str | None,
    listen: tuple[str, ...],
    announce: tuple[str, ...],
    bootstrap: tuple[str, ...],
    network_key: str | None,
    mdns: bool | None,
    protocol: str | None,
    variant: str | None,
    backups: str | None,
    resilience: str | None,
    region: str | None,
    capacity: str | None,
    limits: tuple[str, ...],
    file: Path | None,
    metrics: str | None,
    http: str | None,
    log_level: str | None,
    as_json: bool,
) -> None:
    """Run a node until Ctrl-C or SIGTERM.

    Prints the node's peer id and addresses when it is ready. The exit code after Ctrl-C is 0.
    Options override variables such as SMARTPUBSUB_LISTEN, which override the file.

    \b
    Examples:
      smartpubsub node run --mdns
      smartpubsub node run --data b --listen /ip4/127.0.0.1/tcp/0 --bootstrap ADDRESS
      smartpubsub node run --http 127.0.0.1:8080
      smartpubsub node run --network-key swarm.key --bootstrap ADDRESS
      smartpubsub node run --limit connection_count_max=50 --limit messages_per_s_max=1000
      SMARTPUBSUB_LOG_LEVEL=debug smartpubsub node run --config my.toml --json
    """
    options = {
        "data": data,
        "listen": listen or None,
        "announce": announce or None,
        "bootstrap": bootstrap or None,
        "network_key": network_key,
        "mdns": mdns,
        "protocol": protocol,
        "variant": variant,
        "backups": backups,
        "resilience": resilience,
        "region": region,
        "capacity": capacity,
        "metrics": metrics,
        "http": http,
        "log_level": log_level,
    }
    config = configured(options, file, limits)
    with node_packages():
        from smartpubsub.cli.node.service import run_node
    start_log(config.log_level)
    run_node(config, lambda node, http_at: tell(node, http_at, as_json), report_wait)


def tell(node: Node, http_at: Endpoint | None, as_json: bool) -> None:
    """Print that the node is ready, and its addresses."""
    http = f"http://{http_at}/" if http_at else None
    metrics = f"http://{node.metrics_at}/metrics" if node.metrics_at else None
    if as_json:
        print_json_line(
            {
                "peer_id": node.peer_id,
                "addresses": node.addresses,
                "metrics": metrics,
                "http": http,
                "ready": True,
            }
        )
        return
    click.echo(f"peer id  {node.peer_id}")
    for address in node.addresses:
        click.echo(f"address  {address}")
    if metrics:
        click.echo(f"metrics  {metrics}")
    if http:
        click.echo(f"http     {http}")
    click.echo("ready")
