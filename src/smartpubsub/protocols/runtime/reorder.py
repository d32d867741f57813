"""Receiver-side order per publisher: an item that names its predecessor waits until that passes.

The events of a publisher may take several paths, so one may overtake another. An event that may do
so names the event before it. Its receiver holds it back until that event has passed, or until the
protocol stops waiting for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=tuple[Any, ...])
"""Names an item; the keys of one publisher's items sort by their order."""
Item = TypeVar("Item")


class Reorder(Generic[Key, Item]):
    """The items that wait for their predecessors.

    `release` is called with each item whose predecessor has passed, and `on_unawaited` with each
    predecessor that no item waits for any more.
    """

    def __init__(
        self,
        release: Callable[[Item], None],
        on_unawaited: Callable[[Key], None] = lambda _: None,
    ) -> None:
        self._release = release
        self._on_unawaited = on_unawaited
        self._held: dict[Key, dict[Key, Item]] = {}
        """The items by their own keys, under the predecessor that they wait for."""
        self._predecessors: dict[Key, Key] = {}
        """The predecessor that each held item waits for."""
        self._passed: deque[Key] = deque()
        """Items whose successors are released next."""

    def __len__(self) -> int:
        return len(self._predecessors)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._predecessors)

    def __contains__(self, key: Key) -> bool:
        """Whether an item waits."""
        return key in self._predecessors

    def is_awaited(self, predecessor: Key) -> bool:
        """Whether an item waits for this predecessor."""
        return predecessor in self._held

    def get(self, key: Key) -> Item | None:
        """The item that waits under a key."""
        return self._held[self._predecessors[key]][key] if key in self else None

    def hold(self, key: Key, item: Item, predecessor: Key) -> None:
        """Hold an item back until its predecessor passes, unless the item waits already."""
        if key not in self:
            self._held.setdefault(predecessor, {})[key] = item
            self._predecessors[key] = predecessor

    def take(self, key: Key) -> Item | None:
        """Remove an item that need not wait any more."""
        predecessor = self._predecessors.pop(key, None)
        if predecessor is None:
            return None
        held = self._held[predecessor]
        item = held.pop(key)
        if not held:
            del self._held[predecessor]
            self._on_unawaited(predecessor)
        return item

    def pass_on(self, key: Key) -> None:
        """Release the successors of an item that has passed, or that none has to wait for.

        Their own successors follow, in a loop rather than a recursion, as a chain may be long.
        """
        if not self._predecessors:
            return  # Nothing waits.
        self._passed.append(key)
        if len(self._passed) > 1:
            return  # The loop is running.
        while self._passed:
            for successor, item in self._successors(self._passed[0]):
                self._release(item)
                self._passed.append(successor)
            self._passed.popleft()

    def _successors(self, key: Key) -> list[tuple[Key, Item]]:
        """Remove the items that wait for this one; return them in the publisher's order."""
        held = self._held.pop(key, None)
        if held is None:
            return []
        for successor in held:
            del self._predecessors[successor]
        self._on_unawaited(key)
        return sorted(held.items(), key=lambda entry: entry[0])

    def check(self) -> None:
        """Assert the invariants: each item waits for one other, and no release is unfinished."""
        assert not self._passed
        assert all(self._held.values())
        found = {key: before for before, held in self._held.items() for key in held}
        assert found == self._predecessors
