"""A node knows by how much its clock was set while it was down."""

import time
from pathlib import Path

import pytest

from smartpubsub import Node
from smartpubsub.node.transport.boot_clock import Uptime, clock_set, uptime
from smartpubsub.protocols.node import NodeCore
from smartpubsub.seam import Effect, Event, Started
from tests.node.hosts import LOOPBACK, run

S = 1_000_000


def stored_at(now_us: int, up: Uptime) -> bytes:
    _, value = clock_set(now_us, None, lambda: up)
    assert value is not None
    return value


@pytest.mark.parametrize("set_us", [-1_800 * S, 1_800 * S, 40_000 * S])
def test_the_uptime_shows_by_how_much_the_clock_was_set(set_us: int) -> None:
    before = stored_at(1_000_000 * S, Uptime(b"boot", 500 * S))
    now_us = 1_000_000 * S + 60 * S + set_us

    found_us, value = clock_set(now_us, before, lambda: Uptime(b"boot", 560 * S))

    assert found_us == set_us
    assert clock_set(now_us + S, value, lambda: Uptime(b"boot", 561 * S))[0] == 0


def test_small_differences_are_imprecision() -> None:
    before = stored_at(1_000 * S, Uptime(b"boot", 500 * S))
    assert clock_set(1_060 * S + 1_000, before, lambda: Uptime(b"boot", 560 * S))[0] == 0


def test_after_a_restart_of_the_machine_nothing_is_known() -> None:
    before = stored_at(1_000 * S, Uptime(b"boot", 500 * S))
    assert clock_set(9_000 * S, before, lambda: Uptime(b"later", 10 * S))[0] == 0
    assert clock_set(9_000 * S, before, lambda: None) == (0, None)


@pytest.mark.skipif(uptime() is None, reason="this system has no uptime that cannot be set")
def test_a_node_tells_its_protocols_by_how_much_the_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Started] = []
    handle = NodeCore.handle

    def noted(core: NodeCore, event: Event, now: int) -> list[Effect]:
        started.extend([event] if isinstance(event, Started) else [])
        return handle(core, event, now)

    monkeypatch.setattr(NodeCore, "handle", noted)
    right_ns = time.time_ns

    async def start() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK]):
            pass

    for ahead_s in (0, 0, 1_800, -1_800):
        ahead_ns = ahead_s * 10**9
        monkeypatch.setattr(time, "time_ns", lambda ahead_ns=ahead_ns: right_ns() + ahead_ns)
        run(start)
    set_s = [round(event.clock_set_us / S) for event in started]
    assert set_s == [0, 0, 1_800, -3_600]
