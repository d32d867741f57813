"""The examples in the docstrings of the rooms hold."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

from smartpubsub import kademlia, matching, predicates

ROOMS = [predicates, matching, kademlia]


def modules(room: ModuleType) -> list[str]:
    return [module.name for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}.")]


@pytest.mark.parametrize("name", [name for room in ROOMS for name in modules(room)])
def test_examples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_examples(room: ModuleType) -> None:
    finder = doctest.DocTestFinder()
    found = [
        example
        for name in modules(room)
        for test in finder.find(importlib.import_module(name))
        for example in test.examples
    ]

    assert found
