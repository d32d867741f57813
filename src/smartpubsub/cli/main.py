"""The smartpubsub command's entry point.

`pub` is what scripts call again and again, and importing click takes longer than publishing. So the
usual forms of `pub` are read here, by a module that imports little; everything else is for click.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # Importing it from typing takes as long as all of this.
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["pub"]:
        from smartpubsub.cli.quick_pub import quick_pub

        exit_code = quick_pub(given[1:])
        if exit_code is not None:
            return exit_code
    from smartpubsub.cli.commands import run

    return run(given)
