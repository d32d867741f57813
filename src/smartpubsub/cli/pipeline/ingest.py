"""smartpubsub pipeline ingest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from smartpubsub.cli.pipeline.options import SparkOptions, format_option, spark_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from smartpubsub.pipeline.outputs import TableFormat
    from smartpubsub.pipeline.summary import Summary


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
@format_option
@spark_options
def ingest(
    sources: tuple[str, ...],
    out: str,
    mapping_file: Path | None,
    salt: str | None,
    keep_authors: bool,
    table_format: TableFormat,
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

    def stage(session: SparkSession | None) -> Summary:
        from smartpubsub.pipeline import stages
        from smartpubsub.pipeline.mapping import read_mapping

        return stages.ingest(
            session,
            sources,
            out,
            mapping=read_mapping(mapping_file) if mapping_file else None,
            salt=salt,
            keeps_authors=keep_authors,
            table_format=table_format,
        )

    spark.show(spark.run("ingest", stage, *sources, out))
