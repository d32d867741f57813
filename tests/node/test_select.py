"""Agreeing on a protocol takes one round trip, and a refusal is noticed."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from libp2p.custom_types import TProtocol
from libp2p.io.abc import ReadWriteCloser
from libp2p.protocol_muxer.exceptions import MultiselectClientError
from libp2p.protocol_muxer.multiselect import Multiselect
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator

from smartpubsub.node.transport.select import QuickClient
from tests.node.hosts import run

SPOKEN, OTHER = TProtocol("/spoken/1.0.0"), TProtocol("/other/1.0.0")


class Counted(ReadWriteCloser):
    """One end of a pipe, which counts how often the other end was waited for after a write."""

    def __init__(self, pipe: trio.StapledStream):
        self._pipe = pipe
        self._has_written = False
        self.round_trips = 0

    async def write(self, data: bytes) -> None:
        self._has_written = True
        await self._pipe.send_all(data)

    async def read(self, n: int | None = None) -> bytes:
        self.round_trips += self._has_written
        self._has_written = False
        return bytes(await self._pipe.receive_some(n))

    async def close(self) -> None:
        await self._pipe.aclose()

    def get_remote_address(self) -> tuple[str, int] | None:
        return None


async def selected(*wanted: TProtocol) -> tuple[TProtocol, int]:
    """What a client and a listener that speaks one protocol agree on, and in how many trips."""
    here, there = trio.testing.memory_stream_pair()
    counted = Counted(here)
    listener = Multiselect({SPOKEN: None})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.negotiate, MultiselectCommunicator(Counted(there)))
        chosen = await QuickClient().select_one_of(wanted, MultiselectCommunicator(counted))
    return chosen, counted.round_trips


def test_one_protocol_is_agreed_on_in_one_round_trip() -> None:
    async def main() -> None:
        assert await selected(SPOKEN) == (SPOKEN, 1)

    run(main)


def test_of_several_protocols_the_one_that_is_spoken_is_chosen() -> None:
    async def main() -> None:
        assert (await selected(OTHER, SPOKEN))[0] == SPOKEN

    run(main)


def test_a_refusal_is_an_error() -> None:
    async def main() -> None:
        here, there = trio.testing.memory_stream_pair()
        listener = Multiselect({SPOKEN: None})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.negotiate, MultiselectCommunicator(Counted(there)))
            with pytest.raises(MultiselectClientError):
                await QuickClient().select_one_of([OTHER], MultiselectCommunicator(Counted(here)))
            nursery.cancel_scope.cancel()

    run(main)
