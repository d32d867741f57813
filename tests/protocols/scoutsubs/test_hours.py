"""What a node holds stops growing, though hours of events, restarts and subscriptions pass."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from random import Random

import pytest

from smartpubsub.kademlia.settings import MINUTE, SECOND
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import AUDITED, ScoutSettings
from tests.protocols.scoutsubs import forest as forests
from tests.protocols.scoutsubs.forest import Forest

NODES = 6
TOPICS = tuple(f"city-{number}" for number in range(4))
PART_US = 15 * MINUTE
"""How long events pass from one count to the next."""
LIMITED = ("FilterTable._changes",)
"""They reach their limit, 64 in each tree, later than in these hours."""


def attributes_of(item: object) -> list[tuple[str, object]]:
    slots = [name for kind in type(item).__mro__ for name in kind.__dict__.get("__slots__", ())]
    found = [(name, getattr(item, name)) for name in slots if hasattr(item, name)]
    return [*getattr(item, "__dict__", {}).items(), *found]


def sizes_of(core: object) -> Counter[str]:
    """The number of entries in all containers of a core, by class and attribute."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[object] = [core]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, int | str | bytes | type):
            continue
        seen.add(id(item))
        if isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, tuple | list | set | frozenset | deque):
            waiting += item
        if isinstance(item, Callable):  # type: ignore[arg-type]
            waiting.append(getattr(item, "__self__", None))
        if type(item).__module__.startswith("smartpubsub."):
            for name, value in attributes_of(item):
                waiting.append(value)
                if isinstance(value, Mapping | list | set | deque):
                    sizes[f"{type(item).__name__}.{name}"] += len(value)
    return sizes


class Hours:
    """A network in which nodes 4 and 5 crash and return, and node 1 changes a subscription."""

    def __init__(self) -> None:
        settings = ScoutSettings(history_us_max=5 * MINUTE, audit_us_max=AUDITED["audit_us_max"])
        self._forest = Forest(NODES, settings)
        self._rng = Random(3)
        self._steps = 0
        self._changing: int | None = None
        for number in range(NODES):
            self._forest.subscribed(number, f"{TOPICS[number % 4]}/temp[{number},60]")

    def pass_part(self) -> Counter[str]:
        """Let a part of the time pass; return the sizes of what the nodes hold then."""
        forest = self._forest
        until_us = forest.world.now + PART_US
        while forest.world.now < until_us:
            self._step()
            forest.run(15 * SECOND)
            forest.told.clear()
            forest.said.clear()
        sizes: Counter[str] = Counter()
        for number in forest.numbers:
            sizes += sizes_of(forest.core(number))
        return sizes

    def _step(self) -> None:
        forest, rng, topic = self._forest, self._rng, self._rng.choice(TOPICS)
        forest.publish(rng.randrange(4), f"{topic}/temp={rng.randint(0, 100)}")
        self._steps += 1
        mortal = 4 + self._steps // 20 % 2
        match self._steps % 20:
            case 5:
                forest.crash(mortal)
            case 9:
                forest.restart(mortal)
                now = forest.clock(mortal)
                forest.do(mortal, forest.core(mortal).join([forest.contacts[0]], now))
            case 15:
                if self._changing is not None:
                    forest.unsubscribe(1, self._changing)
                self._changing = forest.subscribe(1, f"{topic}/temp[{rng.randint(0, 50)},90]")


def test_the_containers_of_a_node_stop_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    # To check all invariants after each input would take a minute.
    monkeypatch.setattr(forests, "CheckedScoutSubs", ScoutSubs)
    hours = Hours()
    for _ in range(4):
        hours.pass_part()
    before = sum((hours.pass_part() for _ in range(4)), Counter[str]())
    after = sum((hours.pass_part() for _ in range(4)), Counter[str]())

    # What grows from the beginning on has grown to 1.6 times its size.
    grown = {
        name: (before[name], size)
        for name, size in after.items()
        if size > 1.3 * before[name] + 20 and name not in LIMITED
    }
    assert grown == {}
