"""The meaning of the columns of a data set, read from TOML.

topics = ["subreddit"]        # columns whose values are topics; a list of texts gives several
ranges = ["score", "ups"]     # columns with numbers; or a table, [ranges] score = "points"
time = "created_utc"          # seconds since 1970, or a date and time as in ISO 8601
author = "author"
text = "body"                 # the input of the stage classify
label = "subreddit"           # the label of the event, if known
payload = "body"
key = "id"                    # the key of the event in the data
format = "json"               # or "csv", "parquet"; default: by the file's name
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.toml_text import shown

Format: TypeAlias = Literal["json", "csv", "parquet"]
FORMATS: tuple[str, ...] = get_args(Format)
_SINGLE = ("time", "author", "text", "label", "payload", "key")


@dataclass(frozen=True, kw_only=True)
class ColumnMapping:
    """The meaning of the columns of a data set."""

    topics: tuple[str, ...] = ()
    ranges: Mapping[str, str] = field(default_factory=dict)
    """The column of each attribute."""
    time: str | None = None
    author: str | None = None
    text: str | None = None
    label: str | None = None
    payload: str | None = None
    key: str | None = None
    nobody: tuple[str, ...] = ()
    """The values that stand for an unknown author."""
    format: Format | None = None

    def columns(self) -> list[str]:
        """All required columns, each once."""
        single = [getattr(self, name) for name in _SINGLE]
        named = [*self.topics, *self.ranges.values(), *single]
        return list(dict.fromkeys(name for name in named if name is not None))

    def columns_of_numbers(self) -> list[str]:
        """The columns with numbers, each once."""
        return list(dict.fromkeys(self.ranges.values()))


REDDIT = ColumnMapping(
    topics=("subreddit",),
    ranges={name: name for name in ("score", "ups", "downs", "controversiality")},
    time="created_utc",
    author="author",
    label="subreddit",
    payload="body",
    key="id",
    nobody=("[deleted]",),
    format="json",
)
"""Dumps of comments on Reddit."""


def read_mapping(path: Path) -> ColumnMapping:
    """Read a mapping; raise PipelineError that says what is wrong."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}; give the path of a mapping") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} is not TOML: {error}") from None
    try:
        return mapping_of(content)
    except ValueError as error:
        raise PipelineError(f"{path}: {error}") from None


def mapping_of(content: Mapping[str, object]) -> ColumnMapping:
    """Make a mapping from parsed TOML; raise ValueError that says what is wrong.

    >>> mapping_of({"topics": ["lang"], "ranges": {"price": "eur"}}).columns()
    ['lang', 'eur']
    """
    known = ("topics", "ranges", "nobody", "format", *_SINGLE)
    for name in content:
        if name not in known:
            raise ValueError(f"unknown key {name!r}; the keys are {', '.join(known)}")
    chosen = content.get("format")
    if chosen is not None and chosen not in FORMATS:
        raise ValueError(f"format is one of {', '.join(FORMATS)}, not {shown(chosen)}")
    single = {name: _text(name, content[name]) for name in _SINGLE if name in content}
    mapping = ColumnMapping(
        topics=_texts("topics", content.get("topics", [])),
        ranges=_ranges(content.get("ranges", [])),
        nobody=_texts("nobody", content.get("nobody", [])),
        format=chosen,  # type: ignore[arg-type]  # one of FORMATS
        **single,
    )
    if not (mapping.topics or mapping.ranges or mapping.text or mapping.payload):
        raise ValueError(
            "events need topics, ranges, or a text or payload to classify; name a column"
        )
    return mapping


def _ranges(value: object) -> dict[str, str]:
    if isinstance(value, dict):
        return {name: _text(f"ranges.{name}", column) for name, column in value.items()}
    return {name: name for name in _texts("ranges", value)}


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is a list of columns")
    return tuple(_text(name, one) for one in value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is the name of a column, in quotes; found {shown(value)}")
    return value
