"""Which predicates are equal, and that they stay what they are."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.predicates import Interval, Predicate, as_predicate
from tests.predicates.said import Said, predicate
from tests.predicates.strategies import kindred, said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("surf/portugal", "portugal/surf"),
        ("price=0.1", "price[0.10,1e-1]"),
        ("price=0", "price=-0.0"),
        ("price[10,20]", "price R 10 20"),
        ("id=9007199254740993", "id=9007199254740993.000"),
        ("%61", "a"),
        ("day=1970-01-02", "day=86400"),
    ],
)
def test_predicates_written_differently_are_equal(one: str, other: str) -> None:
    assert Predicate.parse(one) == Predicate.parse(other)
    assert hash(Predicate.parse(one)) == hash(Predicate.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("surf", "surf/portugal"),
        ("surf", "Surf"),
        ("price", "price[,]"),
        ("price[,1]", "price[1,]"),
        ("id=9007199254740992", "id=9007199254740993"),
    ],
)
def test_predicates_that_say_different_things_differ(one: str, other: str) -> None:
    assert Predicate.parse(one) != Predicate.parse(other)


def test_a_predicate_is_not_its_text() -> None:
    assert Predicate.parse("surf") != "surf"


@given(st.data())
def test_order_matters_to_printing_only(data: st.DataObject) -> None:
    one = data.draw(said())
    shuffled = {name: one[name] for name in data.draw(st.permutations(list(one)))}

    assert predicate(one) == predicate(shuffled)
    assert hash(predicate(one)) == hash(predicate(shuffled))
    assert list(predicate(shuffled).attributes) == list(shuffled)


@given(kindred(2))
def test_equal_predicates_and_only_they_have_one_canonical_text(pair: list[Said]) -> None:
    one, other = map(predicate, pair)

    assert (str(one.canonical()) == str(other.canonical())) == (one == other)
    assert len({one, other}) == (1 if one == other else 2)


@given(said())
def test_the_canonical_form_is_equal_and_in_the_order_of_names(said: Said) -> None:
    canonical = predicate(said).canonical()

    assert canonical == predicate(said)
    assert list(canonical.attributes) == sorted(said)


@given(said())
def test_copies_are_equal(said: Said) -> None:
    original = predicate(said)
    for duplicate in (
        pickle.loads(pickle.dumps(original)),
        copy.copy(original),
        copy.deepcopy(original),
    ):
        assert duplicate == original
        assert hash(duplicate) == hash(original)
        assert str(duplicate) == str(original)


def test_attributes_cannot_be_changed() -> None:
    attributes = Predicate.parse("surf").attributes

    with pytest.raises(TypeError):
        attributes["price"] = Interval(1.0, 2.0)  # type: ignore[index]


def test_a_mapping_changed_later_changes_no_predicate() -> None:
    mapping: dict[str, object] = {"surf": True}
    read = Predicate.of(mapping)

    mapping["price"] = 5

    assert str(read) == "surf"


def test_predicates_pass_and_texts_are_read() -> None:
    read = Predicate.parse("surf")

    assert as_predicate(read) is read
    assert as_predicate("surf") == read
