"""Nodes that lie: how they are written down, what they withhold, and who is judged."""

from functools import partial

import pytest

from smartpubsub.kademlia.keys import key_of
from smartpubsub.kademlia.messages import Kind, Message
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.scoutsubs import messages as scout
from smartpubsub.protocols.scoutsubs.messages import NO_PEER, Bundle
from smartpubsub.seam import Answer, Answered, Asked
from smartpubsub.sim.adversaries.kinds import KINDS, Adversary, AdversaryError, chosen_nodes
from smartpubsub.sim.adversaries.lies import Liar, forged_answers, without_events
from smartpubsub.sim.adversaries.minting import minted
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import Result, run
from smartpubsub.sim.kernel.population import peer_id
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.world import Host

PUBLISHER, CHILD, OWN = b"publisher", b"child", b"own"
EVENT = Publication.of(
    EventId(PUBLISHER, 0, 1),
    Predicate.parse("surf"),
    b"",
    StandInSigning(PUBLISHER).sign_statement(bytes),
)


def ran(protocol: str, *adversaries: str, nodes: int = 24, seed: int = 1) -> Result:
    options = SimOptions(
        nodes=nodes,
        events=12,
        seed=seed,
        adversary=tuple(map(Adversary.parse, adversaries)),
    )
    return run(options.experiment(protocol, "", options.load([protocol])), "normal")


# --- how they are written down ---


@pytest.mark.parametrize("text", ["drop:0.2", "delay:0.1:2.5", "sybil:20", "sybil:5:2.5", "flap:1"])
def test_an_adversary_is_written_as_it_is_read(text: str) -> None:
    assert str(Adversary.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *["", "drop", "drop:0", "drop:1.5", "drop:nan", "drop:0.1:2", "lie:0.1", "sybil:0.5"],
        *["sybil:5:0", "delay:x"],
    ],
)
def test_what_is_no_adversary_is_refused(text: str) -> None:
    with pytest.raises(AdversaryError):
        Adversary.parse(text)


def test_the_command_names_every_adversary() -> None:
    options = SimOptions(adversary=(Adversary("drop", 0.1), Adversary("sybil", 3)))

    command = options.command("floodsub")

    assert command.endswith("--adversary drop:0.1 --adversary sybil:3")


def test_a_node_is_one_kind_of_adversary() -> None:
    kinds = [Adversary("drop", 0.5), Adversary("flap", 0.5), Adversary("delay", 0.5)]

    chosen = chosen_nodes(kinds, range(10), 10, seed=1)

    assert [one.kind for one in chosen.values()] == ["drop"] * 5 + ["flap"] * 5


# --- what they withhold and invent ---


def test_a_dropper_invents_the_confirmation_of_what_it_does_not_send() -> None:
    probe = scout.Probe(1)
    notify = scout.Notify(EVENT, "surf", 1, False, NO_PEER)

    lie = without_events(Bundle((notify, probe)), lambda _: True)

    assert lie.sent == Bundle((probe,))
    assert lie.invented == (Bundle((scout.Confirm(EVENT.id, "surf", NO_PEER),)),)


def test_what_is_not_withheld_is_sent() -> None:
    message = Bundle((scout.Notify(EVENT, "surf", 1, False, NO_PEER),))

    assert without_events(message, lambda _: False).sent == message


def test_a_forged_acknowledgement_has_the_forgers_own_evidence() -> None:
    raised = Bundle((scout.Raise(EVENT, "surf", 0, 1, False, False, 0),))

    forgery = forged_answers(CHILD, raised, Liar(OWN, StandInSigning(OWN), 1, 0))

    ((receiver, answer),) = forgery.answers
    (admitted,) = answer.parts
    assert forgery.received is None
    assert receiver == PUBLISHER
    assert isinstance(admitted, scout.Admitted)
    assert StandInSigning(CHILD).is_evidence(OWN, bytes, admitted.evidence)


def test_minted_ids_are_closer_than_all_honest_ones() -> None:
    honest = [peer_id(1, number) for number in range(50)]
    key = key_of(b"surf")

    sybils = [peer_id(1, number) for number in minted([b"surf"], 3, honest, partial(peer_id, 1))]

    assert len(set(sybils)) == 3
    nearest = min(key_of(peer) ^ key for peer in honest)
    assert all(key_of(peer) ^ key < nearest for peer in sybils)


# --- runs ---


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_runs_in_scoutsubs(kind: str) -> None:
    amount = {"sybil": "2", "surround": "5", "flood": "0.2:10"}.get(kind, "0.2")

    result = ran("scoutsubs", f"{kind}:{amount}")

    document = result.document()
    assert sum(document["adversaries"].values()) >= 4  # type: ignore[attr-defined]
    assert result.verdict.expected > 0
    assert result.verdict.app_duplicates == result.verdict.unexpected == 0


@pytest.mark.parametrize(
    ("protocol", "adversary"),
    [
        ("fastdelivery", "drop:0.2"),
        ("fastdelivery", "delay:0.2:1"),
        ("fastdelivery", "forge-ack:0.2"),
        ("pulsarcast", "drop:0.2"),
        ("pulsarcast", "forge-ack:0.2"),
        ("gossipsub", "drop-half:0.2"),
        ("gossipsub", "eclipse:0.2"),
        ("floodsub", "forge-ack:0.2"),
    ],
)
def test_adversaries_make_no_protocol_deliver_what_it_should_not(
    protocol: str, adversary: str
) -> None:
    verdict = ran(protocol, adversary, nodes=15).verdict

    assert verdict.expected > 0
    assert verdict.app_duplicates == verdict.unexpected == 0


def test_gossipsub_loses_nothing_to_droppers() -> None:
    assert ran("gossipsub", "drop:0.2").verdict.missing == 0


def test_sybils_can_join_during_the_workload() -> None:
    nodes = 24
    kinds = tuple(map(Adversary.parse, ["sybil:1:2", "surround:3"]))
    options = SimOptions(nodes=nodes, events=12, adversary=kinds)
    experiment = options.experiment("floodsub", "", options.load(["floodsub"]))
    late = [*experiment.crowd.late_us]
    asked_us: dict[int, int] = {}

    def note(host: Host, event: object, _: object) -> None:
        if isinstance(event, Asked | Answered):
            asked_us.setdefault(host.number, experiment.world.now)

    experiment.world.on_handled = note
    run(experiment, "normal")

    assert late == list(range(nodes + 3, nodes + len(experiment.crowd.sybils)))
    assert min(asked_us[number] for number in late) >= experiment.began_us + 2_000_000
    assert all(asked_us[number] < experiment.began_us + 2_000_000 for number in range(nodes + 3))


def test_adversaries_are_not_judged() -> None:
    experiment = ran("scoutsubs", "drop:0.2").experiment
    assert isinstance(experiment, Experiment)
    hostile = experiment.crowd.by_node

    assert len(hostile) == 5
    journal = experiment.journal
    assert not any(record.node in hostile for record in journal.subscriptions.values())
    assert not any(delivery.node in hostile for delivery in journal.deliveries)
    assert not any(event.node in hostile for event in journal.events.values())


def test_the_same_adversaries_give_the_same_trace() -> None:
    digests = {
        ran("scoutsubs", "drop:0.1", "flap:0.1").document()["trace_digest"] for _ in range(2)
    }

    assert len(digests) == 1


def test_events_of_a_flooding_adversary_are_owed_to_nobody() -> None:
    experiment = ran("scoutsubs", "flood:0.1:5").experiment
    assert isinstance(experiment, Experiment)
    flooded = [e for e in experiment.journal.events.values() if e.node in experiment.crowd]

    assert flooded
    assert all(event.refused is not None for event in flooded)


def test_an_eclipsing_node_names_accomplices_only() -> None:
    experiment = ran("scoutsubs", "eclipse:0.3").experiment
    assert isinstance(experiment, Experiment)
    accomplices = {peer_id(1, node) for node in experiment.crowd.by_node}
    liar = experiment.core(next(iter(experiment.crowd.by_node)))

    question = Asked(peer_id(1, 0), Message(Kind.FIND_NODE, b"surf"), 1)
    (answer,) = [e for e in liar.handle(question, experiment.world.now) if isinstance(e, Answer)]

    assert isinstance(answer.message, Message)
    assert {contact.peer for contact in answer.message.closer} == accomplices
