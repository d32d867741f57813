"""smartpubsub sim study overload."""

import click

from smartpubsub.cli.output import json_option
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.text import percent
from smartpubsub.cli.study.options import nodes_option, seed_option, show
from smartpubsub.sim.studies.overload import Strained, study

HEAD = (
    "links",
    "pace",
    "coverage",
    "missing",
    "mean ms",
    "p99 ms",
    "max ms",
    "messages per delivery",
    "resends",
)


@click.command()
@nodes_option(60)
@seed_option
@json_option
def overload(nodes: int, seed: int, as_json: bool) -> None:
    """Show what happens when events outrun the links.

    Publishes the events of the scenario normal at its own pace and ten times as fast, over normal
    links and over slow ones, which cannot carry the faster pace.

    \b
    Examples:
      smartpubsub sim study overload
      smartpubsub sim study overload --nodes 100 --json
    """
    found = study(nodes, seed, StderrProgress)
    show(found, HEAD, [cells(run) for run in found], as_json=as_json)


def cells(found: Strained) -> list[str]:
    """A bandwidth and a pace as a row of the table."""
    return [
        f"{found.bandwidth_bytes_per_s >> 10:,} KiB/s",
        f"an event every {found.pace_ms:g} ms",
        percent(found.coverage),
        f"{found.missing:,}",
        f"{found.latency_ms_mean:,.1f}",
        f"{found.latency_ms_p99:,.1f}",
        f"{found.latency_ms_max:,.1f}",
        f"{found.messages_per_delivery:,.2f}",
        f"{found.resends:,}",
    ]
