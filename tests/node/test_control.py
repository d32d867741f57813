"""What a running node answers to the programs of its user, also if they ask for nonsense."""

from __future__ import annotations

import base64
import errno
import json
import os
import socket
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from smartpubsub.client import lines as control_lines
from smartpubsub.client.commands import ControlClient
from smartpubsub.node.api.choices import Wait
from smartpubsub.node.api.journals import JournalPage, Journals
from smartpubsub.node.api.node import Node
from smartpubsub.node.control import server as control
from smartpubsub.node.control import socket as control_socket
from smartpubsub.node.control.limits import SOCKET
from smartpubsub.node.control.requests import (
    PROBLEM_CHARACTERS_MAX,
    Request,
    RequestError,
    request_of,
)
from smartpubsub.node.control.server import Control
from smartpubsub.node.control.socket import socket_in
from smartpubsub.node.errors import ControlError, NoNodeError
from smartpubsub.protocols.publication import PAYLOAD_BYTES_MAX
from tests.node.hosts import LOOPBACK, eventually, holds, run


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Node]:
    async with Node(data=folder, listen=[LOOPBACK]) as node, trio.open_nursery() as nursery:
        await nursery.start(Control(node).serve)
        yield node
        nursery.cancel_scope.cancel()


class Client:
    """Writes anything, and reads lines."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._waiting = b""

    async def write(self, content: bytes | dict[str, Any]) -> None:
        line = content if isinstance(content, bytes) else json.dumps(content).encode()
        await self.stream.send_all(line + b"\n")

    async def read(self) -> Any:
        """The next line, or None at the end."""
        while b"\n" not in self._waiting:
            piece = await self.stream.receive_some()
            if not piece:
                return None
            self._waiting += piece
        line, _, self._waiting = self._waiting.partition(b"\n")
        return json.loads(line)

    async def ask(self, content: bytes | dict[str, Any]) -> Any:
        await self.write(content)
        return await self.read()


@asynccontextmanager
async def client_of(node: Node) -> AsyncIterator[Client]:
    async with await trio.open_unix_socket(str(socket_in(node.config.data))) as stream:
        yield Client(stream)


def with_client(test: Callable[[Node, Client], Any], folder: Path) -> None:
    async def main() -> None:
        async with served(folder) as node, client_of(node) as client:
            await test(node, client)

    run(main)


# --- the socket ---


def test_only_its_user_can_open_the_socket(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    async def test(_: Node, __: Client) -> None:
        assert stat.S_IMODE((folder / SOCKET).stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    with_client(test, folder)
    assert not (folder / SOCKET).exists()


def test_a_folder_with_a_long_name_says_where_the_socket_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    folder = tmp_path / ("long" * 30)

    async def test(node: Node, client: Client) -> None:
        path = socket_in(folder)
        assert path.is_relative_to(runtime)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert (await client.ask({"do": "info"}))["ok"]["peer_id"] == node.peer_id
        assert await trio.to_thread.run_sync(asked, folder, "peers") == []

    with_client(test, folder)
    assert list(runtime.iterdir()) == []
    assert not (folder / SOCKET).is_symlink()


def asked(folder: Path, do: str) -> Any:
    with ControlClient(folder) as client:
        return client.ask(do)


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left.bind(str(tmp_path / SOCKET))
    left.close()

    async def test(_: Node, client: Client) -> None:
        assert (await client.ask({"do": "peers"}))["ok"] == []

    with_client(test, tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"), [("data", "Address already in use"), ("long" * 30, "File exists")]
)
def test_a_file_in_the_place_of_the_socket_is_not_touched(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, folder = tmp_path / "run", tmp_path / name
    runtime.mkdir()
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    (folder / SOCKET).write_text("mine")
    said = f"{folder / SOCKET}: {problem}; .* move away what is in its place"

    async def main() -> None:
        async with Node(data=folder, listen=[LOOPBACK]) as node:
            with pytest.raises(ControlError, match=said):
                await Control(node).serve()

    run(main)
    assert (folder / SOCKET).read_text() == "mine"
    assert list(runtime.iterdir()) == []


def test_a_folder_without_room_for_the_socket_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(control_socket, "_bound", fail)

    with pytest.raises(ControlError, match=r"No space left on device; .* the disk has room"):
        control_socket.listening(tmp_path)


@pytest.mark.parametrize("is_left_behind", [False, True])
def test_where_no_node_runs_it_is_said_how_to_start_one(
    is_left_behind: bool, tmp_path: Path
) -> None:
    if is_left_behind:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(str(tmp_path / SOCKET))
    with pytest.raises(NoNodeError, match=f"smartpubsub node run --data {tmp_path}"):
        ControlClient(tmp_path).ask("info")


# --- requests ---


def test_a_node_tells_about_itself(tmp_path: Path) -> None:
    async def test(node: Node, client: Client) -> None:
        async with node.subscribe("surf") as events:
            wish = {
                "subscription": events.number,
                "predicate": "surf",
                "state": "in force",
                "is_taken": True,
                "waiting": 0,
                "is_kept": False,
                "dropped": 0,
            }
            answer = await client.ask({"id": "x", "do": "info"})
            assert answer["id"] == "x"
            assert answer["ok"]["addresses"] == node.addresses
            assert answer["ok"]["process"] == os.getpid()
            assert answer["ok"]["subscriptions"] == [wish]
            answer = await client.ask({"id": 2, "do": "subscriptions"})
            assert answer == {"id": 2, "ok": [wish]}

    with_client(test, tmp_path)


def test_events_come_until_the_limit(tmp_path: Path) -> None:
    async def test(node: Node, client: Client) -> None:
        asked_for = {"id": 1, "do": "subscribe", "predicate": "surf/price[1,2]", "limit": 1}
        number = (await client.ask(asked_for))["ok"]["subscription"]
        payload = base64.b64encode(b"\xff").decode()
        wanted = {"do": "publish", "event": "surf/price=2", "payload": payload, "wait": "all"}
        await client.write({"id": 2, **wanted})
        lines = {(line["id"], *line): line for line in [await client.read() for _ in range(3)]}

        receipt = lines[2, "id", "ok"]["ok"]
        assert receipt["waited_for"] == "all"
        event = lines[1, "id", "event", "dropped"]["event"]
        assert event.pop("cid").startswith("bafyrei")
        assert datetime.fromisoformat(event.pop("created")) <= datetime.now(UTC)
        assert event == {
            "id": receipt["id"],
            "publisher": node.peer_id,
            "event": "surf/price=2",
            "payload": payload,
            "hops": 0,
            "dropped_before": 0,
        }
        assert lines[1, "id", "end"]
        assert number not in [wish.number for wish in await node.subscriptions()]

    with_client(test, tmp_path)


@pytest.mark.parametrize("keep", [False, True])
def test_a_subscription_ends_with_its_client_unless_it_is_kept(keep: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as node:
            async with client_of(node) as client:
                request = {"do": "subscribe", "predicate": "surf", "keep": keep}
                number = (await client.ask(request))["ok"]["subscription"]
            if not keep:
                await eventually(lambda: holds(node.subscriptions(), lambda wishes: wishes == []))
                return
            await eventually(lambda: holds(node.subscriptions(), lambda w: not w[0].is_taken))
            await node.publish("surf", b"1", wait=Wait.ALL)
            async with client_of(node) as client:
                assert (await client.ask(request))["ok"]["subscription"] == number
                assert (await client.read())["event"]["payload"] == "MQ=="
                answer = await client.ask({"id": 7, "do": "unsubscribe", "subscription": number})
                both = [answer, await client.read()]
                assert {"id": 7, "ok": {"subscription": number}} in both
                assert {"id": None, "end": True} in both
            assert await node.subscriptions() == []

    run(main)


def test_only_a_reader_that_keeps_a_kept_subscription_continues_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as node:
            for is_keeping, number, was_there in (
                *((True, 1, False), (False, 2, False)),
                *((True, 1, True), (False, 3, False)),
            ):
                async with client_of(node) as client:
                    request = {"do": "subscribe", "predicate": "surf", "keep": is_keeping}
                    begun = (await client.ask(request))["ok"]
                    assert begun == {
                        "subscription": number,
                        "was_there": was_there,
                        "is_kept": is_keeping,
                    }
                await eventually(
                    lambda: holds(
                        node.subscriptions(), lambda w: [e.is_taken for e in w] == [False]
                    )
                )

    run(main)


def test_a_client_that_takes_nothing_holds_nobody_up(tmp_path: Path) -> None:
    async def test(node: Node, client: Client) -> None:
        request = {"do": "subscribe", "predicate": "surf", "buffer_count_max": 3}
        await client.ask({"id": 1, **request})
        count = 20
        for _ in range(count):
            await node.publish("surf", bytes(200_000), wait=Wait.ALL)
        got = 0
        while True:
            line = await client.read()
            got += 1
            if got + line["dropped"] == count:
                break
        assert line["dropped"] > 0

    with_client(test, tmp_path)


# --- nonsense ---


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "not a line of JSON"),
        (b"{", "not a line of JSON"),
        (b"\xff", "not a line of JSON"),
        (b"[" * 100_000, "not a line of JSON"),
        (b"[]", "not a JSON object"),
        (b'{"id": {}, "do": "info"}', "an id is a number or"),
        (b'{"id": true, "do": "info"}', "an id is a number or"),
        (b'{"do": "dance"}', '"do" is one of info, metrics, peers, subscriptions'),
        (b'{"do": []}', '"do" is one of'),
        (b'{"do": "info", "more": 1}', "info: there is no field 'more'"),
        (b'{"do": "publish"}', "publish: the field 'event' is missing"),
        (b'{"do": "publish", "event": 1}', "a predicate is written as text"),
        (b'{"do": "publish", "event": "a["}', "publish: column 3"),
        (b'{"do": "publish", "event": "a", "payload": "?"}', "written in base 64"),
        (b'{"do": "publish", "event": "a", "payload": 1}', "written in base 64"),
        (b'{"do": "publish", "event": "a", "payload": "\xc3\xa9"}', "written in base 64"),
        (
            b'{"do": "publish", "event": "a", "wait": "long"}',
            "allowed are 'nothing', 'rendezvous', 'all'",
        ),
        (b'{"do": "subscribe", "predicate": "a", "keep": 1}', "true or false"),
        (b'{"do": "subscribe", "predicate": "a", "limit": -1}', "whole, and not negative"),
        (b'{"do": "unsubscribe", "subscription": true}', "whole, and not negative"),
        (b'{"do": "unsubscribe", "subscription": 1e3}', "whole, and not negative"),
        (b'{"do": "topic-create", "name": "\\udcff"}', "a text in UTF-8"),
    ],
)
def test_a_bad_request_is_told(line: bytes, problem: str) -> None:
    with pytest.raises(RequestError) as caught:
        request_of(line)
    assert problem in str(caught.value)


def test_a_payload_that_is_too_long_is_told() -> None:
    payload = base64.b64encode(bytes(PAYLOAD_BYTES_MAX + 1)).decode()
    with pytest.raises(RequestError, match="carries at most 524,288 bytes; publish less"):
        request_of(json.dumps({"do": "publish", "event": "a", "payload": payload}).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = ("id", "do", "event", "payload", "wait", "predicate", "keep", "limit", "subscription")
ACTIONS = ("info", "peers", "subscriptions", "publish", "subscribe", "unsubscribe")


@given(
    st.binary()
    | st.dictionaries(st.sampled_from(FIELDS), st.sampled_from((*ACTIONS, "a", "")) | JSON).map(
        lambda content: json.dumps(content).encode()
    )
)
@example(b'{"id": 1' + b"0" * 5000 + b', "do": "info"}')
@example(b'{"id": "\\ud800", "do": "subscribe", "predicate": "\\ud800"}')
def test_nonsense_is_a_request_or_an_error_and_nothing_else(line: bytes) -> None:
    try:
        assert isinstance(request_of(line), Request)
    except RequestError as error:
        json.dumps({"id": error.id, "error": str(error)})


@pytest.mark.parametrize("field", ["wait", "again", "key", "event", "payload", "deadline_s"])
def test_a_problem_repeats_little_of_a_long_request(field: str) -> None:
    """The node answers with the problem, and logs it; both were as long as the request."""
    for value in ("a" * 1_000_000, ["a"] * 100_000, "é/" * 100_000):
        with pytest.raises(RequestError) as caught:
            request_of(json.dumps({"do": "publish", "event": "a", field: value}).encode())
        assert len(str(caught.value)) <= PROBLEM_CHARACTERS_MAX


def test_a_client_can_go_on_after_a_bad_request(tmp_path: Path) -> None:
    async def test(_: Node, client: Client) -> None:
        answer = await client.ask({"id": 5, "do": "dance"})
        assert answer["id"] == 5
        assert "error" in answer
        answer = await client.ask({"id": 6, "do": "unsubscribe", "subscription": 8})
        assert answer["error"] == "there is no subscription 8; there are none"
        assert answer["kind"] == "NoSubscriptionError"
        assert (await client.ask({"id": 7, "do": "peers"})) == {"id": 7, "ok": []}

    with_client(test, tmp_path)


# --- limits ---


def test_a_line_that_is_too_long_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "LINE_BYTES_MAX", 100)

    async def test(node: Node, client: Client) -> None:
        exactly = json.dumps({"do": "peers"}).encode().ljust(99)
        assert await client.ask(exactly) == {"id": None, "ok": []}
        await client.stream.send_all(bytes(101))
        assert (await client.read())["error"] == "a line has at most 100 bytes"
        assert await client.read() is None
        async with client_of(node) as another:
            assert (await another.ask({"do": "peers"}))["ok"] == []

    with_client(test, tmp_path)


def test_there_is_a_limit_on_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CLIENT_COUNT_MAX", 1)

    async def test(_: Node, client: Client) -> None:
        await client.ask({"do": "info"})
        with pytest.raises(ControlError, match="at most 1 clients"):
            await trio.to_thread.run_sync(asked, tmp_path, "info")
        await client.stream.aclose()
        with trio.fail_after(60):
            while True:
                try:
                    assert await trio.to_thread.run_sync(asked, tmp_path, "peers") == []
                except ControlError:
                    continue
                break

    with_client(test, tmp_path)


def test_there_is_a_limit_on_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "REQUEST_COUNT_MAX", 1)

    async def test(_: Node, client: Client) -> None:
        answer = await client.ask({"id": 1, "do": "subscribe", "predicate": "surf"})
        assert "ok" in answer
        answer = await client.ask({"id": 2, "do": "peers"})
        assert answer["id"] == 2
        assert answer["error"] == "at most 1 requests are served at once"

    with_client(test, tmp_path)


@pytest.mark.parametrize("limit", ["REQUEST_COUNT_MAX", "REQUEST_BYTES_MAX"])
def test_requests_that_free_something_pass_the_limits(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose open requests are subscriptions can acknowledge their events, and end them."""

    async def test(node: Node, client: Client) -> None:
        wanted = {"do": "subscribe", "predicate": "surf", "keep": True, "window": 1}
        number = (await client.ask({"id": 1, **wanted}))["ok"]["subscription"]
        monkeypatch.setattr(control, limit, 1)
        for payload in (b"one", b"two"):
            await node.publish("surf", payload)
        event = (await client.read())["event"]["id"]
        took = await client.ask({"id": 2, "do": "take", "subscription": number, "event": event})
        assert took == {"id": 2, "ok": {"subscription": number}}
        more = await client.ask({"id": 3, "do": "more", "of": 1, "count": 1})
        assert base64.b64decode(more["event"]["payload"]) == b"two"
        assert "error" in await client.ask({"id": 4, "do": "peers"})
        answer = await client.ask({"id": 5, "do": "unsubscribe", "subscription": number})
        while answer["id"] != 5:
            answer = await client.read()
        assert answer["ok"] == {"subscription": number}

    with_client(test, tmp_path)


def test_there_is_a_limit_on_the_bytes_of_open_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "REQUEST_BYTES_MAX", 1_000)
    predicate = "a" * 200
    long = {"do": "subscribe", "predicate": predicate, "limit": 1}

    async def test(node: Node, client: Client) -> None:
        for id in range(3):
            assert "ok" in await client.ask({"id": id, **long})
        answer = await client.ask({"id": 3, **long})
        assert answer["error"] == "requests of at most 1000 bytes are served at once"
        await node.publish(predicate, b"ends them")
        ended = 0
        while ended < 3:
            ended += "end" in await client.read()
        assert "ok" in await client.ask({"id": 4, **long})

    with_client(test, tmp_path)


def test_the_node_makes_few_pages_for_a_client_that_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four clients cost a node 900 MB with 64 unread pages each."""
    made: list[int] = []
    page = Journals.page

    def counted(self: Journals, number: int, epoch: str, first: int, end: int) -> JournalPage:
        made.append(first)
        return page(self, number, epoch, first, end)

    monkeypatch.setattr(Journals, "page", counted)

    async def test(node: Node, client: Client) -> None:
        journal = (await client.ask({"id": 0, "do": "journal-open", "predicate": "surf"}))["ok"]
        for _ in range(4):
            await node.publish("surf", bytes(PAYLOAD_BYTES_MAX))
        wanted = {name: journal[name] for name in ("subscription", "epoch")}
        for id in range(1, 11):
            await client.write({"id": id, "do": "journal-read", "first": 0, "end": 9, **wanted})
        async with client_of(node) as other:
            assert "ok" in await other.ask({"id": 1, "do": "info"})
        assert len(made) <= 2
        ids = {(await client.read())["id"] for _ in range(10)}
        assert ids == set(range(1, 11))

    with_client(test, tmp_path)


def test_a_client_is_told_when_the_node_ends(tmp_path: Path) -> None:
    is_subscribed = threading.Event()

    def subscribed(folder: Path) -> None:
        with ControlClient(folder) as client:
            _, events = client.subscribe("surf")
            is_subscribed.set()
            with pytest.raises(ControlError, match="has ended; start it again"):
                next(events)

    async def main() -> None:
        async with trio.open_nursery() as nursery, served(tmp_path):
            nursery.start_soon(trio.to_thread.run_sync, subscribed, tmp_path)
            await eventually(is_subscribed.is_set)

    run(main)


def test_a_client_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_lines, "NOTICE_S", 0.01)
    monkeypatch.setattr(control_lines, "PROMPT_S", 60.0)
    said: list[str] = []
    has_said = threading.Event()

    def on_wait(text: str) -> None:
        said.append(text)
        has_said.set()

    def answer() -> None:
        stream, _ = listener.accept()
        with stream, stream.makefile("rwb") as lines:
            for _ in range(2):
                request, probe = json.loads(lines.readline()), json.loads(lines.readline())
                lines.write(json.dumps({"id": probe["id"], "ok": []}).encode() + b"\n")
                lines.flush()
                assert has_said.wait(60)
                has_said.clear()
                lines.write(json.dumps({"id": request["id"], "ok": "done"}).encode() + b"\n")
                lines.flush()

    with control_socket.listening(tmp_path) as listener:
        node = threading.Thread(target=answer)
        node.start()
        with ControlClient(tmp_path, on_wait=on_wait) as client:
            assert client.ask("publish", event="surf") == "done"
            assert client.ask("publish", event="surf", wait="all") == "done"
        node.join()
    assert said == [
        "waiting for the network to acknowledge the event, up to 60 seconds",
        "waiting for all subscribers to confirm the event, up to 60 seconds",
    ]


def test_a_client_that_does_not_take_gets_the_events_of_a_kept_subscription_again(
    tmp_path: Path,
) -> None:
    async def test(node: Node, client: Client) -> None:
        request = {"do": "subscribe", "predicate": "surf", "keep": True, "limit": 2}
        begun = (await client.ask({"id": 1, **request, "limit": 0}))["ok"]
        await client.read()
        for number in range(2):
            await node.publish("surf", b"%d" % number, wait=Wait.ALL)

        async def read(id: int) -> list[str]:
            await client.ask({"id": id, **request})
            lines = [await client.read() for _ in range(3)]
            return [line["event"]["id"] for line in lines[:2]]

        first = await read(2)
        assert await read(3) == first
        take = {"do": "take", "subscription": begun["subscription"], "event": first[0]}
        assert (await client.ask({"id": 4, **take}))["ok"]["subscription"] == begun["subscription"]
        request["limit"] = 1
        await client.ask({"id": 5, **request})
        assert (await client.read())["event"]["id"] == first[1]

    with_client(test, tmp_path)


def test_the_error_of_a_publish_that_times_out_has_the_events_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(node: Node, client: Client) -> None:
        monkeypatch.setattr(node._engine.core.pubsub, "publish", lambda *_, **__: [])
        answer = await client.ask({"id": 1, "do": "publish", "event": "a", "deadline_s": 0.01})
        assert f"has the id {answer['event']['id']}" in answer["error"]
        state = await client.ask({"id": 2, "do": "event", "event": answer["event"]["id"]})
        assert state["ok"]["state"] == "pending"

    with_client(test, tmp_path)
