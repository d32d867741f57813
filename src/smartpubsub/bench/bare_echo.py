"""An echo on one stream of unmodified py-libp2p.

python -m smartpubsub.bench.bare_echo REQUESTS BYTES

It runs in its own process, because a node's patches change the library for a whole process. For
each input line it makes the requests, one after the other, and prints the seconds they took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import DEVNULL, PIPE, Popen
from typing import IO, Any

import click
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_new_noise_keys
from libp2p.custom_types import TProtocol
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as Noise
from multiaddr import Multiaddr

from smartpubsub.errors import SmartPubSubError

ECHO = TProtocol("/echo/1.0.0")
LISTEN = Multiaddr("/ip4/127.0.0.1/tcp/0")
END_S_MAX = 10


class BareEcho:
    """The other process, and its input and output."""

    def __init__(self, orders: IO[str], answers: IO[str], request_count: int) -> None:
        self._orders = orders
        self._answers = answers
        self._request_count = request_count

    def rate(self) -> float:
        """Measure requests per second once more."""
        self._orders.write("again\n")
        self._orders.flush()
        line = self._answers.readline()
        if not line:
            raise SmartPubSubError(
                "the echo on py-libp2p has ended unexpectedly; run the benchmark again"
            )
        return self._request_count / float(line)


@contextmanager
def bare_echo(request_count: int, request_bytes: int) -> Iterator[BareEcho]:
    """Run an echo in another process, until the block is left."""
    arguments = [str(number) for number in (request_count, request_bytes)]
    # py-libp2p logs a lot.
    with Popen(
        [sys.executable, "-m", __name__, *arguments],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield BareEcho(process.stdin, process.stdout, request_count)
        finally:
            process.kill()


async def serve(request_count: int, request_bytes: int) -> None:
    """Run two hosts and a stream between them, until the input ends."""
    server, client = _host(), _host()
    async with server.run([LISTEN]), client.run([LISTEN]):
        server.set_stream_handler(ECHO, _echo)
        await client.connect(info_from_p2p_addr(server.get_addrs()[0]))
        stream = await client.new_stream(server.get_id(), [ECHO])
        request = bytes(request_bytes)
        while await trio.to_thread.run_sync(sys.stdin.readline):
            start = time.perf_counter()
            for _ in range(request_count):
                await stream.write(request)
                missing = request_bytes
                while missing:
                    missing -= len(await stream.read(missing))
            click.echo(time.perf_counter() - start)


def _host() -> Any:
    keys = create_new_key_pair()
    noise = Noise(keys, noise_privkey=create_new_noise_keys().private_key)
    return new_host(key_pair=keys, sec_opt={NOISE: noise})


async def _echo(stream: Any) -> None:
    while some := await stream.read(1 << 16):
        await stream.write(some)


if __name__ == "__main__":
    trio.run(serve, *map(int, sys.argv[1:]))
