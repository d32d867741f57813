"""A dictionary with a limit: the oldest entry makes room for the newest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_set = OrderedDict.__setitem__
"""Without `super`, which takes as long as the rest."""


class BoundedDict(OrderedDict[Key, Value]):
    """Keeps the last `count_max` keys that were set.

    >>> ages = BoundedDict(2)
    >>> ages["a"], ages["b"], ages["a"], ages["c"] = 1, 2, 3, 4
    >>> dict(ages)
    {'a': 3, 'c': 4}

    Setting a key again makes it the newest. Only `d[key] = value` keeps the limit; `setdefault` and
    `update` may go past it. To find its first key, a dict passes over the places of all keys that
    were removed before it: with 10,000 keys that took ten times as long as all else.
    """

    def __init__(self, count_max: int) -> None:
        super().__init__()
        self.count_max = count_max

    def __setitem__(self, key: Key, value: Value) -> None:
        if key in self:
            self.move_to_end(key)
        _set(self, key, value)
        if len(self) > self.count_max:
            self.popitem(last=False)

    def __reduce__(self) -> tuple[object, ...]:
        # Inspections of cores go from process to process.
        return type(self), (self.count_max,), None, None, iter(self.items())


class SharedCache(Generic[Key, Value]):
    """What several threads have computed last: a host decodes long messages in threads.

    Each method of an `OrderedDict` of bytes or numbers is one step, in which no other thread runs.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self.get = self._entries.get

    def put(self, key: Key, value: Value) -> None:
        """Remember a value, in place of the oldest one if there are too many."""
        self._entries[key] = value
        if len(self._entries) > self._count_max:
            self._entries.popitem(last=False)
