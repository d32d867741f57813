"""All checks run, and long lists are cut in one place."""

from collections import Counter
from dataclasses import replace

from smartpubsub.kademlia.settings import SECOND
from smartpubsub.protocols.baselines.floodsub import Floodsub
from smartpubsub.sim.judging.checkers import Findings, Violation, check_all
from smartpubsub.sim.judging.checkers.convictions import check_convictions
from smartpubsub.sim.judging.checkers.judgement import Judgement
from smartpubsub.sim.judging.checkers.suite import LISTED_MAX
from tests.sim.checkers.broken import Stuttering
from tests.sim.checkers.world import SmallWorld


def test_of_many_violations_the_earliest_are_listed_and_all_are_counted() -> None:
    world = SmallWorld(Stuttering)
    world.subscribe(1, "surf")
    for _ in range(LISTED_MAX + 5):
        world.publish(0, "surf")
    world.run(SECOND)

    listed = check_all(world.facts()).violations

    assert len(listed) == LISTED_MAX + 1
    assert {violation.invariant for violation in listed} == {3}
    assert listed[-1].what == f"and 5 more like these, {LISTED_MAX + 5} in all"
    assert [violation.at_us for violation in listed] == sorted(v.at_us for v in listed)


def test_an_honest_node_must_not_be_convicted() -> None:
    facts = SmallWorld(Floodsub).facts()

    assert check_convictions(replace(facts, convicted_count=2)).violations == []
    convicted = replace(facts, convicted_count=2, convicted_honest_count=1)
    assert [one.invariant for one in check_convictions(convicted).violations] == [12]


def test_findings_of_several_runs_add_up() -> None:
    findings = Findings()
    for _ in range(2):
        run = Findings()
        run.add("order", Judgement(judged=3, excused=Counter(crash=1)))
        run.add("once", Judgement(judged=1))
        findings.add_counts(run)

    assert findings.counts() == {
        "judged": {"order": 6, "once": 2},
        "excused": {"order": {"crash": 2}},
    }


def test_violations_are_written_in_milliseconds() -> None:
    violation = Violation(3, 1_500, 7, "node 7 got it again")

    assert violation.document() == {
        "invariant": 3,
        "at_ms": 1.5,
        "node": 7,
        "what": "node 7 got it again",
    }
