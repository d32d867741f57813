"""A stream of a node's events by an SQL-like condition."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from smartpubsub.pipeline.datasource.decoding import bound_of
from smartpubsub.pipeline.datasource.options import source_options
from smartpubsub.pipeline.datasource.source import FORMAT
from smartpubsub.predicates import Interval, Predicate


def stream(spark: SparkSession, *, where: str, node: str, **options: str) -> DataFrame:
    """The events that meet a condition, as they come; options are those of the source.

    Spark does not push filters of streams down. So this gives the condition to the node, and has
    Spark apply it too.
    """
    given = {"node": node, "where": where, **options}
    predicate = source_options(given, is_stream=True).predicate
    assert predicate is not None
    rows = spark.readStream.format(FORMAT).options(**given).load()
    return rows.where(condition_of(Predicate.parse(predicate)))


def condition_of(predicate: Predicate) -> Column:
    """The condition of a predicate on the columns `topics` and `ranges`."""
    wanted = [_condition(name, each) for name, each in predicate.attributes.items()]
    return reduce(Column.__and__, wanted)


def _condition(name: str, wanted: Interval | None) -> Column:
    def meets(got: Column) -> Column:
        has_name = got["name"] == name
        if wanted is None:
            return has_name
        lo, hi = bound_of(wanted.lo), bound_of(wanted.hi)
        above = sf.lit(True) if lo is None else got["lo"] >= lo
        below = sf.lit(True) if hi is None else got["hi"] <= hi
        return has_name & sf.coalesce(above, sf.lit(False)) & sf.coalesce(below, sf.lit(False))

    has_range = sf.exists("ranges", meets)
    return has_range if wanted is not None else sf.array_contains("topics", name) | has_range
