"""Names are words of any script; everything else in them is percent-encoded."""

import pytest
from hypothesis import given

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.predicates.names import NAME_BYTES_MAX
from tests.predicates.strategies import names


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("surf", "surf"),
        ("Surf.2_a-b", "Surf.2_a-b"),
        ("são", "são"),
        ("sa\u0303o", "sa\u0303o"),
        ("서울", "서울"),
        ("हिन्दी", "हिन्दी"),
        ("٣", "٣"),
        ("são paulo/sp", "são%20paulo%2Fsp"),
        ("100%", "100%25"),
        ("%41", "%2541"),
        ("a=b[1,2]", "a%3Db%5B1%2C2%5D"),
        ("a\0\n", "a%00%0A"),
        ("~", "%7E"),
        ("🏄", "%F0%9F%8F%84"),
        ("\ufeff", "%EF%BB%BF"),
        ("\u00a0", "%C2%A0"),
        ("\U0010ffff", "%F4%8F%BF%BF"),
    ],
)
def test_what_is_no_letter_or_digit_is_percent_encoded(name: str, printed: str) -> None:
    assert str(Predicate.of({name: True})) == printed
    assert list(Predicate.parse(printed).attributes) == [name]


@given(names())
def test_any_name_reads_back_bare_with_a_point_and_with_a_range(name: str) -> None:
    for said in (True, 5, (1, 2)):
        predicate = Predicate.of({name: said})

        assert list(Predicate.parse(str(predicate)).attributes) == [name]


@given(names())
def test_printed_names_contain_nothing_that_ends_a_name(name: str) -> None:
    assert not set(str(Predicate.of({name: True}))) & set("/=[], \t\n\r\0\"'")


@pytest.mark.parametrize(
    ("one", "other"),
    [("%41", "A"), ("%c3%a9", "é"), ("%C3%A9", "é"), ("s%75rf", "surf"), ("%2d", "-")],
)
def test_needless_percent_encoding_is_the_same_name(one: str, other: str) -> None:
    assert Predicate.parse(one) == Predicate.parse(other)


@pytest.mark.parametrize(("one", "other"), [("surf", "Surf"), ("é", "e\u0301"), ("\u017f", "s")])
def test_names_that_differ_in_any_character_are_different(one: str, other: str) -> None:
    assert not Predicate.parse(one).matches(other)


@pytest.mark.parametrize("character", ["a", "é", "서", "\U0001d538"])
def test_names_are_as_long_as_allowed(character: str) -> None:
    longest = character * (NAME_BYTES_MAX // len(character.encode()))
    text = str(Predicate.of({longest: True}))

    assert list(Predicate.parse(text).attributes) == [longest]
    with pytest.raises(PredicateError, match="at most 1024 bytes"):
        Predicate.parse(text + character)
    with pytest.raises(PredicateError, match="at most 1024 bytes"):
        Predicate.of({longest + character: True})
    with pytest.raises(PredicateError, match="at most 1024 bytes"):
        Predicate.where(f'"{longest}{character}"')
