"""smartpubsub topic export and import."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import click

from smartpubsub.cli.commands import FAILURE
from smartpubsub.cli.node.options import data_option, running_node
from smartpubsub.cli.output import json_option, print_json
from smartpubsub.cli.topic.gaps import report_gaps
from smartpubsub.cli.topic.rules import topic_argument
from smartpubsub.client.commands import ControlClient
from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.blocks import cid_from_text
from smartpubsub.protocols.car import CarError, read_car, write_car

BATCH_BYTES = 1 << 20
"""The number of bytes sent to the node at once."""


@click.command()
@topic_argument
@click.argument("file", type=click.Path(path_type=Path))
@data_option
@json_option
def export(topic: str, file: Path, data: str | None, as_json: bool) -> None:
    """Write a whole topic to a CAR file.

    The file has the topic's versions, its meta topic and all events, each under its content id;
    other IPLD tools read it. Its roots are the topic and the newest events. Missing events are
    reported, and with --json listed in "gaps".

    \b
    Example:
      smartpubsub topic export bafyrei… news.car
    """
    with running_node(data) as node:
        done = export_topic(node, topic, file)
    report_gaps(done["gaps"])
    if as_json:
        print_json(done | {"file": str(file)})
    else:
        click.echo(f"{done['blocks']:,} blocks in {file}")


def export_topic(node: ControlClient, topic: str, file: Path) -> dict[str, Any]:
    """Write all blocks of a topic to a file; return their number, and what is missing."""
    begun, lines = node.stream("topic-export", {"topic": topic})
    roots = [cid_from_text(root) for root in begun["roots"]]
    try:
        with file.open("wb") as opened:
            count = write_car(opened, roots, (base64.b64decode(line["block"]) for line in lines))
    except OSError as error:
        problem = f"{file}: {error.strerror}; name a file that can be written"
        raise SmartPubSubError(problem) from None
    return {"topic": begun["topic"], "blocks": count, "gaps": begun["gaps"]}


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@data_option
@json_option
@click.pass_context
def import_(context: click.Context, /, *, file: Path, data: str | None, as_json: bool) -> None:
    """Import the topics of a CAR file.

    The node verifies every block as if it had come from another node, and pins the topics: it keeps
    them whole. The exit code is 1 if some blocks were refused.

    \b
    Example:
      smartpubsub topic import news.car
    """
    good = count = 0
    try:
        with file.open("rb") as opened, running_node(data) as node:
            _, blocks = read_car(opened)
            batch: list[str] = []
            size = 0
            for block in blocks:
                batch.append(base64.b64encode(block).decode())
                size += len(block)
                count += 1
                if size >= BATCH_BYTES:
                    good += node.ask("topic-import", blocks=batch)["blocks"]
                    batch, size = [], 0
            if batch:
                good += node.ask("topic-import", blocks=batch)["blocks"]
    except CarError as error:
        raise SmartPubSubError(f"{file}: {error}") from None
    except OSError as error:
        raise click.BadParameter(
            f"{file}: {error.strerror}; name a file that can be read", param_hint="FILE"
        ) from None
    if as_json:
        print_json({"file": str(file), "blocks": count, "kept": good})
    else:
        click.echo(f"{good:,} of {count:,} blocks are stored")
    if good < count:
        click.echo(
            f"{count - good:,} blocks were refused; smartpubsub node info --metrics counts why",
            err=True,
        )
        context.exit(FAILURE)
