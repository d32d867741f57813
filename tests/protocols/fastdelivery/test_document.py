"""docs/fastdelivery.md: its drawings and its component map are those of the code."""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

import pytest

from smartpubsub.protocols import fastdelivery
from smartpubsub.protocols.fastdelivery.book import DELEGATION_TRANSITIONS, MEMBER_TRANSITIONS
from smartpubsub.protocols.fastdelivery.subscriber import SUBSCRIPTION_TRANSITIONS
from smartpubsub.seam import drawing

DOCUMENT = (Path(__file__).parents[3] / "docs" / "fastdelivery.md").read_text(encoding="utf-8")
PACKAGE = Path(fastdelivery.__path__[0])


@pytest.mark.parametrize(
    "transitions",
    [MEMBER_TRANSITIONS, DELEGATION_TRANSITIONS, SUBSCRIPTION_TRANSITIONS],
    ids=["member", "delegation", "subscription"],
)
def test_drawings_are_those_of_the_code(transitions: Mapping[tuple[Enum, str], Enum]) -> None:
    assert f"```mermaid\n{drawing(transitions)}\n```" in DOCUMENT


def test_components_take_only_components_above_them_in_the_map() -> None:
    modules = re.findall(r"^\| `(\w+)\.py` `(\w+)`", DOCUMENT, re.MULTILINE)
    assert len(modules) > 10
    above: list[str] = []
    for module, name in modules:
        source = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
        assert f"class {name}" in source
        imported = set(re.findall(r"fastdelivery\.(\w+) import", source))
        below = {other for other, _ in modules} - set(above) - {module}
        assert imported.isdisjoint(below), module
        above.append(module)
