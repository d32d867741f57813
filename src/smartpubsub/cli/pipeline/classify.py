"""smartpubsub pipeline classify."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from smartpubsub.cli.pipeline.options import SparkOptions, format_option, spark_options

if TYPE_CHECKING:
    from smartpubsub.pipeline.outputs import TableFormat


@click.command()
@click.option("--events", required=True, metavar="DIR", help="A table of records.")
@click.option(
    "--out", required=True, metavar="DIR", help="The folder for the records with new topics."
)
@click.option(
    "--terms",
    type=click.IntRange(min=1, max=100),
    default=3,
    show_default=True,
    help="The maximum number of terms of a record.",
)
@click.option(
    "--stop-words",
    "languages",
    multiple=True,
    default=("english",),
    show_default=True,
    metavar="LANGUAGE",
    help="Leave out the most common words of a language; may be repeated.",
)
@click.option(
    "--model",
    metavar="MODULE:FUNCTION",
    help="A trained model: (texts, count) to a list of terms for each text.",
)
@format_option
@spark_options
def classify(
    events: str,
    out: str,
    terms: int,
    languages: tuple[str, ...],
    model: str | None,
    table_format: TableFormat,
    spark: SparkOptions,
) -> None:
    """Give records topics from their text.

    Topics are the most significant words of a record's text, by TF-IDF or by a model; numbers are
    unchanged. Records without any usable word are kept in DIR/_bad. Where records have
    labels, the precision of the first k terms is reported for each k.

    \b
    Examples:
      smartpubsub pipeline classify --events records --out described
      smartpubsub pipeline classify --events records --out described --terms 5 --json
      smartpubsub pipeline classify --events records --out described --model my_model:terms
    """
    spark.check_inputs("a table of records", events)
    with spark.session("classify") as session:
        from smartpubsub.pipeline import classify as stage
        from smartpubsub.pipeline.outputs import Output, row_count
        from smartpubsub.pipeline.schemas import BAD_LINES, RECORDS
        from smartpubsub.pipeline.summary import Summary
        from smartpubsub.pipeline.tables import check_output, read_table

        records = read_table(session, events, RECORDS)
        check_output(session, out, [events])
        chosen = stage.Classifying(terms=terms, languages=languages, model=model)
        described = stage.classified(records, chosen)
        output = Output.of(session, table_format, "classify", [events], chosen=chosen)
        output.write(stage.with_terms(described), out, RECORDS)
        output.write(stage.without_terms(described), f"{out}/_bad", BAD_LINES)
        written = read_table(session, out, RECORDS)
        good = row_count(session, out, RECORDS)
        bad = row_count(session, f"{out}/_bad", BAD_LINES)
        precision = {
            str(row["k"]): round(row["precision"], 4) for row in stage.precision(written).collect()
        }
        summary = Summary(
            stage="classify",
            rows_in={"records": good + bad},
            rows_out={"records": good},
            bad=bad,
            seconds=spark.seconds(),
            more={
                **({"precision_at": precision} if precision else {}),
                **output.versions(session, {RECORDS.name: out}),
            },
        )
    spark.show(summary)
