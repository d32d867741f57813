"""The report of a campaign: its figures and tables, beside those of the papers, on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from smartpubsub.pipeline.report_data import ReportData
from smartpubsub.reports import count_figures as counts
from smartpubsub.reports import latency_figures as times
from smartpubsub.reports.latency_figures import labels_in, scenarios_in
from smartpubsub.reports.looks import draw, name_of
from smartpubsub.reports.page import Card, Section, page, table
from smartpubsub.reports.papers import PAPERS, Paper

PAGE = "report.html"
FIGURES = "figures"


def write_report(data: ReportData, folder: Path) -> Path:
    """Write the page, and each figure as a file of its own; the path of the page."""
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    paper = PAPERS.get(data.paper) if data.paper else None
    sections = [*_tables(data, paper), *_figures(data, paper, folder / FIGURES)]
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
    scouts = [row for row in runs if row["protocol"] == "scoutsubs"] or runs
    who = "ScoutSubs" if scouts[0]["protocol"] == "scoutsubs" else "all protocols"
    reliable = [row for row in scouts if (row["variant"] or "").endswith("-reliable")] or scouts
    expected = sum(row["expected"] for row in reliable)
    delivered = sum(row["delivered"] for row in reliable)
    yield Card(
        value=_percent(delivered, expected),
        what=f"of {expected:,} owed deliveries came, {who}"
        + (", reliable" if reliable is not scouts else ""),
        beside="papers: 45 to 100 %" if paper and paper.delivered else "",
    )
    yield Card(
        value=f"{sum(row['app_duplicates'] for row in scouts):,}",
        what="events came to an application twice",
        beside="papers: 5 to 17 % of all" if paper and paper.duplicates else "",
    )
    calm = [r for r in scouts if counts.is_default(r) and r["nodes"] <= 100] or scouts
    mean = sum(row["latency_ms_mean"] for row in calm) / len(calm)
    theirs = paper.latency.get(("normal", ("scoutsubs", "redirect-reliable"))) if paper else None
    yield Card(
        value=f"{mean:,.0f} ms",
        what="from publish to delivery, mean" + (", calm" if calm is not scouts else ""),
        beside=f"paper: {theirs.mean:,.0f} ms" if theirs else "",
    )
    if "violations" in runs[0]:
        yield Card(
            value=f"{sum(row['violations'] for row in runs):,}",
            what="violations of what must always hold",
        )


def _percent(part: int, whole: int) -> str:
    if part == whole:
        return "100 %"
    return f"{min(part / whole, 0.9999):.2%}".replace("%", " %")


def _groups(data: ReportData) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
    for scenario in scenarios_in(data.runs):
        for label in labels_in(data.runs):
            sizes = sorted({row["nodes"] for row in data.runs})
            for nodes in sizes:
                mine = [
                    row
                    for row in data.runs
                    if (row["scenario"], row["protocol"], row["variant"], row["nodes"])
                    == (scenario, *label, nodes)
                ]
                if mine:
                    yield (scenario, label, nodes), mine


def _tables(data: ReportData, paper: Paper | None) -> Iterator[Section]:
    rows = []
    for (scenario, label, nodes), mine in _groups(data):
        theirs = paper.latency.get((scenario, label)) if paper and nodes == paper.nodes else None
        shares = paper.delivered.get((scenario, nodes)) if paper and label[1] else None
        expected = sum(row["expected"] for row in mine)
        delivered = sum(row["delivered"] for row in mine)
        messages = sum(row["messages"] for row in mine)
        longest = max(row["latency_ms_max"] for row in mine)
        rows.append(
            (
                scenario,
                name_of(*label),
                f"{nodes:,}",
                f"{len(mine)}",
                "-" if not shares else " to ".join(f"{s:.0%}" for s in dict.fromkeys(shares)),
                "-" if not theirs else f"{theirs.mean:,.0f} / {theirs.max:,.0f}",
                _percent(delivered, expected) if expected else "-",
                f"{_mean(mine, 'latency_ms_mean'):,.0f} / {longest:,.0f}",
                f"{_mean(mine, 'latency_ms_p99'):,.0f}",
                f"{_mean(mine, 'hops_mean'):.2f}",
                f"{messages / delivered:,.1f}" if delivered else "-",
                f"{_mean(mine, 'bytes') / (1 << 20):,.2f}",
            )
        )
    head = (
        *("scenario", "protocol", "nodes", "runs", "paper: delivered", "paper: ms mean / max"),
        *("delivered", "ms mean / max", "ms p99", "hops", "messages per delivery", "MiB sent"),
    )
    yield Section(
        name="results",
        title="All results",
        text="Every scenario with every protocol. Delivered is the share of deliveries that nodes"
        " were owed and got. Milliseconds are from the call of publish to the delivery to a node."
        + (f" What {paper.name} measured stands beside it." if paper else ""),
        body=table(*_without_empty(head, rows), paper="paper"),
    )
    if paper and paper.coverage:
        yield _coverage_table(data, paper)
    if paper and "cpu_s" in data.runs[0] and any(_usage_rows(data, paper)):
        yield _usage_table(data, paper)


def _without_empty(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The columns that have something in a row."""
    kept = [n for n in range(len(head)) if any(row[n] != "-" for row in rows)]
    return [head[n] for n in kept], [[row[n] for n in kept] for row in rows]


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows))


def _coverage_table(data: ReportData, paper: Paper) -> Section:
    rows = []
    for case in paper.coverage:
        mine = [
            row
            for row in data.runs
            if row["protocol"] == case.protocol
            and (row.get("ordered", False) or case.protocol != "pulsarcast") >= case.ordered
            and (case.protocol != "pulsarcast" or bool(row.get("ordered")) == case.ordered)
            and (row.get("link_jitter_ms", 0) > 0) == case.has_latency
        ]
        rows.append(
            (
                case.label,
                f"{len(mine)}",
                f"{case.injected:.2%}",
                f"{case.published:.2%}",
                f"{case.network_mib:,.0f}",
                f"{_mean(mine, 'coverage_injected'):.2%}" if mine else "-",
                f"{_mean(mine, 'coverage_published'):.2%}" if mine else "-",
                f"{_mean(mine, 'bytes') / (1 << 20):,.0f}" if mine else "-",
            )
        )
    head = (
        *("run", "runs", "paper: of injected", "paper: of published", "paper: MiB"),
        *("of injected", "of published", "MiB"),
    )
    return Section(
        name="coverage-table",
        title="What came of all that was owed",
        text=f"Coverage in the runs of {paper.name}, and in the same runs here: of all events that"
        " were injected, and of those that were acknowledged as published.",
        body=table(head, rows, paper="paper"),
    )


def _usage_rows(data: ReportData, paper: Paper) -> Iterator[tuple[str, ...]]:
    for (scenario, label, nodes), mine in _groups(data):
        theirs = paper.usage.get((scenario, label))
        if theirs is not None and nodes == paper.nodes:
            yield (
                scenario,
                name_of(*label),
                f"{theirs.memory_mb:,.1f} MB",
                f"{theirs.cpu_s:,.2f} s",
                f"{_mean(mine, 'cpu_s') / nodes * 1000:,.1f} ms",
            )


def _usage_table(data: ReportData, paper: Paper) -> Section:
    head = ("scenario", "protocol", "paper: memory per node", "paper: CPU per node", "CPU per node")
    return Section(
        name="usage",
        title="What a node takes",
        text="The paper measured containers on a machine of 16 cores. Here all nodes of a run are"
        " simulated in one process, so a node's share of its processor time is shown; memory of its"
        " own it has only in a testbed.",
        body=table(head, list(_usage_rows(data, paper)), paper="paper"),
    )


def _figures(data: ReportData, paper: Paper | None, folder: Path) -> Iterator[Section]:
    def section(name: str, title: str, text: str, drawn: tuple[Any, float, float]) -> Section:
        paint, width, height = drawn
        body = draw(folder, name, paint, width=width, height=height)
        return Section(name=name, title=title, text=text, body=body)

    beside = " Orange is what the paper measured." if paper else ""
    if paper and paper.latency:
        yield section(
            "latency-means",
            "Latency beside the paper",
            "Mean time from publish to delivery. Orange dots are the paper's, coloured dots"
            " are from"
            " the runs of this report; the scale is logarithmic, so equal distances are equal"
            " factors.",
            times.against_paper(data.runs, paper),
        )
    if data.latencies:
        yield section(
            "latency-histograms",
            "How long events take",
            "Each small picture shows how many deliveries took how long in one scenario with one"
            f" protocol. The thin line is the mean.{beside}",
            times.histograms(data.latencies, paper),
        )
    if paper and paper.duplicates:
        yield section(
            "duplicates",
            "Copies too many",
            "Copies of an event that came to a node which had it, as a share of deliveries. In the"
            " paper they reached applications; here they are counted on the wire, and how many"
            " reached an application stands at the top.",
            counts.duplicates(data.runs, paper),
        )
    if data.stages:
        yield section(
            "replication",
            "What copies cost",
            "Every rendezvous keeps copies of what it knows on f other nodes. In each of four"
            " stages every subscriber subscribes to one thing more. In the paper more copies made"
            " subscribing slower, by up to 80 ms, and events by up to 40 ms.",
            times.replication(data.stages),
        )
    if data.topics:
        yield section(
            "topics",
            "Events and subscriptions of topics",
            "What was published about each topic, and how many subscriptions name just this"
            " topic, in"
            " one run. A topic is a predicate without its numbers.",
            counts.topics(data.topics),
        )
        yield section(
            "coverage",
            "What came, topic by topic",
            "The share of the owed deliveries that came. A dot at the right edge means that"
            " nothing is"
            " missing.",
            counts.coverage(data.topics),
        )
    if data.progress:
        yield section(
            "messages",
            "Messages against deliveries",
            "How many messages all nodes have sent by the time that so many deliveries were made. A"
            " straight line means that every delivery costs the same; a low one that it costs"
            " little.",
            counts.messages(data.progress),
        )
    if data.loads:
        yield section(
            "loads",
            "Who carries the load",
            "Messages that a node sends in a run, from the busiest node at the left to the"
            " least busy"
            " at the right. A flat line means that all nodes carry alike.",
            counts.loads(data.loads),
        )
    if len(counts.hop_means(data.runs)) > 1:
        yield section(
            "hops",
            "How far events travel",
            "Links from the publisher to a subscriber, against the number of nodes. The dashed"
            " line is"
            " fitted to the means and drawn on to a million nodes, where nothing was measured.",
            counts.hops(data.runs),
        )


def _notes(data: ReportData, paper: Paper | None) -> str:
    lines = ["Made by <code>smartpubsub pipeline report</code>; the figures lie beside this page."]
    if paper:
        lines.append(f"Papers' values: {escape(paper.name)}.")
    if not data.latencies:
        lines.append(
            "Histograms and figures by topic and node are drawn where traces were measured:"
            " <code>smartpubsub pipeline measure</code>."
        )
    command = data.runs[0].get("command")
    if command:
        lines.append(f"One of the runs again: <code>{escape(command)}</code>")
    return "".join(f"<p>{line}</p>" for line in lines)
