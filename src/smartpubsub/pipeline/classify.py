"""The stage `classify`: gives records their most significant words as topics.

A word is significant where it is frequent and elsewhere rare (TF-IDF). The number of records with
each word is counted in SQL; the words of a record are then weighed batch by batch.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.ml.feature import StopWordsRemover
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from smartpubsub.pipeline.errors import PipelineError, plain_errors
from smartpubsub.pipeline.schemas import BAD_LINES, RECORDS

Model: TypeAlias = Callable[[list[str], int], Sequence[Sequence[str]]]
"""Returns a number of terms for each text, the most significant first."""

WORD = r"[\p{L}\p{M}\p{N}]+(?:['\u2019][\p{L}\p{M}]+)*"
"""Letters with their marks, and digits, of any script."""
WORD_CHARACTERS = (2, 64)
RECORDS_PER_TERM_MIN = 2
"""A word that occurs in only one record connects no records."""
VOCABULARY_MAX = 500_000
NO_TERM = "no significant term and no number"
STOP_WORD_LANGUAGES = (
    *("danish", "dutch", "english", "finnish", "french", "german", "hungarian", "italian"),
    *("norwegian", "portuguese", "russian", "spanish", "swedish", "turkish"),
)


@dataclass(frozen=True, kw_only=True)
class Classifying:
    """The options of terms."""

    terms: int = 3
    """The maximum number per record."""
    languages: tuple[str, ...] = ("english",)
    """The languages whose most common words are left out."""
    model: str | None = None
    """A trained model as "module:function" that gives the terms instead; see `Model`."""


def classified(records: DataFrame, chosen: Classifying) -> DataFrame:
    """The records with their most significant terms as topics, possibly none."""
    text = _text()
    words = _words(text, chosen.languages)
    if chosen.model is None:
        weigh = _by_tf_idf(_weights(records.select(words.alias("words"))), chosen.terms)
        given = records.withColumn("_words", words)
    else:
        weigh = _by_model(chosen.model, chosen.terms)
        given = records.withColumn("_words", sf.array(sf.coalesce(text, sf.lit(""))))
    names = [name for name in RECORDS.names if name != "topics"]
    schema = ", ".join(f"{column.name} {column.type.simpleString()}" for column in RECORDS.columns)
    made = given.select(*names, "_words").mapInArrow(_with_terms(weigh), schema)
    # A name occurs once in a predicate, and a number says more than a word.
    terms = sf.array_except("topics", sf.col("ranges.name"))
    return made.withColumn("topics", terms).select(*RECORDS.names)


def without_terms(records: DataFrame) -> DataFrame:
    """The classified records without terms and numbers, as bad lines."""
    empty = records.where(_says_nothing())
    line = sf.coalesce(_text(), sf.lit(""))
    return empty.select(line.alias("line"), sf.lit(NO_TERM).alias("reason"), "source").select(
        *BAD_LINES.names
    )


def with_terms(records: DataFrame) -> DataFrame:
    """The classified records with a term or a number."""
    return records.where(~_says_nothing()).select(*RECORDS.names)


def precision(records: DataFrame) -> DataFrame:
    """How well terms predict labels, for each number k of terms: `k`, `precision`, `records`.

    One half of the records determines the most frequent label of each term; in the other half, the
    share of a record's first k terms with its own label is counted.
    """
    labelled = records.where(sf.col("label").isNotNull() & (sf.size("topics") > 0))
    is_first = sf.pmod(sf.xxhash64("event_id"), sf.lit(2)) == 0
    pairs = labelled.select(
        is_first.alias("is_first"), "event_id", "label", sf.posexplode("topics").alias("at", "term")
    )
    counted = pairs.where("is_first").groupBy("term", "label").count()
    goes_with = counted.groupBy("term").agg(
        sf.max_by("label", sf.struct("count", "label")).alias("usual")
    )
    judged = pairs.where("not is_first").join(goes_with, "term", "left")
    is_right = sf.coalesce(sf.col("usual") == sf.col("label"), sf.lit(False)).cast("int")
    up_to = judged.select("event_id", "at", is_right.alias("is_right")).crossJoin(
        judged.select((sf.col("at") + 1).alias("k")).distinct()
    )
    shares = up_to.where("at < k").groupBy("k", "event_id").agg(sf.avg("is_right").alias("share"))
    return (
        shares.groupBy("k")
        .agg(sf.avg("share").alias("precision"), sf.count(sf.lit(1)).alias("records"))
        .orderBy("k")
    )


def _text() -> Column:
    return sf.coalesce("text", sf.make_valid_utf8(sf.col("payload").cast("string")))


def _says_nothing() -> Column:
    return (sf.size("topics") == 0) & (sf.size("ranges") == 0)


def _words(text: Column, languages: Sequence[str]) -> Column:
    """The words of a text, with repetition, without the common ones."""
    usual: list[str] = []
    for language in languages:
        if language not in STOP_WORD_LANGUAGES:
            known = ", ".join(STOP_WORD_LANGUAGES)
            raise PipelineError(f"no stop words are known of {language!r}; choose among {known}")
        usual += StopWordsRemover.loadDefaultStopWords(language)
    least, most = WORD_CHARACTERS
    found = sf.regexp_extract_all(sf.lower(text), sf.lit(WORD), sf.lit(0))
    stop = sf.map_from_arrays(
        sf.lit(sorted(set(usual))), sf.array_repeat(sf.lit(True), len(set(usual)))
    )
    wanted = sf.filter(
        found,
        lambda word: sf.length(word).between(least, most) & ~sf.map_contains_key(stop, word),
    )
    return sf.coalesce(wanted, sf.array().cast("array<string>"))


def _weights(words: DataFrame) -> dict[str, float]:
    """The inverse document frequency of each word."""
    with plain_errors():
        count = words.count()
        frequent = (
            words.select(sf.explode(sf.array_distinct("words")).alias("word"))
            .groupBy("word")
            .count()
            .where(sf.col("count") >= RECORDS_PER_TERM_MIN)
            .orderBy(sf.desc("count"), "word")
            .limit(VOCABULARY_MAX)
            .toArrow()
        )
    pairs = zip(*(column.to_pylist() for column in frequent.columns), strict=True)
    return {word: math.log(count / uses) for word, uses in pairs}


_Weigh: TypeAlias = Callable[[list[list[str]]], list[list[str]]]


def _by_tf_idf(weights: dict[str, float], terms: int) -> _Weigh:
    def weigh(texts: list[list[str]]) -> list[list[str]]:
        return [_most_telling(words, weights, terms) for words in texts]

    return weigh


def _most_telling(words: list[str], weights: dict[str, float], terms: int) -> list[str]:
    scores = [
        (-uses * weights[word], word)
        for word, uses in Counter(words).items()
        if weights.get(word, 0) > 0
    ]
    return [word for _, word in nsmallest(terms, scores)]


def load_model(name: str) -> Model:
    """Import a model by its name, "module:function"; raise PipelineError if that fails."""
    module, _, function = name.partition(":")
    try:
        model: Any = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise PipelineError(f"the model {name!r} cannot be imported: {error}") from None
    if not callable(model):
        raise PipelineError(f"the model {name!r} is not a function")
    return model  # type: ignore[no-any-return]


def _by_model(name: str, terms: int) -> _Weigh:
    load_model(name)

    def weigh(texts: list[list[str]]) -> list[list[str]]:
        model = load_model(name)
        found = model([text for (text,) in texts], terms)
        return [list(dict.fromkeys(one))[:terms] for one in found]

    return weigh


def _with_terms(
    weigh: _Weigh,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            terms = pa.array(weigh(batch.column("_words").to_pylist()), pa.list_(pa.string()))
            columns = {name: batch.column(name) for name in batch.schema.names}
            columns["topics"] = terms
            yield pa.RecordBatch.from_pydict({name: columns[name] for name in RECORDS.names})

    return work
