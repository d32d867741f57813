"""A saved index comes back whole, and what is done to it afterwards stays its own."""

from itertools import product
from pathlib import Path
from random import Random

import pytest

from smartpubsub.matching import Index, IndexFileError
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate
from tests.matching.crowds import event, few_topics, many_topics, ranges_only
from tests.matching.engines import INSTALLED
from tests.matching.oracle import Oracle, check, filled


def sample(count: int) -> Oracle:
    rng = Random(count)
    makes = [many_topics, few_topics, ranges_only]
    oracle = Oracle((key * 7 - 5000, rng.choice(makes)(rng)) for key in range(count))
    if count:
        oracle[2**63 - 1] = Predicate.parse("r0[0.1000000000000000000001,]")
        oracle[-(2**63)] = Predicate.parse("a%20b%2Fc/é=1e400")
    return oracle


QUESTIONS = [event(Random(f"question {number}")) for number in range(12)]
WAYS = list(product(INSTALLED, INSTALLED))


@pytest.mark.parametrize(("saving", "loading"), WAYS)
@pytest.mark.parametrize("count", [0, 1, 20, 2500])
def test_what_one_engine_saves_another_loads(
    count: int, saving: EngineName, loading: EngineName, tmp_path: Path
) -> None:
    oracle = sample(count)
    filled(oracle, saving).save(tmp_path / "index")
    index = Index.load(tmp_path / "index", loading)

    assert index.engine == loading
    check(index, oracle, QUESTIONS)


@pytest.mark.parametrize(("saving", "loading"), WAYS)
@pytest.mark.parametrize("asks_first", [False, True])
def test_changing_a_loaded_index_changes_nothing_else(
    saving: EngineName, loading: EngineName, asks_first: bool, tmp_path: Path
) -> None:
    path, oracle = tmp_path / "index", sample(900)
    filled(oracle, saving).save(path)
    content = path.read_bytes()
    changed, other = Index.load(path, loading), Index.load(path, loading)
    if asks_first:
        check(changed, oracle, QUESTIONS[:3])
    expected = Oracle(oracle)
    for key in sorted(oracle)[::2]:
        changed.remove(key)
        del expected[key]
    for key in range(1, 300, 2):
        expected[key] = Predicate.of({"new": True, "r0": (0, key)})
        changed.add(key, expected[key])

    check(changed, expected, QUESTIONS)
    check(other, oracle, QUESTIONS)
    assert path.read_bytes() == content
    check(Index.load(path, loading), oracle, QUESTIONS[:3])


@pytest.mark.parametrize("step", ["add first", "remove first"])
def test_the_first_change_to_a_loaded_index(step: str, engine: EngineName, tmp_path: Path) -> None:
    oracle = sample(600)
    filled(oracle, engine).save(tmp_path / "index")
    index = Index.load(tmp_path / "index", engine)
    if step == "add first":
        oracle[1] = Predicate.parse("t0/never-seen-before[1,2]")
        index.add(1, oracle[1])
    else:
        index.remove(2**63 - 1)
        del oracle[2**63 - 1]

    check(index, oracle, QUESTIONS)
    for key in sorted(oracle):
        index.remove(key)
    check(index, Oracle(), QUESTIONS[:2])


def test_saving_over_a_file_leaves_loaded_indexes_as_they_are(
    engine: EngineName, tmp_path: Path
) -> None:
    path, oracle = tmp_path / "index", sample(1200)
    filled(oracle, engine).save(path)
    loaded = Index.load(path, engine)
    filled({1: "something-else"}, engine).save(path)

    check(loaded, oracle, QUESTIONS)
    assert Index.load(path, engine).match("something-else") == [1]


def test_an_index_saves_over_the_file_that_it_came_from(engine: EngineName, tmp_path: Path) -> None:
    path, oracle = tmp_path / "index", sample(500)
    filled(oracle, engine).save(path)
    for key in range(1, 4):
        index = Index.load(path, engine)
        oracle[key] = Predicate.parse(f"t0/r0[{key},]")
        index.add(key, oracle[key])
        index.save(path)
        check(index, oracle, QUESTIONS[:4])

    check(Index.load(path, engine), oracle, QUESTIONS)


def test_a_loaded_index_needs_its_file_no_more(engine: EngineName, tmp_path: Path) -> None:
    path, oracle = tmp_path / "index", sample(700)
    filled(oracle, engine).save(path)
    index = Index.load(path, engine)
    path.unlink()

    check(index, oracle, QUESTIONS)
    index.compact()
    check(index, oracle, QUESTIONS[:3])


def test_saving_leaves_the_index_itself_alone(engine: EngineName, tmp_path: Path) -> None:
    oracle = sample(400)
    index = filled(oracle, engine)
    index.save(tmp_path / "index")
    index.add(3, "t0")
    oracle[3] = Predicate.parse("t0")

    check(index, oracle, QUESTIONS)
    assert list(tmp_path.iterdir()) == [tmp_path / "index"]


def test_paths_may_be_texts(engine: EngineName, tmp_path: Path) -> None:
    filled({1: "surf"}, engine).save(f"{tmp_path}/index")

    assert Index.load(f"{tmp_path}/index", engine).match("surf") == [1]


@pytest.mark.parametrize("place", ["no/such/folder", "file/below", "x" * 300, "folder"])
def test_a_place_that_cannot_be_written(place: str, engine: EngineName, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()

    with pytest.raises(IndexFileError, match="cannot be written"):
        filled({1: "surf"}, engine).save(tmp_path / place)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file", tmp_path / "folder"]
    assert (tmp_path / "file").read_text() == "kept"
