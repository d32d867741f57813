"""A process with one node of a system that `bench node` measures.

The parent sends commands by a pipe, one at a time: the name of a method of `_Worker` and its
arguments. The process answers each with the result.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from struct import Struct
from typing import Any, ClassVar, NoReturn, Protocol

import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_new_noise_keys
from libp2p.custom_types import TProtocol
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as Noise
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from smartpubsub.bench.live import GOSSIP, Failure
from smartpubsub.node.api.node import Node
from smartpubsub.node.errors import PublishNotInTimeError, PublishRefusedError
from smartpubsub.node.interpreter import tune_interpreter
from smartpubsub.node.transport.contacts import contact_at
from smartpubsub.testbed.hostile.attacks import keep_to_share, run_attack

LISTEN = "/ip4/127.0.0.1/tcp/0"
STEP_S_MAX = 60.0
JOIN_S_MAX = 300.0
PAYLOAD_BYTES = 100
_HEAD = Struct(">dq")
"""The head of a payload: when the event was sent, and its number."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GOSSIP = TProtocol("/meshsub/1.0.0")


class System(Protocol):
    """A node of one system. A publisher prepares, and subscribers get the returned name."""

    address: str

    async def prepare(self) -> str:
        """Create the predicate, group or topic, and return its name."""
        ...

    def events(self, name: str) -> AsyncIterator[bytes]:
        """Subscribe; the first item, which is empty, says that the subscription is in force."""
        ...

    async def publish(self, payload: bytes, deadline_s: float = STEP_S_MAX) -> None:
        """Publish an event, and wait for the acknowledgement if the system has any."""
        ...


class _OwnNode:
    """One of this project's nodes."""

    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, node: Node) -> None:
        self._node = node
        self.address = node.addresses[0]


class _ScoutSubs(_OwnNode):
    event, wanted = "surf/price=15", "surf/price[10,20]"

    async def prepare(self) -> str:
        return self.wanted

    async def events(self, name: str) -> AsyncIterator[bytes]:
        async with self._node.subscribe(name, buffer_count_max=1 << 20) as events:
            yield b""
            async for event in events:
                yield event.payload

    async def publish(self, payload: bytes, deadline_s: float = STEP_S_MAX) -> None:
        await self._node.publish(self.event, payload, deadline_s=deadline_s)


class _ScoutSubsOfOneAttribute(_ScoutSubs):
    event = wanted = "surf"


class _ScoutSubsOfShortHistory(_ScoutSubs):
    """ScoutSubs with a short history, so that its memory soon stops growing."""

    settings: ClassVar[dict[str, Any]] = {"history_bytes_max": 4 << 20}


class _FastDelivery(_OwnNode):
    group, event = "surf/price[10,20]", "surf/price=15"

    async def prepare(self) -> str:
        self._group = await self._node.group(self.group).create()
        return self.address

    async def events(self, name: str) -> AsyncIterator[bytes]:
        group = self._node.group(self.group, name)
        async with group.join(buffer_count_max=1 << 20, deadline_s=JOIN_S_MAX) as events:
            yield b""
            async for event in events:
                yield event.payload

    async def publish(self, payload: bytes, deadline_s: float = STEP_S_MAX) -> None:
        await self._group.publish(self.event, payload, deadline_s=deadline_s)


class _Pulsarcast(_OwnNode):
    async def prepare(self) -> str:
        self._topic = await self._node.create_topic("surf")
        return self._topic.id

    async def events(self, name: str) -> AsyncIterator[bytes]:
        async with self._node.topic(name).subscribe(buffer_count_max=1 << 20) as events:
            yield b""
            async for event in events:
                yield event.payload

    async def publish(self, payload: bytes, deadline_s: float = STEP_S_MAX) -> None:
        await self._topic.publish(payload, deadline_s=deadline_s)


class _Gossip:
    """py-libp2p's own GossipSub, which acknowledges nothing."""

    TOPIC = "surf"

    def __init__(self, host: Any, pubsub: Any) -> None:
        self._host, self._pubsub = host, pubsub
        self.address = str(host.get_addrs()[0])

    async def prepare(self) -> str:
        return self.TOPIC

    async def events(self, name: str) -> AsyncIterator[bytes]:
        subscription = await self._pubsub.subscribe(name)
        yield b""
        while True:
            yield (await subscription.get()).data

    async def publish(self, payload: bytes, deadline_s: float = STEP_S_MAX) -> None:
        with trio.fail_after(deadline_s):
            await self._pubsub.publish(self.TOPIC, payload)


_OWN: dict[str, type[_OwnNode]] = {
    "scoutsubs": _ScoutSubs,
    "scoutsubs, one attribute": _ScoutSubsOfOneAttribute,
    "scoutsubs, short history": _ScoutSubsOfShortHistory,
    "fastdelivery": _FastDelivery,
    "pulsarcast": _Pulsarcast,
}


@asynccontextmanager
async def _running(system: str, data: str, bootstrap: str | None) -> AsyncIterator[System]:
    if system == GOSSIP:
        async with _gossip(bootstrap) as gossip:
            yield gossip
        return
    others = [] if bootstrap is None else [bootstrap]
    own = _OWN[system]
    async with Node(
        data=data, listen=[LISTEN], bootstrap=others, loopback_is_exempt=True, **own.settings
    ) as node:
        yield own(node)  # type: ignore[misc]


@asynccontextmanager
async def _gossip(bootstrap: str | None) -> AsyncIterator[_Gossip]:
    keys = create_new_key_pair()
    noise = Noise(keys, noise_privkey=create_new_noise_keys().private_key)
    host = new_host(key_pair=keys, sec_opt={NOISE: noise})
    # Its protection against spam would drop more than ten events of a topic in a second.
    router = GossipSub([_GOSSIP], 6, 4, 12, heartbeat_interval=1, spam_protection_enabled=False)
    pubsub = Pubsub(host, router, strict_signing=True)
    async with host.run([Multiaddr(LISTEN)]), background_trio_service(pubsub):
        await pubsub.wait_until_ready()
        async with background_trio_service(router):
            if bootstrap is not None:
                await host.connect(info_from_p2p_addr(Multiaddr(bootstrap)))
            yield _Gossip(host, pubsub)


class _Worker:
    """The commands of the parent."""

    def __init__(self, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        self._stack = stack
        self._nursery = nursery
        self._system: System
        self._delays: list[float] = []
        """How long each event took from its publication to its arrival here."""
        self._arrived = trio.Event()
        self._numbers: dict[int, None] = {}
        """The numbers of the events that have arrived."""
        self._published = 0
        self._attacking: trio.CancelScope

    async def start(self, system: str, data: str, bootstrap: str | None) -> str:
        """Start a node; return its address."""
        self._system = await self._stack.enter_async_context(_running(system, data, bootstrap))
        return self._system.address

    async def prepare(self) -> str:
        return await self._system.prepare()

    async def subscribe(self, name: str) -> None:
        await self._nursery.start(self._receive, name)

    async def _receive(self, name: str, task_status: Any) -> None:
        is_in_force = False
        async for payload in self._system.events(name):
            if is_in_force:
                sent_at, number = _HEAD.unpack_from(payload)
                self._delays.append(time.perf_counter() - sent_at)
                self._numbers[number] = None
                self._arrived.set()
            else:
                is_in_force = True
                task_status.started()

    async def until_arrived(self, count: int) -> None:
        """Wait until so many events have arrived since the start."""
        while len(self._delays) < count:
            self._arrived = trio.Event()
            with trio.fail_after(STEP_S_MAX):
                await self._arrived.wait()

    async def delays(self, count: int) -> list[float]:
        """The delays of the last events."""
        return self._delays[-count:]

    async def publish(self, count: int, payload_bytes: int, at_once: int) -> list[float]:
        """Publish events, so many at a time; return how long each acknowledgement took."""
        took: list[float] = []
        left = count

        async def publish_some() -> None:
            nonlocal left
            while left:
                left -= 1
                start = time.perf_counter()
                await self._system.publish(self._payload(start, payload_bytes))
                took.append(time.perf_counter() - start)

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(publish_some)
        return took

    def _payload(self, start: float, payload_bytes: int) -> bytes:
        self._published += 1
        return _HEAD.pack(start, self._published).ljust(payload_bytes)

    async def publish_at(
        self, rate: float, seconds: float, at_once: int, deadline_s: float
    ) -> tuple[list[int], int, int, float]:
        """Publish so many events per second; wait while `at_once` are not acknowledged.

        Return the numbers of the acknowledged events, how many were late and how many were refused,
        and the time that it took.
        """
        acknowledged: list[int] = []
        late = refused = 0
        limit = trio.Semaphore(at_once)

        async def publish_one(start: float) -> None:
            nonlocal late, refused
            payload = self._payload(start, PAYLOAD_BYTES)
            number = self._published
            try:
                await self._system.publish(payload, deadline_s)
                acknowledged.append(number)
            except PublishNotInTimeError:
                late += 1
            except PublishRefusedError:
                refused += 1
            finally:
                limit.release()

        began_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(int(rate * seconds)):
                await trio.sleep_until(began_at + number / rate)
                await limit.acquire()
                if trio.current_time() > began_at + seconds:
                    limit.release()
                    break
                nursery.start_soon(publish_one, time.perf_counter())
        return acknowledged, late, refused, trio.current_time() - began_at

    async def missing(self, numbers: list[int]) -> int:
        """Wait until these events have arrived; return how many have not after a time."""
        with trio.move_on_after(STEP_S_MAX):
            while any(number not in self._numbers for number in numbers):
                self._arrived = trio.Event()
                await self._arrived.wait()
        return sum(number not in self._numbers for number in numbers)

    async def memory_mb(self) -> float:
        """The resident memory of this process."""
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * _PAGE_BYTES / (1 << 20)

    async def attack(self, name: str, addresses: list[str], settle_s: float) -> None:
        """Attack nodes from now on with a new peer."""
        self._attacking = trio.CancelScope()
        self._nursery.start_soon(self._attack, name, addresses, self._attacking)
        await trio.sleep(settle_s)

    async def _attack(self, name: str, addresses: list[str], scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep_to_share)
                await run_attack(name, [contact_at(address) for address in addresses])

    async def cease(self, settle_s: float) -> None:
        """End the attack."""
        self._attacking.cancel()
        await trio.sleep(settle_s)

    async def cpu_s(self) -> float:
        """The processor time that this process has used, in all threads."""
        return time.process_time()

    async def serve_echo(self) -> int:
        """Serve an echo on TCP, on the port that this returns."""
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self._nursery.start_soon(trio.serve_listeners, _echo, [listener])
        port: int = listener.socket.getsockname()[1]
        return port

    async def echo(self, port: int, count: int, payload_bytes: int) -> list[float]:
        """Send bytes to an echo and wait for them, one after the other."""
        took = []
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            for _ in range(count):
                start = time.perf_counter()
                await stream.send_all(bytes(payload_bytes))
                missing = payload_bytes
                while missing:
                    missing -= len(await stream.receive_some(missing))
                took.append(time.perf_counter() - start)
        return took


async def _echo(stream: trio.SocketStream) -> None:
    async for some in stream:
        await stream.send_all(some)


async def _serve(commands: Connection) -> None:
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        worker = _Worker(stack, nursery)
        while True:
            await trio.lowlevel.wait_readable(commands.fileno())
            try:
                name, *arguments = commands.recv()
            except (EOFError, OSError):
                # Here and nowhere else: py-libp2p has errors of this type too, for its streams.
                _end()
            method: Callable[..., Awaitable[Any]] = getattr(worker, name)
            commands.send(await method(*arguments))


def _end() -> NoReturn:
    os._exit(0)  # A node need not say goodbye: the other nodes end too.


def work(commands: Connection, errors: str) -> None:
    """Execute commands until the parent closes the pipe, which ends the process at once.

    Standard error goes to a file, from which the parent reads why the process has ended.
    """
    with Path(errors).open("ab") as file:
        os.dup2(file.fileno(), 2)
    faulthandler.enable()
    logging.disable(logging.CRITICAL)  # py-libp2p logs a lot.
    tune_interpreter()  # As `node run` does.
    try:
        trio.run(_serve, commands)
    except BaseException as error:
        traceback.print_exc()
        with suppress(OSError):
            commands.send(Failure(_reason(error)))
    finally:
        _end()


def _reason(error: BaseException) -> str:
    """What the first error of a group says, with the place that raised it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    places = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(places[-1].filename).name}:{places[-1].lineno}" if places else ""
    return f"{error!r}{place}"
