"""`bench matching`: the matching engines beside each other and databases."""

from __future__ import annotations

from smartpubsub.bench import adversarial, machine
from smartpubsub.bench.comparison import Comparison, Progress, add_native_figures, index_of
from smartpubsub.bench.report import Report
from smartpubsub.bench.timing import best_seconds, rate
from smartpubsub.bench.workloads import W1, W2, events, predicates_in_parts, subscriptions
from smartpubsub.errors import SmartPubSubError
from smartpubsub.matching.native_engine import instructions, is_available
from smartpubsub.sim.kernel.collector import collector_off

SIZES = {"1k": 1_000, "100k": 100_000, "1M": 1_000_000}
HUGE = ("10M", 10_000_000)
# Around the size at which the automatic choice switches.
CHOICE_SIZES = {"100": 100, "300": 300, "1k": 1_000, "3k": 3_000}
CHOICE_EVENTS = 3_000

PEERS = ("duckdb", "pure", "sqlite", "brute force")
# How many times faster the native engine should be; elsewhere just faster, and with a
# thousand filters not much slower.
PROMISED = {("duckdb", "batch 1M W1"): 150, ("pure", "single 1M W1"): 60}


def run(seed: int, *, huge: bool, progress: Progress) -> Report:
    """Measure everything; `huge` adds ten million subscriptions for the native engine alone."""
    if not is_available():
        raise SmartPubSubError(
            "bench matching compares the native engine, which is not installed;"
            " install a C++20 compiler and set up again"
        )
    report = Report({**machine.describe(), "instructions": instructions()})
    progress("memory bandwidth")
    report.add("memory bandwidth", machine.memory_bandwidth() / 1e9, "GB/s")
    progress("automatic choice")
    _measure_choice(report, seed)
    progress("summaries under costly changes")
    adversarial.add_figures(report)
    for workload in (W1, W2):
        for size in SIZES.items():
            Comparison(report, workload, size, seed, progress).run()
    if huge:
        _measure_huge(report, seed, progress)
    _add_ratios(report)
    return report


def _measure_choice(report: Report, seed: int) -> None:
    carried = events(CHOICE_EVENTS, seed).predicates()
    for label, count in CHOICE_SIZES.items():
        wanted = list(subscriptions(W1, count, seed).predicates())
        rates = {
            engine: rate(index_of(engine, wanted).match, carried, tries=5)
            for engine in ("python", "native", "auto")
        }
        report.add(f"auto single {label} small W1", rates["auto"], "events/s")
        best = max(rates["python"], rates["native"])
        report.add(f"best single {label} small W1", best, "events/s")


def _measure_huge(report: Report, seed: int, progress: Progress) -> None:
    label, count = HUGE
    name = f"{label} {W1.name}"
    progress(f"{name}: native")
    with collector_off():
        index = index_of("native", predicates_in_parts(W1, count, seed))
        index.compact()
    batch = events(1_000, seed)
    add_native_figures(report, name, index, batch.predicates())
    table = batch.table()
    report.add(
        f"native batch {name}",
        len(table) / best_seconds(lambda: index.match_table(table)),
        "events/s",
    )


def _add_ratios(report: Report) -> None:
    for label in CHOICE_SIZES:
        report.compare("auto", "best", f"single {label} small W1", at_least=2 / 3)
    for workload in (W1, W2):
        for label in SIZES:
            rest = f"{label} {workload.name}"
            for peer in PEERS:
                kind = "batch" if peer == "duckdb" else "single"
                bound = PROMISED.get((peer, f"{kind} {rest}"), 1 / 3 if label == "1k" else 1)
                report.compare("native", peer, f"{kind} {rest}", at_least=bound)
    report.compare("native covering", "native single", "1M W2", at_least=1 / 5)
    report.limit("native bytes per subscription 1M W1", at_most=120)
