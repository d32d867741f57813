"""Who keeps the board of an attribute: the f + 1 nodes that lie closest to its name."""

from __future__ import annotations

from collections.abc import Callable

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.queries import Found
from smartpubsub.protocols.fastdelivery.office import Office
from smartpubsub.seam import Deliver

Then = Callable[[list[Contact]], None]


class Finding:
    """Lookups, each once for all who want to know, and remembered for a while."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._known: dict[bytes, tuple[int, tuple[Contact, ...]]] = {}
        self._waiting: dict[bytes, list[Then]] = {}
        self._lookups: dict[int, bytes] = {}

    def find(self, name: bytes, then: Then) -> None:
        """Find the closest to a name that are not suspected, this node perhaps among them."""
        known = self._known.get(name)
        if known is not None and self._office.now < known[0]:
            then(self._trusted(known[1]))
            return
        waiting = self._waiting.setdefault(name, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._look_up(name)

    def _look_up(self, name: bytes) -> None:
        number, effects = self._office.kademlia.find_closest(name, self._office.now)
        self._lookups[number] = name
        for effect in effects:
            if isinstance(effect, Deliver):  # There was nobody to ask.
                self.on_found(effect.item)
            else:
                self._office.do(effect)

    def on_found(self, found: object) -> None:
        """A lookup has ended, perhaps somebody else's."""
        if not isinstance(found, Found):
            return
        name = self._lookups.pop(found.number, None)
        if name is None:
            return
        office = self._office
        self._known[name] = (office.now + office.settings.find_us, found.closest)
        for then in self._waiting.pop(name, []):
            then(self._trusted(found.closest))

    def tick(self) -> None:
        """Forget what was found long ago."""
        now = self._office.now
        self._known = {name: known for name, known in self._known.items() if now < known[0]}

    @property
    def _count(self) -> int:
        return self._office.settings.keeper_count

    def _trusted(self, closest: tuple[Contact, ...]) -> list[Contact]:
        return self._office.trusted(closest)[: self._count]
