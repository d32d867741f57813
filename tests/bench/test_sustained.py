"""The benchmark of a steady load, with numbers small enough for a test."""

import json

import pytest

from smartpubsub.bench import sustained
from smartpubsub.bench.live import Outcome
from smartpubsub.bench.report import Report
from smartpubsub.cli.main import main


def test_report_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sustained, "_maximum_rate", lambda _: 50.0)
    monkeypatch.setattr(sustained, "OVERLOAD_S", 0.5)
    monkeypatch.setattr(sustained, "OVERLOAD_DEADLINE_S", 60.0)

    assert main(["bench", "sustained", "--minutes", "0.02", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    assert figures["overload: wanted"] == 100
    assert figures["overload: acknowledged"] > 0
    ratios = {ratio["name"]: ratio for ratio in document["ratios"]}
    assert [*ratios] == [
        "latency p99, second half/first half",
        "memory of all nodes, second half/first half",
        "steady: events lost, late or refused",
        "overload: acknowledged events lost",
    ]
    for name in ("steady: events lost, late or refused", "overload: acknowledged events lost"):
        assert ratios[name]["value"] == 0
        assert ratios[name]["ok"]


def test_events_that_have_not_arrived_are_lost() -> None:
    report = Report({})
    outcome = Outcome([1, 2, 3], late=4, refused=5, took_s=2.0, lost=1)

    class Losing:
        def publish_at(self, *_: float) -> Outcome:
            return outcome

    sustained._overload(report, Losing(), 10.0)  # type: ignore[arg-type]

    assert report.value("overload: acknowledged") == 1.5
    [ratio] = report.ratios
    assert not ratio.ok
