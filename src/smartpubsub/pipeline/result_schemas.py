"""The tables of results: of a campaign, and of `measure`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType

from smartpubsub.pipeline.schemas import Column, Table
from smartpubsub.sim.judging.checkers.suite import CHECKS

LATENCY_FIGURES = ("mean", "p50", "p95", "p99", "max")
WITHIN_FIGURES = ("p50", "p95", "p99", "p999", "max")
LOAD_FIGURES = ("mean", "sd", "p95", "p99")

_LONG, _DOUBLE, _STRING = LongType(), DoubleType(), StringType()


def _figures(name: str, about: str, figures: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(f"{name}_{figure}", _DOUBLE, f"{about}: {figure}") for figure in figures)


RUN = Column("run", _STRING, "the run's name")
_ABOUT = (
    RUN,
    Column("protocol", _STRING, "the protocol of the nodes"),
    Column("variant", _STRING, "its variant", is_nullable=True),
    Column("scenario", _STRING, "the scenario"),
    Column("nodes", _LONG, "the number of nodes"),
    Column("seed", _LONG, "the seed of the world"),
    Column("backups", _LONG, "the number of backups, f"),
)
_COUNTED = (
    Column("injected", _LONG, "publish calls that were accepted"),
    Column("published", _LONG, "publish calls that were acknowledged"),
    Column("expected", _LONG, "expected pairs of an event and a node"),
    Column("delivered", _LONG, "expected pairs that were delivered"),
    Column("missing", _LONG, "expected pairs that were not delivered"),
    Column("unexpected", _LONG, "delivered pairs that no subscription of the node matches"),
    Column("app_duplicates", _LONG, "events delivered twice to a subscription"),
    Column("wire_duplicates", _LONG, "copies that reached a node which already had one"),
    Column("coverage_injected", _DOUBLE, "delivered over expected"),
    Column("coverage_published", _DOUBLE, "the same, of acknowledged events"),
    Column("order_violations", _LONG, "pairs of events in the wrong order", is_nullable=True),
)
_LATENCIES = (
    *_figures("latency_ms", "from publish to the first delivery to a node", LATENCY_FIGURES),
    *_figures("subscription_latency_ms", "from subscribe to in force", LATENCY_FIGURES),
    Column(
        "path_floor_ms_mean",
        _DOUBLE,
        "the part of the latency that the links account for",
        is_nullable=True,
    ),
    *_figures("hops", "links from the publisher to a node", ("mean", "max")),
)
_TRAFFIC = (
    Column("messages", _LONG, "messages sent since the overlay was complete"),
    Column("bytes", _LONG, "bytes of them"),
    *_figures("rpc_sent_per_node", "messages that a node sent", LOAD_FIGURES),
    *_figures("rpc_received_per_node", "messages that a node received", LOAD_FIGURES),
)
_PER_EVENT = ("mean", "max")
_SIMULATED = Column("simulated_s", _DOUBLE, "the simulated time of the run")

RUNS = Table(
    name="runs",
    about="the metrics of each run, with the names of the run's own result",
    columns=(*_ABOUT, *_COUNTED, *_LATENCIES, *_TRAFFIC, _SIMULATED),
)
RESULTS = Table(
    name="results",
    about="the results of a campaign; one file per run",
    columns=(
        *RUNS.columns,
        Column("experiment", _STRING, "the experiment of the plan"),
        Column("link_latency_ms", _DOUBLE, "the latency of a link"),
        Column("link_jitter_ms", _DOUBLE, "the maximum random addition to the latency"),
        Column("link_loss", _DOUBLE, "the share of lost messages"),
        Column("link_bandwidth_bytes", _LONG, "the bytes that a node can send per second"),
        Column("ordered", BooleanType(), "whether topics are ordered"),
        Column("faults", _LONG, "the number of nodes that crashed and did not return"),
        Column("pace_ms", _DOUBLE, "the interval between events, if chosen to fit the network"),
        *_figures("publisher_sends_per_event", "copies sent by the publisher", _PER_EVENT),
        *_figures("region_crossings_per_event", "copies from another region", _PER_EVENT),
        *_figures("publish_ms", "from publish to its acknowledgement", ("p50", "p99", "max")),
        *(
            Column(
                f"delivered_within_ms_{figure}",
                _DOUBLE,
                f"the time within which so many expected deliveries came: {figure}",
                is_nullable=True,
            )
            for figure in WITHIN_FIGURES
        ),
        Column("adversary", _STRING, "the nodes that lie; empty if none do"),
        Column("convicted_honest", _LONG, "honest nodes that were convicted"),
        *(
            Column(f"judged_{name}", _LONG, f"cases that the checker {name} judged")
            for name in CHECKS
        ),
        Column("violations", _LONG, "the number of violations"),
        Column("first_violation", _STRING, "the first violation", is_nullable=True),
        Column("trace_digest", _STRING, "the digest of the trace"),
        Column("wall_s", _DOUBLE, "the real time of the run"),
        Column("cpu_s", _DOUBLE, "the processor time of the run"),
        Column("peak_rss_mb", _DOUBLE, "the peak memory of its process"),
        Column("command", _STRING, "the command that repeats it"),
    ),
)
MANIFEST = Table(
    name="manifest",
    about="the state of every run of a plan",
    columns=(
        RUN,
        Column("experiment", _STRING, "the experiment of the plan"),
        Column("state", _STRING, "done, kept from an earlier start, or failed"),
        Column("error", _STRING, "why it failed", is_nullable=True),
        Column("seconds", _DOUBLE, "the duration of this execution"),
        Column("command", _STRING, "the command that repeats it"),
    ),
)

CAMPAIGN_TABLES = (RESULTS, MANIFEST)
"""The tables of a campaign."""


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
