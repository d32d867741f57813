"""A protocol from outside runs wherever the built-in ones run, after one registration."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smartpubsub import Node
from smartpubsub.cli.main import main
from smartpubsub.kademlia.protobuf import WireError
from smartpubsub.node.errors import NotPromisedError
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.codecs import WireLimits
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.registry import PROTOCOLS, register
from smartpubsub.sim.experiments.fuzz import fuzz
from smartpubsub.sim.judging import result
from tests.node.hosts import LOOPBACK, eventually, holds, run
from tests.registry import toy
from tests.sim.small import experiment_of, publish, subscribe

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _with_toy() -> Iterator[None]:
    register(toy.SPEC)
    yield
    del PROTOCOLS.specs["toy"]


def test_events_are_delivered_in_the_simulator_without_violations() -> None:
    experiment = experiment_of(
        (subscribe(1, "surf/price[,20]"), subscribe(2, "surf")),
        (publish(0, "surf/price=15"), publish(3, "surf/price=30", at_ms=50)),
        protocol="toy",
    )
    document: dict[str, Any] = {**result.run(experiment, "small").document()}

    assert (document["protocol"], document["variant"]) == ("toy", None)
    assert (document["expected"], document["delivered"], document["missing"]) == (3, 3, 0)
    assert document["violations"] == []
    assert document["wire_duplicates"] > 0


def test_random_worlds_show_no_violation() -> None:
    assert fuzz(1, 6, ["toy"]).failures == []


def test_the_command_runs_it(capsys: Captured) -> None:
    assert main(["sim", "run", "--protocol", "toy", "--nodes", "8", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["protocol"] == "toy"
    assert document["delivered"] == document["expected"] > 0


def test_the_command_compares_it_with_others(capsys: Captured) -> None:
    protocols = ["--protocol", "toy", "--protocol", "floodsub"]
    assert main(["sim", "compare", *protocols, "--nodes", "8", "--json"]) == 0

    mine, other = json.loads(capsys.readouterr().out)
    assert mine["delivered"] == other["delivered"]


def test_two_real_nodes_deliver_an_event(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            Node(data=tmp_path / "a", listen=[LOOPBACK], protocol="toy") as a,
            Node(
                data=tmp_path / "b", listen=[LOOPBACK], protocol="toy", bootstrap=a.addresses
            ) as b,
            b.subscribe("surf/price[,20]") as events,
        ):
            await eventually(
                lambda: holds(a.metrics(), lambda text: b"kad_routing_table_peers 1.0" in text)
            )
            await a.publish("surf/price=30", b"too much")
            await a.publish("surf/price=15", b"cheap")
            event = await anext(events)
            assert (event.payload, event.hops) == (b"cheap", 1)
            assert 'protocol="toy"' in (await b.metrics()).decode()
            # Groups and topics come from the protocols beside it.
            await a.group("surf").create()
            assert [group.predicate for group in await a.groups()] == [Predicate.parse("surf")]
            with pytest.raises(NotPromisedError, match="or use scoutsubs in a reliable variant"):
                async with b.subscribe("surf", last=1):
                    pass

    run(main)


def test_messages_are_read_as_they_were_written() -> None:
    event = Publication.of(EventId(b"p", 1, 2), Predicate.parse("surf"), b"data", b"s" * 64, 5)
    message = toy.ToyMessage(event, 3)
    codec = toy.codec(WireLimits())

    assert codec.decode(codec.encode(message)) == message
    assert codec.size(message) == len(codec.encode(message))
    for damaged in (b"", b"\0", codec.encode(message)[:-1]):
        with pytest.raises(WireError):
            codec.decode(damaged)
