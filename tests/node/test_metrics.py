"""A node's metrics, as Prometheus would read them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import h11
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from smartpubsub import Node
from smartpubsub.node.config_values import Endpoint
from smartpubsub.node.configuration import NodeLimits
from smartpubsub.node.control import metrics_server
from smartpubsub.node.control.metrics_server import MetricsError, MetricsServer
from smartpubsub.node.errors import NodeClosedError
from smartpubsub.protocols.codecs import KADEMLIA
from tests.node.hosts import LOOPBACK, connections, eventually, run
from tests.node.test_garbage import has_ended

Samples = dict[tuple[str, ...], float]
ANYWHERE = Endpoint("127.0.0.1", 0)


def samples(text: bytes) -> Samples:
    """Values by name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def asked(at: Endpoint, request: bytes) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    async with await trio.open_tcp_stream(*at) as stream:
        await stream.send_all(request)
        answer = b"".join([piece async for piece in stream])
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    http.receive_data(answer)
    response, data = http.next_event(), http.next_event()
    assert isinstance(response, h11.Response)
    assert isinstance(data, h11.Data)
    return response.status_code, bytes(data.data)


def get(path: str = "/metrics") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


# --- what is counted ---


def test_what_nodes_do_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            Node(data=tmp_path / "a", listen=[LOOPBACK]) as a,
            Node(data=tmp_path / "b", listen=[LOOPBACK], bootstrap=a.addresses) as b,
            b.subscribe("surf") as events,
        ):
            before = samples(await a.metrics())
            for number in range(3):
                await a.publish("surf", b"%d" % number, wait="all")
                await anext(events)
            of_a, of_b = samples(await a.metrics()), samples(await b.metrics())

        assert before["libp2p_pubsub_messages_published_total",] == 0
        assert of_a["libp2p_pubsub_messages_published_total",] == 3
        assert of_b["smartpubsub_events_delivered_total",] == 3
        assert of_b["smartpubsub_subscriptions", "in force"] == 1
        assert of_a["smartpubsub_subscriptions", "in force"] == 0
        assert of_a["libp2p_swarm_connections",] == of_b["libp2p_swarm_connections",] >= 1
        assert of_a["kad_routing_table_peers",] == 1
        assert of_a["smartpubsub_messages_total", "in"] > before["smartpubsub_messages_total", "in"]
        sent, received = (
            sum(found.get((f"smartpubsub_{way}_kinds_total", f"scoutsubs/{kind}"), 0) for kind in k)
            for found, way, k in (
                (of_a, "sent", ("raise", "notify", "record")),
                (of_b, "received", ("raise", "notify", "record")),
            )
        )
        assert sent == received >= 3
        assert of_a["smartpubsub_stored_bytes",] > 0
        assert of_a["smartpubsub_storage_commits_total",] > 0
        assert of_a["smartpubsub_held_max", "trees"] == 10_000
        assert of_b["smartpubsub_held", "trees"] >= 1
        assert of_a["process_cpu_seconds_total",] > 0
        assert ("smartpubsub_info", *_about(of_a)) in of_a

    run(main)


def _about(found: Samples) -> tuple[str, ...]:
    [about] = [key[1:] for key in found if key[0] == "smartpubsub_info"]
    assert {"scoutsubs", "redirect-reliable"} < set(about)
    return about


def test_what_is_refused_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(data=tmp_path, listen=[LOOPBACK], message_bytes_max=2_000)
        async with node, connections() as stranger:
            own = node._engine.host.own
            await stranger.dial(own.peer, own.addresses[0])
            for garbage in (b"\x05hello", b"\xff\x7f"):
                stream = await stranger.open(own.peer, KADEMLIA)
                await stream.write(garbage)
                assert await has_ended(stream)
            found = samples(await node.metrics())

        assert found["libp2p_pubsub_reject_reason_total", "garbage"] == 1
        assert found["libp2p_pubsub_reject_reason_total", "large"] == 1
        assert found["libp2p_pubsub_reject_reason_total", "rate"] == 0
        assert found["libp2p_rcmgr_blocked_resources_total", "connection"] == 0

    run(main)


def test_two_nodes_in_one_process_count_for_themselves(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            Node(data=tmp_path / "a", listen=[LOOPBACK], protocol="floodsub") as a,
            Node(data=tmp_path / "b", listen=[LOOPBACK], protocol="floodsub") as b,
        ):
            await a.publish("surf")
            assert samples(await a.metrics())["libp2p_pubsub_messages_published_total",] == 1
            assert samples(await b.metrics())["libp2p_pubsub_messages_published_total",] == 0

    run(main)


def test_every_metric_and_every_limit_is_in_the_document(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "node.md").read_text()
    said = set(re.findall(r"`((?:smartpubsub|libp2p|kad)_\w+)`", document))
    limits = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", document, re.MULTILINE)

    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK]) as node:
            families = list(text_string_to_metric_families((await node.metrics()).decode()))
        names = {
            family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
            for family in families
            if not family.name.startswith("process_")
        }
        assert {name.replace("_info_info", "_info") for name in names} == said

    run(main)
    assert {name: int(n.replace(",", "")) for name, n in limits} == {
        entry.name: entry.default for entry in fields(NodeLimits)
    }


def test_a_node_that_does_not_run_has_no_metrics(tmp_path: Path) -> None:
    with pytest.raises(NodeClosedError):
        trio.run(Node(data=tmp_path).metrics)


# --- over HTTP ---


def test_metrics_are_served_while_the_node_runs(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(data=tmp_path, listen=[LOOPBACK], metrics="127.0.0.1:0")
        async with node:
            at = node.metrics_at
            assert at is not None
            status, body = await asked(at, get())
            assert status == 200
            assert samples(body).keys() == samples(await node.metrics()).keys()
        assert node.metrics_at is None
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream(*at)

    run(main)


def test_metrics_are_not_served_unless_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK]) as node:
            assert node.metrics_at is None

    run(main)


def test_an_address_in_use_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            at = await nursery.start(MetricsServer(bytes).serve, ANYWHERE)
            node = Node(data=tmp_path, listen=[LOOPBACK], metrics=str(at))
            with pytest.raises(MetricsError, match=f"cannot serve metrics on {at}: .*; choose"):
                await node.__aenter__()
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (get(), 200),
        (get("/metrics?name[]=x"), 200),
        (get("/"), 404),
        (b"POST /metrics HTTP/1.1\r\nHost: [::1]:9464\r\nContent-Length: 1\r\n\r\nx", 405),
    ],
)
def test_what_is_asked_for_wrongly_is_told(request_text: bytes, status: int) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            at = await nursery.start(MetricsServer(lambda: b"text").serve, ANYWHERE)
            found, body = await asked(at, request_text)
            assert found == status
            assert (body == b"text") == (status == 200)
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("[::1]:9464", 200),
        ("localhost", 200),
        ("Node.Example:9464", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("", 421),
    ],
)
def test_a_page_that_binds_its_name_to_the_address_reads_nothing(
    host: str, status: int, tmp_path: Path
) -> None:
    async def main() -> None:
        async with Node(
            data=tmp_path, listen=[LOOPBACK], metrics="127.0.0.1:0", http_hosts=["node.example"]
        ) as node:
            assert node.metrics_at is not None
            request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            found, body = await asked(node.metrics_at, request)
            assert found == status
            assert (b"smartpubsub" in body) == (status == 200)

    run(main)


def test_nonsense_and_silence_and_crowds_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "CLIENT_COUNT_MAX", 2)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            server = MetricsServer(lambda: b"text")
            at = await nursery.start(server.serve, ANYWHERE)
            for nonsense in (b"\0" * 100_000, b"GET\r\n\r\n", b"A" * 100_000):
                async with await trio.open_tcp_stream(*at) as stream:
                    assert await is_turned_away(stream, nonsense)
            silent = [await trio.open_tcp_stream(*at) for _ in range(2)]
            await eventually(lambda: server._client_count == 2)
            assert (await asked(at, get()))[0] == 503
            for stream in silent:
                await stream.aclose()
            await eventually(lambda: server._client_count == 0)
            assert (await asked(at, get()))[0] == 200
            nursery.cancel_scope.cancel()

    run(main)


async def is_turned_away(stream: trio.SocketStream, nonsense: bytes) -> bool:
    try:
        await stream.send_all(nonsense)
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True
