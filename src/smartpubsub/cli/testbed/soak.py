"""smartpubsub testbed soak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.protocol_types import ProtocolName
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.cli.sim.protocols import variant_option
from smartpubsub.cli.testbed.soak_text import soak_text
from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.running import RunOptions, Watched
from smartpubsub.testbed.identities import peer_of
from smartpubsub.testbed.soak import result as results
from smartpubsub.testbed.soak.plan import Kind
from smartpubsub.testbed.soak.run import Soak, SoakOptions

NODES_MAX = 100
WARM_UP_S_MAX = 3_000.0
"""Nodes remember events for up to 45 minutes to deliver none twice; only then memory is stable."""
WARM_UP_SHARE = 0.7
"""A process counts as warm after this share of a shorter soak."""
SAMPLES_WANTED = 60


class SoakProgress(StderrProgress):
    def line(self, world: Watched, passed_s: float) -> str:
        return (
            f"soak, {world.status()}" if isinstance(world, Soak) else super().line(world, passed_s)
        )


def _length_s(hours: float | None, minutes: float | None) -> float:
    if hours is not None and minutes is not None:
        raise click.UsageError("give --hours or --minutes, not both")
    return 3_600 * hours if hours is not None else 60 * (60.0 if minutes is None else minutes)


nodes_option = click.option(
    "--nodes", type=click.IntRange(2, NODES_MAX), default=10, show_default=True, help="How many."
)
rate_option = click.option(
    "--rate",
    type=click.FloatRange(0.01, 1_000),
    default=5.0,
    show_default=True,
    help="Events a second, of all nodes together.",
)


@click.command()
@click.option(
    "--protocol",
    type=ProtocolName(),
    default="scoutsubs",
    show_default=True,
    help="The protocol that the nodes run.",
)
@variant_option
@nodes_option
@click.option(
    "--hours", type=click.FloatRange(0, 1_000, min_open=True), help="How long.  [default: 1]"
)
@click.option(
    "--minutes", type=click.FloatRange(0, 60_000, min_open=True), help="How long, in minutes."
)
@rate_option
@click.option(
    "--backups",
    type=click.IntRange(0, 20),
    default=2,
    show_default=True,
    help="The number of replicas besides the first, and of nodes that fail within a minute.",
)
@click.option(
    "--history-minutes",
    type=click.FloatRange(0, 60_000),
    default=10.0,
    show_default=True,
    help="How long nodes keep events for later subscribers. Memory grows for as long.",
)
@click.option(
    "--warm-up-minutes",
    type=click.FloatRange(0, 60_000),
    help="The age from which a process counts for growth.  [default: 50, or 70 % of a short soak]",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the faults.")
@click.option(
    "--without",
    type=click.Choice([kind.value for kind in Kind]),
    multiple=True,
    help="A kind of fault that does not happen; may be repeated.",
)
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a page with charts, the charts, and the JSON document to this folder.",
)
@json_option
@click.pass_context
def soak(
    context: click.Context,
    /,
    *,
    protocol: str,
    variant: str,
    nodes: int,
    hours: float | None,
    minutes: float | None,
    rate: float,
    backups: int,
    history_minutes: float,
    warm_up_minutes: float | None,
    seed: int,
    without: tuple[str, ...],
    folder: Path | None,
    as_json: bool,
) -> None:
    """Run whole nodes for hours, under faults.

    Each node has its own process, with an application that subscribes, reads and publishes. Nodes
    leave and return, are killed (SIGKILL) and paused (SIGSTOP), run out of disk, have their clocks
    set, read slowly and change subscriptions. The oracle of all experiments judges what the
    applications got. The result has the memory, open files, threads and disk of each node, and how
    fast they grow. The exit code is 1 if an invariant was violated. Ctrl-C ends the faults, waits
    for what is owed, and reports; the exit code is then 130. A second Ctrl-C ends at once.

    \b
    Examples:
      smartpubsub testbed soak --nodes 10 --hours 1 --rate 5 --report soaked
      smartpubsub testbed soak --minutes 2 --nodes 3 --json
      smartpubsub testbed soak --protocol pulsarcast --without clocks --without disks
    """
    seconds = _length_s(hours, minutes)
    if folder is not None:
        _make(folder)
    options = RunOptions(
        protocol=protocol,
        protocol_options=ProtocolOptions(
            variant=variant,
            backups=backups,
            limits={"history_s_max": round(60 * history_minutes)},
        ),
        nodes=nodes,
        seed=seed,
        peers=tuple(peer_of(seed, node) for node in range(nodes)),
    )
    warm_up_s = min(WARM_UP_S_MAX, seconds * WARM_UP_SHARE)
    if warm_up_minutes is not None:
        warm_up_s = 60 * warm_up_minutes
    wanted = SoakOptions(
        seconds=seconds,
        rate=rate,
        without=frozenset(map(Kind, without)),
        warm_up_s=warm_up_s,
        sample_s=min(10.0, seconds / SAMPLES_WANTED),
    )
    with SoakProgress("soak, ", tells_stages=True) as progress:
        result = results.run(Soak(options, wanted, progress))
    found = result.document()
    if folder is not None:
        _write(found, folder)
    if as_json:
        print_json(found)
    else:
        click.echo(soak_text(found, result.violations))
    if result.soak.was_ended_early:
        context.exit(INTERRUPTED)
    if result.violations:
        context.exit(FAILURE)


def _make(folder: Path) -> None:
    """Make the folder at the start, so that an error does not come after hours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.json").touch()
    except OSError as error:
        raise SmartPubSubError(f"{folder}: {error.strerror}; choose another folder") from None


def _write(found: dict[str, Any], folder: Path) -> None:
    (folder / "soak.json").write_text(json.dumps(found), encoding="utf-8")
    try:
        from smartpubsub.reports.soak_report import write_soak_report
    except ImportError as error:
        click.echo(f"note: no charts, since {error.name} is not installed", err=True)
        return
    click.echo(f"report: {write_soak_report(found, folder)}", err=True)
