"""A core that fails in a whole node is counted, and is a violation unless the disk was full."""

from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.testbed.messages import Contained
from smartpubsub.testbed.soak.plan import Kind
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
