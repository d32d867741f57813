"""The report of a campaign: its figures and tables, beside those of the papers, on one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from smartpubsub.pipeline.report_data import ReportData, Rows
from smartpubsub.reports import count_figures as counts
from smartpubsub.reports import latency_figures as times
from smartpubsub.reports import topic_figures as topics
from smartpubsub.reports.looks import draw
from smartpubsub.reports.page import Card, Section, page
from smartpubsub.reports.papers import PAPERS, Paper
from smartpubsub.reports.result_tables import percent, result_tables
from smartpubsub.reports.words import words

PAGE = "report.html"
FIGURES = "figures"


def write_report(data: ReportData, folder: Path) -> Path:
    """Write the page, and each figure as a file of its own; return the path of the page."""
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    paper = PAPERS.get(data.paper) if data.paper else None
    sections = [*result_tables(data, paper), *_figures(data, paper, folder / FIGURES)]
    text = page(
        title=data.title,
        about=data.about,
        cards=list(_cards(data, paper)),
        sections=sections,
        notes=_notes(data, paper),
    )
    path = folder / PAGE
    new = folder / f".{PAGE}.new"
    new.write_text(text, encoding="utf-8")
    new.replace(path)
    return path


def _cards(data: ReportData, paper: Paper | None) -> Iterator[Card]:
    runs = data.runs
    sizes = sorted({row["nodes"] for row in runs})
    between = f"{sizes[0]:,} to {sizes[-1]:,}" if len(sizes) > 1 else f"{sizes[0]:,}"
    yield Card(value=f"{len(runs):,}", what=f"runs, of {between} nodes")
    first, main = _main(runs)
    reliable = [row for row in main if (row["variant"] or "").endswith("-reliable")] or main
    expected = sum(row["expected"] for row in reliable)
    delivered = sum(row["delivered"] for row in reliable)
    yield Card(
        value=percent(delivered, expected),
        what=f"of {expected:,} expected deliveries made, {first}"
        + (", reliable" if reliable is not main else ""),
        beside=_shares(paper),
    )
    yield Card(
        value=f"{sum(row['app_duplicates'] for row in main):,}",
        what="events delivered to an application twice",
        beside="papers: 5 to 17 % of all" if paper and paper.duplicates else "",
    )
    calm = [r for r in main if counts.is_default(r) and r["nodes"] <= 100] or [
        row for row in main if not topics.is_slow(row)
    ]
    mean = sum(row["latency_ms_mean"] for row in calm) / len(calm) if calm else 0.0
    theirs = paper.latency.get(("normal", ("scoutsubs", "redirect-reliable"))) if paper else None
    if calm:
        yield Card(
            value=f"{mean:,.0f} ms",
            what="from publish to delivery, mean" + (", calm" if len(calm) < len(main) else ""),
            beside=f"paper: {theirs.mean:,.0f} ms" if theirs else "",
        )
    if "violations" in runs[0]:
        yield Card(
            value=f"{sum(row['violations'] for row in runs):,}",
            what="violations of invariants",
        )


def _main(runs: Rows) -> tuple[str, Rows]:
    """The protocol that a report is about, and its runs; all if it is none of this project's."""
    for protocol, name in (("scoutsubs", "ScoutSubs"), ("pulsarcast", "Pulsarcast")):
        mine = [row for row in runs if row["protocol"] == protocol]
        if mine:
            return name, mine
    return "all protocols", runs


def _shares(paper: Paper | None) -> str:
    """The range of the papers' shares."""
    if paper is None:
        return ""
    shares = [share for both in paper.delivered.values() for share in both]
    shares += [one.injected for one in paper.coverage if one.label[0] == "pulsarcast"]
    return f"papers: {int(min(shares) * 100)} to {int(max(shares) * 100)} %" if shares else ""


Drawing: TypeAlias = Callable[[str, str, str, tuple[Any, float, float]], Section]


def _figures(data: ReportData, paper: Paper | None, folder: Path) -> Iterator[Section]:
    def section(name: str, title: str, text: str, drawn: tuple[Any, float, float]) -> Section:
        paint, width, height = drawn
        body = draw(folder, name, paint, width=width, height=height)
        return Section(name=name, title=title, text=text, body=body)

    if paper is not None:
        yield from _figures_beside(data, paper, section)
    yield from _figures_of(data, paper, section)
    yield words(data.runs)


def _figures_beside(data: ReportData, paper: Paper, section: Drawing) -> Iterator[Section]:
    """The sections with the paper's figures beside ours."""
    if paper.latency:
        yield section(
            "latency-means",
            "Latency beside the paper",
            "Mean time from publish to delivery. Orange dots are the paper's, coloured dots"
            " are from"
            " the runs of this report; the scale is logarithmic, so equal distances are equal"
            " factors.",
            times.against_paper(data.runs, paper),
        )
    if paper.coverage:
        yield section(
            "coverage-means",
            "Coverage beside the paper",
            "The share of the expected deliveries that were made, whether or not the event was"
            " acknowledged. Orange is the paper's, where it has any.",
            topics.coverage_beside(data.runs, paper),
        )
    if paper.duplicates:
        yield section(
            "duplicates",
            "Duplicate copies",
            "Copies of an event that reached a node which already had it, as a share of"
            " deliveries. In the paper they reached applications; here they are counted on the"
            " wire, and the number that reached an application is at the top.",
            counts.duplicates(data.runs, paper),
        )


def _figures_of(data: ReportData, paper: Paper | None, section: Drawing) -> Iterator[Section]:
    """The sections about the runs themselves."""
    beside = " Orange is what the paper measured." if paper and paper.latency else ""
    if data.latencies:
        yield section(
            "latency-histograms",
            "How long events take",
            "Each small picture shows how many deliveries took how long in one scenario with one"
            " protocol. The thin line is the mean, the dotted one the median: where they are far"
            f" apart there are two groups, such as near and far subscribers.{beside}",
            times.histograms(data.latencies, paper),
        )
    if data.stages:
        yield section(
            "replication",
            "The cost of backups",
            "Every rendezvous has replicas of its state on f other nodes. In each of four stages"
            " every subscriber adds one subscription. In the paper, more backups made subscribing"
            " slower by up to 80 ms, and events by up to 40 ms.",
            times.replication(data.stages),
        )
    if data.topics:
        yield section(
            "topics",
            "Events and subscriptions of topics",
            "What was published about each topic, how many subscriptions name just this topic, and"
            " how many copies of its events came to nodes, in one run. Dots stand on logarithmic"
            " scales, bars on linear ones. Where topics have no names,"
            " a topic is a predicate without its numbers.",
            topics.topics(data.topics),
        )
        yield section(
            "coverage",
            "Coverage by topic",
            "The number of expected deliveries of a topic, and the share of them that was made."
            " A dot at the right edge means that nothing is missing.",
            topics.coverage(data.topics),
        )
    if data.progress:
        yield section(
            "messages",
            "Messages against deliveries",
            "The number of messages that all nodes have sent by each number of deliveries. The"
            " scale of messages is logarithmic above 100: equal distances are equal factors, and a"
            " lower line means that a delivery costs less.",
            counts.messages(data.progress),
        )
    struck = counts.with_crashes(data.progress)
    if struck:
        yield section(
            "timeline",
            "Crashes and deliveries",
            "The number of deliveries in each time window, in all runs together, and the moments"
            " at which nodes crashed and were started again. Deliveries that a crash delays come"
            " in later windows; where the curve goes on at its level, a crash delays nothing.",
            counts.timeline(struck),
        )
    if data.loads:
        yield section(
            "loads",
            "Load by node",
            "Messages that a node sends in a run, from the busiest node at the left to the"
            " least busy"
            " at the right. A flat line means that all nodes carry the same load.",
            counts.loads(data.loads),
        )
    if len(counts.hop_means(data.runs)) > 1:
        yield section(
            "hops",
            "How far events travel",
            "Links from the publisher to a subscriber, against the number of nodes. The dashed"
            " line is"
            " fitted to the means and extrapolated to a million nodes, where nothing was measured.",
            counts.hops(data.runs),
        )


def _notes(data: ReportData, paper: Paper | None) -> str:
    lines = ["Made by <code>smartpubsub pipeline report</code>; the figures are beside this page."]
    if paper:
        lines.append(f"Papers' values: {escape(paper.name)}.")
    if not data.latencies:
        lines.append(
            "Histograms and figures by topic and node are drawn where traces were measured:"
            " <code>smartpubsub pipeline measure</code>."
        )
    if data.versions:
        versions = ", ".join(f"{name} {version}" for name, version in data.versions.items())
        lines.append(f"Versions of the Delta tables: {escape(versions)}.")
    command = data.runs[0].get("command")
    if command:
        lines.append(f"To repeat one of the runs: <code>{escape(command)}</code>")
    return "".join(f"<p>{line}</p>" for line in lines)
