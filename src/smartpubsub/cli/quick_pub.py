"""`smartpubsub pub` without click, for its usual forms."""

from __future__ import annotations

import sys

from smartpubsub.cli.publishing import (
    WAITS,
    complain,
    discard_further_output,
    failure,
    print_failure,
    publish,
)
from smartpubsub.client.blocking_socket import folder_of
from smartpubsub.errors import SmartPubSubError
from smartpubsub.node.errors import LostNodeError, PublishError

TYPE_CHECKING = False  # The import from typing takes as long as this whole module.
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAILURE = 1
_FIELDS = {"--key": "key", "--id": "again", "--replicas-min": "replicas_min"}
"""The fields of a request, by their options."""
_WITH_VALUE = ("--data", "--wait", *_FIELDS)


def quick_pub(arguments: Sequence[str]) -> int | None:
    """Publish, and return the exit code; None if the arguments need the whole command line."""
    read = _read(arguments)
    if read is None:
        return None
    words, options, as_json = read
    wait = options.get("--wait", WAITS[1])
    if len(words) not in (1, 2) or wait not in WAITS:
        return None
    fields: dict[str, object] = {"event": words[0], "wait": wait}
    fields |= {field: options[name] for name, field in _FIELDS.items() if name in options}
    if "replicas_min" in fields:
        replicas_min = options["--replicas-min"]
        if not replicas_min.isdecimal() or not int(replicas_min):
            return None
        fields["replicas_min"] = int(replicas_min)
    payload = words[1].encode(errors="surrogateescape") if words[1:] else b""
    exit_code: int | None = 0
    try:
        exit_code = _published(folder_of(options.get("--data")), fields, payload, as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # The reader of the output wants no more of it.
        discard_further_output()
    except OSError as error:
        discard_further_output()
        complain(f"output: {error.strerror}")
        return FAILURE
    return exit_code


def _published(
    folder: str, fields: Mapping[str, object], payload: bytes, as_json: bool
) -> int | None:
    try:
        publish(folder, fields, payload, as_json)
    except (PublishError, LostNodeError) as error:
        if as_json:
            print_failure(failure(error))
        complain(str(error))
        return FAILURE
    except SmartPubSubError:
        return None  # Nothing is published; click reports the error in full.
    return 0


def _read(arguments: Sequence[str]) -> tuple[list[str], dict[str, str], bool] | None:
    """Read words, options with values, and --json; None if there is anything else."""
    words: list[str] = []
    options: dict[str, str] = {}
    as_json = False
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.partition("=")
        if argument == "--json":
            as_json = True
        elif name in _WITH_VALUE:
            given = value if equals else next(left, None)
            if given is None:
                return None
            options[name] = given
        elif argument.startswith("-"):
            return None
        else:
            words.append(argument)
    return words, options, as_json
