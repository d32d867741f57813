"""smartpubsub pipeline shell."""

from __future__ import annotations

import inspect
import sys
from code import InteractiveConsole
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from smartpubsub.cli.pipeline.options import SparkOptions, needing_spark, spark_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BANNER = """\
spark is a session, and sf has the functions of columns. ingest, match, measure, campaign and report
are stages; stream reads a node. help(match) explains one.
Ctrl-D ends Spark."""


class Shell(InteractiveConsole):
    """A Python prompt with one-line errors for mistakes of the user."""

    def showtraceback(self) -> None:
        """Print the exception that was raised."""
        from smartpubsub.pipeline.errors import own_text

        text = own_text(sys.exc_info()[1])
        if text is None:
            super().showtraceback()
        else:
            self.write(f"smartpubsub: {text}\n")


@click.command()
@spark_options
def shell(spark: SparkOptions) -> None:
    """Open a Python prompt with a Spark session and the stages.

    Spark starts once, so a second stage takes seconds less than the first. Stages are called with
    the same paths as the commands, and return a summary.

    \b
    Examples:
      smartpubsub pipeline shell
      smartpubsub pipeline shell --master spark://host:7077
    \b
      >>> match("w/events", "w/subscriptions", "matches")
      >>> spark.read.parquet("matches").groupBy("event_id").count().show()
    """
    with needing_spark():
        from pyspark.sql import SparkSession

        from smartpubsub.pipeline.sessions import start_session
    running = SparkSession.getActiveSession()
    session = running or start_session(spark.session_options())
    try:
        Shell(names(session)).interact(BANNER, exitmsg="")
    finally:
        if running is None:
            session.stop()


def names(session: SparkSession) -> dict[str, Any]:
    """The names that are defined at the prompt."""
    from pyspark.sql import functions as sf

    from smartpubsub.pipeline import stages
    from smartpubsub.pipeline.datasource.streams import stream
    from smartpubsub.reports.stage import report

    functions = (stages.ingest, stages.match, stages.measure, stages.campaign, report, stream)
    return {
        "spark": session,
        "sf": sf,
        **{function.__name__: _bound(function, session) for function in functions},
    }


def _bound(function: Callable[..., Any], session: SparkSession) -> Callable[..., Any]:
    """A stage in this session, with the help of the stage."""

    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        return function(session, *given, **options)

    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()][1:]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call
