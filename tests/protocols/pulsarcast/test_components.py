"""Components: their invariants hold after every input, and their references form no cycle."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.pulsarcast.component import Component
from smartpubsub.protocols.pulsarcast.membership import TRANSITIONS, PlaceState
from smartpubsub.protocols.pulsarcast.protocol import Pulsarcast
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings, Retention
from smartpubsub.protocols.pulsarcast.topics import rules_ordered_by
from smartpubsub.seam import Effect, drawing
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.signing import StandInSigning
from smartpubsub.sim.kernel.world import Host
from tests.protocols.pulsarcast.village import Village

DOCUMENT = Path(__file__).parents[3] / "docs" / "pulsarcast.md"


@pytest.mark.parametrize("ordered", [False, True])
def test_invariants_hold_after_every_input_under_loss_crashes_and_pruning(ordered: bool) -> None:
    settings = PulsarSettings(retention=Retention(event_count_max=25))
    village = Village(12, settings, network=NetworkOptions(loss=0.1), seed=3)

    def check(host: Host, _: Sequence[Effect]) -> None:
        village.core(host.number).check()

    village.world.on_effects = check
    rules = rules_ordered_by(village.host(0).peer) if ordered else None
    topic = village.create(0, rules=rules)
    village.run(10)
    village.subscribe_all(range(10), topic)
    for number in range(40):
        village.publish(number % 10, topic, b"%d" % number)
        village.run(0.3)
        if number == 10:
            village.crash(0, 4)
        if number == 25:
            village.restart(0, 4)
    village.run(60)

    assert village.published()


def pulsarcast() -> Pulsarcast:
    own = Contact.of(b"node")
    kademlia = Kademlia(own, Settings(), Random(1))
    return Pulsarcast(PulsarSettings(), kademlia, StandInSigning(own.peer), Random(1))


def test_components_refer_only_to_components_made_before_them() -> None:
    made = [part for part in vars(pulsarcast()).values() if isinstance(part, Component)]

    assert len(made) == 20
    for place, component in enumerate(made):
        ports = [getattr(component, field.name) for field in dataclasses.fields(component)]
        referred = [port for port in ports if isinstance(port, Component)]
        assert all(any(port is earlier for earlier in made[:place]) for port in referred)


def test_document_names_the_components_in_their_order() -> None:
    made = [part for part in vars(pulsarcast()).values() if isinstance(part, Component)]
    places = [DOCUMENT.read_text().index(f"`{type(component).__name__}`") for component in made]

    assert places == sorted(places)


def test_drawing_of_a_place_in_a_tree_is_that_of_the_code() -> None:
    assert f"```mermaid\n{drawing(TRANSITIONS)}\n```" in DOCUMENT.read_text(encoding="utf-8")


def test_every_state_of_a_place_can_be_reached_and_left() -> None:
    assert {before for before, _ in TRANSITIONS} == set(PlaceState)
    assert set(TRANSITIONS.values()) == set(PlaceState)
