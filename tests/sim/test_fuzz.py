"""Fuzzing finds what is broken, and finds it again."""

import pytest

from smartpubsub.kademlia.settings import MINUTE
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments import fuzz as fuzzing
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.fuzz import Failure, Report, fuzz
from smartpubsub.sim.experiments.random_worlds import RandomWorld, random_world
from smartpubsub.sim.judging.oracle import REFRESH_US
from smartpubsub.sim.kernel.faults import Churn, ClockJump, Clog, Crash, Fault, Partition, Pause
from smartpubsub.workloads.actions import LeaveNode
from tests.sim.broken import Frail, Greedy, Moody, Muddled, Pushy, Silent, boastful, spec_with

SOUND = ["floodsub", "gossipsub"]


@pytest.fixture(autouse=True)
def _with_broken_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "pushy", spec_with("pushy", Pushy))
    monkeypatch.setitem(PROTOCOLS.specs, "moody", spec_with("moody", Moody))
    monkeypatch.setitem(PROTOCOLS.specs, "frail", spec_with("frail", Frail))
    monkeypatch.setitem(PROTOCOLS.specs, "silent", boastful("silent", Silent))
    monkeypatch.setitem(PROTOCOLS.specs, "greedy", spec_with("greedy", Greedy))
    monkeypatch.setitem(PROTOCOLS.specs, "muddled", spec_with("muddled", Muddled))


def invariants(report: Report) -> set[int]:
    return {violation.invariant for failure in report.failures for violation in failure.violations}


def is_calm(world: RandomWorld) -> bool:
    return not world.splits and not any(isinstance(f, Clog | Pause) for f in world.faults(0))


def is_reliable(world: RandomWorld) -> bool:
    return PROTOCOLS.specs[world.options.protocol].is_reliable(world.options.protocol_options)


def test_sound_protocols_break_nothing() -> None:
    report = fuzz(7000, 8, SOUND)

    assert (report.runs, report.failures) == (8, [])


def test_a_broken_protocol_is_found_and_its_seed_shows_the_same_again() -> None:
    report = fuzz(3, 4, ["pushy"])
    failure = report.failures[-1]
    again = fuzz(failure.seed, 1, [failure.protocol])

    assert invariants(report) == {2}
    assert failure.command == (
        f"smartpubsub sim fuzz --seed {failure.seed} --runs 1 --protocol pushy"
    )
    assert again.failures == [failure]


def test_nodes_that_lie_break_nothing_where_few_enough_do() -> None:
    report = fuzz(7020, 2, ["scoutsubs"], adversaries=(Adversary("mixed", 0.1),), check_stride=10)

    assert report.failures == []
    assert report.counts.judged["wanted"] > 0


def test_the_command_names_adversaries_and_what_nodes_withstand() -> None:
    liars = (Adversary("drop", 0.2),)
    failure = Failure(
        seed=3, protocol="scoutsubs", violations=[], adversaries=liars, resilience="byzantine"
    )

    assert failure.command.endswith("--adversary drop:0.2 --resilience byzantine")


def test_losses_are_found_wherever_none_were_to_be() -> None:
    # Around a split, or where too much fails, they may be; and so a world that then falls silent
    # shows none.
    worlds = {seed: random_world(seed, "silent") for seed in range(20)}
    reliable = [n for n, world in worlds.items() if is_reliable(world) and is_calm(world)]
    found = [seed for seed in reliable if fuzz(seed, 1, ["silent"]).failures]

    assert len(reliable) > 2
    assert found == reliable


def test_a_run_that_is_not_the_same_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "TWICE_SHARE", 1.0)

    assert invariants(fuzz(5, 1, ["moody"])) == {10}
    assert invariants(fuzz(5, 1, ["floodsub"])) == set()


def test_a_run_that_breaks_down_is_a_failure_like_others() -> None:
    report = fuzz(5, 1, ["frail"])

    assert "ZeroDivisionError: a bug" in report.failures[0].violations[0].what


def test_a_broken_invariant_of_a_state_is_found_with_its_node_and_time() -> None:
    (failure,) = fuzz(5, 1, ["greedy"]).failures
    first = failure.violations[0]

    assert {violation.invariant for violation in failure.violations} == {11}
    assert first.what.startswith(
        f"node {first.node} broke an invariant of its state: 1 events are too many (broken.py, line"
    )
    assert first.at_us > 0
    # A node that has broken an invariant is not checked again.
    nodes = [violation.node for violation in failure.violations]
    assert len(nodes) == len(set(nodes))


def test_a_check_that_fails_by_another_exception_is_a_broken_invariant() -> None:
    (failure,) = fuzz(5, 1, ["muddled"]).failures

    assert "broke an invariant of its state: KeyError: 'published'" in failure.violations[0].what


def test_states_can_be_checked_less_often_or_not_at_all() -> None:
    always, seldom, never = (fuzz(7000, 2, SOUND, check_stride=stride) for stride in (1, 10, 0))

    checks = always.counts.judged["state"]
    assert checks / 11 < seldom.counts.judged["state"] < checks / 9
    assert never.counts.judged["state"] == 0
    assert fuzz(5, 1, ["greedy"], check_stride=0).failures == []


def test_a_report_counts_what_was_judged_and_excused() -> None:
    report = fuzz(7000, 4, SOUND)

    assert report.document().items() >= report.counts.counts().items()
    assert report.counts.judged["once"] > 0
    assert report.counts.excused["delivery"]["not_reliable"] > 0


def test_the_world_of_a_seed_is_the_same_for_every_protocol() -> None:
    one, other = random_world(12, "floodsub"), random_world(12, "gossipsub")

    assert one.workload == other.workload
    assert one.options.network == other.options.network
    assert one.faults(5) == other.faults(5)
    assert random_world(13, "floodsub").workload != one.workload


def test_worlds_have_faults_of_every_kind() -> None:
    kinds = {
        type(fault).__name__
        for seed in range(60)
        for fault in random_world(seed, "floodsub", has_long_faults=True).faults(0)
    }

    expected = {"Crash", "Pause", "Slow", "Skew", "Partition", "Clog", "Churn", "ClockJump"}
    assert kinds == expected


def test_some_worlds_have_pauses_of_minutes() -> None:
    worlds = [random_world(seed, "floodsub", has_long_faults=True) for seed in range(60)]
    lengths = [
        f.until_us - f.at_us for world in worlds for f in world.faults(0) if isinstance(f, Pause)
    ]

    assert sum(length > MINUTE for length in lengths) >= 3


def test_time_is_a_limit() -> None:
    assert fuzz(1, 1000, SOUND, time_s_max=0).runs == 1


def test_an_interrupt_leaves_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[int] = []

    def tell(report: Report) -> None:
        reports.append(report.runs)
        if report.runs == 2:
            raise KeyboardInterrupt

    report = fuzz(1, 10, SOUND, on_progress=tell)

    assert (report.runs, report.was_interrupted) == (2, True)

    monkeypatch.setattr(Experiment, "_assemble", _interrupted)
    report = fuzz(1, 10, SOUND)

    assert (report.runs, report.was_interrupted) == (0, True)


def _interrupted(_: Experiment) -> None:
    raise KeyboardInterrupt


def test_no_more_nodes_fail_than_there_are_backups() -> None:
    for seed in range(60):
        world = random_world(seed, "floodsub", has_long_faults=True)
        failing: set[int] = set()
        for fault in world.faults(0):
            if isinstance(fault, Crash | Pause | ClockJump):
                failing.add(fault.node)
            elif isinstance(fault, Churn):
                failing.update(fault.nodes)
        failing.update(a.node for a in world.workload.actions() if isinstance(a, LeaveNode))

        assert len(failing) <= world.options.protocol_options.backups


def test_a_split_is_followed_by_events_that_have_to_cross_it() -> None:
    worlds = [
        world for world in (random_world(seed, "floodsub") for seed in range(60)) if world.splits
    ]

    assert worlds
    for world in worlds:
        (split,) = [fault for fault in world.faults(0) if isinstance(fault, Partition)]
        earliest_us = sum(phase[-1].at_us for phase in world.workload.phases[:-1])
        late_us = earliest_us + world.workload.phases[-1][0].at_us
        assert late_us >= split.until_us + REFRESH_US


def test_in_some_worlds_nodes_leave_and_in_some_crashed_ones_refuse_connections() -> None:
    worlds = [random_world(seed, "floodsub") for seed in range(60)]

    leaving = [w for w in worlds if any(isinstance(a, LeaveNode) for a in w.workload.actions())]
    refusing = [w for w in worlds if w.options.network.refuses_after_crash]
    assert 0 < len(leaving) < len(worlds)
    assert 0 < len(refusing) < len(worlds)


def test_faults_of_worlds_with_topics_fall_among_the_events() -> None:
    world = next(
        world
        for world in (random_world(seed, "pulsarcast", may_fail_late=True) for seed in range(60))
        if world.fault_phase and any(isinstance(fault, Crash) for fault in world.faults(0))
    )
    planned: list[int] = []

    def faults(at_us: int) -> list[Fault]:
        planned.append(at_us)
        return world.faults(at_us)

    experiment = Experiment(world.options, world.workload, faults, fault_phase=world.fault_phase)
    experiment.run()

    first_us = min(event.called_us for event in experiment.journal.events.values())
    assert planned == [experiment.began_us, first_us]
    assert any(
        fault.at_us >= first_us for fault in world.faults(first_us) if isinstance(fault, Crash)
    )


def test_pinned_worlds_have_their_faults_as_before() -> None:
    assert {random_world(seed, "pulsarcast").fault_phase for seed in range(20)} == {0}
    late = {random_world(seed, "scoutsubs", may_fail_late=True).fault_phase for seed in range(20)}
    assert late == {0}
