"""The tables of results: what a campaign writes, and what is measured from traces."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType

from smartpubsub.pipeline.schemas import Column, Table

LATENCY_FIGURES = ("mean", "p50", "p95", "p99", "max")
LOAD_FIGURES = ("mean", "sd", "p95", "p99")

_LONG, _DOUBLE, _STRING = LongType(), DoubleType(), StringType()


def _figures(name: str, about: str, figures: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(f"{name}_{figure}", _DOUBLE, f"{about}: {figure}") for figure in figures)


RUN = Column("run", _STRING, "the run's name")
_ABOUT = (
    RUN,
    Column("protocol", _STRING, "what the nodes ran"),
    Column("variant", _STRING, "which variant of it", is_nullable=True),
    Column("scenario", _STRING, "what happened"),
    Column("nodes", _LONG, "how many nodes there were"),
    Column("seed", _LONG, "the seed of the world"),
    Column("backups", _LONG, "how many nodes keep a copy of what another knows"),
)
_COUNTED = (
    Column("injected", _LONG, "calls of publish that were taken"),
    Column("published", _LONG, "those that were acknowledged"),
    Column("expected", _LONG, "pairs of an event and a node that was owed it"),
    Column("delivered", _LONG, "those that came"),
    Column("missing", _LONG, "those that did not"),
    Column("unexpected", _LONG, "pairs that no subscription of the node matches"),
    Column("app_duplicates", _LONG, "events that came twice to a subscription"),
    Column("wire_duplicates", _LONG, "copies that came to a node which had one"),
    Column("coverage_injected", _DOUBLE, "delivered over expected"),
    Column("coverage_published", _DOUBLE, "the same, of acknowledged events"),
    Column("order_violations", _LONG, "pairs of events in the other order", is_nullable=True),
)
_LATENCIES = (
    *_figures("latency_ms", "from publish to the first delivery to a node", LATENCY_FIGURES),
    *_figures("subscription_latency_ms", "from subscribe to in force", LATENCY_FIGURES),
    Column("path_floor_ms_mean", _DOUBLE, "what links alone would take", is_nullable=True),
    *_figures("hops", "links from the publisher to a node", ("mean", "max")),
)
_TRAFFIC = (
    Column("messages", _LONG, "messages sent once the overlay stood"),
    Column("bytes", _LONG, "bytes of them"),
    *_figures("rpc_sent_per_node", "messages that a node sent", LOAD_FIGURES),
    *_figures("rpc_received_per_node", "messages that a node received", LOAD_FIGURES),
)
_PER_EVENT = ("mean", "max")
_SIMULATED = Column("simulated_s", _DOUBLE, "how much time passed in the run")

RUNS = Table(
    name="runs",
    about="what `measure` counts of each run, in the words of the run's own result",
    columns=(*_ABOUT, *_COUNTED, *_LATENCIES, *_TRAFFIC, _SIMULATED),
)
RESULTS = Table(
    name="results",
    about="what a campaign's runs came to; one file for each run",
    columns=(
        *RUNS.columns,
        Column("experiment", _STRING, "the part of the plan that asked for it"),
        Column("link_latency_ms", _DOUBLE, "how long a message travels"),
        Column("link_jitter_ms", _DOUBLE, "the most that chance adds"),
        Column("link_loss", _DOUBLE, "the share of messages that get lost"),
        Column("link_bandwidth_bytes", _LONG, "what a node can send in a second"),
        Column("ordered", BooleanType(), "whether topics keep the order of their events"),
        Column("faults", _LONG, "how many nodes crashed for good"),
        Column("pace_ms", _DOUBLE, "the time between events, if it was chosen for the network"),
        *_figures("publisher_sends_per_event", "copies from its publisher itself", _PER_EVENT),
        *_figures("region_crossings_per_event", "copies from another region", _PER_EVENT),
        Column("violations", _LONG, "how often something happened that must not"),
        Column("first_violation", _STRING, "the first of them", is_nullable=True),
        Column("trace_digest", _STRING, "the digest of all that happened"),
        Column("wall_s", _DOUBLE, "how long the run took"),
        Column("cpu_s", _DOUBLE, "how much of a processor it took"),
        Column("peak_rss_mb", _DOUBLE, "the most memory that its process has had"),
        Column("command", _STRING, "what repeats it"),
    ),
)
MANIFEST = Table(
    name="manifest",
    about="what became of every run of a plan",
    columns=(
        RUN,
        Column("experiment", _STRING, "the part of the plan that asked for it"),
        Column("state", _STRING, "done, kept from an earlier start, or failed"),
        Column("error", _STRING, "why it failed", is_nullable=True),
        Column("seconds", _DOUBLE, "how long it took this time"),
        Column("command", _STRING, "what repeats it"),
    ),
)

CAMPAIGN_TABLES = (RESULTS, MANIFEST)
"""What a campaign writes."""


def flattened(document: Mapping[str, object]) -> dict[str, object]:
    """A result with nested figures under one name each.

    >>> flattened({"hops": {"mean": 2, "max": 3}, "seed": 1})
    {'hops_mean': 2, 'hops_max': 3, 'seed': 1}
    """
    flat: dict[str, object] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}_{inner}": figure for inner, figure in value.items()}
        else:
            flat[name] = value
    return flat
