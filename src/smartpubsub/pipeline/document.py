"""The tables in docs/pipeline.md, generated from their declarations.

To regenerate them: python -m smartpubsub.pipeline.document
"""

from __future__ import annotations

from pathlib import Path

from smartpubsub.pipeline.archive_schemas import ARCHIVE_TABLES
from smartpubsub.pipeline.metric_schemas import METRIC_TABLES
from smartpubsub.pipeline.result_schemas import CAMPAIGN_TABLES
from smartpubsub.pipeline.schemas import TABLES, Table
from smartpubsub.pipeline.traces import TRACES

MARK = "<!-- tables -->"


_ALL = (*TABLES, *ARCHIVE_TABLES, *CAMPAIGN_TABLES, TRACES, *METRIC_TABLES)


def tables_text() -> str:
    """A heading and a list of columns for each table."""
    return "\n\n".join(map(_table_text, _ALL))


def _table_text(table: Table) -> str:
    rows = [
        f"| `{column.name}` | `{column.type.simpleString()}` | {column.about}"
        f"{' (may be null)' if column.is_nullable else ''} |"
        for column in table.columns
    ]
    heading = [f"### {table.name}", "", f"{table.about[0].upper()}{table.about[1:]}.", ""]
    return "\n".join([*heading, "| column | type | |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    document = Path(__file__).parents[3] / "docs" / "pipeline.md"
    before, _, after = document.read_text(encoding="utf-8").split(MARK)
    document.write_text(f"{before}{MARK}\n\n{tables_text()}\n\n{MARK}{after}", encoding="utf-8")
