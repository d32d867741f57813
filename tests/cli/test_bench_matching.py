"""The benchmark's command, on workloads small enough for a test."""

import json
from pathlib import Path

import pytest

from smartpubsub.bench import adversarial, matching
from smartpubsub.bench.comparison import Comparison, DisagreementError
from smartpubsub.bench.report import Report
from smartpubsub.bench.workloads import W1
from smartpubsub.cli.main import main
from smartpubsub.matching import Index
from smartpubsub.matching.native_engine import is_available
from smartpubsub.predicates import Predicate

needs_native = pytest.mark.skipif(not is_available(), reason="the native engine is not built")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "SIZES", {"1k": 1_000})
    monkeypatch.setattr(matching, "CHOICE_SIZES", {"100": 100})
    monkeypatch.setattr(matching, "CHOICE_EVENTS", 100)
    monkeypatch.setattr(matching, "HUGE", ("10M", 2_000))
    monkeypatch.setattr(adversarial, "COUNT", 20)


@needs_native
@pytest.mark.usefixtures("small")
def test_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matching", "--huge", "--json"]) == 0

    output = capsys.readouterr()
    document = json.loads(output.out)
    assert set(document) == {"machine", "figures", "ratios"}
    figures = {figure["name"]: figure for figure in document["figures"]}
    for name in ("native batch 1k W1", "duckdb batch 1k W1", "sqlite single 1k W2"):
        assert figures[name]["value"] > 0
        assert figures[name]["unit"] == "events/s"
    assert "native batch 10M W1" in figures
    assert figures["touching large summary"]["value"] > 0
    ratios = {ratio["name"]: ratio for ratio in document["ratios"]}
    assert set(ratios["native/pure single 1k W1"]) == {"name", "value", "at_least", "ok"}
    assert "1k W1: DuckDB" in output.err


@needs_native
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "beginning"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_chart_is_written(tmp_path: Path, name: str, beginning: bytes) -> None:
    assert main(["bench", "matching", "--plot", str(tmp_path / name)]) == 0

    assert (tmp_path / name).read_bytes().startswith(beginning)


@pytest.mark.parametrize("path", ["chart.pdf", "absent/chart.png"])
def test_chart_that_cannot_be_written_is_refused_before_measuring(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "matching", "--plot", str(tmp_path / path)]) == 2

    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    assert "--plot" in output.err


def test_negative_seed_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matching", "--seed", "-1"]) == 2
    assert "--seed" in capsys.readouterr().err


def test_without_the_native_engine_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matching, "is_available", lambda: False)

    assert main(["bench", "matching"]) == 1

    assert "install a C++20 compiler" in capsys.readouterr().err


@needs_native
def test_engines_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Index.match

    def wrong(index: Index, event: Predicate) -> list[int]:
        # As many as there should be, but others.
        return [key + 1 for key in honest(index, event)]

    monkeypatch.setattr(Index, "match", wrong)
    report = Report({})
    report.add("memory bandwidth", 1.0, "GB/s")

    with pytest.raises(DisagreementError, match="please report"):
        Comparison(report, W1, ("1k", 1_000), 1, lambda _: None).run()
