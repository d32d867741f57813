"""The stage `workload`: assigns publishers to events, and subscriptions to nodes.

Nodes are `n1`, `n2` and so on. First all nodes subscribe, then events are published in the order of
their time, at a constant pace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from smartpubsub.pipeline.columns import written
from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.schemas import EVENTS, NODES, SUBSCRIPTIONS

PACE_US = 10_000
SUBSCRIPTIONS_PER_NODE = 2
_SUBSCRIBING, _PUBLISHING = 0, 1


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The options of the nodes of a workload."""

    nodes: int
    pace_us: int = PACE_US
    """The interval between events."""
    subscriptions_per_node: int = SUBSCRIPTIONS_PER_NODE
    """The average number of subscriptions per node, if they are drawn."""
    seed: int = 1
    """The seed of the draws."""

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise PipelineError(f"a workload has at least one node, not {self.nodes}")


class Assigned(NamedTuple):
    """The tables of a workload."""

    events: DataFrame
    subscriptions: DataFrame
    nodes: DataFrame


def publishable(records: DataFrame) -> DataFrame:
    """The records that have a topic or a number; no subscription could match the others."""
    return records.where((sf.size("topics") > 0) | (sf.size("ranges") > 0))


def from_data(records: DataFrame, chosen: Assignment) -> Assigned:
    """Assign authors to nodes; a node subscribes to every topic that it publishes in.

    The most active authors come first, one to each node in turn.
    """
    # Records without an author are distributed as if each node had one such author.
    unknown = sf.concat(sf.lit("nobody "), sf.pmod("event_id", sf.lit(chosen.nodes)).cast("string"))
    writer = sf.coalesce("author", unknown)
    by_activity = Window.orderBy(sf.desc("count"), "writer")
    turn = (sf.row_number().over(by_activity) - 1) % chosen.nodes
    written_by = records.withColumn("writer", writer)
    homes = written_by.groupBy("writer").count().select("writer", turn.alias("number"))
    placed = written_by.join(homes, "writer").withColumn("node", _name(sf.col("number")))
    topics = placed.select("node", sf.explode("topics").alias("topic")).distinct()
    return _workload(placed, topics, chosen)


def by_power_law(records: DataFrame, chosen: Assignment) -> Assigned:
    """Few nodes publish and subscribe most, and most subscriptions are to few topics.

    Of n, the k-th has a share of log(1 + 1/k) / log(1 + n): Zipf's law, but for the first few.
    """
    publisher = _rank(sf.col("event_id"), chosen.nodes, chosen.seed, "publisher")
    placed = records.withColumn("node", _name(publisher - 1))
    by_events = Window.orderBy(sf.desc("count"), "topic")
    ranked = (
        records.select(sf.explode("topics").alias("topic"))
        .groupBy("topic")
        .count()
        .select("topic", sf.row_number().over(by_events).alias("rank"))
    )
    topic_count = ranked.count()
    draws = records.sparkSession.range(chosen.nodes * chosen.subscriptions_per_node)
    drawn = draws.select(
        "id",
        _name(_rank(sf.col("id"), chosen.nodes, chosen.seed, "subscriber") - 1).alias("node"),
        _rank(sf.col("id"), topic_count, chosen.seed, "topic").alias("rank"),
    )
    return _workload(placed, drawn.join(ranked, "rank").select("node", "topic"), chosen)


def from_tables(
    records: DataFrame, publishers: DataFrame, subscriptions: DataFrame, chosen: Assignment
) -> Assigned:
    """Take publishers and subscribers from tables; every author must have a node."""
    homes = publishers.select("author", "node").distinct()
    with plain_errors():
        doubled = homes.groupBy("author").count().where("count > 1").select("author").first()
    if doubled is not None:  # Each node would publish the events.
        raise PipelineError(
            f"the author {doubled['author']!r} has several nodes in the table of publishers; keep"
            " one of them"
        )
    placed = records.join(homes, "author", "left").select(records["*"], homes["node"])
    with plain_errors():
        homeless = placed.where(sf.col("node").isNull()).select("author").first()
    if homeless is not None:
        raise PipelineError(
            f"the author {homeless['author']!r} has no node in the table of publishers; add it"
        )
    order = Window.orderBy("node", "predicate", sf.to_json("topics"), sf.to_json("ranges"))
    number = sf.row_number().over(order).cast("long") - 1
    wanted = subscriptions.withColumn("number", number)
    names = homes.select("node").union(subscriptions.select("node")).distinct()
    by_name = Window.orderBy("node")
    nodes = names.select((sf.row_number().over(by_name) - 1).cast("long").alias("number"), "node")
    return _placed(placed, wanted, nodes, chosen)


def _workload(placed: DataFrame, topics: DataFrame, chosen: Assignment) -> Assigned:
    spark: SparkSession = placed.sparkSession
    number = sf.row_number().over(Window.orderBy("node", "topic")).cast("long") - 1
    wanted = topics.select(
        number.alias("number"),
        "node",
        sf.lit(None).cast("string").alias("predicate"),
        sf.array("topic").alias("topics"),
        sf.array().cast(EVENTS.column("ranges").type).alias("ranges"),
    )
    names = spark.range(chosen.nodes).select(
        sf.col("id").alias("number"), _name(sf.col("id")).alias("node")
    )
    return _placed(placed, wanted, names, chosen)


def _placed(placed: DataFrame, wanted: DataFrame, nodes: DataFrame, chosen: Assignment) -> Assigned:
    subscriptions = wanted.select(
        sf.col("number").alias("subscription_id"),
        "*",
        sf.col("number").alias("place"),
        sf.lit(_SUBSCRIBING).alias("phase"),
        sf.lit(0).cast("long").alias("at_us"),
    )
    with plain_errors():
        before = subscriptions.count()
    turn = sf.row_number().over(Window.orderBy("time", "event_id")).cast("long") - 1
    events = placed.withColumn("turn", turn).select(
        "event_id",
        "node",
        sf.lit(None).cast("string").alias("predicate"),
        "topics",
        "ranges",
        "payload",
        (sf.col("turn") + before).alias("place"),
        sf.lit(_PUBLISHING).alias("phase"),
        (sf.col("turn") * chosen.pace_us).alias("at_us"),
    )
    return Assigned(
        written(events.select(*EVENTS.names), EVENTS),
        written(subscriptions.select(*SUBSCRIPTIONS.names), SUBSCRIPTIONS),
        nodes.select(*NODES.names),
    )


def _name(number: Column) -> Column:
    return sf.concat(sf.lit("n"), (number + 1).cast("string"))


def _rank(key: Column, count: int, seed: int, purpose: str) -> Column:
    """A rank from 1 to `count`, drawn by a hash so that it is the same on any cluster."""
    drawn = sf.xxhash64(sf.lit(seed), sf.lit(purpose), key).bitwiseAND((1 << 52) - 1)
    share = drawn / sf.lit(float(1 << 52))
    rank = sf.floor(sf.exp(share * sf.log(sf.lit(float(count + 1)))))
    return sf.least(sf.greatest(rank, sf.lit(1)), sf.lit(count)).cast("long")
