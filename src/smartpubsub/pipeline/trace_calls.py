"""The calls and deliveries of a run's applications, read from its trace.

It follows `smartpubsub.sim.judging.journal` and `smartpubsub.sim.judging.oracle`, which compute the
same during a run; a test compares both.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf


def faults(rows: DataFrame) -> DataFrame:
    """By run and node: the times of crashes, restarts, cuts and their ends."""

    def times(*kinds: str) -> Column:
        is_one = sf.col("kind").isin(*kinds)
        return sf.sort_array(sf.collect_list(sf.when(is_one, sf.col("at_us"))))

    return (
        rows.where("what = 'fault' and kind in ('crash', 'leave', 'restart', 'partition', 'heal')")
        .groupBy("run", "node")
        .agg(
            times("crash", "leave").alias("crashes"),
            times("restart").alias("restarts"),
            sf.arrays_zip(
                times("partition").alias("start_us"), times("heal").alias("end_us")
            ).alias("cuts"),
        )
    )


def subscriptions(rows: DataFrame, fault: DataFrame) -> DataFrame:
    """Every subscription, with the intervals in which it was in force.

    It is in force from an acknowledgement until the node crashes or unsubscribes.
    """

    def first(what: str, kind: str | None = None) -> Column:
        is_it = sf.col("what") == what
        if kind is not None:
            is_it &= sf.col("kind") == kind
        return sf.min(sf.when(is_it, sf.col("at_us")))

    is_acknowledged = (sf.col("what") == "acknowledge") & (sf.col("kind") == "subscribe")
    own = (
        rows.where("subscription is not null")
        .groupBy("run", "node", "subscription")
        .agg(
            sf.min(sf.when(sf.col("what") == "subscribe", sf.col("text"))).alias("predicate"),
            first("subscribe").alias("called_us"),
            sf.sort_array(sf.collect_list(sf.when(is_acknowledged, sf.col("at_us")))).alias(
                "acknowledged"
            ),
            first("unsubscribe").alias("unsubscribed_us"),
            first("acknowledge", "unsubscribe").alias("unsubscribe_acknowledged_us"),
        )
        .where("predicate is not null")
        .join(fault.select("run", "node", "crashes"), ["run", "node"], "left")
    )
    none = sf.array().cast("array<bigint>")
    crashes = sf.coalesce("crashes", none)
    ended = sf.col("unsubscribed_us")
    stops = sf.when(ended.isNull(), crashes).otherwise(sf.array_append(crashes, ended))
    counted = sf.filter("acknowledged", lambda at: ended.isNull() | (at < ended))
    return (
        own.withColumn("stops", stops)
        .withColumn("acknowledged", counted)
        .withColumn(
            "in_force",
            sf.transform(
                # An acknowledgement after another one changes nothing, unless the node was down.
                sf.expr(
                    "filter(acknowledged, (at, i) -> i = 0 or"
                    " exists(stops, stop -> stop >= acknowledged[i - 1] and stop <= at))"
                ),
                lambda at: sf.struct(
                    at.alias("start_us"),
                    sf.array_min(sf.filter("stops", lambda stop: stop >= at)).alias("end_us"),
                ),
            ),
        )
    )


def orphans(rows: DataFrame, fault: DataFrame, about: DataFrame) -> DataFrame:
    """By run, the ordered topics that have no publisher left: their only author is gone."""
    authors = (
        rows.where("what = 'create'")
        .groupBy("run", sf.col("text").alias("predicate"))
        .agg(sf.max_by("node", sf.struct("at_us", "row")).alias("node"))
    )
    return (
        authors.join(about.select("run", "unordered"), "run")
        .where(~sf.array_contains("unordered", sf.col("predicate")))
        .join(fault.where(sf.size("crashes") > sf.size("restarts")), ["run", "node"])
        .select("run", "predicate", sf.lit(True).alias("is_orphan"))
    )


def topic_names(rows: DataFrame) -> DataFrame:
    """By run and predicate, the names of topics that are known by their content ids."""
    return (
        rows.where("what = 'create' and kind is not null")
        .groupBy("run", sf.col("text").alias("predicate"))
        .agg(sf.min("kind").alias("called"))
    )


def events(rows: DataFrame, fault: DataFrame, orphan: DataFrame, names: DataFrame) -> DataFrame:
    """Every published event: whether it was acknowledged, and whether deliveries are expected."""

    def is_(what: str, kind: str | None = None) -> Column:
        found = sf.col("what") == what
        return found if kind is None else found & (sf.col("kind") == kind)

    def of(condition: Column, column: str) -> Column:
        return sf.min(sf.when(condition, sf.col(column))).alias(column)

    published = (
        rows.where("event is not null and what in ('publish', 'acknowledge')")
        .groupBy("run", "event")
        .agg(
            of(is_("publish"), "node"),
            of(is_("publish"), "text").alias("predicate"),
            of(is_("publish"), "at_us").alias("called_us"),
            of(is_("publish"), "size").alias("payload_bytes"),
            of(is_("acknowledge", "publish"), "at_us").alias("acknowledged_us"),
            sf.max(is_("acknowledge", "refuse")).alias("is_refused"),
        )
        .where("called_us is not null")
        .join(fault, ["run", "node"], "left")
        .join(orphan, ["run", "predicate"], "left")
        .join(names, ["run", "predicate"], "left")
    )
    # The publisher stayed up from the call on.
    stayed = sf.col("crashes").isNull() | (
        (sf.size("crashes") == sf.size("restarts"))
        & sf.coalesce(sf.array_max("restarts") <= sf.col("called_us"), sf.lit(True))
    )
    stayed &= sf.col("is_orphan").isNull()
    is_owed = ~sf.col("is_refused") & (sf.col("acknowledged_us").isNotNull() | stayed)
    return published.select(
        "run",
        "event",
        sf.col("node").alias("publisher"),
        "predicate",
        topic_of("predicate", "called").alias("topic"),
        "called_us",
        "acknowledged_us",
        "payload_bytes",
        "is_refused",
        is_owed.alias("is_owed"),
        sf.col("cuts").alias("publisher_cuts"),
    )


def deliveries(rows: DataFrame) -> DataFrame:
    """By run, event and node: all deliveries to the node's application, in order."""
    one = sf.struct("at_us", "row", "hops", sf.col("text").alias("subscriptions"))
    return (
        rows.where("what = 'deliver' and event is not null")
        .groupBy("run", "event", "node")
        .agg(sf.array_sort(sf.collect_list(one)).alias("got"))
    )


def topic_of(predicate: str, called: str) -> Column:
    """A predicate without its numbers: `surf/price` for `surf/price=3`.

    For a topic with a name, the name.
    """
    return sf.coalesce(called, sf.regexp_replace(predicate, r"(\[[^\]]*\]|=[^/]*)", ""))
