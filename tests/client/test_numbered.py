"""Lines that survive their connection."""

from __future__ import annotations

from smartpubsub.client.numbered import ACKNOWLEDGE_COUNT, NumberedLines


def test_lines_that_come_do_not_acknowledge_lines_that_were_sent() -> None:
    lines = NumberedLines()
    due = [lines.came() for _ in range(ACKNOWLEDGE_COUNT)]
    assert due == [None] * (ACKNOWLEDGE_COUNT - 1) + [b'{"received":%d}' % ACKNOWLEDGE_COUNT]
    for line in (b"a", b"b", b"c"):
        lines.send(line)
    assert lines.sent == 3
    assert lines.after(1) == [b"b", b"c"]
    lines.acknowledged(2)
    assert lines.after(2) == [b"c"]
    assert lines.waiting_bytes == 1
    assert lines.sent == 3


def test_lines_that_were_acknowledged_do_not_delay_acknowledgements() -> None:
    lines = NumberedLines()
    for _ in range(3 * ACKNOWLEDGE_COUNT):
        lines.send(b"a")
    lines.acknowledged(3 * ACKNOWLEDGE_COUNT)
    due = [lines.came() for _ in range(ACKNOWLEDGE_COUNT)]
    assert due[-1] == b'{"received":%d}' % ACKNOWLEDGE_COUNT
