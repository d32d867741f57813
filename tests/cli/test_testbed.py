"""Real nodes: the same document and the same deliveries as in the simulator, and no trace after."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from smartpubsub.cli.main import main
from smartpubsub.sim.experiments.experiment import Experiment
from smartpubsub.sim.kernel.places import region_of
from smartpubsub.testbed.cluster import Cluster
from smartpubsub.testbed.identities import peer_of
from smartpubsub.testbed.messages import Command, End, Know
from smartpubsub.testbed.run import RealRun
from smartpubsub.workloads.actions import Action
from tests.cli.running import PROGRAM, WATCHDOG_S
from tests.cli.test_sim_run import KEYS
from tests.sim.test_trace_files import records_in

Captured = pytest.CaptureFixture[str]

SEED = 2
"""With which nodes are in two regions."""
MORE_KEYS = {"cpu_s_per_node", "memory_mb_per_node", "processes", "simulated"}


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where testbeds keep what their nodes keep; nothing may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def written(path: Path, *lines: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def ran(captured: Captured, *arguments: object) -> dict[str, Any]:
    code = main(["testbed", "run", *map(str, arguments), "--json"])
    output = captured.readouterr()
    assert code == 0, output.err
    document: dict[str, Any] = json.loads(output.out)
    return document


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return records_in(folder)


def pairs(folder: Path) -> set[tuple[int, int]]:
    """Which nodes were told of which events, which here tell apart by the size of their payload."""
    rows = rows_in(folder)
    published = {row["event"]: row["size"] for row in rows if row["what"] == "publish"}
    return {
        (published[row["event"]], row["node"])
        for row in rows
        if row["what"] == "deliver" and "event" in row
    }


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    wanted = ["surf", "surf/price[10,20]", "price[0,15]", "ski", "surf/ski", "price[12,12]"]
    said = ["surf/price=12", "ski", "surf/ski/price=20", "price=12", "snow"]
    return written(
        tmp_path / "workload.jsonl",
        *({"node": f"n{n}", "subscribe": text} for n, text in enumerate(wanted)),
        *(
            {"node": f"n{5 + n}", "publish": text, "payload": "x" * n}
            for n, text in enumerate(said)
        ),
    )


def test_real_nodes_deliver_what_simulated_ones_do(
    workload: Path, tmp_path: Path, capsys: Captured, own_temporary_folder: Path
) -> None:
    options = ["--protocol", "scoutsubs", "--workload", workload, "--trace-format", "jsonl"]
    found = ran(capsys, *options, "--workers", "2", "--trace", tmp_path / "real")
    assert main(["sim", "run", *map(str, options), "--trace", str(tmp_path / "simulated")]) == 0

    assert found.keys() == KEYS | MORE_KEYS
    assert pairs(tmp_path / "real") == pairs(tmp_path / "simulated")
    assert found["expected"] == found["delivered"] == found["simulated"]["delivered"] > 5
    assert found["published"] == found["injected"] == 5
    assert (found["unexpected"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["processes"] == 2
    assert 0 < found["memory_mb_per_node"] < 10
    assert found["cpu_s_per_node"] > 0
    assert list(own_temporary_folder.iterdir()) == []


def test_subscribers_get_what_real_nodes_drop(tmp_path: Path, capsys: Captured) -> None:
    names = "abcdefgh"
    path = written(
        tmp_path / "workload.jsonl",
        *({"node": name, "subscribe": "surf", "at_ms": 0} for name in names),
        {"settle": True},
        *({"node": "a", "publish": "surf", "at_ms": 100 * number} for number in range(5)),
    )
    hostile = ["--adversary", "drop:0.25", "--adversary", "sybil:1", "--resilience", "audited"]
    found = ran(capsys, "--protocol", "scoutsubs", "--workload", path, "--no-simulate", *hostile)

    assert found["adversaries"] == {"drop": 2, "sybil": 1}
    honest = len(names) - 2
    assert found["expected"] == found["delivered"] == 5 * honest
    assert (found["unexpected"], found["app_duplicates"], found["violations"]) == (0, 0, [])


def test_an_interrupt_of_the_simulated_run_leaves_the_figures_of_the_real_one(
    capsys: Captured, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: Experiment, _phase: Iterable[Action]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "_run_phase", interrupt)

    code = main(["testbed", "run", "--protocol", "floodsub", "--workload", str(workload), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (code, found["interrupted"], found["simulated"]) == (130, True, None)
    assert found["delivered"] == found["expected"] > 5


def test_an_adversary_that_is_only_simulated_is_refused(capsys: Captured) -> None:
    assert main(["testbed", "run", "--protocol", "scoutsubs", "--adversary", "eclipse:0.2"]) == 2
    assert "on real nodes there are drop, drop-half" in capsys.readouterr().err
    assert main(["testbed", "run", "--protocol", "scoutsubs", "--adversary", "sybil:1:5"]) == 2
    assert "sybil:1:5: on real nodes all nodes join before" in capsys.readouterr().err


def test_nodes_that_are_killed_come_back_with_what_they_had(
    tmp_path: Path, capsys: Captured
) -> None:
    victims = ["a", "b"]
    path = written(
        tmp_path / "workload.jsonl",
        *({"node": name, "subscribe": "surf", "at_ms": 0} for name in "abcdef"),
        {"settle": True},
        {"node": "g", "publish": "surf", "payload": "before", "at_ms": 0},
        *({"node": name, "crash": True, "at_ms": 400} for name in victims),
        {"node": "h", "publish": "surf", "payload": "meanwhile", "at_ms": 500},
        *({"node": name, "restart": True, "at_ms": 600} for name in victims),
        {"settle": True},
        {"node": "g", "publish": "surf", "payload": "after", "at_ms": 8_000},
    )
    trace = tmp_path / "trace"
    options = ["--workload", path, "--trace", trace, "--trace-format", "jsonl", "--no-simulate"]
    found = ran(capsys, "--protocol", "scoutsubs", *options)

    faults = [(row["kind"], row["node"]) for row in rows_in(trace) if row["what"] == "fault"]
    assert sorted(faults) == [("crash", 0), ("crash", 1), ("restart", 0), ("restart", 1)]
    assert (found["injected"], found["published"], found["missing"]) == (3, 3, 0)
    assert found["violations"] == []
    assert found["simulated"] is None
    last = [row["event"] for row in rows_in(trace) if row["what"] == "publish"][-1]
    got = [r["node"] for r in rows_in(trace) if r["what"] == "deliver" and r.get("event") == last]
    assert sorted(got) == [0, 1, 2, 3, 4, 5]


def test_topics_are_there_on_real_nodes_too(tmp_path: Path, capsys: Captured) -> None:
    path = written(
        tmp_path / "workload.jsonl",
        *({"node": "d", "create_topic": name} for name in ("surf", "ski")),
        *({"node": name, "subscribe": "surf"} for name in "abc"),
        {"node": "d", "publish": "surf"},
        {"node": "d", "publish": "ski"},
    )
    options = ["--protocol", "pulsarcast", "--workload", path, "--workers", 1, "--json"]
    assert main(["testbed", "run", *map(str, options)]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)

    stages = [line for line in output.err.splitlines() if line.endswith("joining")]
    assert stages == ["real, joining", "simulated, joining"]
    assert found["delivered"] == found["expected"] == found["simulated"]["delivered"] >= 3
    assert (found["unexpected"], found["app_duplicates"], found["violations"]) == (0, 0, [])


def test_groups_are_there_on_real_nodes_and_it_is_far_from_region_to_region(
    tmp_path: Path, capsys: Captured
) -> None:
    regions = [region_of(peer_of(SEED, node), 2) for node in range(7)]
    assert regions.count(0) in (3, 4)
    path = written(
        tmp_path / "workload.jsonl",
        *({"node": name, "subscribe": "surf", "at_ms": 0} for name in "abcdef"),
        {"settle": True},
        *({"node": "g", "publish": "surf", "at_ms": 200 * number} for number in range(5)),
    )
    options = ["--workload", path, "--trace", tmp_path / "trace", "--trace-format", "jsonl"]
    place = ["--regions", 2, "--seed", SEED, "--workers", 1]
    found = ran(capsys, "--protocol", "fastdelivery", *options, *place)

    assert found["delivered"] == found["expected"] == found["simulated"]["delivered"] == 30
    assert (found["unexpected"], found["app_duplicates"], found["violations"]) == (0, 0, [])
    assert found["hops"] == found["simulated"]["hops"] == {"mean": 1.0, "max": 1}
    rows = rows_in(tmp_path / "trace")
    sent = {row["event"]: row["at_us"] for row in rows if row["what"] == "publish"}
    took: dict[bool, list[int]] = {True: [], False: []}
    for row in rows:
        if row["what"] == "deliver" and "event" in row:
            is_far = regions[row["node"]] != regions[-1]
            took[is_far].append(row["at_us"] - sent[row["event"]])
    assert min(took[True]) >= 80_000
    assert 5_000 <= min(took[False]) < 80_000


def test_nothing_passes_a_cut_and_everything_comes_after_it(
    tmp_path: Path, capsys: Captured
) -> None:
    path = written(
        tmp_path / "workload.jsonl",
        *({"node": name, "subscribe": "surf", "at_ms": 0} for name in "abcd"),
        {"settle": True},
        {"node": "a", "publish": "surf", "payload": "x", "at_ms": 1_000},
    )
    options = ["--workload", path, "--trace", tmp_path / "trace", "--trace-format", "jsonl"]
    found = ran(capsys, "--protocol", "floodsub", "--cut", "0.5:6:0.5", "--no-simulate", *options)

    rows = rows_in(tmp_path / "trace")
    (sent_us,) = (row["at_us"] for row in rows if row["what"] == "publish")
    late = [row["at_us"] - sent_us > 1_000_000 for row in rows if row.get("hops") is not None]
    assert sorted(late) == [False, False, True, True]
    # Nobody is owed what was published on the other side, though TCP brings it in the end.
    assert (found["expected"], found["missing"], found["violations"]) == (2, 0, [])


def test_too_many_nodes_are_refused(capsys: Captured) -> None:
    assert main(["testbed", "run", "--protocol", "floodsub", "--nodes", "501"]) == 2
    assert "500" in capsys.readouterr().err


# --- ends of all kinds ---


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """A testbed whose nodes are up, in a process of its own."""
    arguments = ["testbed", "run", "--protocol", "floodsub", "--nodes", "4", "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            while "joining" not in (line := process.stderr.readline()):
                assert line
            yield process
        finally:
            process.kill()


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    children = [
        int(child)
        for task in Path(f"/proc/{process}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return children + [below for child in children for below in descendants(child)]


def wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + WATCHDOG_S
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < deadline, "there are processes left"
        time.sleep(0.01)


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="not Linux")


@needs_proc
def test_ctrl_c_ends_everything_and_tells_what_there_was(
    running: subprocess.Popen[str], own_temporary_folder: Path
) -> None:
    started = descendants(running.pid)
    assert len(started) >= 2
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=WATCHDOG_S)

    assert running.returncode == 130, errors
    assert json.loads(output)["interrupted"] is True
    assert "Traceback" not in errors
    assert not any(Path(f"/proc/{process}").exists() for process in started)
    assert list(own_temporary_folder.iterdir()) == []


def test_ctrl_c_before_the_workload_waits_for_no_reports(
    capsys: Captured, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupt_later(_: RealRun, course: trio.CancelScope) -> None:
        courses.append(course)

    async def interrupt(run: RealRun) -> None:
        run.was_interrupted = True
        courses[0].cancel()
        await trio.lowlevel.checkpoint()

    async def send_all(cluster: Cluster, command: Command) -> None:
        sent.append(type(command))
        await sending(cluster, command)

    courses: list[trio.CancelScope] = []
    sent: list[type] = []
    sending = Cluster.send_all
    monkeypatch.setattr(RealRun, "_watch_for_interrupt", interrupt_later)
    monkeypatch.setattr(RealRun, "_join_all", interrupt)
    monkeypatch.setattr(Cluster, "send_all", send_all)

    assert main(["testbed", "run", "--workload", str(workload), "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["interrupted"] is True
    assert sent == [Know, End]


@needs_proc
def test_nothing_is_left_when_it_is_killed(
    running: subprocess.Popen[str], own_temporary_folder: Path
) -> None:
    started = descendants(running.pid)
    running.kill()
    running.wait()

    wait_until_gone(started)
    assert list(own_temporary_folder.iterdir()) == []
