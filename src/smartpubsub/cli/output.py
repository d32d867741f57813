"""What commands print for programs."""

import json
from typing import Any

import click

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
)


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2))
