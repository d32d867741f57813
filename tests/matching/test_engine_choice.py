"""Which engine an index runs on, and what happens where the native one is missing."""

from pathlib import Path

import pytest

from smartpubsub.matching import EngineError, Index, native_engine
from smartpubsub.matching import index as index_module
from smartpubsub.predicates import Predicate
from tests.matching.engines import needs_native
from tests.matching.oracle import Oracle, check, filled

FILTERS = [f"surf/price[{number},{number + 5}]" for number in range(19)] + [
    "surf/price[0,0.1000000000000000000001]",
    "price[3,]",
]
ORACLE = Oracle((key, Predicate.parse(text)) for key, text in enumerate(FILTERS))
EVENTS = [Predicate.parse(f"surf/price={number}") for number in (0, 4, 0.1, 30)]


@pytest.fixture
def _without_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "native", None)


@needs_native
@pytest.mark.parametrize("count", [0, 1, 10, 20, 21, 100])
def test_the_native_engine_takes_over_above_a_number_of_filters(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "NATIVE_FILTERS_MIN", count)
    index = Index()
    for key, predicate in ORACLE.items():
        assert index.engine == ("native" if len(index) > count else "python")
        index.add(key, predicate)
        assert index.covered_by(predicate) == [
            other for other in range(key + 1) if predicate.covers(ORACLE[other])
        ]

    assert index.engine == ("native" if len(ORACLE) > count else "python")
    check(index, ORACLE, EVENTS)


@needs_native
def test_the_native_engine_stays_when_filters_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "NATIVE_FILTERS_MIN", 3)
    index = filled(ORACLE, "auto")
    for key in ORACLE:
        index.remove(key)

    index.compact()
    assert index.engine == "native"
    assert len(index) == 0


@needs_native
def test_a_chosen_engine_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "NATIVE_FILTERS_MIN", 3)

    assert filled(ORACLE, "python").engine == "python"
    assert Index("native").engine == "native"


@needs_native
def test_a_saved_index_is_loaded_with_the_native_engine(tmp_path: Path) -> None:
    filled(ORACLE, "python").save(tmp_path / "index")

    assert Index.load(tmp_path / "index").engine == "native"
    assert Index.load(tmp_path / "index", "python").engine == "python"


def test_other_names_of_engines_are_refused() -> None:
    with pytest.raises(ValueError, match="engine is 'auto', 'python' or 'native', not 'gpu'"):
        Index("gpu")  # type: ignore[arg-type]


@pytest.mark.usefixtures("_without_native")
def test_without_the_native_module_everything_runs_on_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(index_module, "NATIVE_FILTERS_MIN", 3)
    index = filled(ORACLE, "auto")
    index.save(tmp_path / "index")
    loaded = Index.load(tmp_path / "index")

    assert not native_engine.is_available()
    assert native_engine.instructions() == "none"
    assert (index.engine, loaded.engine) == ("python", "python")
    check(loaded, ORACLE, EVENTS)


@pytest.mark.usefixtures("_without_native")
def test_without_the_native_module_it_cannot_be_asked_for(tmp_path: Path) -> None:
    filled(ORACLE, "python").save(tmp_path / "index")

    with pytest.raises(EngineError, match="the native engine is not installed"):
        Index("native")
    with pytest.raises(EngineError, match="the native engine is not installed"):
        Index.load(tmp_path / "index", "native")


@needs_native
def test_what_the_native_engine_saved_is_read_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    filled(ORACLE, "native").save(tmp_path / "index")
    assert native_engine.instructions() != "none"
    monkeypatch.setattr(native_engine, "native", None)

    check(Index.load(tmp_path / "index"), ORACLE, EVENTS)
