"""Whatever the text: it is read and prints the same again, or it is refused with a column."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartpubsub.predicates import Predicate, PredicateError
from tests.predicates.strategies import EXTREMES

ANYTHING = st.text(st.characters(exclude_categories=[]))
PIECES = [
    *EXTREMES,
    *"/=[], TR%\"'()<>!*+-.eE_:;\t\n\0\ud800\u00a0é٣½",
    "surf",
    "price",
    "%41",
    "%ff",
    "%C3%A9",
    "%2",
    "2007-01-31",
    "T12:00:00",
    "+02:00",
    "9999-12-31T23:59:60Z",
    "1_000",
    "nan",
    "inf",
    " and ",
    " or ",
    " not ",
    " between ",
    " is ",
    " in ",
    " >= ",
    " <= ",
    " = ",
    '"a b"',
    "'5'",
]
SOUP = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)

Reader = Callable[[str], Predicate]


@pytest.mark.parametrize("read", [Predicate.parse, Predicate.where])
@given(text=ANYTHING | SOUP)
@settings(max_examples=500)
def test_every_text_is_read_or_refused(read: Reader, text: str) -> None:
    outcome = read_or_refused(read, text)

    if isinstance(outcome, Predicate):
        assert 1 <= len(outcome) <= 5
        assert Predicate.parse(str(outcome)) == outcome
    else:
        assert outcome.text == text
        assert 1 <= (outcome.column or 0) <= len(text) + 1
        shown, caret = outcome.pointer().split("\n")
        assert shown.isprintable()
        assert len(caret) <= len(shown) + 1


def read_or_refused(read: Reader, text: str) -> Predicate | PredicateError:
    try:
        return read(text)
    except PredicateError as error:
        return error


@pytest.mark.parametrize(
    "text",
    [
        "a" * 10**5,
        "é" * 10**5,
        "%41" * 10**5,
        "/" * 10**5,
        "a/" * 10**5,
        "a" + " " * 10**5 + "b",
        "a[" + " " * 10**5 + "]",
        "a[" + "," * 10**5 + "]",
        "a[" * 10**5,
        "a=" + "9" * 10**5,
        "a=1e" + "9" * 10**5,
        "a=" + "-" * 10**5,
        "a R " + "1 " * 10**5,
        '"' * (10**5 + 1),
        "'" * 10**5,
        "a and " * 10**5,
    ],
    ids=lambda text: text[:4],
)
@pytest.mark.parametrize("read", [Predicate.parse, Predicate.where])
def test_long_texts_are_refused_too(read: Reader, text: str) -> None:
    with pytest.raises(PredicateError):
        read(text)
