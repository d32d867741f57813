"""The common part of all pipeline commands: Spark's options, its session, the summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar

import click

from smartpubsub.cli.extras import needing
from smartpubsub.cli.main import INTERRUPTED
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.publishing import complain
from smartpubsub.pipeline.local_inputs import (
    check_local,
    has_wildcards,
    is_elsewhere,
    local_bytes,
    plain_paths_are_local,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from smartpubsub.pipeline.sessions import SessionOptions
    from smartpubsub.pipeline.summary import Summary

MEMORY_MB_MIN = 1024
SHORT_BYTES = 32 << 20
"""For inputs up to this size, Java's optimising compiler costs more than it saves."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Where and how Spark runs, and how the summary is printed."""

    master: str | None
    remote: str | None
    memory_mb: int | None
    settings: tuple[tuple[str, str], ...]
    as_json: bool
    began_at: float = field(default_factory=time.monotonic)
    _sizes: list[int | None] = field(default_factory=list)
    """The size of each input, as far as it is known before Spark starts."""

    @contextmanager
    def session(
        self, title: str, describe: Callable[[], str | None] = lambda: None
    ) -> Iterator[SparkSession]:
        """A session that reports progress and has one-line errors.

        `describe` gives the progress of a stage, as long as it knows it better than Spark does.
        """
        with needing_spark():
            from smartpubsub.pipeline.errors import plain_errors
            from smartpubsub.pipeline.progress import StageProgress
            from smartpubsub.pipeline.sessions import spark_session
        with (
            interruptible(title),
            spark_session(self.session_options()) as spark,
            plain_errors(),
            StageProgress(spark, title, describe=describe),
        ):
            yield spark

    def run(
        self, title: str, stage: Callable[[SparkSession | None], Summary], *paths: str
    ) -> Summary:
        """Run a stage; without Spark, which takes seconds to start, if possible.

        It is possible if there is little data, all of it on this machine.
        """
        with needing_spark():
            from pyspark.sql import SparkSession

            from smartpubsub.pipeline.little import NeedsSparkError
        is_asked_for = self.master or self.remote or self.settings
        is_plain = not is_asked_for and not any(map(has_wildcards, paths))
        if is_plain and all(map(self.is_local, paths)) and not SparkSession.getActiveSession():
            with suppress(NeedsSparkError), interruptible(title):
                return stage(None)
        with self.session(title) as session:
            return stage(session)

    def session_options(self) -> SessionOptions:
        """The options of a new session."""
        from smartpubsub.pipeline.sessions import SessionOptions

        return SessionOptions(
            master=self.master,
            remote=self.remote,
            memory_mb=self.memory_mb,
            settings=self.settings,
            is_short=self._is_short(),
        )

    def check_inputs(self, what: str, *paths: str) -> None:
        """Raise an error, before Spark starts, if an input on this machine is missing."""
        for path in paths:
            if self._plain_paths_are_local():
                check_local(path, what)
                self._sizes.append(local_bytes(path))

    def is_local(self, path: str) -> bool:
        """Whether a path is certainly on this machine."""
        return self._plain_paths_are_local() and not is_elsewhere(path)

    def _plain_paths_are_local(self) -> bool:
        return plain_paths_are_local(self.master, dict(self.settings))

    def _is_short(self) -> bool:
        """Whether all inputs are known and small."""
        sizes = [size for size in self._sizes if size is not None]
        return bool(sizes) and len(sizes) == len(self._sizes) and sum(sizes) <= SHORT_BYTES

    def seconds(self) -> float:
        """The seconds since the command began."""
        return time.monotonic() - self.began_at

    def show(self, summary: Summary) -> None:
        """Print the summary of a stage, with the time since the command began."""
        for note in summary.notes:
            complain(note)
        summary = replace(summary, seconds=self.seconds())
        if self.as_json:
            print_json(summary.document())
        else:
            click.echo(summary.text())

    def show_all(self, stage: str, summaries: Sequence[Summary]) -> None:
        """Print the summaries of several stages."""
        for note in (note for summary in summaries for note in summary.notes):
            complain(note)
        if self.as_json:
            parts = [summary.document() for summary in summaries]
            print_json({"stage": stage, "seconds": round(self.seconds(), 3), "stages": parts})
            return
        for summary in summaries:
            click.echo(f"{summary.stage}\n{indent(summary.text(), '  ')}")


@contextmanager
def interruptible(title: str) -> Iterator[None]:
    """Name the stage that Ctrl-C has interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        complain(
            f"{title} was interrupted; its output is complete only after it has run to the end"
        )
        raise click.exceptions.Exit(INTERRUPTED) from None


def need_delta() -> None:
    """Raise an error, before Spark starts, if the package for Delta is missing."""
    if find_spec("deltalake") is None:
        raise ModuleNotFoundError(name="deltalake")


def _format(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value == "delta":
        need_delta()
    return value


format_option = click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    callback=_format,
    help="The format of the tables that are written; tables are read in either.",
)


def needing_spark() -> AbstractContextManager[None]:
    """Name the command that installs a missing package of the pipeline."""
    return needing("the pipeline", "pipeline")


def spark_options(function: Function) -> Function:
    """Give a command the options of Spark, as the keywords of `SparkOptions.of`."""
    options = (
        click.option(
            "--master",
            metavar="URL",
            help="The Spark master, as spark://host:7077.  [default: all cores of this machine]",
        ),
        click.option(
            "--remote",
            metavar="URL",
            help="A Spark Connect server, as sc://host:15002, instead of a master.",
        ),
        click.option(
            "--memory-mb",
            type=click.IntRange(min=MEMORY_MB_MIN),
            help="Memory for Spark's driver.  [default: a quarter of this machine's]",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            callback=_settings,
            metavar="NAME=VALUE",
            help="A setting of Spark; may be repeated.",
        ),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return _gathering(function)


def _gathering(function: Function) -> Function:
    """Pass the options as one argument called `spark`."""

    def gathered(**values: Any) -> Any:
        names = ("master", "remote", "memory_mb", "settings", "as_json")
        spark = SparkOptions(**{name: values.pop(name) for name in names})
        if spark.remote is not None and (spark.master or spark.memory_mb):
            raise click.UsageError(
                "--remote goes without --master and --memory-mb, which its server has chosen"
            )
        return function(spark=spark, **values)

    gathered.__doc__ = function.__doc__
    gathered.__click_params__ = function.__click_params__  # type: ignore[attr-defined]
    return gathered  # type: ignore[return-value]


def _settings(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        name, equals, setting = value.partition("=")
        if not (name.startswith("spark.") and equals):
            raise click.BadParameter(
                f"{value!r} is not a setting such as spark.executor.memory=4g", context, parameter
            )
        pairs.append((name, setting))
    return tuple(pairs)
