"""smartpubsub pipeline ingest."""

from pathlib import Path

import click

from smartpubsub.cli.pipeline.options import SparkOptions, spark_options
from smartpubsub.cli.publishing import complain


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option("--out", required=True, metavar="DIR", help="The folder for the table of records.")
@click.option(
    "--mapping",
    "mapping_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The meaning of the columns, as TOML.  [default: that of Reddit comments]",
)
@click.option("--salt", help="Hash authors with this salt.  [default: the salt of the folder]")
@click.option("--keep-authors", is_flag=True, help="Keep the names of authors instead of hashes.")
@spark_options
def ingest(
    sources: tuple[str, ...],
    out: str,
    mapping_file: Path | None,
    salt: str | None,
    keep_authors: bool,
    spark: SparkOptions,
) -> None:
    """Read raw data into a table of records.

    SRC is a file or a folder of files: JSON lines, plain or compressed (.gz, .bz2, .zst), CSV or
    Parquet. Without --mapping they are taken for dumps of Reddit comments. Bad lines are kept in
    DIR/_bad, each with the reason. Ingesting a source again replaces its earlier records, and
    nothing else.

    \b
    Examples:
      smartpubsub pipeline ingest RC_2007-10.zst --out records
      smartpubsub pipeline ingest prices.csv --mapping prices.toml --out records --json
    """
    if salt is not None and keep_authors:
        raise click.UsageError("--salt and --keep-authors exclude each other")
    spark.check_inputs("files of data", *sources)
    with spark.session("ingest") as session:
        from smartpubsub.pipeline.ingest_folder import BAD, salt_of, write_ingested
        from smartpubsub.pipeline.mapping import REDDIT, read_mapping
        from smartpubsub.pipeline.sources import find_sources
        from smartpubsub.pipeline.summary import Summary
        from smartpubsub.pipeline.tables import check_output

        mapping = read_mapping(mapping_file) if mapping_file else None
        files = find_sources(session, sources, mapping)
        for file in files:
            if mapping is None and file.format != "json":
                raise click.UsageError(f"{file.name} is {file.format}, which needs --mapping")
        check_output(session, out, sources)
        if not keep_authors:
            salt = salt or salt_of(session, out)
        counts = write_ingested(session, files, mapping or REDDIT, salt, out)
        seconds = spark.seconds()
        summary = Summary(
            stage="ingest",
            rows_in={"lines": counts.lines},
            rows_out={"records": counts.lines - counts.bad},
            bad=counts.bad,
            seconds=seconds,
            more={"sources": len(files)},
        )
    if counts.bad:
        share = "all" if counts.bad == counts.lines else f"{counts.bad:,} of {counts.lines:,}"
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in counts.reasons.items())
        complain(f"{share} lines are bad and kept in {out.rstrip('/')}/{BAD}, mostly: {reasons}")
    spark.show(summary)
