"""smartpubsub demo."""

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from smartpubsub.bench.comparison import index_of
from smartpubsub.bench.timing import rate
from smartpubsub.bench.workloads import W1, events, subscriptions
from smartpubsub.cli.commands import smartpubsub
from smartpubsub.cli.doctor import table as machine_table
from smartpubsub.cli.explain import table as verdict_table
from smartpubsub.cli.health import run_checks
from smartpubsub.cli.sim.text import result_text
from smartpubsub.matching import FilterSet
from smartpubsub.matching.native_engine import is_available
from smartpubsub.pipeline.java import NoJavaError
from smartpubsub.predicates import Predicate, explain
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging.result import run
from smartpubsub.sim.kernel.population import contact_of
from smartpubsub.workloads import ScenarioOptions, scenario

SUBSCRIPTION_COUNT = 20_000
EVENT_COUNT = 200
NODE_COUNT = 60
REAL_NODE_COUNT = 12
REPORT = Path("smartpubsub-demo")
"""The folder that the report is left in."""
REAL_EVENT_COUNT = 30
SHORT_LIVED = (
    ("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"),
    ("spark.sql.adaptive.enabled", "false"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.shuffle.partitions", "1"),
)
"""For a Spark session of one minute, in which compiling and re-planning do not pay."""


@click.command()
def demo() -> None:
    """Show what SmartPubSub does.

    Takes one to two minutes and leaves a report in the folder smartpubsub-demo.

    \b
    Example:
      smartpubsub demo
    """
    for number, (title, step) in enumerate(STEPS, start=1):
        click.echo(f"{number}. {title}\n")
        step()
        click.echo()


def show_machine() -> None:
    click.echo(machine_table(list(run_checks())))


def show_match() -> None:
    wanted = Predicate.parse("portugal/weather/temp[20,30]")
    for text in ("portugal/weather/temp=24/wind=12", "portugal/weather/temp=31"):
        event = Predicate.parse(text)
        outcome = "matches" if wanted.matches(event) else "does not match"
        click.echo(f"{event} {outcome} {wanted}")
        click.echo(verdict_table(explain(wanted, event)))


def show_summary() -> None:
    filters = FilterSet()
    wishes = ["surf/price[10,20]", "surf/price[20,30]", "surf/bali/price[12,13]", "portugal"]
    for key, wish in enumerate(wishes):
        filters.add(key, wish)
        click.echo(f"a subscriber wants    {wish}")
    for predicate in filters.summary():
        click.echo(f"a relay keeps         {predicate}")


def show_speed() -> None:
    wanted = list(subscriptions(W1, SUBSCRIPTION_COUNT, seed=1).predicates())
    carried = events(EVENT_COUNT, seed=1).predicates()
    click.echo(f"{SUBSCRIPTION_COUNT:,} subscriptions, one event at a time")
    brute = rate(lambda event: [p for p in wanted if p.matches(event)], carried[:5], tries=1)
    click.echo(f"{'brute force':<20}{1e6 / brute:>12,.1f} us")
    for engine in ("python", "native") if is_available() else ("python",):
        index = index_of(engine, wanted)
        speed = rate(index.match, carried)
        click.echo(f"{engine + ' engine':<20}{1e6 / speed:>12,.1f} us{speed / brute:>10,.0f} times")


def show_network() -> None:
    options = RunOptions(protocol="scoutsubs", nodes=NODE_COUNT)
    keys = [contact_of(options.seed, number).key for number in range(NODE_COUNT)]
    faults = options.protocol_options.backups
    workload = scenario("fault", keys=keys, seed=1, options=ScenarioOptions(faults=faults))
    result = run(Experiment(options, workload), "fault")
    click.echo(f"{faults} of {NODE_COUNT} simulated nodes crash, a rendezvous among them")
    click.echo(result_text(result))


def show_nodes() -> None:
    try:
        from smartpubsub.client.embedded import SyncNode
    except ModuleNotFoundError as error:
        click.echo(f"nodes need {error.name}; install it with: pip install 'smartpubsub[node]'")
        return
    wish, event = "portugal/weather/temp[20,30]", "portugal/lisbon/weather/temp=24"
    with TemporaryDirectory() as folder, ExitStack() as stack:

        def node(name: str, *bootstrap: str) -> SyncNode:
            data, listen = Path(folder, name), ["/ip4/127.0.0.1/tcp/0"]
            return stack.enter_context(SyncNode(data=data, listen=listen, bootstrap=bootstrap))

        first = node("first")
        others = [node(f"other-{number}", *first.addresses) for number in range(3)]
        for number, other in enumerate([first, *others], 1):
            click.echo(f"node {number} listens at  {other.addresses[0]}")
        events = stack.enter_context(others[0].subscribe(wish))
        click.echo(f"node 2 wants        {wish}")
        others[2].publish(event, b"sunny", wait="all")
        click.echo(f"node 4 publishes    {event}")
        got = events.get(timeout_s=10)
        click.echo(f"node 2 gets         {got.predicate}, {got.payload.decode()}, {got.hops} hops")


def show_report() -> None:
    """Commands as a user types them; Spark is started once for all of them."""
    with TemporaryDirectory() as folder:
        trace, metrics = f"{folder}/demo", f"{folder}/metrics"
        what = f"--scenario fault --nodes {REAL_NODE_COUNT} --events {REAL_EVENT_COUNT}"
        words = f"testbed run --protocol scoutsubs {what} --no-simulate --trace"
        _command(*words.split(), trace)
        try:
            from smartpubsub.pipeline.session import SessionOptions, spark_session

            with spark_session(SessionOptions(settings=SHORT_LIVED)):
                _command("pipeline", "measure", trace, "--out", metrics)
                title = f"{REAL_NODE_COUNT} real nodes, of which some crash"
                report = ["pipeline", "report", metrics, "--out", str(REPORT)]
                _command(*report, "--title", title)
        except ModuleNotFoundError as error:
            remedy = "pip install 'smartpubsub[pipeline]'"
            click.echo(f"the pipeline needs {error.name}; install it with: {remedy}")
        except NoJavaError as error:
            click.echo(error)


def _command(*words: str) -> None:
    click.echo(f"$ smartpubsub {shlex.join(words)}")
    smartpubsub.main(words, standalone_mode=False)
    click.echo()


STEPS: list[tuple[str, Callable[[], None]]] = [
    ("What works on this machine", show_machine),
    ("Does an event match?", show_match),
    ("Many subscriptions, few filters", show_summary),
    ("Which subscriptions does an event match?", show_speed),
    ("Nodes crash, and nothing is lost", show_network),
    ("Real nodes on real connections", show_nodes),
    ("Real nodes crash, and the run becomes a report", show_report),
]
