"""docs/pipeline.md shows the tables as they are declared."""

from pathlib import Path

from smartpubsub.pipeline.document import MARK, tables_text

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_document_shows_every_table() -> None:
    parts = DOCUMENT.read_text(encoding="utf-8").split(MARK)

    assert len(parts) == 3
    assert parts[1].strip() == tables_text().strip(), (
        "write it again: .venv/bin/python -m smartpubsub.pipeline.document"
    )
