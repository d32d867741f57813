"""The tables of a report: all results, coverage, messages, and resource use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from smartpubsub.pipeline.report_data import ReportData
from smartpubsub.reports.latency_figures import labels_in, scenarios_in
from smartpubsub.reports.looks import name_of
from smartpubsub.reports.page import Section, table
from smartpubsub.reports.papers import Paper
from smartpubsub.reports.topic_figures import is_slow


def percent(part: int, whole: int) -> str:
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


def result_tables(data: ReportData, paper: Paper | None) -> Iterator[Section]:
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
                percent(delivered, expected) if expected else "-",
                f"{_mean(mine, 'latency_ms_mean'):,.0f} / {longest:,.0f}",
                " / ".join(f"{_mean(mine, f'latency_ms_{q}'):,.0f}" for q in ("p50", "p99")),
                f"{_mean(mine, 'hops_mean'):.2f}",
                f"{messages / delivered:,.1f}" if delivered else "-",
                f"{_mean(mine, 'bytes') / (1 << 20):,.2f}",
            )
        )
    head = (
        *("scenario", "protocol", "nodes", "runs", "paper: delivered", "paper: ms mean / max"),
        *(
            "delivered",
            "ms mean / max",
            "ms median / p99",
            "hops",
            "messages per delivery",
            "MiB sent",
        ),
    )
    yield Section(
        name="results",
        title="All results",
        text="Every scenario with every protocol. Delivered is the share of expected deliveries"
        " that were made. Milliseconds are from the publish call to the delivery to a node."
        + (f" The values of {paper.name} are beside it." if paper else ""),
        body=table(*_without_empty(head, rows), paper="paper"),
    )
    if paper and paper.coverage:
        yield _coverage_table(data, paper)
    if "rpc_sent_per_node_mean" in data.runs[0]:
        yield _loads_table(data)
    if paper and "cpu_s" in data.runs[0] and any(_usage_rows(data, paper)):
        yield _usage_table(data, paper)


def _without_empty(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The columns that are not empty in all rows."""
    kept = [n for n in range(len(head)) if any(row[n] != "-" for row in rows)]
    return [head[n] for n in kept], [[row[n] for n in kept] for row in rows]


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows))


def _coverage_table(data: ReportData, paper: Paper) -> Section:
    rows = []
    for slow, links in ((False, "quick"), (True, "slow")):
        for label in labels_in(data.runs):
            mine = [
                row
                for row in data.runs
                if (row["protocol"], row["variant"]) == label and is_slow(row) == slow
            ]
            theirs = paper.coverage_of(label, slow)
            rows.append(
                (
                    links,
                    name_of(*label),
                    f"{len(mine)}",
                    f"{theirs.injected:.2%}" if theirs else "-",
                    f"{theirs.published:.2%}" if theirs else "-",
                    f"{theirs.network_mib:,.0f}" if theirs else "-",
                    f"{theirs.memory_gib:.2f}" if theirs else "-",
                    f"{_mean(mine, 'coverage_injected'):.2%}" if mine else "-",
                    f"{_mean(mine, 'coverage_published'):.2%}" if mine else "-",
                    f"{sum(row['app_duplicates'] for row in mine):,}" if mine else "-",
                    f"{_mean(mine, 'bytes') / (1 << 20):,.0f}" if mine else "-",
                )
            )
    head = (
        *("links", "protocol", "runs", "paper: of injected", "paper: of published"),
        *("paper: MiB", "paper: GiB per node", "of injected", "of published"),
        *("duplicates", "MiB"),
    )
    return Section(
        name="coverage-table",
        title="Coverage",
        text=f"Coverage in the runs of {paper.name}, and in the same runs here: of all events that"
        " were injected, and of those that were acknowledged as published. The traffic of"
        " all nodes is in MiB. The paper's nodes were containers, whose memory it measured;"
        " here all are simulated in one process.",
        body=table(head, rows, paper="paper"),
    )


def _loads_table(data: ReportData) -> Section:
    rows = []
    for (scenario, label, nodes), mine in _groups(data):
        mean, p99 = (_mean(mine, f"rpc_sent_per_node_{name}") for name in ("mean", "p99"))
        figures = [
            f"{_mean(mine, f'rpc_{way}_per_node_{name}'):,.0f}"
            for way in ("sent", "received")
            for name in ("mean", "sd", "p95", "p99")
        ]
        ratio = f"{p99 / mean:.1f}" if mean else "-"
        rows.append((scenario, name_of(*label), f"{nodes:,}", *figures, ratio))
    head = (
        *("scenario", "protocol", "nodes", "sent: mean", "sent: sd", "sent: p95", "sent: p99"),
        *("received: mean", "received: sd", "received: p95", "received: p99"),
        "sent: p99 over mean",
    )
    return Section(
        name="loads-table",
        title="Messages of a node",
        text="How many messages a node sends and receives in a run, once the overlay is complete:"
        " the mean of all nodes, the standard deviation, and the values that 95 and 99 of a"
        " hundred nodes stay below. The last column shows how much more than the mean the"
        " busiest nodes send.",
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
        title="Resource use of a node",
        text="The paper measured containers on a machine of 16 cores. Here all nodes of a run are"
        " simulated in one process, so a node's share of its processor time is shown; memory per"
        " node is known only in a testbed.",
        body=table(head, list(_usage_rows(data, paper)), paper="paper"),
    )
