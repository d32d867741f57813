"""Failures of whole nodes are counted, and are violations unless a full disk explains them."""

import signal

import pytest
import trio
from trio.testing import MockClock

from smartpubsub.errors import SmartPubSubError
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.testbed.messages import Contained, Ready
from smartpubsub.testbed.soak.plan import Fault, Kind
from smartpubsub.testbed.soak.run import Soak, SoakOptions


def _soak() -> Soak:
    options = RunOptions(protocol="scoutsubs", protocol_options=ProtocolOptions(), nodes=2, seed=1)
    return Soak(options, SoakOptions(seconds=1, rate=1))


def test_a_restarted_core_is_a_violation_with_its_reason() -> None:
    soak = _soak()
    soak._on_news(1, Contained({"Bundle: KeyError in x.py:1": 2}, 1))
    soak._on_news(1, Contained({"Bundle: KeyError in x.py:1": 1}, 1))
    assert soak.contained == {1: {"Bundle: KeyError in x.py:1": 3}}
    assert soak.core_restarts == {1: 2}
    assert [violation.node for violation in soak.failures] == [1, 1]
    assert soak.failures[0].what == "the core of node 1 was restarted: Bundle: KeyError in x.py:1"


def test_what_was_dropped_without_a_restart_is_counted_only() -> None:
    soak = _soak()
    soak._on_news(0, Contained({"identify: ValueError in y.py:2": 1}, 0))
    assert soak.contained[0].total() == 1
    assert soak.failures == []


def test_a_full_disk_explains_a_restart() -> None:
    soak = _soak()
    soak._struck[0] = Kind.DISKS
    soak._on_news(0, Contained({"storing: StorageLimitError in z.py:3": 1}, 1))
    assert soak.core_restarts == {0: 1}
    assert soak.failures == []


class _SignalledCluster:
    """Processes that take signals."""

    def __init__(self) -> None:
        self.signals: list[signal.Signals] = []

    def signal(self, node: int, number: signal.Signals) -> bool:
        assert node == 1
        self.signals.append(number)
        return True


def test_a_node_may_fail_and_return_while_it_is_paused() -> None:
    soak = _soak()
    cluster = soak._cluster = _SignalledCluster()  # type: ignore[assignment]

    async def pause_and_return() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(soak._pause, Fault(Kind.PAUSES, 1, 5.0))
            await trio.sleep(1)
            assert soak._struck.pop(1) is Kind.PAUSES  # As `_return` does at last.

    trio.run(pause_and_return, clock=MockClock(autojump_threshold=0))

    assert cluster.signals == [signal.SIGSTOP, signal.SIGCONT]
    assert soak._struck == {}


class _StuckCluster:
    """The first process of a node never becomes ready."""

    def __init__(self, soak: Soak) -> None:
        self._soak = soak
        self.starts = 0
        self.crashed: list[int] = []

    async def start_whole(self, node: int, through: tuple[str, ...], clock_us: int) -> None:
        assert not through
        assert not clock_us
        self.starts += 1
        if self.starts > 1:
            self._soak._on_news(node, Ready())

    def is_up(self, node: int) -> bool:
        return len(self.crashed) < self.starts and node == 1

    async def crash(self, node: int) -> None:
        self.crashed.append(node)

    async def send(self, command: object) -> None:
        raise AssertionError(command)  # The node has no subscriptions.


def test_a_node_that_does_not_become_ready_is_recorded_and_started_again() -> None:
    soak = _soak()
    cluster = soak._cluster = _StuckCluster(soak)  # type: ignore[assignment]
    soak.began_us = 1

    trio.run(soak._return, 1, clock=MockClock(autojump_threshold=0))

    assert [violation.node for violation in soak.failures] == [1]
    assert soak.failures[0].what == "node 1 is not ready 120 s after a start"
    assert cluster.crashed == [1]
    assert cluster.starts == 2


def test_a_soak_does_not_begin_without_one_of_its_nodes() -> None:
    soak = _soak()
    soak._cluster = _StuckCluster(soak)  # type: ignore[assignment]

    with pytest.raises(SmartPubSubError, match="node 1 is not ready 120 s after a start"):
        trio.run(soak._start, 1, clock=MockClock(autojump_threshold=0))
