"""A keeper that leaves out of a signed answer what it has signed for is convicted; nobody else."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.node.identity import Identity
from smartpubsub.node.signing import Ed25519Signing
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Convicted
from smartpubsub.protocols.scoutsubs import audit_keeper
from smartpubsub.protocols.scoutsubs.attestation import answer_bytes, kept_bytes, question_hash
from smartpubsub.protocols.scoutsubs.duplicates import digest_of_id
from smartpubsub.protocols.scoutsubs.messages import (
    Accuse,
    Audit,
    Audited,
    Convict,
    KeptAt,
    Probe,
    SignedAnswer,
)
from smartpubsub.protocols.scoutsubs.spec import scout_settings
from smartpubsub.protocols.spec import ProtocolOptions
from smartpubsub.sim.adversaries.kinds import Adversary
from smartpubsub.sim.experiments.options import SimOptions
from smartpubsub.sim.judging.result import Result, run
from tests.protocols.scoutsubs.forest import Forest

SETTINGS = scout_settings(ProtocolOptions(resilience="byzantine"))
SURF = Predicate.parse("surf")
PUBLISHER, KEEPER, ASKER, ANYONE = 5, 1, 6, 7

Change = Callable[[SignedAnswer], SignedAnswer]


@pytest.fixture
def forest() -> Forest:
    found = Forest(8, SETTINGS)
    found.run(SECOND)
    return found


def asked(forest: Forest, filters: tuple[Predicate, ...] = (SURF,)) -> Audited:
    """The signed answer of the keeper to a node that has nothing."""
    forest.send(ASKER, KEEPER, Audit("surf", 90, filters, 60_000, 0, ()))
    forest.run(SECOND // 10)
    return next(
        said.part
        for said in reversed(forest.said)
        if said.receiver == ASKER and isinstance(said.part, Audited)
    )


def place_of(forest: Forest, id: EventId) -> int:
    """At which place the keeper has told the publisher that it keeps an event."""
    signed = forest.scouts(PUBLISHER)._convictions._signed
    part = signed[forest.contacts[KEEPER].peer, id, "surf"]
    assert isinstance(part, KeptAt)
    return part.place


def left_out(forest: Forest, *, first: int = 1, last: int = MINUTE) -> SignedAnswer:
    """An answer of the keeper that lacks every event."""
    answer = asked(forest)
    keeper = forest.contacts[KEEPER].peer
    return SignedAnswer(keeper, "surf", (SURF,), (), 0, first, last, (), answer.evidence)


def is_convicted_by(forest: Forest, number: int) -> bool:
    return forest.contacts[KEEPER].peer in forest.scouts(number).convicted()


def test_an_answer_that_lacks_a_signed_event_convicts(forest: Forest) -> None:
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    forest.send(ASKER, PUBLISHER, Accuse(id, left_out(forest)))
    forest.run(SECOND)

    assert [n for n in forest.numbers if is_convicted_by(forest, n)] == [0, 2, 3, 4, 5, 6, 7]
    assert forest.scouts(ASKER)._detector.is_down(forest.contacts[KEEPER].peer)


def test_a_node_is_still_convicted_after_a_restart_of_those_that_know(forest: Forest) -> None:
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    forest.send(ASKER, PUBLISHER, Accuse(id, left_out(forest)))
    forest.run(SECOND)
    told = forest.scouts(ANYONE).convicted()
    convicted = Convicted(forest.contacts[KEEPER].peer)
    assert forest.items(ANYONE).count(convicted) == 1
    forest.crash(ANYONE)
    forest.restart(ANYONE)
    forest.run(SECOND)

    assert is_convicted_by(forest, ANYONE)
    assert forest.scouts(ANYONE).convicted() == told
    assert forest.items(ANYONE).count(convicted) == 2
    assert told[forest.contacts[KEEPER].peer].startswith("that it keeps an event of surf")
    assert forest.scouts(ANYONE)._detector.is_down(forest.contacts[KEEPER].peer)


def test_a_convicted_node_is_not_heard_any_more(forest: Forest) -> None:
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    forest.send(ASKER, PUBLISHER, Accuse(id, left_out(forest)))
    forest.run(SECOND)
    before = len(forest.said)
    forest.receive(KEEPER, PUBLISHER, Probe(1))
    forest.run(SECOND // 10)

    assert not any(said.receiver == KEEPER for said in forest.said[before:])
    assert is_convicted_by(forest, PUBLISHER)
    assert forest.published(PUBLISHER, "surf")


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer._replace(first=MINUTE),
        lambda answer: answer._replace(last=0),
        lambda answer: answer._replace(filters=(Predicate.parse("ski"),)),
        lambda answer: answer._replace(incarnation=3),
        lambda answer: answer._replace(evidence=b"forged"),
    ],
)
def test_an_answer_about_other_events_convicts_nobody(forest: Forest, change: Change) -> None:
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    forest.send(ASKER, PUBLISHER, Accuse(id, change(left_out(forest))))
    forest.run(SECOND)

    assert not any(is_convicted_by(forest, n) for n in forest.numbers)


@pytest.mark.parametrize(
    "change",
    [
        lambda answer, digest: answer._replace(had=(digest,)),
        lambda answer, digest: answer._replace(missed=(digest,)),
    ],
)
def test_an_answer_need_not_name_what_the_subscriber_had_nor_twice(
    forest: Forest, change: Callable[[SignedAnswer, int], SignedAnswer]
) -> None:
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    answer = change(left_out(forest), digest_of_id(id))
    forest.send(ASKER, PUBLISHER, Accuse(id, answer))
    forest.run(SECOND)

    assert not is_convicted_by(forest, PUBLISHER)


def test_a_conviction_without_the_signature_of_the_convicted_is_rejected(forest: Forest) -> None:
    forest.published(PUBLISHER, "surf")
    answer = left_out(forest)
    event = forest.event(PUBLISHER, 1, "surf")
    forest.receive(ANYONE, ASKER, Convict(event, 1, b"forged", answer))

    assert not is_convicted_by(forest, ASKER)
    assert forest.rejected(ASKER)["convictions"] == 1


@pytest.mark.parametrize("change", [{"place": 4}, {"first": 2}])
def test_real_signatures_hold_for_nothing_but_what_was_signed(change: dict[str, int]) -> None:
    """Stand-in signatures do not depend on what they sign."""
    keeper, publisher = (Identity.of(bytes([n] * 32)) for n in (1, 2))
    id = EventId(publisher.peer, 1, 1)
    event = Publication.of(id, SURF, b"", Ed25519Signing(publisher).sign(id, SURF, b""))
    question = question_hash("surf", (SURF,), ())
    kept, said = Ed25519Signing(keeper).sign_statements(
        [
            lambda: kept_bytes(id, "surf", 0, 3, event.digest),
            lambda: answer_bytes(question, 0, 1, 9, ()),
        ]
    )
    forest = Forest(2, SETTINGS)
    convictions = forest.scouts(1)._convictions
    vars(convictions)["_signing"] = Ed25519Signing(publisher)

    def convict(place: int = 3, first: int = 1) -> bool:
        answer = SignedAnswer(keeper.peer, "surf", (SURF,), (), 0, first, 9, (), said)
        forest.poke(1, lambda _: convictions.on_convict(b"", Convict(event, place, kept, answer)))
        return keeper.peer in convictions.convicted

    assert not convict(**change)
    assert convict()


def test_a_publisher_that_signs_two_events_under_one_id_convicts_no_keeper() -> None:
    keeper, publisher = (Identity.of(bytes([n] * 32)) for n in (1, 2))
    id = EventId(publisher.peer, 1, 1)
    rain, surf = (
        Publication.of(id, predicate, b"", Ed25519Signing(publisher).sign(id, predicate, b""))
        for predicate in (Predicate.parse("rain"), SURF)
    )
    # The keeper keeps the first, and rightly leaves it out of an answer about the second.
    question = question_hash("surf", (SURF,), ())
    kept, said = Ed25519Signing(keeper).sign_statements(
        [
            lambda: kept_bytes(id, "surf", 0, 3, rain.digest),
            lambda: answer_bytes(question, 0, 1, 9, ()),
        ]
    )
    forest = Forest(2, SETTINGS)
    convictions = forest.scouts(1)._convictions
    vars(convictions)["_signing"] = Ed25519Signing(publisher)
    answer = SignedAnswer(keeper.peer, "surf", (SURF,), (), 0, 1, 9, (), said)

    def convict(event: Publication) -> None:
        forged = Convict(event, 3, kept, answer)
        forest.poke(1, lambda _: convictions.on_convict(b"", forged))

    convict(rain)
    convict(surf)
    assert not convictions.convicted


def test_a_stored_conviction_that_proves_nothing_is_dropped_at_the_start(forest: Forest) -> None:
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    forest.send(ASKER, PUBLISHER, Accuse(id, left_out(forest)))
    forest.run(SECOND)
    convictions = forest.scouts(ANYONE)._convictions
    [part] = convictions.convicted.values()
    unproven = part._replace(place=0)
    forest.poke(ANYONE, lambda _: convictions._persistence.keep_conviction(unproven))
    for _ in range(2):
        forest.crash(ANYONE)
        forest.restart(ANYONE)
        forest.run(SECOND)

    assert not is_convicted_by(forest, ANYONE)


def test_an_answer_covers_the_places_of_all_events_that_it_is_about(forest: Forest) -> None:
    ids = [forest.published(PUBLISHER, "surf") for _ in range(3)]
    forest.run(SECOND)
    answer = asked(forest)

    assert answer.first <= min(place_of(forest, id) for id in ids)
    assert answer.last >= max(place_of(forest, id) for id in ids)
    assert [missed.event.id for missed in answer.missed] == ids


def test_an_answer_without_events_is_about_places_too(forest: Forest) -> None:
    before = asked(forest)
    id = forest.published(PUBLISHER, "surf")
    forest.run(SECOND)
    after = asked(forest, (Predicate.parse("ski"),))

    assert before.missed == after.missed == ()
    assert before.question
    assert before.first <= before.last < place_of(forest, id)
    assert after.first <= place_of(forest, id) <= after.last


def test_an_event_comes_after_the_answers_of_the_same_instant(forest: Forest) -> None:
    keeper = forest.scouts(KEEPER)

    def answer_and_keep(_: object) -> None:
        keeper._audits_kept.on_audit(b"x", Audit("surf", 91, (SURF,), 1_000, 0, ()))
        keeper._audits_kept.keep(forest.event(PUBLISHER, 9, "surf"), "surf")

    forest.poke(KEEPER, answer_and_keep)
    (kept,) = keeper._audits_kept._kept["surf"].values()

    assert kept.place > forest.world.now


def test_places_go_on_where_a_clock_is_set_back_or_is_below_zero(forest: Forest) -> None:
    kept = forest.scouts(KEEPER)._audits_kept
    ids = [forest.event(PUBLISHER, number, "surf").id for number in (1, 2, 3)]
    question = Audit("surf", 1, (SURF,), 1_000, 0, ())
    named: list[list[EventId]] = []

    def keep_all(_: object) -> None:
        for number in (1, 2, 3):
            kept.keep(forest.event(PUBLISHER, number, "surf"), "surf")
            kept._outbox.now -= MINUTE
            named.append([missed.event.id for missed in kept.own_answer(question)])

    forest.poke(KEEPER, keep_all)

    assert named == [ids[:1], ids[:2], ids]
    places = [one.place for one in kept._kept["surf"].values()]
    assert 0 < places[0] < places[1] < places[2]


def test_a_keeper_that_has_dropped_events_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_keeper, "KEPT_BYTES_MAX", 3_000)
    forest = Forest(8, replace(SETTINGS, audit_us_min=MINUTE, audit_us_max=MINUTE))
    forest.run(SECOND)
    ids = [forest.published(PUBLISHER, "surf") for _ in range(6)]
    forest.run(SECOND)
    answer = asked(forest)

    assert [missed.event.id for missed in answer.missed] == ids[-len(answer.missed) :]
    assert len(answer.missed) < 6
    dropped = ids[: -len(answer.missed)]
    assert answer.first > max(place_of(forest, id) for id in dropped)


# --- attacks ---


def ran(adversary: str, seed: int) -> Result:
    options = SimOptions(
        nodes=40,
        events=40,
        seed=seed,
        resilience="byzantine",
        adversary=(Adversary.parse(adversary),),
    )
    return run(options.experiment("scoutsubs", "", options.load(["scoutsubs"])), "normal")


def test_droppers_are_convicted_and_honest_nodes_are_not() -> None:
    document = ran("drop:0.2", 7).document()

    assert document["convicted"]["drop"] >= 4  # type: ignore[index]
    assert document["convicted_honest"] == 0


def test_keepers_that_sign_for_events_and_forget_them_are_convicted() -> None:
    document = ran("forge-ack:0.2", 7).document()

    assert document["convicted"]["forge-ack"] >= 4  # type: ignore[index]
    assert document["convicted_honest"] == 0
    assert document["missing"] == 0


@pytest.mark.parametrize("adversary", ["forge:0.2", "flap:0.2", "delay:0.2:1"])
def test_other_attacks_convict_no_honest_node(adversary: str) -> None:
    assert ran(adversary, 3).document()["convicted_honest"] == 0
