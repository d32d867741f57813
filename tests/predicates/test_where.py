"""The SQL-like front end says what predicates say, and nothing else."""

import pytest
from hypothesis import given

from smartpubsub.predicates import Predicate, PredicateError
from tests.predicates.said import Said, as_condition, predicate
from tests.predicates.strategies import said


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("portugal", "portugal"),
        ("portugal and surf", "portugal/surf"),
        ("portugal AND temp BETWEEN 20 AND 30", "portugal/temp[20,30]"),
        ("temp = 24", "temp=24"),
        ("temp=24", "temp=24"),
        ("temp>=-.5", "temp[-0.5,]"),
        ("temp <= +1e3", "temp[,1000]"),
        ("temp >= 1 and temp <= 5", "temp[1,5]"),
        ("temp >= 1 and surf and temp <= 5", "temp[1,5]/surf"),
        ("temp between 1 and 5 and temp between 3 and 9", "temp[3,5]"),
        ("temp >= 1 and temp >= 2", "temp[2,]"),
        ("temp >= 5 and temp <= 5", "temp=5"),
        ("temp and temp = 5", "temp=5"),
        ("temp = 5 and temp", "temp=5"),
        ("surf and surf", "surf"),
        ("day >= 2007-01-31", "day[2007-01-31,]"),
        ("day >= '2007-01-31'", "day[2007-01-31,]"),
        ("day = 2007-01-31T12:00:00.5+02:00", "day=2007-01-31T12:00:00.5+02:00"),
        ("temp = '24'", "temp=24"),
        ("id = 9007199254740993", "id=9007199254740993"),
        ('"são paulo" and "a""b" = 1', "são%20paulo/a%22b=1"),
        ('"and" and "between" between 1 and 2', "and/between[1,2]"),
        ('"%41"', "%2541"),
        ("andorra and order", "andorra/order"),
        ("a-b.c_d and Surf", "a-b.c_d/Surf"),
        ("  surf\n\tand\u00a0temp\r\n=\n5  ", "surf/temp=5"),
        ("٣ = 3", "٣=3"),
    ],
)
def test_conditions(condition: str, text: str) -> None:
    assert Predicate.where(condition) == Predicate.parse(text)
    assert str(Predicate.where(condition)) == str(Predicate.parse(text))


@pytest.mark.parametrize(
    ("condition", "column", "remedy"),
    [
        ("a or b", 3, "subscribe once for each side of OR"),
        ("a = 1 OR b = 2", 7, "subscribe once for each side of OR"),
        ("a between 1 or 2", 13, "subscribe once for each side of OR"),
        ("not a", 1, "check at the receiver"),
        ("a and not b", 7, "check at the receiver"),
        ("a not between 1 and 2", 3, "check at the receiver"),
        ("a < 5", 3, "write '<='"),
        ("a > 5", 3, "write '>='"),
        ("a != 5", 3, "check at the receiver"),
        ("a <> 5", 3, "check at the receiver"),
        ("a in (1, 2)", 3, "subscribe once for each value"),
        ("a Like 'x%'", 3, "use a topic for each word"),
        ("a is not null", 3, "the bare name asks for an attribute of any value"),
        ("(a and b)", 1, "leave the parentheses out"),
        ("a and (b)", 7, "leave the parentheses out"),
        ("a (b)", 3, "leave the parentheses out"),
        ("a = (5)", 5, "leave the parentheses out"),
        ("a = 'lisbon'", 5, "use a topic for each"),
        ("a = lisbon", 5, "use a topic for each"),
        ("a b%", 3, "expected AND or the end, found 'b%'"),
        ("a%20b", 2, "put the name in double quotes"),
        ("a and b;", 8, "put the name in double quotes"),
    ],
)
def test_what_predicates_cannot_say_is_refused_with_a_remedy(
    condition: str, column: int, remedy: str
) -> None:
    assert_unreadable(condition, column, remedy)


@pytest.mark.parametrize(
    ("condition", "column", "problem"),
    [
        ("", 1, "expected an attribute name, found the end"),
        ("  ", 3, "expected an attribute name, found the end"),
        ("and", 1, "expected an attribute name, found 'and'"),
        ("a and", 6, "expected an attribute name, found the end"),
        ("a and and b", 7, "expected an attribute name, found 'and'"),
        ("5 <= a", 1, "expected an attribute name, found '5'"),
        ("*", 1, "expected an attribute name, found '*'"),
        ("-a", 1, "expected an attribute name, found '-'"),
        ('"a', 1, "expected an attribute name, found '\"'"),
        ('""', 1, "a name is empty"),
        ('"\ud800"', 1, "half of a surrogate pair"),
        ("a b", 3, "expected AND or the end, found 'b'"),
        ("a, b", 2, "expected AND or the end, found ','"),
        ("a = 1 b = 2", 7, "expected AND or the end, found 'b'"),
        ("a = 1 = 2", 7, "expected AND or the end, found '='"),
        ("a =", 4, "expected a number or a date"),
        ("a == 5", 4, "expected a number or a date"),
        ("a = '5", 5, "expected a number or a date"),
        ('a = "5"', 5, "expected a number or a date"),
        ("a = --5", 5, "expected a number or a date"),
        ("a = ''", 5, "expected a number such as 24"),
        ("a = ' 5'", 5, "expected a number such as 24"),
        ("a = 1and b", 5, "expected a number such as 24"),
        ("a = 1_000", 6, "expected AND or the end, found '_000'"),
        ("a = nan", 5, "expected a number or a date"),
        ("a = 'nan'", 5, "expected a number such as 24"),
        ("a = 2007-02-30", 5, "no such date or time"),
        ("a = 1e100001", 5, "an exponent is at most 100000"),
        ("a between", 10, "expected a number or a date"),
        ("a between 1", 12, "expected AND between the bounds, found the end"),
        ("a between 1 2", 13, "expected AND between the bounds, found '2'"),
        ("a between 1 and", 16, "expected a number or a date"),
        ("a between 2 and 1", 3, "the lower bound 2 is above the upper bound 1"),
        ("a >= 5 and a <= 1", 12, "the lower bound 5 is above the upper bound 1"),
        ("a = 5 and a = 6", 11, "the lower bound 6 is above the upper bound 5"),
        ("a and b and c and d and e and f", 31, "too many attributes; at most 5"),
    ],
)
def test_unreadable_conditions(condition: str, column: int, problem: str) -> None:
    assert_unreadable(condition, column, problem)


def assert_unreadable(condition: str, column: int, problem: str) -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.where(condition)
    assert problem in str(caught.value)
    assert caught.value.column == column
    assert caught.value.text == condition


def test_a_repeated_name_counts_once() -> None:
    assert len(Predicate.where("a and b and c and d and e and a >= 1 and a <= 2")) == 5


@given(said().filter(lambda said: (None, None) not in said.values()))
def test_conditions_make_the_predicates_that_texts_make(said: Said) -> None:
    assert Predicate.where(as_condition(said)) == predicate(said)
    assert str(Predicate.where(as_condition(said))) == str(predicate(said))


@given(said())
def test_bounds_said_one_by_one_make_the_same_range(said: Said) -> None:
    apart: list[Said] = []
    for name, bounds in said.items():
        lo, hi = bounds or (None, None)
        apart += [{name: None}, {name: (lo, None)}, {name: (None, hi)}]
    sayable = [one for one in apart if (None, None) not in one.values()]

    read = Predicate.where(" and ".join(map(as_condition, sayable)))

    assert read == predicate({n: None if b == (None, None) else b for n, b in said.items()})
