"""docs/seam.md: its example runs, and its drawings are those of the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.kademlia.lookup import TRANSITIONS
from smartpubsub.protocols.scoutsubs.filter_table import CHILD_TRANSITIONS
from smartpubsub.protocols.scoutsubs.flight import FLIGHT_TRANSITIONS
from smartpubsub.protocols.scoutsubs.membership import ROLE_TRANSITIONS
from smartpubsub.protocols.scoutsubs.subscriptions import OWN_SUBSCRIPTION_TRANSITIONS
from smartpubsub.seam import drawing, effects, events
from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.sim.kernel.world import World

DOCUMENTS = Path(__file__).parents[2] / "docs"
DOCUMENT = (DOCUMENTS / "seam.md").read_text(encoding="utf-8")
SECOND = 1_000_000


def example() -> dict[str, Any]:
    source = re.search(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    assert source is not None
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(source[1], namespace)
    return namespace


def test_example_notices_when_its_friend_falls_silent() -> None:
    friend = example()["Friend"]
    told: list[tuple[int, object]] = []
    world = World(
        NetworkOptions(),
        seed=1,
        sizes={str: len},
        on_deliver=lambda host, item: told.append((host.number, item)),
    )
    world.add(b"a", lambda _: friend(b"b"))
    world.add(b"b", lambda _: friend(b"a"))

    world.run(until=10 * SECOND)
    assert told == []

    world.crash(world.hosts[1])
    world.run(until=20 * SECOND)
    assert set(told) == {(0, "my friend is silent")}


def test_every_event_and_effect_is_explained() -> None:
    named = set(re.findall(r"`(\w+)`", DOCUMENT))
    for module in (effects, events):
        declared = {
            name
            for name, item in vars(module).items()
            if isinstance(item, type) and item.__module__ == module.__name__
        }
        assert declared <= named


def test_drawing_of_the_lookup_is_that_of_the_code() -> None:
    assert f"```mermaid\n{drawing(TRANSITIONS)}\n```" in DOCUMENT


@pytest.mark.parametrize(
    "table",
    [ROLE_TRANSITIONS, FLIGHT_TRANSITIONS, OWN_SUBSCRIPTION_TRANSITIONS, CHILD_TRANSITIONS],
    ids=["role", "flight", "subscription", "child"],
)
def test_drawings_of_scoutsubs_are_those_of_the_code(table: dict[Any, Any]) -> None:
    document = (DOCUMENTS / "scoutsubs.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{drawing(table)}\n```" in document
