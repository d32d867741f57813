"""Matching as a join in Spark SQL: slow, and short enough to verify by reading.

The stage `match` is compared with it, in results and in speed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from smartpubsub.pipeline.schemas import MATCHES


def sql_matches(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Every (event_id, subscription_id) that matches, of tables with `topics` and `ranges`."""
    return join(events, waiting(subscriptions))


def waiting(subscriptions: DataFrame) -> DataFrame:
    """Subscriptions under the rarest of their names, `access`."""
    wanted = subscriptions.select("subscription_id", "topics", "ranges")
    named = wanted.select("subscription_id", sf.explode(_names()).alias("access"))
    uses = named.groupBy("access").count()
    rarest = (
        named.join(sf.broadcast(uses), "access")
        .groupBy("subscription_id")
        .agg(sf.min(sf.struct("count", "access")).alias("rarest"))
    )
    return wanted.join(rarest, "subscription_id").select(
        "subscription_id", sf.col("rarest.access").alias("access"), "topics", "ranges"
    )


def join(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Join events, once for each of their names, with the subscriptions under that name."""
    coming = events.select("event_id", _names().alias("names"), _carried().alias("carried")).select(
        "*", sf.explode("names").alias("access")
    )
    topics_are_met = sf.forall("topics", lambda topic: sf.array_contains("names", topic))
    ranges_are_met = sf.forall("ranges", _is_met)
    joined = coming.join(subscriptions, "access").where(topics_are_met & ranges_are_met)
    return joined.select(*MATCHES.names)


def _names() -> Column:
    return sf.concat("topics", sf.col("ranges.name"))


def _carried() -> Column:
    """An event's ranges by their names."""
    bounds = sf.transform(
        "ranges", lambda one: sf.struct(_lo(one).alias("lo"), _hi(one).alias("hi"))
    )
    return sf.map_from_arrays(sf.col("ranges.name"), bounds)


def _is_met(wanted: Column) -> Column:
    carried = sf.try_element_at("carried", wanted["name"])
    contained = (carried["lo"] >= _lo(wanted)) & (carried["hi"] <= _hi(wanted))
    return sf.coalesce(contained, sf.lit(False))


def _lo(bounds: Column) -> Column:
    return sf.coalesce(bounds["lo"], sf.lit(-float("inf")))


def _hi(bounds: Column) -> Column:
    return sf.coalesce(bounds["hi"], sf.lit(float("inf")))
