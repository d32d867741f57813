"""What a trace tells beside messages, so that others can count from it what a result says."""

import json

from smartpubsub.sim.judging.result import run
from smartpubsub.sim.traces.trace import Row, Trace
from tests.sim.small import experiment_of, publish, subscribe, unsubscribe


def rows_of(protocol: str) -> tuple[list[Row], dict[str, object]]:
    rows: list[Row] = []
    phases = (
        (subscribe(1, "a"), subscribe(1, "a"), subscribe(2, "a/b")),
        (publish(0, "a"), unsubscribe(1, "a", at_ms=5_000)),
    )
    experiment = experiment_of(*phases, protocol=protocol, nodes=12, trace=Trace(rows.extend))
    document = run(experiment, "small").document()
    experiment.trace.flush()
    return rows, document


def test_equal_subscriptions_of_a_node_are_told_apart() -> None:
    rows, _ = rows_of("scoutsubs")

    for what, kind in (("subscribe", ""), ("acknowledge", "subscribe")):
        told = [row for row in rows if (row.what, row.kind, row.node) == (what, kind, 1)]
        assert len({row.subscription for row in told}) == 2
    ended = [row.subscription for row in rows if "unsubscribe" in (row.what, row.kind)]
    assert len(ended) == 2
    assert len(set(ended)) == 1


def test_every_copy_on_its_way_down_has_a_row() -> None:
    rows, document = rows_of("floodsub")

    copies = [(row.node, row.event) for row in rows if row.what == "copy"]
    duplicates = len(copies) - len(set(copies))
    assert duplicates == document["wire_duplicates"]
    assert duplicates > 0
    assert {event for _, event in copies} == {row.event for row in rows if row.what == "publish"}


def test_the_last_row_says_what_kind_of_run_it_was() -> None:
    rows, document = rows_of("scoutsubs")

    assert [row.what for row in rows].index("end") == len(rows) - 1
    about = json.loads(rows[-1].text)
    for name in ("protocol", "variant", "scenario", "nodes", "seed"):
        assert about[name] == document[name]
    since = [row for row in rows if row.at_us >= about["began_us"]]
    assert sum(row.what == "send" for row in since) == document["messages"]
