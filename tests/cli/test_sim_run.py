"""Running a protocol: the document, the digest, the trace, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from smartpubsub.cli.main import main
from smartpubsub.cli.sim.progress import StderrProgress
from smartpubsub.protocols.registry import PROTOCOLS
from smartpubsub.sim.kernel.world import World
from tests.sim.broken import Greedy, Pushy, spec_with
from tests.sim.test_trace_files import records_in

Captured = pytest.CaptureFixture[str]

KEYS = {
    "protocol",
    "variant",
    "scenario",
    "nodes",
    "seed",
    "trace_digest",
    "injected",
    "published",
    "expected",
    "delivered",
    "missing",
    "unexpected",
    "app_duplicates",
    "wire_duplicates",
    "coverage_injected",
    "coverage_published",
    "order_violations",
    "delivered_within_ms",
    "adversaries",
    "convicted",
    "convicted_by",
    "convicted_honest",
    "latency_ms",
    "subscription_latency_ms",
    "publish_ms",
    "path_floor_ms",
    "hops",
    "publisher_sends_per_event",
    "region_crossings_per_event",
    "messages",
    "bytes",
    "rpc_sent_per_node",
    "rpc_received_per_node",
    "violations",
    "judged",
    "excused",
    "wall_s",
    "cpu_s",
    "peak_rss_mb",
    "pace_ms",
    "simulated_s",
    "interrupted",
}
WORKLOAD = """\
{"node": "ann", "subscribe": "surf/price[10,20]"}
{"node": "bob", "subscribe": "surf"}
{"node": "cid", "publish": "surf/price=15", "payload": "hello"}
{"node": "bob", "publish": "surf/price=30"}
{"node": "ann", "unsubscribe": "surf/price[10,20]"}
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.jsonl"
    path.write_text(WORKLOAD, encoding="utf-8")
    return path


def run(capsys: Captured, *arguments: object, protocol: str = "floodsub") -> dict[str, Any]:
    main(["sim", "run", "--protocol", protocol, "--json", *map(str, arguments)])
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("protocol", ["floodsub", "gossipsub"])
def test_the_document_has_all_keys_and_the_defaults(protocol: str, capsys: Captured) -> None:
    document = run(capsys, protocol=protocol)

    assert set(document) == KEYS
    assert (document["protocol"], document["variant"]) == (protocol, None)
    assert (document["scenario"], document["nodes"], document["seed"]) == ("normal", 60, 1)
    assert document["expected"] == document["delivered"] > 0
    assert document["pace_ms"] == 0
    assert list(document["latency_ms"]) == ["mean", "p50", "p95", "p99", "max"]
    assert list(document["rpc_sent_per_node"]) == ["mean", "sd", "p95", "p99"]


def test_a_workload_file_names_its_nodes(workload: Path, capsys: Captured) -> None:
    document = run(capsys, "--workload", workload)

    assert (document["scenario"], document["nodes"]) == ("workload", 3)
    assert (document["injected"], document["expected"], document["delivered"]) == (2, 3, 3)
    assert run(capsys, "--workload", workload, "--nodes", 7)["nodes"] == 7


@pytest.mark.parametrize("protocol", ["floodsub", "gossipsub"])
def test_the_digest_is_the_same_in_any_process(protocol: str, workload: Path) -> None:
    program = "import sys; from smartpubsub.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["sim", "run", "--protocol", protocol, "--workload", workload, "--json"]
    arguments += ["--nodes", "25", "--jitter-ms", "20", "--loss", "0.05", "--churn", "1:1"]
    digests = {
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program, *map(str, arguments)],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                check=True,
                capture_output=True,
            ).stdout
        )["trace_digest"]
        for hash_seed in ("1", "2")
    }

    assert len(digests) == 1


def test_the_trace_is_the_same_in_both_forms_and_changes_nothing(
    workload: Path, tmp_path: Path, capsys: Captured
) -> None:
    digests, traces = set(), []
    digests.add(run(capsys, "--workload", workload)["trace_digest"])
    for form in ("parquet", "jsonl"):
        folder = tmp_path / form
        document = run(capsys, "--workload", workload, "--trace", folder, "--trace-format", form)
        digests.add(document["trace_digest"])
        traces.append(records_in(folder))

    assert len(digests) == 1
    assert traces[0] == traces[1]
    assert sum(record["what"] == "deliver" and "event" in record for record in traces[0]) == 3


def test_the_text_is_short_and_says_what_ran(capsys: Captured) -> None:
    assert main(["sim", "run", "--protocol", "gossipsub", "--nodes", "12"]) == 0

    captured = capsys.readouterr()
    assert "gossipsub, normal, 12 nodes, seed 1" in captured.out
    assert "violations    none" in captured.out
    assert len(captured.out.splitlines()) < 20
    assert captured.err == ""


@pytest.mark.parametrize(
    ("protocol", "floor"), [("scoutsubs", "not known with regions"), ("fastdelivery", "mean ")]
)
def test_the_text_says_how_often_events_go_far(protocol: str, floor: str, capsys: Captured) -> None:
    assert main(["sim", "run", "--protocol", protocol, "--nodes", "20", "--regions", "3"]) == 0

    output = capsys.readouterr().out
    assert f"on the path   {floor}" in output
    assert "\nfar copies    mean " in output


@pytest.mark.parametrize(("name", "is_replaced"), [("normal", True), ("power-law", False)])
def test_a_scenario_is_said_to_be_replaced_only_if_it_is(
    name: str, is_replaced: bool, capsys: Captured
) -> None:
    code = main(
        ["sim", "run", "--protocol", "pulsarcast", "--scenario", name, "--nodes=5", "--events=3"]
    )

    said = capsys.readouterr().err
    assert ("with the topics of reddit instead of predicates" in said) == is_replaced
    assert ("knows topics only; take normal, fault, reddit, small" in said) != is_replaced
    assert (code == 0) == is_replaced


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scenario", "fault"],
        ["--scenario", "fault", "--crash", "mid", "--backups", "1"],
        ["--scenario", "normal", "--faults", "2"],
    ],
)
def test_nodes_crash_in_the_scenario_fault_and_where_it_is_asked_for(
    arguments: list[str], capsys: Captured, tmp_path: Path
) -> None:
    run(capsys, "--nodes", 30, *arguments, "--trace", tmp_path / "trace")

    crashes = [r for r in records_in(tmp_path / "trace") if r.get("kind") == "crash"]
    assert len(crashes) == (1 if "--backups" in arguments else 2)


def test_faults_are_for_files_as_well(workload: Path, capsys: Captured, tmp_path: Path) -> None:
    run(capsys, "--workload", workload, "--nodes", 9, "--faults", 3, "--trace", tmp_path / "trace")

    crashes = [r["node"] for r in records_in(tmp_path / "trace") if r.get("kind") == "crash"]
    assert len(crashes) == 3
    assert 2 not in crashes


def test_churn_leaves_publishers_alone(capsys: Captured, tmp_path: Path) -> None:
    arguments = ["--nodes", 20, "--events", 100, "--churn", "1:0.5:0.5"]
    run(capsys, *arguments, "--trace", tmp_path / "trace")

    records = records_in(tmp_path / "trace")
    crashed = {record["node"] for record in records if record.get("kind") == "crash"}
    publishers = {record["node"] for record in records if record["what"] == "publish"}
    assert 0 < len(crashed) <= 9
    assert publishers == {18, 19}
    assert not crashed & publishers


def test_where_everybody_publishes_churn_spares_nobody(capsys: Captured, tmp_path: Path) -> None:
    arguments = ["--nodes", 10, "--events", 100, "--publishers", 10, "--churn", "1:0.5"]
    document = run(capsys, *arguments, "--trace", tmp_path / "trace")

    records = records_in(tmp_path / "trace")
    assert len({record["node"] for record in records if record.get("kind") == "crash"}) > 5
    assert 0 < document["injected"] < 100  # Who is down publishes nothing.


def test_a_large_network_gets_a_pace_that_its_links_can_bear(capsys: Captured) -> None:
    arguments = ["--nodes", 1000, "--scenario", "event-burst", "--events", 2, "--publishers", 2]
    document = run(capsys, *arguments, "--bandwidth-bytes", 10_000_000, protocol="gossipsub")

    assert 1 < document["pace_ms"] < 20
    assert document["coverage_injected"] == 1


def test_violations_end_it_with_1_and_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "pushy", spec_with("pushy", Pushy))
    options = ["--protocol", "pushy", "--nodes", "10", "--churn", "3:1.5", "--loss", "0.01"]

    assert main(["sim", "run", *options, "--json"]) == 1

    captured = capsys.readouterr()
    command = "smartpubsub sim replay --protocol pushy --nodes 10 --churn 3.0:1.5:1.0 --loss 0.01"
    assert json.loads(captured.out)["violations"][0]["invariant"] == 2
    note, told = captured.err.splitlines()
    assert note.startswith("note: no node went down")
    assert told == f"to look at the first violation: {command}"
    assert main(["sim", "run", *options]) == 1
    assert "invariant 2" in capsys.readouterr().out


def test_a_broken_invariant_of_a_state_is_a_violation_if_states_are_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(PROTOCOLS.specs, "greedy", spec_with("greedy", Greedy))
    options = ["--protocol", "greedy", "--nodes", "5"]

    assert main(["sim", "run", *options]) == 0
    assert "not judged    delivery, " in capsys.readouterr().out
    assert main(["sim", "run", *options, "--check"]) == 1
    captured = capsys.readouterr()
    assert "invariant 11: node " in captured.out
    assert captured.err.splitlines()[-1].endswith(" --nodes 5 --check")
    assert main(["sim", "replay", *options, "--check"]) == 1
    assert "broke an invariant of its state: 1 events are too many" in capsys.readouterr().out


def test_a_run_says_how_much_was_judged(workload: Path, capsys: Captured, tmp_path: Path) -> None:
    arguments = ["sim", "run", "--protocol", "scoutsubs", "--workload"]
    main([*arguments, str(workload)])
    assert "\njudged        delivery 2, " in capsys.readouterr().out
    idle = tmp_path / "idle.jsonl"
    idle.write_text('{"node": "ann", "subscribe": "surf"}\n', encoding="utf-8")
    main([*arguments, str(idle)])
    output = capsys.readouterr().out
    assert "\njudged        nothing about events, summaries " in output
    assert "\nnot judged    delivery, wanted, once, " in output


def test_an_interrupt_ends_it_with_130_and_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    def interrupt(_self: StderrProgress, world: World) -> None:
        if len(world.hosts) == 8 and world.now > 2_000_000:
            raise KeyboardInterrupt

    monkeypatch.setattr(StderrProgress, "tick", interrupt)
    options = ["--protocol", "floodsub", "--nodes", "8", "--trace", str(tmp_path / "trace")]

    assert main(["sim", "run", *options, "--json"]) == 130

    document = json.loads(capsys.readouterr().out)
    assert document["interrupted"] is True
    assert set(document) == KEYS
    assert records_in(tmp_path / "trace")
    assert main(["sim", "run", *options[:-2]]) == 130
    assert "interrupted" in capsys.readouterr().out


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_trace_that_can_be_read(
    how: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    def send(_self: StderrProgress, world: World) -> None:
        if len(world.hosts) == 8 and world.now > 2_000_000:
            signal.raise_signal(how)

    before = signal.getsignal(how)
    monkeypatch.setattr(StderrProgress, "tick", send)
    options = ["--protocol", "floodsub", "--nodes", "8", "--trace", str(tmp_path / "trace")]

    assert main(["sim", "run", *options, "--json"]) == 130

    assert json.loads(capsys.readouterr().out)["interrupted"] is True
    assert records_in(tmp_path / "trace")
    assert signal.getsignal(how) is before


def test_an_unknown_protocol_ends_it_with_2_and_a_list_of_those_there_are(
    capsys: Captured,
) -> None:
    assert main(["sim", "run", "--protocol", "no-such"]) == 2

    told = " ".join(capsys.readouterr().err.split())
    assert f"'no-such' is not a protocol; there are: {', '.join(PROTOCOLS.specs)}" in told


def test_options_that_mean_nothing_to_a_protocol_are_named(capsys: Captured) -> None:
    options = ["--protocol", "floodsub", "--nodes", "5", "--variant", "base-reliable", "--ordered"]

    assert main(["sim", "run", *options]) == 0

    assert capsys.readouterr().err.splitlines() == [
        "note: floodsub has no variants, so --variant has no effect",
        "note: floodsub has no topics, so --ordered has no effect",
    ]


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["fastdelivery", "--regions", "2", "--latency-ms", "20"], "--latency-ms has no effect"),
        (["pulsarcast", "--events", "5"], "the topics of reddit instead of predicates"),
        (["floodsub", "--churn", "30:5"], "no node went down"),
    ],
)
def test_what_is_otherwise_than_one_may_think_is_told(
    capsys: Captured, arguments: list[str], note: str
) -> None:
    assert main(["sim", "run", "--nodes", "10", "--protocol", *arguments]) == 0
    assert note in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--protocol", "scoutsub"], "'scoutsub' is not a protocol; there are: "),
        (["--protocol", "floodsub", "--nodes", "0"], "--nodes"),
        (["--protocol", "floodsub", "--loss", "1.5"], "--loss"),
        (["--protocol", "floodsub", "--loss", "nan"], "nan is not a number between 0 and 1"),
        (["--protocol", "floodsub", "--latency-ms", "-1"], "--latency-ms"),
        (["--protocol", "floodsub", "--jitter-ms", "inf"], "--jitter-ms"),
        (["--protocol", "floodsub", "--bandwidth-bytes", "0"], "--bandwidth-bytes"),
        (["--protocol", "floodsub", "--scenario", "calm"], "'calm' is not one of"),
        (["--protocol", "floodsub", "--cut", "5"], "AT:FOR or AT:FOR:SHARE"),
        (["--protocol", "floodsub", "--cut", "-1:5"], "0<=x"),
        (["--protocol", "floodsub", "--churn", "5"], "UP:DOWN or UP:DOWN:SHARE"),
        (["--protocol", "floodsub", "--churn", "5:x"], "'x' is not a valid float"),
        (["--protocol", "floodsub", "--churn", "5:1:2"], "0<=x<=1"),
        (["--protocol", "floodsub", "--faults", "-1"], "--faults"),
        (["--protocol", "floodsub", "--protocol", "gossipsub"], "with: smartpubsub sim compare"),
        (["--protocol", "floodsub", "--nodes", "9", "--faults", "9"], "take fewer faults"),
        (["--protocol", "floodsub", "--scenario", "small", "--events", "9"], "leave out --events"),
        (["--protocol", "pulsarcast", "--scenario", "sub-burst"], "it has predicates"),
    ],
)
def test_wrong_options_end_it_with_2(
    arguments: list[str], complaint: str, capsys: Captured
) -> None:
    assert main(["sim", "run", *arguments]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--scenario", "normal"], "--scenario has no meaning beside --workload"),
        (["--events", "5"], "--events has no meaning beside --workload"),
        (["--nodes", "2"], "has 3 nodes, so there cannot be 2; give 3 or more"),
        (["--faults", "3"], "take fewer faults, fewer publishers or more nodes"),
    ],
)
def test_options_that_contradict_the_file_end_it_with_2(
    options: list[str], complaint: str, workload: Path, capsys: Captured
) -> None:
    arguments = ["--protocol", "floodsub", "--workload", str(workload), *options]

    assert main(["sim", "run", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unreadable_line_is_told_with_its_place(workload: Path, capsys: Captured) -> None:
    workload.write_text(f'{WORKLOAD}{{"node": "ann", "publish": "surf[1"}}\n', encoding="utf-8")

    assert main(["sim", "run", "--protocol", "floodsub", "--workload", str(workload)]) == 1
    assert f"{workload}:6: " in capsys.readouterr().err


def test_a_file_or_folder_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, workload: Path, capsys: Captured
) -> None:
    absent = str(tmp_path / "absent.jsonl")
    for arguments in (["--workload", absent], ["--nodes", "5", "--trace", str(tmp_path)]):
        assert main(["sim", "run", "--protocol", "floodsub", *arguments]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert workload.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--scenario", "small", "--events", "50"], "leave out --events"),
        (["--nodes", "5", "--publishers", "4", "--faults", "2"], "so 2 cannot; take fewer faults"),
    ],
)
def test_options_that_a_scenario_cannot_have_are_usage_errors(
    capsys: Captured, options: list[str], problem: str
) -> None:
    assert main(["sim", "run", *options]) == 2
    assert problem in capsys.readouterr().err


def test_topics_only_protocols_run_small_as_it_is(capsys: Captured) -> None:
    options = ["--protocol", "pulsarcast", "--scenario", "small", "--nodes", "1", "--faults", "0"]
    assert main(["sim", "run", *options]) == 0
    assert "instead of predicates" not in capsys.readouterr().err


def test_the_protocol_is_scoutsubs_by_default(capsys: Captured) -> None:
    assert main(["sim", "run", "--nodes", "4", "--events", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["protocol"] == "scoutsubs"
