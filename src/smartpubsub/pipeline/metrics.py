"""Metrics from the tables of deliveries, copies and loads: by run, node, topic, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from smartpubsub.pipeline.delivery_order import order_violations
from smartpubsub.pipeline.distributions import spread
from smartpubsub.pipeline.metric_schemas import NODES, PUBLISHED, TOPICS, WINDOWS
from smartpubsub.pipeline.result_schemas import LATENCY_FIGURES, LOAD_FIGURES, RUNS
from smartpubsub.pipeline.schemas import Table

Tables = Mapping[str, DataFrame]

_COVERAGES = ("coverage_injected", "coverage_published")
_TRAFFIC = ("sent", "received", "sent_bytes", "dropped")


def published_metrics(events: DataFrame, made: Tables) -> DataFrame:
    """Every event."""
    keys = ["run", "event"]
    joined = _joined(
        events.join(_subscriptions_by_then(events, made["subscribed"]), keys, "left"),
        keys,
        _counted(made["deliveries"], keys),
        _latencies(made["deliveries"], keys),
        _hops(made["deliveries"], keys),
        _copies(made["copies"], keys),
    )
    return _conforming(joined, PUBLISHED)


def node_metrics(about: DataFrame, made: Tables) -> DataFrame:
    """Every node, even if idle."""
    keys = ["run", "node"]
    nodes = about.select("run", sf.explode(sf.expr("sequence(0L, nodes - 1)")).alias("node"))
    injected = made["by_event"].where("not is_refused")
    joined = _joined(
        nodes,
        keys,
        _traffic(made["loads"], keys),
        _copies(made["copies"], keys),
        _number_of(injected.withColumnRenamed("publisher", "node"), keys, "injected"),
        _number_of(made["subscribed"], keys, "subscriptions"),
        _counted(made["deliveries"], keys),
        _latencies(made["deliveries"], keys),
    )
    return _conforming(joined, NODES)


def topic_metrics(made: Tables) -> DataFrame:
    """Every topic with events or subscriptions."""
    keys = ["run", "topic"]
    injected = made["by_event"].where("not is_refused")
    subscribed = (
        made["subscribed"]
        .groupBy(*keys)
        .agg(sf.count("*").alias("subscriptions"), sf.count_distinct("node").alias("subscribers"))
    )
    topics = injected.select(*keys).union(made["subscribed"].select(*keys)).distinct()
    copies = injected.groupBy(*keys).agg(
        sf.sum("copies").alias("copies"), sf.sum("wire_duplicates").alias("wire_duplicates")
    )
    joined = _joined(
        topics,
        keys,
        _number_of(injected, keys, "injected"),
        subscribed,
        copies,
        _counted(made["deliveries"], keys),
        _latencies(made["deliveries"], keys),
    )
    return _conforming(joined, TOPICS)


def window_metrics(about: DataFrame, fault: DataFrame, made: Tables, window_ms: int) -> DataFrame:
    """Every time window in which something happened."""
    keys = ["run", "window"]

    def placed(frame: DataFrame, at: str) -> DataFrame:
        window = sf.floor((sf.col(at) - sf.col("began_us")) / (window_ms * 1000))
        return frame.join(about.select("run", "began_us"), "run").withColumn("window", window)

    injected = placed(made["by_event"].where("not is_refused"), "called_us")
    owed = placed(made["deliveries"].where("called_us is not null"), "called_us")
    arrived = placed(made["deliveries"].where("delivered_us is not null"), "delivered_us")

    def struck(times: str) -> DataFrame:
        each = fault.select("run", sf.explode(times).alias("at_us"))
        return placed(each, "at_us").where("window >= 0")

    parts = (
        _traffic(made["loads"], keys),
        _number_of(injected, keys, "injected"),
        _number_of(arrived, keys, "arrived"),
        _number_of(struck("crashes"), keys, "crashed"),
        _number_of(struck("restarts"), keys, "returned"),
        _counted(owed, keys),
        _latencies(owed, keys),
    )
    windows = parts[0].select(*keys)
    for part in parts[1:]:
        windows = windows.union(part.select(*keys))
    joined = _joined(windows.distinct(), keys, *parts)
    return _conforming(joined.withColumn("start_ms", sf.col("window") * window_ms), WINDOWS)


def run_metrics(about: DataFrame, made: Tables) -> DataFrame:
    """Every run, with the names of its own result."""
    keys = ["run"]
    known = made["deliveries"].where("called_us is not null")
    subscribed, nodes = made["subscribed"], made["by_node"]
    published = (
        made["by_event"]
        .where("not is_refused")
        .groupBy("run")
        .agg(
            sf.count("*").alias("injected"),
            sf.count("acknowledged_us").alias("published"),
        )
    )
    traffic = nodes.groupBy("run").agg(
        sf.sum("sent").alias("messages"),
        sf.sum("sent_bytes").alias("bytes"),
        sf.sum("wire_duplicates").alias("wire_duplicates"),
    )
    wanted = spread(
        subscribed, keys, "latency_us", "subscription_latency_ms", LATENCY_FIGURES, divisor=1000
    )
    joined = _joined(
        about,
        keys,
        published,
        _counted(made["deliveries"], keys),
        _latencies(known, keys),
        wanted,
        _hops(known, keys),
        traffic,
        spread(nodes, keys, "sent", "rpc_sent_per_node", LOAD_FIGURES),
        spread(nodes, keys, "received", "rpc_received_per_node", LOAD_FIGURES),
        order_violations(made["deliveries"], about),
    )
    wrong = sf.coalesce("order_violations", sf.lit(0))
    floor = sf.coalesce("hops_mean", sf.lit(0.0)) * sf.col("latency_us") / 1000
    return _conforming(
        joined.withColumn("order_violations", sf.when(sf.col("promises_order"), wrong))
        .withColumn("path_floor_ms_mean", floor)
        .withColumn("simulated_s", (sf.col("ended_us") - sf.col("began_us")) / 1e6),
        RUNS,
    )


def _counted(deliveries: DataFrame, keys: Sequence[str]) -> DataFrame:
    expected, came = sf.col("is_expected"), sf.col("delivered_us").isNotNull()
    acknowledged = expected & sf.col("is_published")
    return deliveries.groupBy(*keys).agg(
        sf.count_if(expected).alias("expected"),
        sf.count_if(expected & came).alias("delivered"),
        sf.count_if(expected & ~came).alias("missing"),
        sf.count_if("is_unexpected").alias("unexpected"),
        sf.sum("app_duplicates").alias("app_duplicates"),
        _share(sf.count_if(expected & came), sf.count_if(expected)).alias("coverage_injected"),
        _share(sf.count_if(acknowledged & came), sf.count_if(acknowledged)).alias(
            "coverage_published"
        ),
    )


def _share(part: Column, whole: Column) -> Column:
    return sf.when(whole == 0, 1.0).otherwise(sf.try_divide(part, whole))


def _latencies(deliveries: DataFrame, keys: Sequence[str]) -> DataFrame:
    return spread(deliveries, keys, "latency_us", "latency_ms", LATENCY_FIGURES, divisor=1000)


def _hops(deliveries: DataFrame, keys: Sequence[str]) -> DataFrame:
    return spread(deliveries, keys, "hops", "hops", ("mean", "max"))


def _traffic(loads: DataFrame, keys: Sequence[str]) -> DataFrame:
    return loads.groupBy(*keys).agg(*(sf.sum(name).alias(name) for name in _TRAFFIC))


def _copies(copies: DataFrame, keys: Sequence[str]) -> DataFrame:
    return copies.groupBy(*keys).agg(
        sf.sum("copies").alias("copies"), sf.sum(sf.col("copies") - 1).alias("wire_duplicates")
    )


def _number_of(frame: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    return frame.groupBy(*keys).agg(sf.count("*").alias(name))


def _subscriptions_by_then(events: DataFrame, subscribed: DataFrame) -> DataFrame:
    """By event, the number of subscriptions when it was published."""
    at = sf.col("called_us").alias("at_us")
    both = events.select("run", "event", at).union(
        subscribed.select("run", sf.lit(None).cast("string"), at)
    )
    before = Window.partitionBy("run").orderBy("at_us", sf.col("event").asc_nulls_first())
    made = sf.sum(sf.col("event").isNull().cast("bigint")).over(before)
    return both.withColumn("subscriptions", made).where("event is not null").drop("at_us")


def _joined(frame: DataFrame, keys: Sequence[str], *others: DataFrame) -> DataFrame:
    for other in others:
        frame = frame.join(other, list(keys), "left")
    return frame


def _conforming(frame: DataFrame, table: Table) -> DataFrame:
    """The table's columns; missing counts are zero, and coverage without expectations is 1."""

    def column(name: str) -> Column:
        if table.column(name).is_nullable:
            return sf.col(name)
        nothing = 1 if name in _COVERAGES else 0
        kind = table.column(name).type
        if kind.simpleString() in ("bigint", "double"):
            return sf.coalesce(name, sf.lit(nothing).cast(kind)).cast(kind).alias(name)
        return sf.col(name)

    return frame.select(*map(column, table.names))
