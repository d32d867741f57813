"""The examples in the docstrings of this room hold."""

import doctest
import importlib
import pkgutil

import pytest

from smartpubsub import workloads


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(workloads.__path__)]
)
def test_examples_hold(name: str) -> None:
    module = importlib.import_module(f"{workloads.__name__}.{name}")

    assert doctest.testmod(module).failed == 0
