"""Whether lookups find the closest node, and stored values.

A network is built, values are stored in it, some nodes crash, and then nodes look for random names
and for all the values. Their results are compared with the state of the whole network.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import ceil
from typing import TypeVar

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.queries import Found, Got, Put
from smartpubsub.sim.kernel.collector import collector_off
from smartpubsub.sim.kernel.faults import Crash
from smartpubsub.sim.kernel.overlay import Overlay
from smartpubsub.sim.kernel.population import Progress
from smartpubsub.sim.kernel.streams import stream

Item = TypeVar("Item")

VALUES_MAX = 1_000
AT_ONCE = 50


@dataclass(frozen=True)
class Result:
    """The number of lookups, and of correct ones."""

    lookups: int
    closest_found: int
    values_stored: int
    values_found: int
    hops: list[int]

    def hop_figures(self) -> dict[str, float]:
        """The hops of the lookups."""
        ordered = sorted(self.hops) or [0]
        return {
            "mean": round(sum(ordered) / len(ordered), 3),
            "p99": ordered[ceil(len(ordered) * 0.99) - 1],
            "max": ordered[-1],
        }

    def document(self) -> dict[str, object]:
        """The result as a JSON document."""
        return {
            "lookups": self.lookups,
            "closest_found": self.closest_found,
            "values_stored": self.values_stored,
            "values_found": self.values_found,
            "hops": self.hop_figures(),
        }


def run(nodes: int, dead: float, lookups: int, seed: int, progress: Progress) -> Result:
    """Build a network, crash a share of its nodes, and run lookups."""
    with collector_off():
        return _Experiment(nodes, seed, progress).run(dead, lookups)


class _Experiment:
    def __init__(self, nodes: int, seed: int, progress: Progress) -> None:
        self._overlay = Overlay(nodes, seed)
        self._rng = stream(seed, "experiment")
        self._progress = progress
        self._live = list(range(nodes))

    def run(self, dead: float, lookups: int) -> Result:
        self._overlay.join_all(self._progress)
        values = {content_id(value): value for value in _values(min(VALUES_MAX, lookups))}
        stored = self._store(values)
        self._kill(dead)
        found = self._find(lookups)
        return Result(
            lookups=lookups,
            closest_found=sum(self._is_right(result) for result in found),
            values_stored=len(stored),
            values_found=self._fetch(stored),
            hops=[result.hops for result in found],
        )

    def _store(self, values: dict[bytes, bytes]) -> dict[bytes, bytes]:
        stored = {}
        for names in _parts(list(values)):
            asked = [
                self._overlay.ask(self._anyone(), Kademlia.put, name, values[name])
                for name in names
            ]
            for result in self._results(asked):
                if isinstance(result, Put) and result.copies:
                    stored[result.name] = values[result.name]
        self._progress(f"{len(stored):,} of {len(values):,} values are stored")
        return stored

    def _kill(self, share: float) -> None:
        for number in self._rng.sample(self._live, round(share * len(self._live))):
            Crash(node=number, at_us=self._overlay.world.now).plan(self._overlay.world)
            self._live.remove(number)
        self._overlay.world.run(until=self._overlay.world.now)

    def _find(self, count: int) -> list[Found]:
        found: list[Found] = []
        for numbers in _parts(list(range(count))):
            asked = [
                self._overlay.ask(self._anyone(), Kademlia.find_closest, b"lookup/%d" % number)
                for number in numbers
            ]
            found += [result for result in self._results(asked) if isinstance(result, Found)]
            if len(found) % (20 * AT_ONCE) == 0:
                self._progress(f"{len(found):,} of {count:,} lookups are done")
        return found

    def _fetch(self, stored: dict[bytes, bytes]) -> int:
        fetched = 0
        for names in _parts(list(stored)):
            asked = [self._overlay.ask(self._anyone(), Kademlia.get, name) for name in names]
            fetched += sum(
                isinstance(result, Got) and result.value == stored[result.name]
                for result in self._results(asked)
            )
        return fetched

    def _results(self, asked: list[tuple[int, int]]) -> list[object]:
        self._overlay.settle(asked)
        return [self._overlay.results.pop(query, None) for query in asked]

    def _is_right(self, result: Found) -> bool:
        return result.closest[0].peer == self._overlay.closest_live(result.name).peer

    def _anyone(self) -> int:
        return self._rng.choice(self._live)


def content_id(value: bytes) -> bytes:
    """A CIDv1 of raw bytes: version, codec, and the SHA-256 of the value as a multihash."""
    return b"\x01\x55\x12\x20" + hashlib.sha256(value).digest()


def _values(count: int) -> list[bytes]:
    return [b"value %d" % number for number in range(count)]


def _parts(items: list[Item]) -> list[list[Item]]:
    return [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]
