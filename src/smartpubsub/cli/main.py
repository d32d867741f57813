"""The smartpubsub command's entry point.

Scripts call `pub` again and again, and importing click takes longer than publishing. So a module
that imports little reads the usual forms of `pub`; click reads everything else.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # The import from typing takes as long as this whole module.
if TYPE_CHECKING:
    from collections.abc import Sequence


INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        _open_closed_streams()
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # While modules are imported: commands handle their own.
        return INTERRUPTED


def _open_closed_streams() -> None:
    """Open the standard streams that the caller has closed, as `>&-` does.

    Python has None in their place, and the next socket would get the number of a closed stream.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        null = os.open(os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(null, "w", encoding="utf-8", errors="backslashreplace")


def _run(given: Sequence[str]) -> int:
    if given[:1] == ["pub"]:
        from smartpubsub.cli.quick_pub import quick_pub

        exit_code = quick_pub(given[1:])
        if exit_code is not None:
            return exit_code
    from smartpubsub.cli.commands import run

    return run(given)
