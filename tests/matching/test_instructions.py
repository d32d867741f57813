"""The native engine answers alike whichever instructions it uses; a processor has several."""

from collections.abc import Iterator
from random import Random

import pytest

from smartpubsub.matching import Index
from tests.matching.crowds import CROWDS, Make, event
from tests.matching.oracle import Oracle, check

native = pytest.importorskip("smartpubsub_native", reason="the native module is not installed")


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if name not in native.instruction_sets:
        pytest.skip(f"this processor has no {name}")
    before = native.instructions()
    native.use_instructions(name)
    yield name
    native.use_instructions(before)


@pytest.mark.parametrize("make", CROWDS)
def test_every_variant_finds_the_same(make: Make, instructions: str) -> None:
    assert native.instructions() == instructions
    rng = Random(make.__name__)
    index, oracle = Index("native"), Oracle()
    for key in range(900):
        oracle[key] = make(rng)
        index.add(key, oracle[key])

    check(index, oracle, [event(rng) for _ in range(25)])


def test_best_instructions_are_used_unless_others_are_chosen() -> None:
    assert native.instructions() == native.instruction_sets[0]
    assert native.instruction_sets[-1] == "baseline"


def test_instructions_that_the_processor_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot run these instructions"):
        native.use_instructions("abacus")
