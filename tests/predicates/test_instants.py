"""Dates and times are numbers: the seconds since 1970 in UTC, exactly."""

from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartpubsub.predicates import Predicate, PredicateError
from smartpubsub.predicates.numbers import number_from, parse_number
from tests.predicates.said import value

DAY = 86400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=zones)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", DAY),
        ("1969-12-31", -DAY),
        ("2000-02-29", 951782400),
        ("1970-01-01T00:01", 60),
        ("1970-01-01T00:00:01", 1),
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00:00+0100", 0),
        ("1970-01-01T00:00-00:30", 1800),
        ("1970-01-01T00:00:00+23:59", -86340),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1970-01-01T00:00:00.5Z", 0.5),
        ("1969-12-31T23:59:59.5Z", -0.5),
        ("1970-01-01T00:00:00.100+00:00", 0.1),
        ("0001-01-01", -719162 * DAY),
        ("0001-01-01T00:00:00+14:00", -719162 * DAY - 14 * 3600),
        ("9999-12-31T23:59:59-14:00", 2932897 * DAY - 1 + 14 * 3600),
    ],
)
def test_instants_are_seconds(text: str, seconds: float) -> None:
    assert parse_number(text) == seconds
    assert Predicate.parse(f"at[{text},]") == Predicate.of({"at": (seconds, None)})


def test_fractions_of_seconds_are_exact() -> None:
    digits = "123456789012345678901234567890"

    read = parse_number(f"2007-01-31T12:00:00.{digits}Z")

    assert value(read) == 1170244800 + Fraction(int(digits), 10**30)


@given(moments)
def test_written_moments_are_the_time_since_the_epoch(moment: datetime) -> None:
    microseconds = (moment - EPOCH) // timedelta(microseconds=1)

    assert value(parse_number(moment.isoformat())) == Fraction(microseconds, 10**6)
    assert number_from(moment) == parse_number(moment.isoformat())


@given(moments, moments)
def test_moments_are_in_the_order_of_time(one: datetime, other: datetime) -> None:
    assert (parse_number(one.isoformat()) < parse_number(other.isoformat())) == (one < other)


@given(st.datetimes())
def test_moments_without_a_zone_are_utc(moment: datetime) -> None:
    assert number_from(moment) == number_from(moment.replace(tzinfo=UTC))
    assert number_from(moment) == parse_number(moment.isoformat())


@given(st.dates())
def test_a_date_is_its_midnight(day: date) -> None:
    assert number_from(day) == number_from(datetime(day.year, day.month, day.day, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2007-02-29", "no such date or time"),
        ("2007-13-01", "no such date or time"),
        ("2007-00-01", "no such date or time"),
        ("2007-01-00", "no such date or time"),
        ("0000-01-01", "no such date or time"),
        ("2007-01-01T24:00", "no such date or time"),
        ("2007-01-01T12:60", "no such date or time"),
        ("2016-12-31T23:59:60Z", "no such date or time"),
        ("2007-01-01T00:00+24:00", r"no such time zone: \+24:00"),
        ("2007-01-01T00:00-01:60", "no such time zone: -01:60"),
        ("2007-1-1", "expected a number"),
        ("2007-01", "expected a number"),
        ("12007-01-01", "expected a number"),
        ("-2007-01-01", "expected a number"),
        ("2007-01-01Z", "expected a number"),
        ("2007-01-01T", "expected a number"),
        ("2007-01-01T12", "expected a number"),
        ("2007-01-01 12:00", "expected a number"),
        ("2007-01-01t12:00z", "expected a number"),
        ("2007-01-01T12:00:00.", "expected a number"),
        ("2007-01-01T12:00:00,5", "expected a number"),
        (f"2007-01-01T12:00:00.{'1' * 31}", "expected a number"),
        ("2007-01-01T12:00+1", "expected a number"),
        ("2007-01-01T12:00 UTC", "expected a number"),
        ("٢٠٠٧-01-01", "expected a number"),
        ("2007-01-01\n", "expected a number"),
    ],
)
def test_what_is_no_instant_is_refused_where_it_stands(text: str, problem: str) -> None:
    with pytest.raises(PredicateError, match=problem) as caught:
        Predicate.parse(f"surf/at={text}")
    assert caught.value.column == 9
