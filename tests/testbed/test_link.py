"""What the conditions of a network do to a connection: time is stepped, and bytes are in memory."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio
import trio.testing
from libp2p.io.abc import ReadWriteCloser
from libp2p.io.exceptions import ConnectionClosedError

from smartpubsub.sim.kernel.network import NetworkOptions
from smartpubsub.testbed.link import RESEND_S_MIN, Cuts, Link, ShapedStream
from smartpubsub.testbed.messages import Cut

SILENCE_S = 30.0


class Wire(ReadWriteCloser):
    """The far end: what has arrived, and when."""

    def __init__(self) -> None:
        self.arrived: list[tuple[float, bytes]] = []
        self.is_closed = False

    async def write(self, data: bytes) -> None:
        if self.is_closed:
            raise ConnectionClosedError("closed", transport="tcp")
        self.arrived.append((round(trio.current_time() - BEGAN[0], 6), data))

    async def read(self, n: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return b"x" * (n or 1)

    async def close(self) -> None:
        self.is_closed = True

    def get_remote_address(self) -> tuple[str, int] | None:
        return None


BEGAN = [0.0]
"""When the test that runs began, on trio's clock."""


def run(
    options: NetworkOptions,
    test: Callable[[Callable[..., ShapedStream], Wire, Cuts], Awaitable[None]],
) -> None:
    """Run a test with a node's link, time passing as soon as nothing else can happen."""

    async def main() -> None:
        BEGAN[0] = trio.current_time()
        async with trio.open_nursery() as nursery:
            cuts, wire = Cuts(), Wire()

            def far(_: int) -> int:
                return options.latency_us

            link = Link(0, options, far, cuts, Random(1), nursery.start_soon)

            def stream(to: Wire = wire) -> ShapedStream:
                return ShapedStream(to, link, 1, SILENCE_S)

            await test(stream, wire, cuts)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_what_is_written_arrives_a_latency_later_and_in_order() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, _: Cuts) -> None:
        stream = make()
        await stream.write(b"a")
        await trio.sleep(0.005)
        await stream.write(b"b")
        await trio.sleep(1)

        assert wire.arrived == [(0.02, b"a"), (0.025, b"b")]

    run(NetworkOptions(latency_us=20_000, bandwidth_bytes_per_s=1 << 40), test)


def test_jitter_does_not_let_bytes_overtake_each_other() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, _: Cuts) -> None:
        stream = make()
        for number in range(100):
            await stream.write(bytes([number]))
            await trio.sleep(0.001)
        await trio.sleep(1)

        assert b"".join(data for _, data in wire.arrived) == bytes(range(100))
        assert wire.arrived[-1][0] > 0.11

    run(NetworkOptions(latency_us=10_000, jitter_us=50_000), test)


def test_all_connections_of_a_node_share_its_bandwidth() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, _: Cuts) -> None:
        other = Wire()
        await make().write(bytes(500))
        await make(other).write(bytes(500))
        await trio.sleep(2)

        assert [at for at, _ in wire.arrived] == [0.5]
        assert [at for at, _ in other.arrived] == [1.0]

    run(NetworkOptions(latency_us=0, bandwidth_bytes_per_s=1_000), test)


def test_a_loss_is_a_pause_and_everything_arrives() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, _: Cuts) -> None:
        stream = make()
        for number in range(50):
            await stream.write(bytes([number]))
            await trio.sleep(1)
        await trio.sleep(60)

        assert b"".join(data for _, data in wire.arrived) == bytes(range(50))
        late = [at for number, (at, _) in enumerate(wire.arrived) if at >= number + RESEND_S_MIN]
        assert 5 < len(late) < 25

    run(NetworkOptions(latency_us=10_000, loss=0.3), test)


def test_a_writer_waits_when_much_is_under_way() -> None:
    async def test(make: Callable[..., ShapedStream], _wire: Wire, _cuts: Cuts) -> None:
        stream = make()
        began = trio.current_time()
        for _ in range(20):
            await stream.write(bytes(100_000))

        assert trio.current_time() - began > 1

    run(NetworkOptions(latency_us=0, bandwidth_bytes_per_s=1_000_000), test)


def test_nothing_passes_a_cut_and_everything_after_it() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, cuts: Cuts) -> None:
        stream = make()
        cuts.set(Cut(frozenset({1, 2})))
        await stream.write(b"a")
        await trio.sleep(5)
        assert wire.arrived == []

        cuts.set(Cut(frozenset()))
        await trio.sleep(0)
        await stream.write(b"b")
        await trio.sleep(1)

        assert b"".join(data for _, data in wire.arrived) == b"ab"

    run(NetworkOptions(), test)


def test_a_connection_that_is_cut_for_too_long_breaks() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, cuts: Cuts) -> None:
        stream = make()
        cuts.set(Cut(frozenset({0})))
        await stream.write(b"a")
        await trio.sleep(SILENCE_S + 1)

        assert wire.is_closed
        with pytest.raises(ConnectionClosedError):
            await stream.write(b"b")

    run(NetworkOptions(), test)


def test_a_cut_can_be_one_way() -> None:
    cuts = Cuts()
    cuts.set(Cut(frozenset({1}), one_way=True))

    assert cuts.is_cut(1, 0)
    assert not cuts.is_cut(0, 1)
    assert not cuts.is_cut(0, 2)


def test_what_was_written_before_a_close_arrives() -> None:
    async def test(make: Callable[..., ShapedStream], wire: Wire, _: Cuts) -> None:
        stream = make()
        await stream.write(b"a")
        await stream.close()

        assert [data for _, data in wire.arrived] == [b"a"]
        assert wire.is_closed

    run(NetworkOptions(), test)
