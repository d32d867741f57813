"""Figures and ratios say what they are named for."""

import pytest

from smartpubsub.bench.report import Ratio, Report


@pytest.fixture
def report() -> Report:
    report = Report({"processor": "abacus"})
    report.add("swift single 1M W1", 300.0, "events/s")
    report.add("slow single 1M W1", 2.0, "events/s")
    return report


def test_ratio_is_the_rate_of_the_first_over_the_second(report: Report) -> None:
    report.compare("swift", "slow", "single 1M W1", at_least=100)

    assert report.document()["ratios"] == [
        {"name": "swift/slow single 1M W1", "value": 150.0, "at_least": 100, "ok": True}
    ]


def test_ratio_of_a_figure_that_was_not_measured_is_left_out(report: Report) -> None:
    report.compare("swift", "absent", "single 1M W1", at_least=100)

    assert report.ratios == []


@pytest.mark.parametrize(("value", "ok"), [(119.9, True), (120, True), (120.1, False)])
def test_limit_is_a_ratio_with_an_upper_bound(report: Report, value: float, ok: bool) -> None:
    report.add("bytes", value, "bytes")
    report.limit("bytes", at_most=120)

    assert report.document()["ratios"] == [
        {"name": "bytes", "value": value, "at_most": 120, "ok": ok}
    ]


def test_figures_keep_four_digits(report: Report) -> None:
    report.add("measured", 123456.7, "events/s")

    figures = report.document()["figures"]
    assert isinstance(figures, list)
    assert figures[-1] == {"name": "measured", "value": 123500.0, "unit": "events/s"}


def test_text_marks_ratios_that_miss(report: Report) -> None:
    report.ratios.append(Ratio("a/b", 1.0, at_least=2))
    report.ratios.append(Ratio("c/d", 3.0, at_least=2))

    lines = report.text().splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["MISS", "ok"]
