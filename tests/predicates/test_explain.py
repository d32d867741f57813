"""The explanation says of each attribute whether it is met, and so agrees with matching."""

import pytest
from hypothesis import given

from smartpubsub.predicates import Predicate, Verdict, explain
from tests.predicates.said import Said, predicate
from tests.predicates.strategies import kindred


@pytest.mark.parametrize(
    ("filter_text", "event", "verdict"),
    [
        ("surf", "surf", Verdict("surf", "surf", "surf", True)),
        ("surf", "surf=5", Verdict("surf", "surf", "surf=5", True)),
        ("surf", "portugal", Verdict("surf", "surf", None, False)),
        ("price[10,20]", "price=15", Verdict("price", "price[10,20]", "price=15", True)),
        ("price[10,20]", "price[5,]", Verdict("price", "price[10,20]", "price[5,]", False)),
        ("price[10,20]", "price", Verdict("price", "price[10,20]", "price", False)),
        ("a%20b", "%61%20b", Verdict("a b", "a%20b", "a%20b", True)),
    ],
)
def test_verdicts(filter_text: str, event: str, verdict: Verdict) -> None:
    assert explain(Predicate.parse(filter_text), Predicate.parse(event)) == [verdict]


@given(kindred(2))
def test_an_event_matches_when_all_verdicts_are_met(pair: list[Said]) -> None:
    wanted, carried = map(predicate, pair)
    verdicts = explain(wanted, carried)

    assert all(verdict.met for verdict in verdicts) == wanted.matches(carried)
    assert "/".join(verdict.wanted for verdict in verdicts) == str(wanted)


@given(kindred(2))
def test_what_the_event_has_is_what_it_prints(pair: list[Said]) -> None:
    wanted, carried = map(predicate, pair)
    printed = dict(zip(carried.attributes, str(carried).split("/"), strict=True))

    assert [(verdict.name, verdict.got) for verdict in explain(wanted, carried)] == [
        (name, printed.get(name)) for name in wanted.attributes
    ]
