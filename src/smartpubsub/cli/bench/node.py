"""smartpubsub bench node."""

import click

from smartpubsub.cli.bench.showing import show
from smartpubsub.cli.output import json_option


@click.command()
@json_option
def node(as_json: bool) -> None:
    """Measure real nodes beside bare libp2p and other systems.

    Measures the processor time of an event in all processes together, and divides it by the crypto
    floor: one signature, and one verification at each of two nodes. Measures the latency of events
    one after the other beside a TCP echo and a flush of the disk, and the processor time of
    simulated messages beside a record of an earlier version. Compares with py-libp2p's GossipSub,
    requests on one stream with an echo on unmodified py-libp2p, and events over three hops of real
    nodes with Zenoh (the package eclipse-zenoh) and with NATS (the package nats-py, and nats-server
    on the PATH) where they are installed. Uses loopback only; takes less than two minutes. The exit
    code is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench node
      smartpubsub bench node --json
    """
    from smartpubsub.bench.node import run

    show(run, as_json)
