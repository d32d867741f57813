"""An author that signs two events under one number is named."""

from dataclasses import replace

import pytest

from smartpubsub.protocols.pubsub import Convicted
from smartpubsub.protocols.pulsarcast.dissemination import Fork, Forks
from smartpubsub.protocols.pulsarcast.events import new_event, sealed_draft
from smartpubsub.protocols.pulsarcast.messages import Parcel, Spread
from smartpubsub.seam import Send
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import Result, run
from smartpubsub.sim.kernel.signing import StandInSigning
from tests.protocols.pulsarcast.makers import Person
from tests.protocols.pulsarcast.village import Village


def ran(*adversaries: Adversary, seed: int = 1) -> Result:
    options = SimOptions(nodes=15, events=40, seed=seed, adversary=adversaries)
    workload = options.load(["pulsarcast"])
    return run(options.experiment("pulsarcast", "", workload), "reddit")


def test_two_payloads_under_one_number_convict_the_author() -> None:
    author, forks = Person(1), Forks()
    topic, _ = author.topic()
    first = author.draft(topic, b"yes")
    second = sealed_draft(replace(first, payload=b"no"), author.signing)
    one, other = author.event(topic, draft=first), author.event(topic, draft=second)

    assert forks.compare(one, other)
    assert forks.convicted == {author.peer: Fork(one.block, other.block)}


def test_an_event_that_is_published_again_is_no_fork() -> None:
    author, forks = Person(1), Forks()
    topic, _ = author.topic()
    draft, before = author.draft(topic), author.event(topic)
    again = replace(draft, created_us=draft.created_us + 1)

    events = author.event(topic, draft=draft), author.event(topic, before, draft=again)

    assert not forks.compare(*events)
    assert not forks.convicted


def test_a_stored_fork_convicts_its_author_again_after_a_restart() -> None:
    village = Village(4)
    topic = village.create(0)
    village.subscribe_all([2], topic)
    village.publish(0, topic, b"yes")
    village.run(2)
    author, reader = village.host(0).peer, village.host(2).peer
    (first,) = village.log(2, topic).events.values()
    draft = replace(first.draft, payload=b"no")
    second = new_event(draft, author, (), 1, StandInSigning(author))
    village.world.carry_out(village.host(0), [Send(reader, Parcel((Spread(second.block, 1),)))])
    village.run(2)
    assert list(village.core(2).convicted()) == [author]

    village.crash(2)
    village.run(1)
    village.restart(2)
    village.run(2)

    assert list(village.core(2).convicted()) == [author]
    assert village.told.count((2, Convicted(author))) == 2


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["fork", "rollback"])
def test_authors_that_sign_two_events_under_one_number_are_named(kind: str, seed: int) -> None:
    result = ran(Adversary(kind, 0.2), Adversary("drop", 0.1), seed=seed)

    assert list(result.experiment.convicted_counts) == [kind]
    count = result.experiment.convicted_counts[kind]
    assert count >= 2
    assert result.document()["convicted_by"] == {kind: {"fork": count}}
    assert result.experiment.convicted_honest == 0
    assert result.violations == []


@pytest.mark.parametrize("kind", ["bad-parents", "forge"])
def test_invented_events_and_links_disturb_nobody(kind: str) -> None:
    result = ran(Adversary(kind, 0.2))

    assert result.verdict.missing == result.verdict.unexpected == 0
    assert result.violations == []
