"""smartpubsub testbed hostile."""

from __future__ import annotations

import os
from typing import Any

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.testbed.soak import (
    SAMPLES_WANTED,
    WARM_UP_SHARE,
    SoakProgress,
    nodes_option,
    rate_option,
)
from smartpubsub.cli.testbed.soak_text import soak_text
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.testbed.hostile.attacks import ATTACKS
from smartpubsub.testbed.hostile.run import HostileRun
from smartpubsub.testbed.identities import peer_of
from smartpubsub.testbed.soak import result as results
from smartpubsub.testbed.soak.plan import Kind
from smartpubsub.testbed.soak.run import SoakOptions

PUBLISH_P99_MS_MAX = 2_000.0


@click.command()
@nodes_option
@click.option(
    "--minutes",
    type=click.FloatRange(0, 60_000, min_open=True),
    default=10.0,
    show_default=True,
    help="How long.",
)
@rate_option
@click.option(
    "--attack",
    "attacks",
    type=click.Choice(list(ATTACKS)),
    multiple=True,
    help="An attack; may be repeated.  [default: all at once]",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the events.")
@json_option
@click.pass_context
def hostile(
    context: click.Context,
    /,
    *,
    nodes: int,
    minutes: float,
    rate: float,
    attacks: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Run whole nodes under attack by hostile peers.

    Each node has its own process, with an application that subscribes, reads and publishes.
    Hostile peers in another process attack all nodes, each in its own way: they flood them with
    announcements, filters, probes, questions and records, send messages that are malformed or never
    end, and claim roles that they do not have. The oracle of all experiments judges what the
    applications got. The exit code is 1 if an event was lost, an invariant was violated, the core
    of a node was restarted, or one acknowledgement in a hundred took longer than 2 s. Ctrl-C ends
    the attack and reports; the exit code is then 130.

    \b
    Examples:
      smartpubsub testbed hostile --nodes 10 --minutes 10 --json
      smartpubsub testbed hostile --nodes 3 --minutes 1 --attack attributes --attack probes
    """
    seconds = 60 * minutes
    options = RunOptions(
        protocol="scoutsubs",
        protocol_options=ProtocolOptions(),
        nodes=nodes,
        seed=seed,
        peers=tuple(peer_of(seed, node) for node in range(nodes)),
    )
    wanted = SoakOptions(
        seconds=seconds,
        rate=rate,
        without=frozenset(Kind),
        warm_up_s=seconds * WARM_UP_SHARE,
        sample_s=min(10.0, seconds / SAMPLES_WANTED),
    )
    names = attacks or tuple(ATTACKS)
    with SoakProgress("hostile, ", tells_stages=True) as progress:
        attacked = HostileRun(options, wanted, names, progress)
        result = results.run(attacked)
    found = result.document() | {
        "attacks": list(names),
        "attackers_cpu_s": round(attacked.attackers_cpu_s, 1),
        "nodes_cpu_s": round(result.result.cpu_s, 1),
        "load": round(attacked.load, 1),
    }
    if as_json:
        print_json(found)
    else:
        click.echo(f"{attack_text(found)}\n{soak_text(found, result.violations)}")
    if result.soak.was_ended_early:
        context.exit(INTERRUPTED)
    p99_ms = found["publish_ms"]["p99"]
    is_slow = p99_ms is None or p99_ms > PUBLISH_P99_MS_MAX
    if result.violations or found["missing"] or is_slow:
        context.exit(FAILURE)


def attack_text(found: dict[str, Any]) -> str:
    """The attacks, and the processor time of nodes and attackers."""
    used = f"nodes {found['nodes_cpu_s']:,} s, attackers {found['attackers_cpu_s']:,} s"
    lines = {
        "attacks": ", ".join(found["attacks"]),
        "processor": f"{used}; load {found['load']:,} of {os.cpu_count()}",
    }
    return "\n".join(f"{name:<14}{text}" for name, text in lines.items())
