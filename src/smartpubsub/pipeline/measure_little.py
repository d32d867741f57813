"""The stage `measure` on little data, without Spark.

Spark takes seconds to plan the queries of `measure`, however few rows there are. The tables are the
same; a test compares them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from smartpubsub.pipeline.folders import MaybeSpark
from smartpubsub.pipeline.little_run import LittleRun, Row, TooManyError
from smartpubsub.pipeline.measure import remove_metrics
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.outputs import PARQUET, Output
from smartpubsub.pipeline.result_schemas import LATENCY_FIGURES, LOAD_FIGURES, RUNS
from smartpubsub.pipeline.schemas import Table
from smartpubsub.pipeline.traces import check_ends
from smartpubsub.protocols.publication import EventId
from smartpubsub.sim.judging.checkers.order import inversions

_TRAFFIC = ("sent", "received", "sent_bytes", "dropped")

Key = Callable[[Row], Any]


def measure_here(
    spark: MaybeSpark, rows: pa.Table, out: str, window_ms: int, output: Output = PARQUET
) -> int | None:
    """Write all tables; return the number of rows of the traces, or None if they need Spark."""
    read = rows.sort_by([("run", "ascending"), ("row", "ascending")])
    runs = {run: [*own] for run, own in groupby(read.to_pylist(), itemgetter("run"))}
    check_ends({run: sum(row["what"] == "end" for row in own) for run, own in runs.items()})
    tables: dict[str, list[Row]] = {table.name: [] for table in METRIC_TABLES}
    try:
        for name, own in runs.items():
            for kind, made in _tables(LittleRun(name, own), window_ms).items():
                tables[kind] += made
    except TooManyError:
        return None
    remove_metrics(spark, out, output)
    # The table of runs is the last: without it, the others count as incomplete.
    for table in reversed(METRIC_TABLES):
        made = _conforming(tables[table.name], table)
        output.write_rows(spark, made, f"{out}/{table.name}", table)
    return len(read)


def _conforming(rows: Sequence[Row], table: Table) -> pa.Table:
    """A table with all its columns; missing counts are zero."""
    schema = to_arrow_schema(table.schema, timezone="UTC")
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        nothing = None if column.is_nullable else 0
        values = [row.get(column.name, nothing) for row in rows]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, names=table.names)


def _tables(run: LittleRun, window_ms: int) -> dict[str, list[Row]]:
    subscribed, copies, loads = _subscribed(run), _copies(run), _loads(run, window_ms)
    events = _by_event(run, subscribed, copies)
    injected = [event for event in events if not event["is_refused"]]
    nodes = _by_node(run, injected, subscribed, copies, loads)
    return {
        "deliveries": run.deliveries,
        "subscribed": subscribed,
        "copies": copies,
        "loads": loads,
        "by_event": events,
        "by_node": nodes,
        "by_topic": _by_topic(run, injected, subscribed),
        "by_window": _by_window(run, injected, loads, window_ms),
        "runs": [_run(run, injected, subscribed, nodes)],
    }


def _subscribed(run: LittleRun) -> list[Row]:
    ordered = sorted(run.subscriptions, key=lambda each: (each.node, each.called_us, each.number))
    places: Counter[int] = Counter()
    rows = []
    for each in ordered:
        places[each.node] += 1
        in_force_us = each.in_force[0][0] if each.in_force else None
        rows.append(
            {
                "run": run.name,
                "node": each.node,
                "subscription": each.number,
                "predicate": each.predicate,
                "topic": run.topic_of(each.predicate),
                "called_us": each.called_us,
                "in_force_us": in_force_us,
                "latency_us": None if in_force_us is None else in_force_us - each.called_us,
                "place": places[each.node],
            }
        )
    return rows


def _copies(run: LittleRun) -> list[Row]:
    counted = Counter((row["event"], row["node"]) for row in run.rows("copy"))
    return [
        {"run": run.name, "event": event, "node": node, "copies": count}
        for (event, node), count in counted.items()
    ]


def _loads(run: LittleRun, window_ms: int) -> list[Row]:
    found: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    names = {"send": "sent", "receive": "received", "drop": "dropped"}
    for row in run.rows(*names):
        if row["at_us"] >= run.about["began_us"]:
            load = found[row["node"], _window(run, row["at_us"], window_ms)]
            load[names[row["what"]]] += 1
            if row["what"] == "send":
                load["sent_bytes"] += row["size"] or 0
    return [
        {"run": run.name, "node": node, "window": window, **_all(load, _TRAFFIC)}
        for (node, window), load in found.items()
    ]


def _window(run: LittleRun, at_us: int, window_ms: int) -> int:
    began_us: int = run.about["began_us"]
    return math.floor((at_us - began_us) / (window_ms * 1000))


def _by_event(run: LittleRun, subscribed: Sequence[Row], copies: Sequence[Row]) -> list[Row]:
    deliveries, copied = _grouped(run.deliveries, "event"), _grouped(copies, "event")
    return [
        {
            "run": run.name,
            "event": event.event,
            "publisher": event.publisher,
            "predicate": event.predicate,
            "topic": event.topic,
            "called_us": event.called_us,
            "acknowledged_us": event.acknowledged_us,
            "is_refused": event.is_refused,
            "payload_bytes": event.payload_bytes,
            "subscriptions": sum(each["called_us"] <= event.called_us for each in subscribed),
            **_copied(copied[event.event]),
            **_counted(deliveries[event.event]),
            **_latencies(deliveries[event.event]),
            **_hops(deliveries[event.event]),
        }
        for event in run.events
    ]


def _by_node(
    run: LittleRun,
    injected: Sequence[Row],
    subscribed: Sequence[Row],
    copies: Sequence[Row],
    loads: Sequence[Row],
) -> list[Row]:
    published, wanted = Counter(e["publisher"] for e in injected), _grouped(subscribed, "node")
    deliveries, copied = _grouped(run.deliveries, "node"), _grouped(copies, "node")
    traffic = _grouped(loads, "node")
    return [
        {
            "run": run.name,
            "node": node,
            **_sums(traffic[node], _TRAFFIC),
            **_copied(copied[node]),
            "injected": published[node],
            "subscriptions": len(wanted[node]),
            **_counted(deliveries[node]),
            **_latencies(deliveries[node]),
        }
        for node in range(run.about["nodes"])
    ]


def _by_topic(run: LittleRun, injected: Sequence[Row], subscribed: Sequence[Row]) -> list[Row]:
    published, wanted = _grouped(injected, "topic"), _grouped(subscribed, "topic")
    deliveries = _grouped(run.deliveries, "topic")
    return [
        {
            "run": run.name,
            "topic": topic,
            "injected": len(published[topic]),
            "subscriptions": len(wanted[topic]),
            "subscribers": len({each["node"] for each in wanted[topic]}),
            **_sums(published[topic], ("copies", "wire_duplicates")),
            **_counted(deliveries[topic]),
            **_latencies(deliveries[topic]),
        }
        for topic in {**published, **wanted}
    ]


def _by_window(
    run: LittleRun, injected: Sequence[Row], loads: Sequence[Row], window_ms: int
) -> list[Row]:
    def placed(rows: Iterable[Row], at: str) -> dict[int, list[Row]]:
        found: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            if row[at] is not None:
                found[_window(run, row[at], window_ms)].append(row)
        return found

    traffic, published = _grouped(loads, "window"), placed(injected, "called_us")
    owed = placed(run.deliveries, "called_us")
    arrived = placed(run.deliveries, "delivered_us")
    crashed, returned = (
        placed((row for row in run.rows("fault") if row["kind"] in kinds), "at_us")
        for kinds in (("crash", "leave"), ("restart",))
    )
    faults = {window for window in {**crashed, **returned} if window >= 0}
    return [
        {
            "run": run.name,
            "window": window,
            "start_ms": window * window_ms,
            **_sums(traffic[window], _TRAFFIC),
            "injected": len(published[window]),
            "arrived": len(arrived[window]),
            "crashed": len(crashed[window]),
            "returned": len(returned[window]),
            **_counted(owed[window]),
            **_latencies(owed[window]),
        }
        for window in {**traffic, **published, **owed, **arrived, **dict.fromkeys(faults)}
    ]


def _run(
    run: LittleRun, injected: Sequence[Row], subscribed: Sequence[Row], nodes: Sequence[Row]
) -> Row:
    about = run.about
    known = [row for row in run.deliveries if row["called_us"] is not None]
    hops = _hops(known)
    wanted = [row["latency_us"] for row in subscribed]
    return {
        **{name: about[name] for name in RUNS.names if name in about},
        "run": run.name,
        "injected": len(injected),
        "published": sum(row["acknowledged_us"] is not None for row in injected),
        **_counted(run.deliveries),
        **_latencies(known),
        **_spread(wanted, "subscription_latency_ms", LATENCY_FIGURES, divisor=1000),
        **hops,
        "messages": sum(row["sent"] for row in nodes),
        "bytes": sum(row["sent_bytes"] for row in nodes),
        "wire_duplicates": sum(row["wire_duplicates"] for row in nodes),
        **_spread([row["sent"] for row in nodes], "rpc_sent_per_node", LOAD_FIGURES),
        **_spread([row["received"] for row in nodes], "rpc_received_per_node", LOAD_FIGURES),
        "order_violations": _order_violations(run) if about["promises_order"] else None,
        "path_floor_ms_mean": (hops.get("hops_mean") or 0.0) * about["latency_us"] / 1000,
        "simulated_s": (run.ended_us - about["began_us"]) / 1e6,
    }


def _order_violations(run: LittleRun) -> int:
    """The pairs of a publisher's events that a subscription got in the wrong order."""
    unordered = {run.names.get(topic, topic) for topic in run.unordered}
    came: dict[tuple[int, str, str], dict[str, tuple[int, int]]] = defaultdict(dict)
    for row in run.deliveries:
        for one in row["got"] or ():
            if row["topic"] not in unordered:
                publisher, at = row["event"].split("-")[0], (one["at_us"], one["row"])
                for number in one["subscriptions"].split(","):
                    came[row["node"], number, publisher].setdefault(row["event"], at)
    return sum(
        inversions([_id(event) for event in sorted(arrived, key=arrived.__getitem__)])
        for arrived in came.values()
    )


def _id(event: str) -> EventId:
    _, start, number = event.split("-")
    return EventId(b"", int(start), int(number))


def _grouped(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[name]].append(row)
    return found


def _all(counted: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    return {name: counted.get(name, 0) for name in names}


def _sums(rows: Sequence[Row], names: Sequence[str]) -> dict[str, int]:
    return {name: sum(row[name] for row in rows) for name in names}


def _copied(rows: Sequence[Row]) -> dict[str, int]:
    copies = sum(row["copies"] for row in rows)
    return {"copies": copies, "wire_duplicates": copies - len(rows)}


def _counted(deliveries: Sequence[Row]) -> Row:
    expected = [row for row in deliveries if row["is_expected"]]
    came = [row for row in expected if row["delivered_us"] is not None]
    acknowledged = sum(row["is_published"] for row in expected)
    return {
        "expected": len(expected),
        "delivered": len(came),
        "missing": len(expected) - len(came),
        "unexpected": sum(row["is_unexpected"] for row in deliveries),
        "app_duplicates": sum(row["app_duplicates"] for row in deliveries),
        "coverage_injected": _share(len(came), len(expected)),
        "coverage_published": _share(sum(row["is_published"] for row in came), acknowledged),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _latencies(deliveries: Sequence[Row]) -> dict[str, float]:
    latencies = [row["latency_us"] for row in deliveries]
    return _spread(latencies, "latency_ms", LATENCY_FIGURES, divisor=1000)


def _hops(deliveries: Sequence[Row]) -> dict[str, float]:
    return _spread([row["hops"] for row in deliveries], "hops", ("mean", "max"))


def _spread(
    values: Sequence[int | None], prefix: str, figures: Sequence[str], *, divisor: int = 1
) -> dict[str, float]:
    """Figures of a distribution as `spreads.spread` computes them; none without values."""
    ordered = sorted(value for value in values if value is not None)
    return dict(_figures(ordered, prefix, figures, divisor)) if ordered else {}


def _figures(
    ordered: Sequence[int], prefix: str, figures: Sequence[str], divisor: int
) -> Iterator[tuple[str, float]]:
    total, plain = len(ordered), sum(ordered)
    for name in figures:
        match name:
            case "mean":
                figure = plain / divisor / total
            case "max":
                figure = ordered[-1] / divisor
            case "sd":
                squares = float(sum(value * value for value in ordered))
                variance = (squares * total - float(plain) * float(plain)) / (total * total)
                figure = math.sqrt(max(variance, 0.0)) / divisor
            case _:
                share = int(name.removeprefix("p"))
                figure = ordered[-(-total * share // 100) - 1] / divisor
        yield f"{prefix}_{name}", figure
