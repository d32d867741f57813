"""What a run leaves behind is gone when it is over, and what was there before is let alone."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from smartpubsub.sim.kernel.collector import cleared_away


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    """This process goes on, and what it has imported is cleared away in its end."""
    yield
    gc.unfreeze()


class Knot:
    """Something that only the collector can clear away."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_cleared_away_at_the_end_and_not_before() -> None:
    with cleared_away():
        inside = weakref.ref(Knot())
        assert inside() is not None
        assert not gc.isenabled()
    assert inside() is None
    assert gc.isenabled()


def test_cycles_of_a_run_that_fails_are_cleared_away_too() -> None:
    made: list[weakref.ref[Knot]] = []
    try:
        with cleared_away():
            made.append(weakref.ref(Knot()))
            raise ValueError
    except ValueError:
        pass
    assert made[0]() is None
    assert gc.isenabled()
