"""Zipf's law: the second item is half as frequent as the first, the third a third as frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")


class Zipf(Generic[T]):
    """Draws from a sequence that is sorted by frequency."""

    def __init__(self, ranked: Sequence[T]) -> None:
        self._ranked = ranked
        self._weights = list(accumulate(1 / rank for rank in range(1, len(ranked) + 1)))

    def draw(self, rng: Random, count: int) -> list[T]:
        """Draw items, with repetition."""
        return rng.choices(self._ranked, cum_weights=self._weights, k=count)
