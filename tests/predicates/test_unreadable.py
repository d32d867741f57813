"""Texts that are no predicates: where they go wrong, and what was expected there."""

import pickle

import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.predicates import Predicate, PredicateError

NAME = "expected an attribute name"
AFTER_NAME = "expected '/', '=', '[' or the end after a name"
NUMBER = "expected a number such as 24"


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, f"{NAME}, found the end"),
        ("/", 1, f"{NAME}, found '/'"),
        ("/surf", 1, f"{NAME}, found '/'"),
        ("surf/", 6, f"{NAME}, found the end"),
        ("surf//bali", 6, f"{NAME}, found '/'"),
        (" surf", 1, f"{NAME}, found ' '"),
        ("surf/ bali", 6, f"{NAME}, found ' '"),
        ("=5", 1, f"{NAME}, found '='"),
        ("[1,2]", 1, f"{NAME}, found '['"),
        ("\tsurf", 1, f"{NAME}, found '\\t'"),
        ("\ufeffsurf", 1, f"{NAME}, found '\\ufeff'"),
        ("\ud800", 1, f"{NAME}, found '\\ud800'"),
        ("\0", 1, f"{NAME}, found '\\x00'"),
        ("surf\n", 5, f"{AFTER_NAME}, found '\\n'"),
        ("surf,bali", 5, f"{AFTER_NAME}, found ','"),
        ("price]", 6, f"{AFTER_NAME}, found ']'"),
        ("price<5", 6, f"{AFTER_NAME}, found '<'"),
        ("são\ud800", 4, f"{AFTER_NAME}, found '\\ud800'"),
    ],
)
def test_names_are_expected_where_attributes_start(text: str, column: int, problem: str) -> None:
    assert_unreadable(text, column, problem)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("%", 1, "expected two hexadecimal digits after '%', found '%'"),
        ("a%2", 2, "expected two hexadecimal digits after '%', found '%2'"),
        ("a%zz", 2, "expected two hexadecimal digits after '%', found '%zz'"),
        ("surf/%ff", 6, "not UTF-8"),
        ("%C3é", 1, "not UTF-8"),
        ("%C3x", 1, "not UTF-8"),
        ("%ED%A0%80", 1, "not UTF-8"),
        ("%c0%af", 1, "not UTF-8"),
        ("a" * 1025, 1, "at most 1024 bytes, this one has 1025"),
        ("surf/" + "é" * 513, 6, "at most 1024 bytes, this one has 1026"),
        ("%41" * 1025, 1, "at most 1024 bytes, this one has 1025"),
    ],
)
def test_unusable_names_are_refused(text: str, column: int, problem: str) -> None:
    assert_unreadable(text, column, problem)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("price=", 7, f"{NUMBER}.*, found the end"),
        ("price=/surf", 7, f"{NUMBER}.*, found '/'"),
        ("price= 5", 7, f"{NUMBER}.*, found ' 5'"),
        ("price=5 ", 7, f"{NUMBER}.*, found '5 '"),
        ("price=5=6", 7, f"{NUMBER}.*, found '5=6'"),
        ("price[", 7, "expected ']' after the bounds, found the end"),
        ("price[1,2", 10, "expected ']' after the bounds, found the end"),
        ("price[1/surf", 8, "expected ']' after the bounds, found '/'"),
        ("price[]", 7, f"{NUMBER}.*, found '\\]'"),
        ("price[ ]", 8, f"{NUMBER}.*, found '\\]'"),
        ("price[1,2,3]", 10, "expected ']' after the upper bound, found ','"),
        ("price[,,]", 8, "expected ']' after the upper bound, found ','"),
        ("price[1,2]3", 11, "expected '/' or the end after ']', found '3'"),
        ("price[1]2]", 7, f"{NUMBER}.*, found '1\\]2'"),
        ("price[[1,2]]", 7, f"{NUMBER}.*, found '\\[1'"),
        ("price[1;2]", 7, f"{NUMBER}.*, found '1;2'"),
        ("price[1 000,]", 7, f"{NUMBER}.*, found '1 000'"),
        ("price[ x,2]", 8, f"{NUMBER}.*, found 'x'"),
        ("price[1, x ]", 10, f"{NUMBER}.*, found 'x'"),
        ("price[1,\t2]", 9, f"{NUMBER}.*, found '\\\\t2'"),
        ("price[20,10]", 7, "the lower bound 20 is above the upper bound 10"),
        ("surf/price[0.2,0.1]", 12, "the lower bound 0.2 is above the upper bound 0.1"),
    ],
)
def test_bounds_are_numbers_in_brackets(text: str, column: int, problem: str) -> None:
    assert_unreadable(text, column, problem, is_pattern=".*" in problem)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("surf ", 5, "a space is not allowed here; in a name, write it as %20"),
        ("surf X", 5, "a space is not allowed here; in a name, write it as %20"),
        ("temp = 24", 5, "a space is not allowed here; in a name, write it as %20"),
        ("surf T T", 8, "expected '/' or the end, found 'T'"),
        ("price R", 8, "expected two numbers after 'R', found the end"),
        ("price R 1", 10, "expected two numbers after 'R', found the end"),
        ("price R 1/surf", 10, "expected two numbers after 'R', found '/'"),
        ("price R 1 2 3", 13, "expected '/' or the end, found '3'"),
        ("price R 2 1", 9, "the lower bound 2 is above the upper bound 1"),
        ("price R , 1", 9, f"{NUMBER}.*, found ','"),
        ("price R 1 two", 11, f"{NUMBER}.*, found 'two'"),
    ],
)
def test_the_first_notation_has_nothing_else(text: str, column: int, problem: str) -> None:
    assert_unreadable(text, column, problem, is_pattern=".*" in problem)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("surf/surf", 6, "the name 'surf' is repeated"),
        ("price[1,2]/price[1,2]", 12, "the name 'price' is repeated"),
        ("surf/price/surf=5", 12, "the name 'surf' is repeated"),
        ("a/%61", 3, "the name 'a' is repeated"),
        ("surf T/surf R 1 2", 8, "the name 'surf' is repeated"),
        ("a/b/c/d/e/a", 11, "the name 'a' is repeated"),
        ("a/b/c/d/e/f", 11, "too many attributes; at most 5 are allowed"),
        ("a/b/c/d/e/f/g=", 11, "too many attributes; at most 5 are allowed"),
    ],
)
def test_nothing_is_repeated_or_dropped(text: str, column: int, problem: str) -> None:
    assert_unreadable(text, column, problem)


def assert_unreadable(text: str, column: int, problem: str, *, is_pattern: bool = False) -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.parse(text)
    assert caught.value.column == column
    assert str(caught.value) == f"column {column}: {caught.value.problem}"
    if is_pattern:
        assert caught.match(problem)
    else:
        assert problem in caught.value.problem


def test_the_error_is_both_a_value_error_and_one_of_the_house() -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.parse("surf//bali")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, SmartPubSubError)


def test_the_error_points_at_the_column() -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.parse("surf//bali")
    assert caught.value.text == "surf//bali"
    assert caught.value.pointer() == "  surf//bali\n       ^"


def test_an_error_without_text_points_nowhere() -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.of({})
    assert caught.value.column is None
    assert caught.value.pointer() == ""


def test_errors_survive_pickling() -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.parse("surf//bali")

    copy = pickle.loads(pickle.dumps(caught.value))

    assert (str(copy), copy.column, copy.text) == (
        str(caught.value),
        caught.value.column,
        caught.value.text,
    )
