"""The log of a running node: lines of name=value on standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

LEVELS = ("debug", "info", "warning", "error")
_NEEDS_QUOTES = frozenset(' "=\\')


def start_log(level: str) -> None:
    """Log messages from a level on; messages of libp2p count as debug."""
    handler = logging.StreamHandler()
    handler.setFormatter(NameValueFormatter())
    for name in ("smartpubsub", "libp2p") if level == LEVELS[0] else ("smartpubsub",):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level.upper())
        logger.propagate = False


class NameValueFormatter(logging.Formatter):
    """Formats time, level, source and message, then the fields of a record."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "source": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return " ".join(f"{name}={_written(value)}" for name, value in fields.items())


def _written(value: object) -> str:
    """Format a value as one word.

    >>> _written("ready"), _written("not ready")
    ('ready', '"not ready"')
    """
    text = str(value)
    is_plain = text.isprintable() and text and _NEEDS_QUOTES.isdisjoint(text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)
