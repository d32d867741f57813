"""Publishing an event, as `pub` does; imports little, because scripts call it again and again."""

from __future__ import annotations

import os
import sys
from binascii import b2a_base64

from smartpubsub.client.blocking_socket import BlockingNetwork, run
from smartpubsub.client.lines import LineTransport
from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.errors import LostNodeError, PublishError

TYPE_CHECKING = False  # The import from typing takes as long as this whole module.
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

WAITS = ("nothing", "rendezvous", "all")


def publish(folder: str, fields: Mapping[str, object], payload: bytes, as_json: bool) -> None:
    """Publish by the node in a data folder, and print the event's id or the receipt."""
    written = b2a_base64(payload, newline=False).decode()
    transport = LineTransport(BlockingNetwork(folder), on_wait=complain)
    try:
        receipt = run(transport.ask("publish", {**fields, "payload": written}))
    finally:
        run(transport.close())
    if as_json:
        print_document(receipt)
        return
    sys.stdout.write(f"{receipt['id']}\n")
    replicas, wanted = receipt["replicas"], receipt["replicas_wanted"]
    if replicas is not None and replicas < wanted:
        sys.stderr.write(f"note: replicas={replicas} of {wanted}: no more nodes are up\n")


def failure(error: SmartPubSubError) -> dict[str, str | None]:
    """The document of a publish that failed."""
    if isinstance(error, PublishError):
        id, state = error.id, error.state
    else:
        id, state = None, "unknown" if isinstance(error, LostNodeError) else "unpublished"
    return {"id": id, "reason": str(error), "state": state}


def print_document(document: object) -> None:
    """Print a JSON document."""
    import json

    sys.stdout.write(f"{json.dumps(document, indent=2)}\n")


def print_failure(document: object) -> None:
    """Print the JSON document of a failure; a reader that has gone changes no exit code."""
    try:
        print_document(document)
        sys.stdout.flush()
    except OSError:
        discard_further_output()


def complain(problem: str) -> None:
    """Print a problem as one line on standard error, unless that cannot be written."""
    try:
        sys.stderr.write(f"smartpubsub: {problem}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def discard_further_output() -> None:
    """Keep the interpreter from failing on the closed output again at exit."""
    _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    """Have what a stream still holds, and all later text, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
