"""Errors of commands that import a package which is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smartpubsub.errors import SmartPubSubError


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Name the extra of this package that installs a module, if an import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SmartPubSubError(
            f"{what} needs {error.name}; install it with: pip install 'smartpubsub[{extra}]'"
        ) from None
