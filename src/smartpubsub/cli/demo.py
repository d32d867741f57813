"""smartpubsub demo."""

import json
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from smartpubsub.cli.commands import smartpubsub
from smartpubsub.cli.doctor import table as machine_table
from smartpubsub.cli.explain import table as verdict_table
from smartpubsub.cli.health import run_checks
from smartpubsub.extras import remedy
from smartpubsub.matching import FilterSet
from smartpubsub.pipeline.java import NoJavaError
from smartpubsub.predicates import Predicate, explain
from smartpubsub.sim.traces.trace import Row, Sink

SUBSCRIPTION_COUNT = 20_000
EVENT_COUNT = 200
NODE_COUNT = 60
REAL_NODE_COUNT = 10
REPORT = Path("smartpubsub-demo")
"""The folder for the report."""
REAL_EVENT_COUNT = 40
EVENT_EVERY_MS = 250
TRACE = "trace"
SEED = 1
SHORT_LIVED = (
    ("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.shuffle.partitions", "1"),
)
"""Settings for a Spark session of one minute, in which compiling and re-planning do not pay."""


@click.command()
def demo() -> None:
    """Show what SmartPubSub does.

    Starts real nodes with a page that shows them, and goes on in steps. Takes one to two minutes
    and leaves a report in the folder smartpubsub-demo.

    \b
    Example:
      smartpubsub demo
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        for number, (title, step) in enumerate(STEPS, start=1):
            click.echo(f"{number}. {title}\n")
            try:
                step(folder, stack)
            except ModuleNotFoundError as error:
                click.echo(f"left out: {remedy(error)}")
            click.echo()


def show_nodes(folder: Path, stack: ExitStack) -> None:
    from smartpubsub.cli.sim.page_option import shown
    from smartpubsub.cli.testbed.text import result_text
    from smartpubsub.sim.experiments.running import RunOptions
    from smartpubsub.sim.traces.trace import Trace, sink_of
    from smartpubsub.sim.traces.trace_files import TraceFolder
    from smartpubsub.testbed import result as results
    from smartpubsub.testbed.identities import peer_of
    from smartpubsub.testbed.run import Layout, RealRun
    from smartpubsub.workloads.files import read_workload

    workload = read_workload(write_workload_of_demo(folder))
    nodes = len(workload.names)
    peers = tuple(peer_of(SEED, node) for node in range(nodes))
    options = RunOptions(protocol="scoutsubs", nodes=nodes, seed=SEED, peers=peers)
    page = shown(0, "scoutsubs, real nodes", options.nodes, is_live=True, can_kill=True)
    scene = stack.enter_context(page)
    assert scene is not None
    click.echo("Look at that page, and kill a node there: delivery goes on.")
    with TraceFolder(folder / TRACE) as written:
        trace = Trace(sink_of(written, scene, print_first_delivery()))
        layout = Layout(isolate=True)
        real = RealRun(options, workload, layout=layout, trace=trace, kills=scene.kills)
        result = results.run(real, "workload", None)
        trace.flush()
    scene.end()
    if real.was_interrupted:
        raise click.Abort
    click.echo(result_text(result))


def write_workload_of_demo(folder: Path) -> Path:
    """Write a workload: some nodes want surf reports, others publish, one crashes and returns."""
    wanted = ("surf/price[10,20]", "surf", "surf/price[,15]", "surf/wind[5,]")
    lines: list[dict[str, object]] = [
        {"node": f"n{number}", "subscribe": wanted[number % len(wanted)], "at_ms": 0}
        for number in range(REAL_NODE_COUNT)
        if number % 3
    ]
    lines += [
        {
            "node": f"n{number * 3 % REAL_NODE_COUNT}",
            "publish": f"surf/price={8 + number % 15}/wind={number % 9}",
            "at_ms": 2_000 + number * EVENT_EVERY_MS,
        }
        for number in range(REAL_EVENT_COUNT)
    ]
    middle_ms = 2_000 + REAL_EVENT_COUNT * EVENT_EVERY_MS // 2
    lines += [
        {"node": "n4", "crash": True, "at_ms": middle_ms},
        {"node": "n4", "restart": True, "at_ms": middle_ms + 2_000},
    ]
    lines.sort(key=lambda line: int(str(line["at_ms"])))
    path = folder / "demo.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def print_first_delivery() -> Sink:
    """Print the first event that is delivered."""
    is_printed = False

    def take(rows: Sequence[Row]) -> None:
        nonlocal is_printed
        for row in rows:
            if not is_printed and row.what == "deliver" and row.event:
                is_printed = True
                click.echo(f"node {row.node} gets the first event, {row.event}, {row.hops} hops")

    return take


def show_machine(_folder: Path, _stack: ExitStack) -> None:
    click.echo(machine_table(list(run_checks())))


def show_match(_folder: Path, _stack: ExitStack) -> None:
    wanted = Predicate.parse("portugal/weather/temp[20,30]")
    for text in ("portugal/weather/temp=24/wind=12", "portugal/weather/temp=31"):
        event = Predicate.parse(text)
        outcome = "matches" if wanted.matches(event) else "does not match"
        click.echo(f"{event} {outcome} {wanted}")
        click.echo(verdict_table(explain(wanted, event)))


def show_summary(_folder: Path, _stack: ExitStack) -> None:
    filters = FilterSet()
    wanted = ["surf/price[10,20]", "surf/price[20,30]", "surf/bali/price[12,13]", "portugal"]
    for key, text in enumerate(wanted):
        filters.add(key, text)
        click.echo(f"a subscriber wants    {text}")
    for predicate in filters.summary():
        click.echo(f"a relay keeps         {predicate}")


def show_speed(_folder: Path, _stack: ExitStack) -> None:
    from smartpubsub.bench.comparison import index_of
    from smartpubsub.bench.timing import rate
    from smartpubsub.bench.workloads import W1, events, subscriptions
    from smartpubsub.matching.native_engine import is_available

    wanted = list(subscriptions(W1, SUBSCRIPTION_COUNT, seed=1).predicates())
    carried = events(EVENT_COUNT, seed=1).predicates()
    click.echo(f"{SUBSCRIPTION_COUNT:,} subscriptions, one event at a time")
    brute = rate(lambda event: [p for p in wanted if p.matches(event)], carried[:5], tries=1)
    click.echo(f"{'brute force':<20}{1e6 / brute:>12,.1f} us")
    for engine in ("python", "native") if is_available() else ("python",):
        index = index_of(engine, wanted)
        speed = rate(index.match, carried)
        click.echo(f"{engine + ' engine':<20}{1e6 / speed:>12,.1f} us{speed / brute:>10,.0f} times")


def show_network(_folder: Path, _stack: ExitStack) -> None:
    from smartpubsub.cli.sim.text import result_text
    from smartpubsub.sim.experiments.experiment import Experiment
    from smartpubsub.sim.experiments.running import RunOptions
    from smartpubsub.sim.kernel.population import contact_of
    from smartpubsub.sim.studies.observed import completed
    from smartpubsub.workloads import ScenarioOptions, scenario

    options = RunOptions(protocol="scoutsubs", nodes=NODE_COUNT)
    keys = [contact_of(options.seed, number).key for number in range(NODE_COUNT)]
    faults = options.protocol_options.backups
    workload = scenario("fault", keys=keys, seed=1, options=ScenarioOptions(faults=faults))
    result = completed(Experiment(options, workload), "fault")
    click.echo(f"{faults} of {NODE_COUNT} simulated nodes crash, a rendezvous among them")
    click.echo(result_text(result))


def show_report(folder: Path, _stack: ExitStack) -> None:
    """Run commands as a user types them, with one start of Spark for all."""
    from smartpubsub.pipeline.sessions import SessionOptions, spark_session

    metrics = str(folder / "metrics")
    try:
        with spark_session(SessionOptions(settings=SHORT_LIVED)):
            _command("pipeline", "measure", str(folder / TRACE), "--out", metrics)
            title = f"{REAL_NODE_COUNT} real nodes, of which one crashes"
            _command("pipeline", "report", metrics, "--out", str(REPORT), "--title", title)
    except NoJavaError as error:
        click.echo(error)


def _command(*words: str) -> None:
    click.echo(f"$ smartpubsub {shlex.join(words)}")
    smartpubsub.main(words, standalone_mode=False)
    click.echo()


STEPS: list[tuple[str, Callable[[Path, ExitStack], None]]] = [
    ("Real nodes, one of which crashes", show_nodes),
    ("Does an event match?", show_match),
    ("Many subscriptions, few filters", show_summary),
    ("Which subscriptions does an event match?", show_speed),
    ("Simulated nodes crash, and nothing is lost", show_network),
    ("What works on this machine", show_machine),
    ("The run of the real nodes becomes a report", show_report),
]
