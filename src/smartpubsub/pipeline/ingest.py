"""The stage `ingest`: turns lines of data into records and bad lines."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from smartpubsub.pipeline.mapping import ColumnMapping
from smartpubsub.pipeline.schemas import BAD_LINES, RECORDS
from smartpubsub.predicates.names import NAME_BYTES_MAX

AUTHOR_HEX_DIGITS = 16
_TEXTS = "array<string>"


def judged(found: DataFrame, mapping: ColumnMapping, salt: str | None) -> DataFrame:
    """Every line of `sources.read_sources` as a record, with a reason if it is bad.

    Authors are hashed with the salt, or kept if there is none.
    """
    numbers = sf.struct(*(_number(column) for column in mapping.columns_of_numbers()))
    times = _time(mapping)
    parts = found.select("*", numbers.alias("numbers"), times.alias("time")).select(
        "*", _topics(mapping).alias("topics"), _ranges(mapping).alias("ranges")
    )
    says_nothing = (
        (sf.size("topics") == 0)
        & (sf.size("ranges") == 0)
        & sf.coalesce(_value(mapping.text), _value(mapping.payload)).isNull()
    )
    judgements = [
        sf.col("problem"),
        _wrong_numbers(mapping),
        _wrong_time(mapping),
        sf.when(_has_long_topic(), f"a topic has more than {NAME_BYTES_MAX} bytes"),
        sf.when(says_nothing, "no topic, no number and no text"),
    ]
    number = sf.xxhash64("source", "position").bitwiseAND((1 << 63) - 1)
    return parts.select(
        number.alias("event_id"),
        "time",
        _author(mapping, salt).alias("author"),
        "topics",
        "ranges",
        _value(mapping.text).alias("text"),
        _value(mapping.label).alias("label"),
        _value(mapping.key).alias("key"),
        _value(mapping.payload).cast("binary").alias("payload"),
        "source",
        sf.coalesce(*judgements).alias("reason"),
        # Text that is not UTF-8 could be written but not read again.
        sf.make_valid_utf8(sf.coalesce("line", sf.to_json("fields"))).alias("line"),
    )


def records(found: DataFrame) -> DataFrame:
    """The good lines as records."""
    return found.where(sf.col("reason").isNull()).select(*RECORDS.names)


def bad_lines(found: DataFrame) -> DataFrame:
    """The bad lines."""
    return found.where(sf.col("reason").isNotNull()).select(*BAD_LINES.names)


def _value(column: str | None) -> Column:
    """The value of a mapped column; an empty text is null."""
    if column is None:
        return sf.lit(None).cast("string")
    return sf.nullif(sf.col(f"fields.`{column}`"), sf.lit(""))


def _number(column: str) -> Column:
    number = sf.expr(f"try_cast(trim(fields.`{column}`) as double)")
    return sf.when(sf.abs(number) < float("inf"), number).alias(column)


def _ranges(mapping: ColumnMapping) -> Column:
    """A range for each number; takes a shortcut where all are present."""
    numbers = {name: sf.col(f"numbers.`{column}`") for name, column in mapping.ranges.items()}
    said = [_range(name, number) for name, number in numbers.items()]
    all_said = reduce(and_, (number.isNotNull() for number in numbers.values()), sf.lit(True))
    some = sf.filter(sf.array(*said), lambda one: one["lo"].isNotNull())
    ranges = sf.when(all_said, sf.array(*said)).otherwise(some)
    return ranges.cast(RECORDS.column("ranges").type)


def _range(name: str, number: Column) -> Column:
    return sf.struct(sf.lit(name).alias("name"), number.alias("lo"), number.alias("hi"))


def _topics(mapping: ColumnMapping) -> Column:
    """All topics, each once, without names that have a number."""
    empty = sf.array().cast(_TEXTS)
    lists = []
    for column in mapping.topics:
        text = _value(column)
        several = sf.when(text.startswith("["), sf.from_json(text, _TEXTS))
        lists.append(sf.coalesce(several, sf.when(text.isNotNull(), sf.array(text)), empty))
    unwanted = sf.array(sf.lit(None), sf.lit(""), *map(sf.lit, mapping.ranges)).cast(_TEXTS)
    return sf.array_except(sf.concat(empty, *lists), unwanted)


def _has_long_topic() -> Column:
    # Nearly always all of them together are short, which is a quick check.
    return (sf.octet_length(sf.array_join("topics", "")) > NAME_BYTES_MAX) & sf.exists(
        "topics", lambda topic: sf.octet_length(topic) > NAME_BYTES_MAX
    )


def _time(mapping: ColumnMapping) -> Column:
    text = _value(mapping.time)
    seconds = sf.expr(f"try_cast(trim(fields.`{mapping.time}`) as double)")
    is_near = sf.abs(seconds) < 1e11
    if mapping.time is None:
        return sf.lit(None).cast("timestamp")
    return sf.when(is_near, sf.timestamp_seconds(seconds)).otherwise(
        sf.when(seconds.isNull(), sf.try_to_timestamp(text))
    )


def _wrong_time(mapping: ColumnMapping) -> Column:
    if mapping.time is None:
        return sf.lit(None).cast("string")
    is_wrong = _value(mapping.time).isNotNull() & sf.col("time").isNull()
    return sf.when(is_wrong, f"{mapping.time} is not a time")


def _wrong_numbers(mapping: ColumnMapping) -> Column:
    """The first column that should be a number and is not."""
    wrong = [
        sf.when(
            _value(column).isNotNull() & sf.col(f"numbers.`{column}`").isNull(),
            f"{column} is not a number",
        )
        for column in mapping.columns_of_numbers()
    ]
    return sf.coalesce(*wrong, sf.lit(None).cast("string"))


def _author(mapping: ColumnMapping, salt: str | None) -> Column:
    name = _value(mapping.author)
    known = sf.when(~name.isin(list(mapping.nobody)), name) if mapping.nobody else name
    if salt is None:
        return known
    digest = sf.sha2(sf.concat(sf.lit(f"{salt}\0"), known), 256)
    return sf.substring(digest, 1, AUTHOR_HEX_DIGITS)
