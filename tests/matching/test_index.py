"""What an index promises whichever engine it runs on."""

import pytest

from smartpubsub.matching import Index
from smartpubsub.matching.index import EngineName
from smartpubsub.predicates import Predicate, PredicateError
from tests.matching.oracle import Oracle, check, filled

KEYS = [0, 1, -1, 2**31, -(2**31) - 1, 2**32 + 1, 2**63 - 1, -(2**63)]


def test_an_empty_index_matches_nothing(engine: EngineName) -> None:
    index = Index(engine)

    check(index, Oracle(), [Predicate.parse("surf/price=1"), Predicate.parse("price[,]")])


def test_keys_are_integers_of_64_bits(engine: EngineName) -> None:
    index = filled(dict.fromkeys(KEYS, "surf/price[1,2]"), engine)

    assert sorted(index.match("surf/price=1")) == sorted(KEYS)
    assert sorted(index.covered_by("surf")) == sorted(KEYS)
    for key in KEYS:
        index.remove(key)
        assert key not in index
    assert index.match("surf/price=1") == []


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1, 2**200])
def test_larger_keys_are_refused_and_unknown(key: int, engine: EngineName) -> None:
    index = Index(engine)

    with pytest.raises(ValueError, match="keys are 64-bit integers"):
        index.add(key, "surf")
    assert key not in index
    with pytest.raises(KeyError):
        index.remove(key)
    assert len(index) == 0


def test_a_key_in_use_is_refused_and_keeps_its_filter(engine: EngineName) -> None:
    index = filled({1: "surf"}, engine)

    with pytest.raises(ValueError, match="key 1 is in the index already"):
        index.add(1, "beach")
    assert index.match("surf") == [1]
    assert index.match("beach") == []


def test_a_key_can_be_used_again(engine: EngineName) -> None:
    index = filled({1: "surf/price[1,2]"}, engine)
    assert index.covered_by("surf") == [1]
    index.remove(1)
    index.add(1, "beach")

    assert index.match("surf/beach/price=1") == [1]
    assert index.covered_by("surf") == []
    assert index.covered_by("beach") == [1]


def test_a_filter_that_cannot_be_read_leaves_no_trace(engine: EngineName) -> None:
    index = Index(engine)

    with pytest.raises(PredicateError):
        index.add(1, "surf/")
    assert 1 not in index
    assert len(index) == 0


@pytest.mark.parametrize(
    ("wanted", "event", "matches"),
    [
        ("surf", "surf", True),
        ("surf", "surf=3", True),
        ("surf", "surf[,3]", True),
        ("surf", "Surf", False),
        ("surf=3", "surf", False),
        ("price[,]", "price=1", True),
        ("price[,]", "price[,]", True),
        ("price[,]", "price", False),
        ("price[,3]", "price[,3]", True),
        ("price[,3]", "price[,3.5]", False),
        ("price[3,]", "price[,]", False),
        ("price[3,4]", "price[3,4]", True),
        ("price[3,4]", "price[2,3]", False),
        ("price[0,0]", "price=-0.0", True),
        ("price=-0", "price=0", True),
        ("a/b/c/d=1/e=2", "e=2/d=1/c/b/a", True),
        ("a/b/c/d=1/e=2", "e=2/d=1/c/b", False),
    ],
)
def test_single_filters(wanted: str, event: str, matches: bool, engine: EngineName) -> None:
    index = filled({5: wanted}, engine)

    assert index.match(event) == ([5] if matches else [])
    assert index.match_any(event) == matches
    assert index.covering(event) == ([5] if matches else [])


def test_items_give_back_equal_filters(engine: EngineName) -> None:
    texts = ["surf", "price[10,]", "b/a/price[,5]/temp=1e-300", "x=123456789012345678901234567890"]
    filters = {key: Predicate.parse(text) for key, text in enumerate(texts)}

    assert dict(filled(filters, engine).items()) == filters


def test_removing_filters_while_they_are_read_is_an_error(engine: EngineName) -> None:
    index = filled(dict.fromkeys(range(10), "surf/price[1,2]"), engine)
    items = index.items()
    next(items)
    for key in range(10):
        index.remove(key)

    with pytest.raises(RuntimeError):
        next(items)


def test_compacting_changes_no_answer(engine: EngineName) -> None:
    oracle = Oracle({key: Predicate.of({"t": True, "r": (key, key + 9)}) for key in range(300)})
    index = filled(oracle, engine)
    index.compact()

    check(index, oracle, [Predicate.of({"t": True, "r": number}) for number in (0, 9, 150, 308)])
    index.add(300, "t")
    assert index.match("t") == [300]
