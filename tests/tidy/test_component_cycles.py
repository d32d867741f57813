"""The components of a protocol refer to each other in one direction.

A component is an object that a protocol's core holds as an attribute, of a class of the protocol's
own package. The walk follows attributes, containers, bound methods and closures, after a run in
which all of them have been used. It stops at other components, and at the core itself: a component
may call back to the core, which alone knows all components.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType

import pytest

from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions

PROTOCOLS = ("scoutsubs", "fastdelivery", "pulsarcast", "floodsub", "gossipsub")
ENTRIES_MAX = 50
"""How many entries of a container the walk looks at."""


def core_after_a_run(protocol: str) -> object:
    options = SimOptions(nodes=5, events=20)
    workload = options.load([protocol])
    experiment: Experiment = options.experiment(protocol, "redirect-reliable", workload)
    experiment.run()
    return experiment.core(0).pubsub


def attributes_of(item: object) -> Iterator[tuple[str, object]]:
    yield from getattr(item, "__dict__", {}).items()
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                yield name, getattr(item, name)


def parts_of(item: object) -> Iterator[object]:
    if isinstance(item, MethodType):
        yield item.__self__
    elif isinstance(item, FunctionType):
        yield from (cell.cell_contents for cell in item.__closure__ or ())
        yield from item.__defaults__ or ()
    elif isinstance(item, partial):
        yield from (item.func, *item.args, *item.keywords.values())
    elif isinstance(item, Mapping):
        yield from list(item.values())[:ENTRIES_MAX]
        yield from list(item)[:ENTRIES_MAX]
    elif isinstance(item, tuple | list | set | frozenset):
        yield from list(item)[:ENTRIES_MAX]
    if type(item).__module__.startswith("smartpubsub."):
        yield from (value for _, value in attributes_of(item))


def components_of(core: object) -> dict[int, str]:
    """The names of a core's components, by their identity."""
    package = type(core).__module__.rpartition(".")[0]
    return {
        id(value): name.lstrip("_")
        for name, value in attributes_of(core)
        if type(value).__module__.startswith((f"{package}.", "smartpubsub.protocols.runtime."))
        and not isinstance(value, tuple | frozenset)
    }


def references(core: object) -> dict[str, set[str]]:
    """By component, the components that it refers to."""
    names = components_of(core)
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for name, value in attributes_of(core):
        if id(value) in names:
            found[name.lstrip("_")] = set(_reached(value, names, core))
    return found


def _reached(start: object, names: Mapping[int, str], core: object) -> Iterator[str]:
    seen, open_ = {id(start), id(core)}, [start]
    while open_:
        for part in parts_of(open_.pop()):
            if id(part) in seen or isinstance(part, type | int | str | bytes):
                continue
            seen.add(id(part))
            if id(part) in names:
                yield names[id(part)]
            else:
                open_.append(part)


def cycle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """The components that are left when all those that refer to no other one are taken away."""
    left = {name: set(others) for name, others in graph.items()}
    while leaves := [name for name, others in left.items() if not others & left.keys()]:
        for name in leaves:
            del left[name]
    return sorted(left)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_components_refer_to_each_other_in_one_direction(protocol: str) -> None:
    assert cycle_in(references(core_after_a_run(protocol))) == []


@pytest.mark.parametrize("protocol", ["scoutsubs", "fastdelivery", "pulsarcast"])
def test_a_core_is_made_of_components(protocol: str) -> None:
    assert len(components_of(core_after_a_run(protocol))) >= 5


def test_a_cycle_is_found() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
