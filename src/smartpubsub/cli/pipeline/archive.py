"""smartpubsub pipeline archive."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from smartpubsub.cli.again import is_given
from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.pipeline.options import (
    SparkOptions,
    format_option,
    need_delta,
    needing_spark,
    spark_options,
)
from smartpubsub.cli.publishing import complain
from smartpubsub.cli.topic.files import export_topic
from smartpubsub.cli.topic.gaps import report_gaps
from smartpubsub.client.blocking_socket import folder_of
from smartpubsub.errors import SmartPubSubError
from smartpubsub.pipeline.local_inputs import check_new_file
from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.protocols.blocks import CidError, cid_from_text
from smartpubsub.protocols.car import CarError, read_sections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from smartpubsub.pipeline.archive_folder import Archived
    from smartpubsub.pipeline.outputs import TableFormat
    from smartpubsub.pipeline.summary import Summary

_WHAT = "CAR files, as smartpubsub topic export writes them"


@click.command()
@click.argument("sources", nargs=-1, metavar="[CAR]...")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="A topic of the running node, by its content id, instead of CAR files; with --from, one of"
    " the archive, also by its name. May be repeated.",
)
@data_option
@click.option("--out", metavar="DIR", help="The archive to add to; may be new.")
@click.option("--from", "given", metavar="DIR", help="The archive to write a CAR file from.")
@click.option("--to", "file", metavar="FILE", help="With --from: the CAR file to write.")
@click.option(
    "--follow",
    is_flag=True,
    help="Add new events until Ctrl-C or SIGTERM; the next start continues there. Writes Delta.",
)
@click.option(
    "--predicate",
    "predicates",
    multiple=True,
    metavar="PREDICATE",
    help="With --follow: archive the events that match it, outside of topics. May be repeated.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: the interval between batches.",
)
@format_option
@spark_options
@click.pass_context
def archive(
    context: click.Context,
    /,
    sources: tuple[str, ...],
    topics: tuple[str, ...],
    data: str | None,
    out: str | None,
    given: str | None,
    file: str | None,
    follow: bool,
    predicates: tuple[str, ...],
    every_s: float,
    table_format: TableFormat,
    spark: SparkOptions,
) -> None:
    """Archive the history of topics in tables, and write CAR files from them.

    CAR is a CAR file, a folder of files that end in .car, or a pattern such as 'cars/*.car'. Every
    block is verified: its content id, its signatures, and the rules of its topic. Blocks of events
    that belong to no topic, which subscribers to predicates received, are in a table of their own.
    Invalid blocks are kept in DIR/_bad, each with the reason. Blocks that are already in the
    archive are not added again. With --from and --to, the blocks of an archive are written to a CAR
    file, identical to the byte, which smartpubsub topic import accepts.

    \b
    Examples:
      smartpubsub pipeline archive news.car --out history
      smartpubsub pipeline archive --topic bafyrei… --out history --json
      smartpubsub pipeline archive --from history --topic news --to again.car
      smartpubsub pipeline archive --follow --topic bafyrei… --predicate weather --out live
    """
    if follow:
        _check_following(sources, topics, predicates, out, given)
        if is_given(context, "table_format") and table_format != "delta":
            raise click.UsageError("--follow writes Delta; leave out --format, or give delta")
        if spark.remote is not None:
            raise click.UsageError(
                "--follow commits its batches in the process of Spark's driver, where a client of"
                " Spark Connect runs nothing; use --master instead of --remote"
            )
        run_following(spark, data, topics, predicates, str(out), every_s)
        return
    if predicates:
        raise click.UsageError("--predicate goes with --follow")
    _check_usage(sources, topics, out, given, file)
    if given:
        spark.check_inputs("an archive, as pipeline archive --out writes it", given)
    spark.check_inputs(_WHAT, *sources)
    for path in filter(spark.is_local, sources):
        _check_car(Path(path))
    if file and spark.is_local(file):
        check_new_file(Path(file))
    with (
        needing_spark(),
        _exported(topics if out else (), data) as exported,
        spark.session("archive") as session,
    ):
        if out:
            summary = _into_tables(session, spark, sources, exported, out, table_format)
        else:
            summary = _into_file(session, spark, str(given), str(file), topics)
    spark.show(summary)


def _check_usage(
    sources: tuple[str, ...],
    topics: tuple[str, ...],
    out: str | None,
    given: str | None,
    file: str | None,
) -> None:
    if (given is None) != (file is None):
        raise click.UsageError("--from, the archive, and --to, the CAR file, go together")
    if (out is None) == (given is None):
        raise click.UsageError("give --out to add to an archive, or --from and --to to read one")
    if given is not None and sources:
        raise click.UsageError("with --from no CAR files are read")
    if out is not None and bool(sources) == bool(topics):
        raise click.UsageError("give CAR files, or with --topic topics of the running node")
    if out is not None:
        for topic in topics:
            try:
                cid_from_text(topic)
            except CidError as error:
                raise click.UsageError(str(error)) from None


def _check_following(
    sources: tuple[str, ...],
    topics: tuple[str, ...],
    predicates: tuple[str, ...],
    out: str | None,
    given: str | None,
) -> None:
    if sources or given is not None or out is None:
        raise click.UsageError(
            "--follow goes with --out, --topic and --predicate, and no CAR files"
        )
    if not topics and not predicates:
        raise click.UsageError("--follow needs topics (--topic), events (--predicate), or both")
    for predicate in predicates:
        try:
            Predicate.parse(predicate)
        except PredicateError as error:
            raise click.UsageError(f"--predicate {predicate!r}: {error}") from None


def run_following(
    spark: SparkOptions,
    data: str | None,
    topics: tuple[str, ...],
    predicates: tuple[str, ...],
    out: str,
    every_s: float,
) -> None:
    """Archive new events until a signal ends the command."""
    need_delta()
    # Spark takes seconds to start, so errors are reported before.
    with running_node(data) as node:
        node.ask("info")
        for topic in topics:
            node.ask("topic-heads", topic=topic, limit=0)
    with needing_spark():
        from smartpubsub.pipeline.archive_folder import check_archive_output, only_writer
        from smartpubsub.pipeline.errors import plain_errors
        from smartpubsub.pipeline.follow import Following, follow
        from smartpubsub.pipeline.little import QUICK
        from smartpubsub.pipeline.sessions import spark_session
        from smartpubsub.pipeline.summary import Summary
    following = Following(
        node=folder_of(data), out=out, topics=topics, predicates=predicates, every_s=every_s
    )

    def tell(what: str, done: Archived) -> None:
        counts = {"events": done.events + done.publications, "bad": done.bad}
        text = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        click.echo(f"{what}: {text or 'nothing new'}", err=True)

    over = threading.Event()
    # Batches are small, and Java's optimising compiler would delay the first ones.
    options = replace(
        spark.session_options(), is_short=True, settings=(*QUICK.items(), *spark.settings)
    )
    with ExitStack() as stack:
        if is_here := spark.is_local(out):
            check_archive_output(None, out)
            stack.enter_context(only_writer(None, out))
        session = stack.enter_context(spark_session(options))
        stack.enter_context(plain_errors())
        stack.enter_context(ending(over))
        if not is_here:
            check_archive_output(session, out)
            stack.enter_context(only_writer(session, out))
        click.echo(f"archiving in {out}; Ctrl-C ends it", err=True)
        followed = follow(session, following, over, tell)
    spark.show(
        Summary(
            stage="archive",
            rows_in={"batches": followed.batches},
            rows_out={name: n for name, n in followed.counts.items() if name != "bad"},
            bad=followed.counts.get("bad", 0),
            seconds=spark.seconds(),
            more=followed.versions,
        )
    )


@contextmanager
def ending(over: threading.Event) -> Iterator[None]:
    """Set an event on Ctrl-C and SIGTERM, instead of ending the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda *_: over.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_car(file: Path) -> None:
    """Raise an error if a file is not a CAR file; Spark checks folders and patterns."""
    if not file.is_file():
        return
    try:
        with file.open("rb") as opened:
            read_sections(opened)
    except CarError as error:
        raise SmartPubSubError(f"{file}: {error}; give {_WHAT}") from None
    except OSError as error:
        raise SmartPubSubError(f"{file}: {error.strerror}; name a file that can be read") from None


@contextmanager
def _exported(topics: tuple[str, ...], data: str | None) -> Iterator[list[Path]]:
    """Export topics of the running node to CAR files on this machine."""
    with tempfile.TemporaryDirectory(prefix="smartpubsub-") as folder:
        files = []
        if topics:
            with running_node(data) as node:
                for topic in topics:
                    files.append(Path(folder) / f"{topic}.car")
                    done = export_topic(node, topic, files[-1])
                    report_gaps(done["gaps"], topic)
        yield files


def _into_tables(
    session: SparkSession,
    spark: SparkOptions,
    sources: tuple[str, ...],
    exported: list[Path],
    out: str,
    table_format: TableFormat,
) -> Summary:
    from smartpubsub.pipeline.archive_folder import (
        BAD,
        add_to_archive,
        archive_paths,
        check_archive_output,
        handed_over,
        only_writer,
    )
    from smartpubsub.pipeline.car_files import find_cars
    from smartpubsub.pipeline.outputs import Output
    from smartpubsub.pipeline.summary import Summary

    check_archive_output(session, out)
    with only_writer(session, out), handed_over(session, exported, out) as more:
        cars = find_cars(session, [*sources, *more])
        # The new blocks depend on the archive too, so no two writes are the same.
        now = time.time_ns()
        output = Output.of(session, table_format, "archive", [], at=now)
        done = add_to_archive(session, cars, out, output)
        versions = output.versions(session, archive_paths(out))
    if done.bad:
        share = "all" if done.bad == done.blocks else f"{done.bad:,} of {done.blocks:,}"
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in done.reasons.items())
        complain(f"{share} blocks are bad and kept in {out.rstrip('/')}/{BAD}, mostly: {reasons}")
    if done.missing:
        complain(
            f"{done.missing:,} linked events are not in the archive; add a CAR file that has them"
        )
    rows_out = {"topics": done.topics, "events": done.events}
    if done.publications:
        rows_out["publications"] = done.publications
    return Summary(
        stage="archive",
        rows_in={"blocks": done.blocks},
        rows_out=rows_out,
        bad=done.bad,
        seconds=spark.seconds(),
        more={"files": len(cars), "known": done.known, "missing": done.missing, **versions},
    )


def _into_file(
    session: SparkSession, spark: SparkOptions, given: str, file: str, topics: tuple[str, ...]
) -> Summary:
    from smartpubsub.pipeline.archive_folder import write_car_of_archive
    from smartpubsub.pipeline.summary import Summary

    counts = write_car_of_archive(session, given, file, topics)
    return Summary(
        stage="archive",
        rows_in=counts,
        rows_out={"blocks": sum(counts.values())},
        seconds=spark.seconds(),
        more={"file": file},
    )
