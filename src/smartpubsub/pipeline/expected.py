"""Expected, actual and unexpected deliveries."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from smartpubsub.pipeline.match import matches
from smartpubsub.sim.judging.oracle import UNDER_WAY_US


def meetings(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Every pair of an event's predicate and a subscription's predicate that matches it.

    Runs repeat their predicates many times; each pair is found once.
    """

    def written(frame: DataFrame, key: str) -> DataFrame:
        nothing = sf.lit(None)
        distinct = frame.select("predicate").distinct()
        return distinct.select(
            sf.xxhash64("predicate").alias(key),
            "predicate",
            nothing.cast("array<string>").alias("topics"),
            nothing.cast("array<struct<name:string,lo:double,hi:double>>").alias("ranges"),
        )

    said, wanted = written(events, "event_id"), written(subscriptions, "subscription_id")
    return (
        matches(said, wanted)
        .join(said.select("event_id", sf.col("predicate").alias("said")), "event_id")
        .join(
            wanted.select("subscription_id", sf.col("predicate").alias("wanted")),
            "subscription_id",
        )
        .select("said", "wanted")
    )


def pairs(
    events: DataFrame,
    subscriptions: DataFrame,
    deliveries: DataFrame,
    fault: DataFrame,
    about: DataFrame,
) -> DataFrame:
    """By run, event and node: whether the delivery was expected, when it happened, if it matched.

    A delivery is expected if a subscription of the node was in force when publish was called and
    the event was acknowledged or its publisher stayed up, unless the node crashed for good. A node
    that unsubscribes soon after gives up events in flight, and an event published on one side of a
    partition is expected on that side.
    """
    matching = _matching_subscriptions(events, subscriptions)
    got = sf.col("got").isNotNull()
    is_owed = sf.col("is_held") | (sf.col("is_given_up") & got)
    is_gone = sf.coalesce(sf.size("crashes") > sf.size("restarts"), sf.lit(False))
    first = sf.col("got")[0]
    is_welcome = sf.expr(
        "forall(got, one -> exists(matching, subscription -> subscription.called_us <= one.at_us"
        " and (subscription.ended_us is null or one.at_us <= subscription.ended_us)))"
    )
    said = events.select(
        "run",
        "event",
        "topic",
        "publisher",
        "called_us",
        "is_owed",
        "publisher_cuts",
        sf.col("acknowledged_us").isNotNull().alias("is_published"),
    )
    return (
        matching.join(deliveries, ["run", "event", "node"], "full_outer")
        .join(said, ["run", "event"], "left")
        .join(fault, ["run", "node"], "left")
        .join(about.select("run", "refresh_us"), "run", "left")
        .select(
            "run",
            "event",
            "node",
            "topic",
            "publisher",
            "called_us",
            sf.coalesce("is_published", sf.lit(False)).alias("is_published"),
            sf.coalesce(sf.col("is_owed") & is_owed & ~is_gone & _together(), sf.lit(False)).alias(
                "is_expected"
            ),
            (got & ~sf.coalesce(is_welcome, sf.lit(False))).alias("is_unexpected"),
            first.at_us.alias("delivered_us"),
            (first.at_us - sf.col("called_us")).alias("latency_us"),
            first.hops.alias("hops"),
            _repeated().alias("app_duplicates"),
            "got",
        )
    )


def _matching_subscriptions(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """By run, event and node: the matching subscriptions, and whether any was in force."""
    met = meetings(events, subscriptions)
    at = sf.col("published_us")
    in_force = sf.exists(
        "in_force",
        lambda span: (span.start_us <= at) & (span.end_us.isNull() | (at < span.end_us)),
    )
    given_up = sf.coalesce(sf.col("unsubscribed_us") <= at + UNDER_WAY_US, sf.lit(False))
    subscription = sf.struct("called_us", sf.col("unsubscribe_acknowledged_us").alias("ended_us"))
    return (
        events.select(
            "run",
            "event",
            sf.col("predicate").alias("said"),
            sf.col("called_us").alias("published_us"),
        )
        .join(met, "said")
        .join(subscriptions.withColumnRenamed("predicate", "wanted"), ["run", "wanted"])
        .groupBy("run", "event", "node")
        .agg(
            sf.max(in_force & ~given_up).alias("is_held"),
            sf.max(in_force & given_up).alias("is_given_up"),
            sf.collect_list(subscription).alias("matching"),
        )
    )


def _together() -> Column:
    """Whether the event's publisher and the node were on the same side of every partition.

    A partition has effects until the nodes on the other side have renewed their subscriptions.
    """

    def felt(cuts: str) -> Column:
        return sf.expr(
            f"filter(coalesce({cuts}, array()), cut -> cut.start_us <= called_us"
            " and (cut.end_us is null or called_us < cut.end_us + refresh_us))"
        )

    return felt("cuts") == felt("publisher_cuts")


def _repeated() -> Column:
    """How often a subscription got an event again since its node last started."""
    received = sf.expr(
        "flatten(transform(got, one -> transform(split(one.subscriptions, ','), number -> concat("
        "number, ' ', size(filter(coalesce(restarts, array()), back -> back <= one.at_us))))))"
    )
    return sf.when(
        sf.size("got") > 1, sf.size(received) - sf.size(sf.array_distinct(received))
    ).otherwise(0)
