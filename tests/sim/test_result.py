"""What a result says about a run."""

from typing import Any

import pytest

from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.sim.experiments.comparison import carried_for_nothing, compared
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.judging.result import Result, facts_of, run
from smartpubsub.sim.kernel.faults import Clog, Crash, Fault, Pause, Slow
from smartpubsub.sim.kernel.network import NetworkOptions
from tests.sim.broken import Forger, boastful, spec_with
from tests.sim.small import experiment_of, publish, subscribe

PHASES = (subscribe(1, "a"), subscribe(2, "a/b")), (publish(0, "a"), publish(0, "a/b", at_ms=100))


def document_of(experiment: Experiment) -> dict[str, Any]:
    return run(experiment, "small").document()


def lossy(protocol: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A run in which only the subscriptions can be made: nothing arrives any more."""
    monkeypatch.setitem(PROTOCOLS.specs, protocol, boastful(protocol))
    experiment = experiment_of(*PHASES, protocol=protocol, nodes=3)
    experiment._assemble()
    experiment.world.network.rules.append(lambda _now, _sender, _receiver: -1)
    monkeypatch.setattr(experiment, "_assemble", lambda: None)
    return run(experiment, "small")


def test_counts_are_of_events_and_nodes() -> None:
    document = document_of(experiment_of(*PHASES))

    counted = ("injected", "published", "expected", "delivered", "missing", "unexpected")
    assert [document[name] for name in counted] == [2, 2, 3, 3, 0, 0]
    assert document["coverage_injected"] == document["coverage_published"] == 1.0
    assert (document["app_duplicates"], document["violations"]) == (0, [])


def test_latency_is_at_least_that_of_the_links_passed() -> None:
    document = document_of(experiment_of(*PHASES, network=NetworkOptions(latency_us=30_000)))

    assert document["hops"] == {"mean": 1, "max": 1}
    assert document["path_floor_ms"] == {"mean": 30}
    assert 30 < document["latency_ms"]["mean"] < 35
    assert document["subscription_latency_ms"]["max"] == 0


def test_joining_is_not_counted_as_traffic() -> None:
    document = document_of(experiment_of((publish(0, "a"),), nodes=2))

    assert document["messages"] == document["rpc_sent_per_node"]["mean"] * 2 == 1


def test_what_is_missing_is_a_violation_where_it_was_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = lossy("boastful", monkeypatch)
    document = result.document()

    assert (document["expected"], document["missing"]) == (3, 3)
    assert document["variant"] == "redirect-reliable"
    assert [violation.invariant for violation in result.violations] == [1, 1, 1]


def test_events_that_an_interrupted_run_did_not_wait_for_are_no_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "boastful", boastful("boastful"))
    experiment = experiment_of(*PHASES, protocol="boastful")
    monkeypatch.setattr(experiment, "_run_until_quiet", _interrupted)

    document = document_of(experiment)

    assert document["interrupted"] is True
    assert document["missing"] > 0
    assert document["violations"] == []


def test_an_interrupt_before_anything_happened_gives_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = experiment_of(*PHASES)
    monkeypatch.setattr(experiment, "_assemble", _interrupted)

    document = document_of(experiment)

    assert (document["interrupted"], document["messages"], document["injected"]) == (True, 0, 0)


@pytest.mark.parametrize(
    ("network", "reorders"),
    [
        (NetworkOptions(), False),
        (NetworkOptions(jitter_us=1_000), False),
        (NetworkOptions(reordering=True), False),
        (NetworkOptions(reordering=True, jitter_us=1_000), True),
    ],
)
def test_a_network_reorders_only_if_messages_can_overtake_each_other(
    network: NetworkOptions, reorders: bool
) -> None:
    assert facts_of(experiment_of(*PHASES, network=network)).network_reorders is reorders


def test_faults_and_lost_messages_are_in_the_journal() -> None:
    def plan(began_us: int) -> list[Fault]:
        return [
            Pause(node=1, at_us=began_us, until_us=began_us + 10),
            Clog(sender=1, receiver=2, at_us=began_us, until_us=began_us + 20),
            Crash(node=1, at_us=began_us + 30, restart_at_us=began_us + 40),
            Slow(node=1, at_us=began_us, until_us=began_us + 50, factor=2),
        ]

    experiment = experiment_of(*PHASES, faults=plan, network=NetworkOptions(loss=0.1))
    experiment.run()

    began_us, journal = experiment.began_us, experiment.journal
    assert journal.disturbances == [
        ("pause", (1,), began_us, began_us + 10),
        ("clog", (1, 2), began_us, began_us + 20),
        ("crash", (1,), began_us + 30, began_us + 30),
        ("restart", (1,), began_us + 40, began_us + 40),
    ]
    assert journal.lost_us


def test_failing_nodes_that_handle_events_of_a_publisher_are_recorded() -> None:
    def plan(began_us: int) -> list[Fault]:
        return [Pause(node=n, at_us=began_us, until_us=began_us + 10) for n in (0, 1, 4)]

    experiment = experiment_of(*PHASES, protocol="scoutsubs", faults=plan)
    experiment.run()
    publisher = experiment.peers[0]

    handlers = experiment.journal.handlers
    assert handlers is not None
    assert set(handlers) == {publisher}
    assert {0, 1} <= set(handlers[publisher]) <= {0, 1, 4}


def test_the_time_from_publish_to_its_acknowledgement_is_reported() -> None:
    document = document_of(experiment_of(*PHASES, protocol="scoutsubs"))

    assert list(document["publish_ms"]) == ["p50", "p99", "max"]
    assert 0 < document["publish_ms"]["p50"] <= document["publish_ms"]["max"]


def test_the_document_counts_what_was_judged_and_excused() -> None:
    document = document_of(experiment_of(*PHASES))

    assert document["judged"]["delivery"] == 0
    assert document["excused"]["delivery"] == {"not_reliable": document["expected"]}
    assert document["judged"]["once"] == document["delivered"]
    assert document["excused"]["order"]["not_promised"] > 0
    assert document["judged"]["state"] > 0


def test_what_was_never_published_does_not_spoil_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "forger", spec_with("forger", Forger))

    document = document_of(experiment_of(*PHASES, protocol="forger"))

    assert {violation["invariant"] for violation in document["violations"]} == {3}
    assert document["unexpected"] > 0


def test_copies_for_who_did_not_want_them_are_counted() -> None:
    wanted = run(experiment_of((subscribe(1, "a"),), (publish(0, "a"),), nodes=2), "small")
    unwanted = run(experiment_of((subscribe(1, "b"),), (publish(0, "a"),), nodes=2), "small")

    assert carried_for_nothing(wanted.experiment) == 0
    assert carried_for_nothing(unwanted.experiment) == 1
    assert compared(wanted)["messages_per_delivery"] == 1
    assert compared(unwanted)["messages_per_delivery"] is None


def _interrupted() -> None:
    raise KeyboardInterrupt
