"""docs/adding-a-protocol.md: its code is the module that the tests run; it names all fields."""

import re
from dataclasses import fields
from pathlib import Path

from smartpubsub.protocols.registry import ENTRY_POINTS
from smartpubsub.protocols.spec import ProtocolSpec
from tests.registry import toy

DOCUMENT = (Path(__file__).parents[2] / "docs" / "adding-a-protocol.md").read_text(encoding="utf-8")


def test_the_code_is_the_module_that_the_tests_run() -> None:
    blocks = re.findall(r"```python\n(.*?)\n```", DOCUMENT, re.DOTALL)
    assert toy.__file__ is not None

    assert "\n\n\n".join(blocks) + "\n" == Path(toy.__file__).read_text(encoding="utf-8")


def test_every_field_of_a_spec_is_explained() -> None:
    assert {field.name for field in fields(ProtocolSpec)} <= set(re.findall(r"`(\w+)`", DOCUMENT))


def test_the_entry_point_group_is_that_of_the_code() -> None:
    assert f'[project.entry-points."{ENTRY_POINTS}"]' in DOCUMENT
