"""A node that hangs: its process is there and its connections are open, but it does not answer."""

import pytest

from smartpubsub.predicates import Predicate
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.running import RunOptions
from smartpubsub.sim.judging import result
from smartpubsub.sim.kernel.faults import Fault, Pause
from smartpubsub.workloads.actions import CreateTopic, Publish, Subscribe, Workload

SECOND = 1_000_000
NODES = 5
EVENTS = 5
PUBLISH_MS_MAX = 5_000


def workload(hung: int) -> Workload:
    """All nodes subscribe; those that do not hang publish, first all at once, then one by one."""
    news, others = Predicate.of({"news": True}), [n for n in range(NODES) if n != hung]
    events = [
        Publish((10 + turn) * SECOND, node, news, b"%d" % turn)
        for turn in range(EVENTS)
        for node in others
    ]
    subscriptions = tuple(Subscribe(0, node, news) for node in range(NODES))
    creation = (CreateTopic(0, others[0], "news", False),)
    names = tuple(f"n{node}" for node in range(NODES))
    return Workload(names=names, phases=(creation, subscriptions, tuple(events)))


@pytest.mark.parametrize("hung", range(NODES))
@pytest.mark.parametrize("protocol", ["scoutsubs", "fastdelivery", "pulsarcast"])
def test_publishing_takes_one_detection_timeout_whichever_node_hangs(
    protocol: str, hung: int
) -> None:
    """One of them is the rendezvous, or the root of the topic's tree."""

    def pause(began_us: int) -> list[Fault]:
        return [Pause(node=hung, at_us=began_us + 9 * SECOND, until_us=began_us + 70 * SECOND)]

    options = RunOptions(protocol=protocol, nodes=NODES, seed=1, checks_invariants=True)
    found = result.run(Experiment(options, workload(hung), pause), "hung").document()

    assert (found["missing"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["published"] == found["injected"] == EVENTS * (NODES - 1)
    publish_ms = found["publish_ms"]
    assert isinstance(publish_ms, dict)
    assert publish_ms["max"] <= PUBLISH_MS_MAX
