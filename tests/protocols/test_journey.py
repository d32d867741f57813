"""Events travel as ARCHITECTURE says: through the modules that it names, in its order."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import smartpubsub.protocols
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pulsarcast.events import TopicEvent
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.experiments.options import SimOptions
from tests.tidy.test_journey import DOCUMENT, from_publishing_to_delivery, modules_named

PROTOCOLS = Path(str(smartpubsub.protocols.__file__)).parent
WORLDS = {
    "scoutsubs": SimOptions(nodes=12, scenario="normal", events=6),
    "fastdelivery": SimOptions(nodes=25, scenario="normal", events=6),
    "pulsarcast": SimOptions(nodes=12, scenario="reddit", events=12),
}


def ids_in(value: object, depth: int = 2) -> Iterator[EventId]:
    """The events in an argument of a call."""
    if isinstance(value, EventId):
        yield value
    elif isinstance(value, Publication | TopicEvent):
        yield value.id
    elif isinstance(value, tuple) and depth:
        for each in value:
            yield from ids_in(each, depth - 1)
    elif depth and hasattr(value, "event"):
        yield from ids_in(value.event, depth - 1)


class Journeys:
    """Notes which modules of a protocol are called with an event, or while it is handled."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._modules: dict[CodeType, str] = {}
        self.visited: defaultdict[EventId, dict[str, None]] = defaultdict(dict)
        """The modules that were called with each event, in the order of the first calls."""
        self.used: dict[str, None] = {}
        """The modules that were called while an event was handled."""
        self._frames: list[FrameType] = []
        """The calls with an event that have not ended."""

    def on_profile(self, frame: FrameType, what: str, _: Any) -> None:
        if what == "return" and self._frames and self._frames[-1] is frame:
            self._frames.pop()
        if what != "call":
            return
        code = frame.f_code
        module = self._modules.get(code)
        if module is None:
            path = Path(code.co_filename)
            module = path.name if str(path.parent) == self._folder else ""
            self._modules[code] = module
        if not module:
            return
        arguments = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        found = [id for value in arguments[1:] for id in ids_in(value)]
        for id in found:
            self.visited[id][module] = None
        if found:
            self._frames.append(frame)
        if self._frames:
            self.used[module] = None


def journeys(protocol: str) -> Journeys:
    options = WORLDS[protocol]
    workload = options.load([protocol])
    run = options.run_options(protocol, "", workload)
    experiment = Experiment(run, workload, options.fault_plan(workload, run.nodes))
    found = Journeys(PROTOCOLS / protocol)
    before = sys.getprofile()
    sys.setprofile(found.on_profile)
    try:
        experiment.run()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("protocol", WORLDS)
def test_an_event_visits_the_modules_of_the_document_in_its_order(protocol: str) -> None:
    document = from_publishing_to_delivery(DOCUMENT.read_text(encoding="utf-8"))
    named = [Path(name).name for name in modules_named(document) if f"{protocol}/" in name]
    found = journeys(protocol)

    assert set(named) <= found.used.keys()
    # The last module delivers. A publisher that subscribes has its own event first of all.
    *way, last = named
    walks = [
        [name for name in visited if name in way]
        for visited in found.visited.values()
        if last in visited
    ]
    longest = max(walks, key=len)
    assert len(longest) >= 3
    assert longest == [name for name in way if name in longest]
