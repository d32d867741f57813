"""Distributions of figures, exact and in bounded memory.

Equal values are counted first, so that little has to be sorted: a network has few different
latencies. `smartpubsub.sim.judging.spread` defines the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf


def spread(
    frame: DataFrame,
    keys: Sequence[str],
    value: str,
    prefix: str,
    figures: Sequence[str],
    *,
    divisor: int = 1,
) -> DataFrame:
    """Some of mean, sd, p50, p95, p99 and max of an integer column, for each of some keys.

    Nulls do not count. The values are divided by `divisor`, as from microseconds to milliseconds.
    """
    counted = frame.where(sf.col(value).isNotNull()).groupBy(*keys, value).count()
    so_far = Window.partitionBy(*keys).orderBy(value)
    everything = Window.partitionBy(*keys)
    ranked = counted.select(
        *keys,
        sf.col(value).alias("value"),
        "count",
        sf.sum("count").over(so_far).alias("rank"),
        sf.sum("count").over(everything).alias("total"),
    )
    return ranked.groupBy(*keys).agg(
        *(_figure(name, divisor).alias(f"{prefix}_{name}") for name in figures)
    )


def _figure(name: str, divisor: int) -> Column:
    value, count = sf.col("value"), sf.col("count")
    total = sf.sum("count")
    mean = sf.sum(value * count) / divisor / total
    match name:
        case "mean":
            return mean
        case "max":
            return sf.max(value) / divisor
        case "sd":
            # Integers, so that large sums stay exact.
            squares = sf.sum((value * value * count).cast("decimal(38,0)")).cast("double")
            plain = sf.sum(value * count).cast("double")
            variance = (squares * total - plain * plain) / (total * total)
            return sf.sqrt(sf.greatest(variance, sf.lit(0.0))) / divisor
    share = int(name.removeprefix("p"))
    is_reached = sf.col("rank") * 100 >= sf.col("total") * share
    return sf.min(sf.when(is_reached, value)) / divisor
