"""Who may use a gateway."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import trio
from trio_websocket import ConnectionClosed, open_websocket_url

from smartpubsub import Node
from smartpubsub.gateway import access, control
from smartpubsub.gateway.operations import Scope
from smartpubsub.gateway.server import Gateway, GatewayError
from smartpubsub.gateway.tokens import FILE, TokenError, TokenFile
from smartpubsub.node.config_values import Endpoint
from tests.gateway.serving import publish, served
from tests.node.hosts import LOOPBACK, run


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_gateway_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(data=tmp_path, listen=[LOOPBACK]) as node:
            with pytest.raises(GatewayError, match="smartpubsub token create"):
                await Gateway(node, Endpoint("0.0.0.0", 0)).run()

    run(main)


def test_a_token_allows_its_scopes_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    reader = tokens.create("reader", [Scope.READ], None)
    admin = tokens.create("admin", [Scope.ADMIN], timedelta(days=1))
    expired = tokens.create("expired", [Scope.ADMIN], timedelta(seconds=-1))

    async def main() -> None:
        async with served(tmp_path, at="0.0.0.0") as (_, _, http):
            assert (await http.get("/healthz")).status_code == httpx.codes.OK
            unknown = await http.get("/v1/peers")
            assert unknown.status_code == httpx.codes.UNAUTHORIZED
            assert unknown.headers["www-authenticate"].startswith("Bearer")
            for token in (expired, "sps_wrong"):
                answer = await http.get("/v1/peers", headers=bearer(token))
                assert answer.status_code == httpx.codes.UNAUTHORIZED
            for token in (reader, admin):
                answer = await http.get("/v1/peers", headers=bearer(token))
                assert answer.status_code == httpx.codes.OK
            answer = await http.post("/v1/events?predicate=surf", headers=bearer(reader))
            assert answer.status_code == httpx.codes.FORBIDDEN
            answer = await http.post("/v1/events?predicate=surf", headers=bearer(admin))
            assert answer.status_code == httpx.codes.CREATED
            tokens.revoke("reader")
            answer = await http.get("/v1/peers", headers=bearer(reader))
            assert answer.status_code == httpx.codes.UNAUTHORIZED

    run(main)


def test_the_file_of_tokens_is_private_and_has_no_token(tmp_path: Path) -> None:
    text = TokenFile(tmp_path).create("a", [Scope.READ], None)
    (file,) = tmp_path.iterdir()
    assert text not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"\xff", "\u00e9".encode()])
def test_a_damaged_file_of_tokens_is_an_error_or_knows_no_token(
    damage: bytes, tmp_path: Path
) -> None:
    text = TokenFile(tmp_path).create("a", [Scope.READ], None)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b'"digest":"', b'"digest":"' + damage))
    with suppress(TokenError):
        assert TokenFile(tmp_path).find(text) is None


# When the server closes first, trio-websocket leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tokens_that_are_damaged_end_no_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "RECHECK_S", 0)
    monkeypatch.setattr(control, "TIDY_S", 0.05)
    token = TokenFile(tmp_path).create("a", [Scope.READ], timedelta(days=1))
    headers = bearer(token)

    async def main() -> None:
        async with served(tmp_path, at="0.0.0.0") as (_, gateway, http):
            file = tmp_path / FILE
            whole = file.read_bytes()
            for damaged in (whole[:-1], whole.replace(b'Z"', b'"'), b"\xff"):
                file.write_bytes(whole)
                place = f"ws://127.0.0.1:{gateway.at.port}/v1/control"
                extra = [(name.encode(), value.encode()) for name, value in headers.items()]
                async with open_websocket_url(place, extra_headers=extra) as session:
                    await session.send_message('{"session":null,"received":0}')
                    await session.get_message()
                    file.write_bytes(damaged)
                    answer = await http.get("/v1/peers", headers=headers)
                    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
                    assert str(tmp_path) not in answer.text
                    with pytest.raises(ConnectionClosed), trio.fail_after(10):
                        await session.get_message()
            file.write_bytes(whole)
            assert (await http.get("/v1/peers", headers=headers)).status_code == httpx.codes.OK
            assert gateway.failure_count == 0

    run(main)


def test_other_hosts_and_other_origins_get_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, hosts=("node.example",)) as (_, gateway, http):
            rebound = await http.get("/v1/peers", headers={"Host": "evil.example"})
            assert rebound.status_code == httpx.codes.MISDIRECTED_REQUEST
            named = await http.get("/v1/peers", headers={"Host": "node.example:80"})
            assert named.status_code == httpx.codes.OK
            foreign = {"Origin": "https://evil.example"}
            forged = await http.post("/v1/events?predicate=surf", headers=foreign)
            assert forged.status_code == httpx.codes.FORBIDDEN
            own = {"Origin": f"http://{gateway.at}"}
            answer = await http.post("/v1/events?predicate=surf", headers=own)
            assert answer.status_code == httpx.codes.CREATED
            assert "access-control-allow-origin" not in answer.headers
            upgrade = {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }
            refused = await http.get("/v1/socket", headers=upgrade | foreign)
            assert refused.status_code == httpx.codes.FORBIDDEN

    run(main)


def test_bodies_and_rates_have_limits(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, requests_per_s_max=5) as (_, gateway, http):
            async with await trio.open_tcp_stream("127.0.0.1", gateway.at.port) as peer:
                await peer.send_all(
                    b"POST /v1/events?predicate=surf HTTP/1.1\r\nHost: localhost\r\n"
                    b"Content-Length: 99999999\r\n\r\n"
                )
                assert b" 413 " in await peer.receive_some()
            statuses = [(await http.get("/healthz")).status_code for _ in range(10)]
            assert httpx.codes.TOO_MANY_REQUESTS in statuses

    run(main)


def test_no_bytes_end_the_node_or_its_gateway(tmp_path: Path) -> None:
    upgrade = (
        b"GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    attacks = [
        b"\x00" * 100,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000,
        b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 50,
        upgrade + b"\xff",
        upgrade + b"\x81\xfe\xff\xff",
        upgrade + bytes(range(256)),
    ]

    async def main() -> None:
        async with served(tmp_path) as (_, gateway, http):
            for attack in attacks:
                peer = await trio.open_tcp_stream("127.0.0.1", gateway.at.port)
                async with peer:
                    try:
                        await peer.send_all(attack)
                        await peer.send_eof()
                        with trio.move_on_after(2):
                            while await peer.receive_some(4_096):
                                pass
                    except trio.BrokenResourceError:
                        pass
            await publish(http, "surf", "still here")
            assert gateway.failure_count == 0

    run(main)
