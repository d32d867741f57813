"""What a node writes to its log can be read back by programs."""

import logging
import sys

import pytest

from smartpubsub.cli.node.log import NameValueFormatter


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("here", logging.WARNING, "", 0, message, None, None)
    made.created = 1_800_000_000.5
    made.fields = fields
    return made


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('a"b', r'"a\"b"'),
        ("a=b", '"a=b"'),
        ("two\nlines", r'"two\nlines"'),
        ("", '""'),
        (7, "7"),
    ],
)
def test_a_record_is_one_line_of_names_and_values(value: object, written: str) -> None:
    line = NameValueFormatter().format(record("ready", found=value))
    assert line == (
        f"time=2027-01-15T08:00:00.500Z level=warning source=here message=ready found={written}"
    )


def test_an_error_stays_in_its_line() -> None:
    failed = record("failed")
    try:
        raise ValueError("why")
    except ValueError:
        failed.exc_info = sys.exc_info()
    line = NameValueFormatter().format(failed)
    assert "\n" not in line
    assert "ValueError: why" in line
