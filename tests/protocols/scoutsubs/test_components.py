"""The components of ScoutSubs know only those before them, as docs/scoutsubs.md shows them."""

import re
from pathlib import Path

from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from tests.protocols.scoutsubs.forest import Forest

DOCUMENT = Path(__file__).parents[3] / "docs" / "scoutsubs.md"
PACKAGES = ("smartpubsub.protocols.scoutsubs.", "smartpubsub.protocols.runtime.")


def components(scouts: ScoutSubs) -> dict[str, object]:
    """The parts of a node's ScoutSubs that have attributes, in the order of their making."""
    found = {name: item for name, item in vars(scouts).items() if hasattr(item, "__dict__")}
    return {
        name: item for name, item in found.items() if type(item).__module__.startswith(PACKAGES)
    }


def test_references_between_components_have_no_cycle() -> None:
    made = components(Forest(2).scouts(0))
    names = {id(item): name for name, item in made.items()}
    before: list[str] = []
    for name, component in made.items():
        known = [names[id(item)] for item in vars(component).values() if id(item) in names]
        assert [other for other in known if other not in before] == [], name
        before.append(name)
    assert len(before) >= 20


def test_every_component_with_state_checks_its_invariants() -> None:
    stateless = {"_settings", "_attestation", "_outbox", "_times", "_proximity"}
    deferred = {"_calls", "_publications", "_raised"}
    made = components(Forest(2).scouts(0))
    unchecked = {name for name, item in made.items() if not hasattr(item, "check")}
    assert unchecked == stateless | deferred


def test_the_document_has_all_components_in_their_order() -> None:
    small = {"ScoutSettings", "Attestation", "Reassembly", "Deferred"}
    made = [type(item).__name__ for item in components(Forest(2).scouts(0)).values()]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| `", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    shown = [name for row in rows for name in re.findall(r"\w+", row)]
    assert shown == [name for name in made if name not in small]
