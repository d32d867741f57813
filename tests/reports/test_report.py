"""A report says what the runs came to, and needs nothing but itself to be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from smartpubsub.pipeline.report_data import ReportData
from smartpubsub.pipeline.run_names import named_apart
from smartpubsub.reports.count_figures import best_compared, hop_means
from smartpubsub.reports.latency_figures import scenarios_in
from smartpubsub.reports.looks import COLOURS, for_page
from smartpubsub.reports.report import write_report

LABELS = [
    ("scoutsubs", "redirect-reliable"),
    ("scoutsubs", "base-unreliable"),
    ("fastdelivery", None),
    ("floodsub", None),
]
SCENARIOS = ("normal", "event-burst")


def group(label: tuple[str, str | None], scenario: str, nodes: int) -> dict[str, Any]:
    return {"protocol": label[0], "variant": label[1], "scenario": scenario, "nodes": nodes}


def run(label: tuple[str, str | None], scenario: str, nodes: int, **more: object) -> dict[str, Any]:
    names = ("latency_ms_mean", "latency_ms_max", "latency_ms_p50", "latency_ms_p99")
    return {
        **group(label, scenario, nodes),
        **dict.fromkeys(names, 20.0),
        "expected": 100,
        "delivered": 100,
        "app_duplicates": 0,
        "wire_duplicates": 3,
        "hops_mean": 2.0,
        "hops_max": 4.0,
        "messages": 500,
        "bytes": 1 << 20,
        "cpu_s": 1.0,
        "violations": 0,
        "backups": 2,
        "command": "smartpubsub sim run --protocol <x>",
        "ordered": False,
        "link_jitter_ms": 0.0,
        "coverage_injected": 1.0,
        "coverage_published": 1.0,
        **more,
    }


def full(**more: Any) -> ReportData:
    groups = [group(label, scenario, 60) for scenario in SCENARIOS for label in LABELS]
    runs = [run(label, scenario, 60) for scenario in SCENARIOS for label in LABELS]
    runs += [run(LABELS[0], "normal", n, hops_mean=h) for n, h in ((125, 2.5), (250, 3.0))]
    topics = [("surf/<price>", 9, 3), ("ipfs", 2, 54)]
    counts = {"runs": 1, "expected": 10, "delivered": 9, "copies": 30}
    given: dict[str, Any] = {
        "title": "A <small> & quiet campaign",
        "about": "Two of each.",
        "paper": "smartpubsub-2021",
        "runs": runs,
        "latencies": [{**g, "ms": ms, "count": 5} for g in groups for ms in (0, 10, 21)],
        "loads": [{**g, "sent": list(range(101)), "mean": 50.0} for g in groups],
        "topics": [
            {**g, **counts, "topic": name, "injected": events, "subscriptions": wanted}
            for g in groups
            for name, events, wanted in topics
        ],
        "progress": [
            {**g, "start_ms": at, "sent": 100, "arrived": 10, "crashed": at // 1000, "returned": 0}
            for g in groups
            for at in (0, 1000)
        ],
        "stages": [
            {"backups": f, "stage": stage, "subscription_ms": 50.0 + f, "event_ms": 20.0}
            for f in (1, 5)
            for stage in (1, 2, 3, 4)
        ],
    }
    return ReportData(**{**given, **more})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(full(), tmp_path_factory.mktemp("report"))


def test_every_figure_is_there_and_is_a_file_of_its_own(report: Path) -> None:
    page = report.read_text(encoding="utf-8")

    names = {path.stem for path in (report.parent / "figures").glob("*.png")}
    assert names == {
        *("latency-means", "latency-histograms", "duplicates", "replication", "topics"),
        *("coverage", "messages", "timeline", "loads", "hops"),
    }
    assert {path.stem for path in (report.parent / "figures").glob("*.svg")} == names
    for name in names:
        assert f'<section id="{name}">' in page
    assert page.count("<svg") == len(names)


def test_the_page_needs_nothing_from_outside(report: Path) -> None:
    page = report.read_text(encoding="utf-8")

    assert not re.search(r"<(script|link|img|iframe)\b", page)
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert "@import" not in page
    assert "url(" not in re.sub(r"url\(#", "", page)


def test_figures_take_the_page_s_colours_by_day_and_night(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    style, _, body = page.partition("</style>")

    assert "prefers-color-scheme:dark" in style
    for light, dark in COLOURS.values():
        assert light in style
        assert dark in style
        assert light not in body
    used = set(re.findall(r"var\((--[\w-]+)\)", body))
    assert used <= set(re.findall(r"(--[\w-]+):", style))


def test_ids_are_there_once_and_all_that_is_referred_to_is_there(report: Path) -> None:
    page = report.read_text(encoding="utf-8")

    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for referred in re.findall(r"(?:href=\"|url\()#([^\")]+)", page):
        assert referred in ids


def test_names_from_data_are_text_and_not_markup(report: Path) -> None:
    page = report.read_text(encoding="utf-8")

    assert "<h1>A &lt;small&gt; &amp; quiet campaign</h1>" in page
    assert "surf/&lt;price&gt;" in page
    assert "--protocol &lt;x&gt;" in page


def test_the_papers_values_stand_beside(report: Path) -> None:
    page = report.read_text(encoding="utf-8")

    for value in ("2,313 / 8,464", "212 / 472", "108.0 MB", "paper: 212 ms", "9.8%"):
        assert value in page


def test_the_fit_says_what_a_million_nodes_would_be(report: Path) -> None:
    figure = ElementTree.parse(report.parent / "figures" / "hops.svg")

    words = " ".join("".join(node.itertext()) for node in figure.iter() if node.text)
    # Half a hop more with every doubling, from 2 hops at 60 nodes.
    assert "8.8 hops at a million nodes" in words


def test_without_traces_or_a_paper_there_is_what_there_is(tmp_path: Path) -> None:
    bare = ReportData(title="t", about="", paper=None, runs=[run(LABELS[3], "reddit", 10)])

    page = write_report(bare, tmp_path).read_text(encoding="utf-8")

    assert "<svg" not in page
    assert "paper" not in re.sub(r"<style>.*</style>", "", page, flags=re.S)
    assert "smartpubsub pipeline measure" in page


def pulsarcast_runs() -> list[dict[str, Any]]:
    quick: dict[str, Any] = {"link_latency_ms": 10.0, "link_jitter_ms": 0.0, "link_loss": 0.0}
    slow = {**quick, "link_latency_ms": 500.0, "link_jitter_ms": 300.0}
    return named_apart(
        [
            run(("floodsub", None), "reddit", 100, coverage_injected=0.5, **quick),
            run(("floodsub", None), "reddit", 100, coverage_injected=0.25, **slow),
            run(("gossipsub", None), "reddit", 100, coverage_injected=0.625, **quick),
            run(("pulsarcast", None), "reddit", 100, coverage_injected=0.875, **slow),
            run(("pulsarcast", None), "reddit", 100, coverage_injected=0.75, ordered=True, **quick),
        ]
    )


def test_runs_over_other_links_and_with_order_go_by_other_names() -> None:
    names = [(row["scenario"], row["protocol"], row["variant"]) for row in pulsarcast_runs()]

    assert names == [
        ("reddit", "floodsub", None),
        ("reddit, 500 to 800 ms", "floodsub", None),
        ("reddit", "gossipsub", None),
        ("reddit, 500 to 800 ms", "pulsarcast", None),
        ("reddit", "pulsarcast", "ordered"),
    ]
    assert scenarios_in([{"scenario": name} for name, *_ in reversed(names)]) == [
        "reddit",
        "reddit, 500 to 800 ms",
    ]


def test_pulsarcast_s_runs_are_told_apart_by_order_and_links(tmp_path: Path) -> None:
    data = ReportData(title="t", about="", paper="pulsarcast-2021", runs=pulsarcast_runs())

    page = write_report(data, tmp_path).read_text(encoding="utf-8")

    section = page[page.index('id="coverage-table"') :]
    rows = [
        re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in re.findall(r"<tr>.*?</tr>", section)
    ]
    cells = {(row[0], row[1]): (row[3], row[7]) for row in rows if len(row) == 11}
    assert cells == {
        ("quick", "Pulsarcast"): ("99.99%", "-"),
        ("quick", "Pulsarcast, ordered"): ("37.00%", "75.00%"),
        ("quick", "GossipSub"): ("-", "62.50%"),
        ("quick", "Floodsub"): ("41.00%", "50.00%"),
        ("slow", "Pulsarcast"): ("51.00%", "87.50%"),
        ("slow", "Pulsarcast, ordered"): ("32.00%", "-"),
        ("slow", "GossipSub"): ("-", "-"),
        ("slow", "Floodsub"): ("31.00%", "25.00%"),
    }
    assert (tmp_path / "figures" / "coverage-means.svg").exists()
    assert "papers: 32 to 99 %" in page


def test_what_nodes_send_is_a_table(tmp_path: Path) -> None:
    figures = {
        f"rpc_{way}_per_node_{name}": value
        for way in ("sent", "received")
        for name, value in (("mean", 200.0), ("sd", 50.0), ("p95", 300.0), ("p99", 900.0))
    }
    runs = [run(LABELS[3], "reddit", 10, **figures)]

    page = write_report(ReportData(title="t", about="", paper=None, runs=runs), tmp_path).read_text(
        encoding="utf-8"
    )

    row = page[page.index('id="loads-table"') :].split("<tbody>")[1]
    shown = ["200", "50", "300", "900"]
    assert re.findall(r"<td>([^<]*)</td>", row)[3:12] == [*shown, *shown, "4.5"]


def test_the_same_data_give_the_same_page(report: Path, tmp_path: Path) -> None:
    assert write_report(full(), tmp_path).read_bytes() == report.read_bytes()


def test_protocols_are_compared_where_most_of_them_ran() -> None:
    rows = [run(LABELS[0], "normal", 10), *(run(label, "normal", 60) for label in LABELS)]

    assert best_compared(rows) == 60
    assert hop_means(rows) == {10: 2.0, 60: 2.0}


def test_references_in_a_figure_follow_its_ids() -> None:
    svg = '<?xml?><svg width="9pt" height="9pt"><p id="a"/><u clip-path="url(#a)" href="#a"/></svg>'

    shown = for_page(svg, "x", 5)

    assert 'id="x-a"' in shown
    assert 'url(#x-a)" href="#x-a"' in shown
