"""smartpubsub bench sim."""

import click

from smartpubsub.cli.bench.showing import print_report, print_step, seed_option
from smartpubsub.cli.extras import needing
from smartpubsub.cli.output import json_option


@click.command()
@seed_option("simulated worlds")
@click.option("--full", is_flag=True, help="Add ten thousand nodes (some minutes, 2 GB).")
@json_option
def sim(seed: int, full: bool, as_json: bool) -> None:
    """Measure the simulator beside SimPy.

    Compares the simulator's kernel with SimPy, and Kademlia and Floodsub in it with a bare heap of
    events; with --full also ten thousand nodes with a thousand. Takes less than a minute, or some
    minutes with --full. The exit code is 0 for any ratios.

    \b
    Examples:
      smartpubsub bench sim
      smartpubsub bench sim --full --json
    """
    with needing("the benchmark", "bench"):
        from smartpubsub.bench.sim import run
    report = run(seed, full=full, progress=print_step)
    print_report(report, as_json)
