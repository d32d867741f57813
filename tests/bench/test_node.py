"""Real nodes' benchmark, with numbers small enough for a test."""

import json
import sys
from collections.abc import Callable

import pytest

from smartpubsub.bench import brokers, live_costs, node, sim_cost
from smartpubsub.cli.main import main


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REQUESTS": 40, "EVENTS": 20, "TRIES": 1, "EVENT_TRIES": 1}.items():
        monkeypatch.setattr(node, name, value)
    for name, value in {
        "EVENTS": 20,
        "TRIES": 1,
        "MANY": 2,
        "MANY_EVENTS": 10,
        "GOSSIP_EVENTS": 20,
        "SEQUENTIAL": 8,
        "ECHOES": 20,
    }.items():
        monkeypatch.setattr(live_costs, name, value)
    monkeypatch.setattr(sim_cost, "TRIES", 1)


def not_there(_: int, __: int) -> None:
    return None


def test_report_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(node, "zenoh_rate", not_there)
    monkeypatch.setattr(node, "nats_rate", lambda events, _: events / 2)

    assert main(["bench", "node", "--json"]) == 0

    output = capsys.readouterr()
    document = json.loads(output.out)
    assert set(document) == {"machine", "figures", "ratios"}
    figures = {figure["name"]: figure["value"] for figure in document["figures"]}
    assert [*figures] == [
        "crypto floor",
        "cpu scoutsubs",
        "cpu fastdelivery",
        "cpu pulsarcast",
        "cpu per delivery, 2 subscribers, scoutsubs",
        "cpu py-libp2p gossipsub",
        "sequential delivery",
        "tcp echo",
        "sequential acknowledgement",
        "disk flush",
        "sim CPU per message, scoutsubs",
        "sim CPU per message, fastdelivery",
        "sim CPU per message, pulsarcast",
        "echo",
        "stream",
        "stream, 32 at a time",
        "events over 3 hops",
        "nats events",
        "3 hops/nats",
    ]
    assert all(value > 0 for value in figures.values())
    assert figures["nats events"] == node.BROKER_EVENTS / 2
    assert document["machine"]["zenoh"] == "absent"
    assert "nats" not in document["machine"]
    ratios = {ratio["name"]: ratio for ratio in document["ratios"]}
    assert [*ratios] == [
        "cpu scoutsubs/crypto floor",
        "cpu fastdelivery/crypto floor",
        "cpu pulsarcast/crypto floor",
        "cpu per delivery, 2 subscribers, scoutsubs/crypto floor",
        "scoutsubs/py-libp2p gossipsub events per CPU second",
        "sequential delivery/tcp echo",
        "sequential acknowledgement/disk flush",
        "sim CPU per simulated message",
        "stream/echo",
    ]
    assert ratios["stream/echo"]["at_least"] == 0.7
    for one, other in (
        ("stream", "echo"),
        ("sequential delivery", "tcp echo"),
    ):
        expected = figures[one] / figures[other]
        assert ratios[f"{one}/{other}"]["value"] == pytest.approx(expected, rel=0.01)
    assert "requests on one stream" in output.err


@pytest.mark.parametrize(
    ("module", "rate"), [("zenoh", brokers.zenoh_rate), ("nats", brokers.nats_rate)]
)
def test_what_is_not_installed_is_absent(
    module: str, rate: Callable[[int, int], float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    assert rate(10, 10) is None


def test_a_server_that_is_not_on_the_path_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", sys)
    monkeypatch.setenv("PATH", "")

    assert brokers.nats_rate(10, 10) is None


@pytest.mark.parametrize("rate", [brokers.zenoh_rate, brokers.nats_rate])
def test_what_is_installed_is_measured(rate: Callable[[int, int], float | None]) -> None:
    found = rate(1_000, 100)
    if found is None:
        pytest.skip("it is not installed")
    assert found > 0


def test_without_libp2p_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("smartpubsub.bench.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libp2p", None)

    assert main(["bench", "node"]) == 1

    assert (
        "this needs libp2p; install it with: pip install 'smartpubsub[node]'"
        in capsys.readouterr().err
    )
