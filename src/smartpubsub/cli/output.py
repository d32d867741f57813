"""The JSON output of commands, and the charts that they draw."""

import json
from pathlib import Path
from typing import Any

import click

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2))


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "filter"), counted(0, "filter")
    ('1 filter', '0 filters')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class WritablePath(click.ParamType[Path]):
    """A file for a result, checked before any work begins."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        was_there = path.exists()
        try:
            path.open("ab").close()
            if not was_there:
                path.unlink()  # No result may follow: the command may fail or be ended.
        except OSError as error:
            problem = f"{path}: {error.strerror}; name a file that can be written"
            self.fail(problem, param, ctx)
        return path


class ChartPath(WritablePath):
    """A file for a chart."""

    formats = (".png", ".svg")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if Path(value).suffix.lower() not in self.formats:
            self.fail(f"{value}: a chart is a file that ends in .png or .svg", param, ctx)
        return super().convert(value, param, ctx)
