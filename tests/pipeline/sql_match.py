"""Matching as a join in SQL: slow, and short enough to be believed.

It is what the stage `match` is compared with, in tests and in benchmarks.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from smartpubsub.pipeline.schemas import MATCHES


def sql_matches(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Every (event_id, subscription_id) that matches, of tables with `topics` and `ranges`.

    A subscription waits under the rarest of its names, and an event comes by all of its own.
    """
    names = sf.concat("topics", sf.transform("ranges", lambda wanted: wanted["name"]))
    wanted = subscriptions.select("subscription_id", "topics", "ranges", names.alias("names"))
    uses = wanted.select(sf.explode("names").alias("access")).groupBy("access").count()
    waiting = (
        wanted.select("subscription_id", sf.explode("names").alias("access"))
        .join(sf.broadcast(uses), "access")
        .groupBy("subscription_id")
        .agg(sf.min_by("access", sf.struct("count", "access")).alias("access"))
        .join(wanted, "subscription_id")
        .select("subscription_id", "access", "topics", "ranges")
    )
    carried = sf.map_from_entries(
        sf.transform(
            "ranges",
            lambda carried: sf.struct(
                carried["name"],
                sf.struct(
                    sf.coalesce(carried["lo"], sf.lit(float("-inf"))).alias("lo"),
                    sf.coalesce(carried["hi"], sf.lit(float("inf"))).alias("hi"),
                ),
            ),
        )
    )
    coming = events.select(
        "event_id",
        sf.explode(names).alias("access"),
        names.alias("event_names"),
        carried.alias("carried"),
    )
    topics_are_met = sf.forall("topics", lambda topic: sf.array_contains("event_names", topic))
    ranges_are_met = sf.forall(
        "ranges",
        lambda wanted: sf.coalesce(
            (
                sf.col("carried")[wanted["name"]]["lo"]
                >= sf.coalesce(wanted["lo"], -sf.lit(float("inf")))
            )
            & (
                sf.col("carried")[wanted["name"]]["hi"]
                <= sf.coalesce(wanted["hi"], sf.lit(float("inf")))
            ),
            sf.lit(False),
        ),
    )
    joined = coming.join(waiting, "access").where(topics_are_met & ranges_are_met)
    return joined.select(*MATCHES.names)
