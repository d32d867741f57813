"""smartpubsub explain says whether an event matches, attribute by attribute."""

import json

import pytest

from smartpubsub.cli import main as cli

Captured = pytest.CaptureFixture[str]


def test_a_match_is_told_attribute_by_attribute(capsys: Captured) -> None:
    assert cli.main(["explain", "surf/price[10,20]", "surf/portugal/price=15"]) == 0
    assert capsys.readouterr() == (
        "surf/portugal/price=15 matches surf/price[10,20]\n"
        "  met      surf          event has surf\n"
        "  met      price[10,20]  event has price=15\n",
        "",
    )


def test_a_mismatch_is_told_and_is_no_failure(capsys: Captured) -> None:
    assert cli.main(["explain", "surf/price[10,20]", "price=25"]) == 0
    assert capsys.readouterr() == (
        "price=25 does not match surf/price[10,20]\n"
        "  not met  surf          event has no such attribute\n"
        "  not met  price[10,20]  event has price=25\n",
        "",
    )


@pytest.mark.parametrize(("price", "matches"), [("15", True), ("25", False)])
def test_json_has_a_verdict_for_each_attribute(price: str, matches: bool, capsys: Captured) -> None:
    arguments = ["explain", "surf/price R 10 20", f"price={price}/surf", "--json"]

    assert cli.main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == {
        "matches": matches,
        "filter": "surf/price[10,20]",
        "event": f"price={price}/surf",
        "attributes": [
            {"name": "surf", "wanted": "surf", "got": "surf", "met": True},
            {"name": "price", "wanted": "price[10,20]", "got": f"price={price}", "met": matches},
        ],
    }


def test_json_says_null_for_what_the_event_lacks(capsys: Captured) -> None:
    assert cli.main(["explain", "são%20paulo", "surf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attributes"] == [
        {"name": "são paulo", "wanted": "são%20paulo", "got": None, "met": False}
    ]


def test_the_filter_can_be_a_condition(capsys: Captured) -> None:
    arguments = ["explain", "--where", "surf and price <= 20", "surf/price=15"]

    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.startswith("surf/price=15 matches surf/price[,20]\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["surf//bali", "surf"],
            "FILTER, column 6: expected an attribute name, found '/'\n  surf//bali\n       ^\n",
        ),
        (
            ["surf", "price[20,10]"],
            "EVENT, column 7: the lower bound 20 is above the upper bound 10\n"
            "  price[20,10]\n        ^\n",
        ),
        (
            ["--where", "surf or bali", "surf"],
            "FILTER, column 6: a predicate has no alternatives; subscribe once for each side of"
            " OR\n  surf or bali\n       ^\n",
        ),
        (
            ["", "surf"],
            "FILTER, column 1: expected an attribute name, found the end\n  \n  ^\n",
        ),
        (
            ["a", "a/b/c/d/e/f"],
            "EVENT, column 11: too many attributes; at most 5 are allowed\n"
            "  a/b/c/d/e/f\n            ^\n",
        ),
    ],
)
def test_what_cannot_be_read_ends_with_2_and_the_column(
    arguments: list[str], problem: str, capsys: Captured
) -> None:
    assert cli.main(["explain", *arguments]) == 2
    assert capsys.readouterr() == ("", f"smartpubsub: {problem}")


def test_what_cannot_be_read_is_told_as_json_too(capsys: Captured) -> None:
    assert cli.main(["explain", "surf//bali", "surf", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"].startswith("FILTER, column 6")
    assert told["exit_code"] == 2


def test_the_event_is_never_read_as_a_condition(capsys: Captured) -> None:
    assert cli.main(["explain", "--where", "surf", "surf and bali"]) == 2
    assert "EVENT, column 5" in capsys.readouterr().err


def test_how_many_attributes_are_allowed_can_be_said(capsys: Captured) -> None:
    arguments = ["explain", "a", "a/b/c/d/e/f", "--attributes-max", "6", "--json"]

    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["matches"] is True
    assert cli.main(["explain", "a/b", "a", "--attributes-max", "1"]) == 2
    assert "FILTER, column 3: too many attributes; at most 1" in capsys.readouterr().err


def test_a_filter_that_starts_with_a_dash_follows_two_dashes(capsys: Captured) -> None:
    assert cli.main(["explain", "--", "-x", "-x=5"]) == 0
    assert capsys.readouterr().out.startswith("-x=5 matches -x\n")
